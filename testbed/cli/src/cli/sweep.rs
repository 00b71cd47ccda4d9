//! Overrides with several values: `links.0.loss=0,0.01,0.02`.

use super::CliError;

/// A key that takes one value after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sweep {
    /// The path to the key.
    pub(super) key: String,
    /// Its values, at least two, each once.
    pub(super) values: Vec<String>,
}

/// Splits overrides into those with one value, and the one with several, if there is one.
pub(super) fn sweep(overrides: &[String]) -> Result<(Vec<String>, Option<Sweep>), CliError> {
    let (mut plain, mut found) = (Vec::new(), None::<Sweep>);
    for set in overrides {
        let Some((key, text)) = set.split_once('=') else {
            plain.push(set.clone());
            continue;
        };
        let (key, values) = (key.trim().to_owned(), values(text));
        if let [one] = &*values {
            plain.push(format!("{key}={one}"));
            continue;
        }
        if let Some(other) = found {
            return Err(CliError::TwoSweeps(other.key, key));
        }
        found = Some(Sweep { key, values });
    }
    Ok((plain, found))
}

/// The values between commas, each once; a comma in brackets or quotation marks parts none, nor one
/// before a parameter of a name (`gaimd:alpha=0.3,beta=0.9`). One value if brackets or quotation marks
/// do not close.
fn values(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quote) = (0_i32, None);
    for letter in text.chars() {
        match (letter, quote) {
            (mark, Some(begun)) if mark == begun => quote = None,
            ('"' | '\'', None) => quote = Some(letter),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth -= 1,
            (',', None) if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("there is one").push(letter);
    }
    if depth != 0 || quote.is_some() {
        return vec![text.to_owned()];
    }
    let mut values: Vec<String> = Vec::new();
    for part in parts {
        let part = part.trim();
        let is_parameter = part
            .split_once('=')
            .is_some_and(|(key, _)| !key.contains([':', '{', '[', '"', '\'']));
        match values.last_mut() {
            Some(name) if is_parameter && name.contains(':') => {
                name.push(',');
                name.push_str(part);
            }
            _ => values.push(part.to_owned()),
        }
    }
    let mut once = Vec::new();
    for value in values {
        if !once.contains(&value) {
            once.push(value);
        }
    }
    once
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_part_values_unless_brackets_quotes_or_parameters_hold_them() {
        assert_eq!(values("0,0.01, 0.02"), ["0", "0.01", "0.02"]);
        for one in [
            "7",
            "[{start_s=20, length_s=1}]",
            "\"a, b\"",
            "'a, b'",
            "gaimd:alpha=0.31,beta=0.875",
            "[1, 2",
            "\"a, b",
            "{ min_bps = 1, max_bps = 2 }",
        ] {
            assert_eq!(values(one), [one], "{one}");
        }
        let several = "vegas:alpha=2,beta=4,cubic,red:min=1,max=2";
        assert_eq!(
            values(several),
            ["vegas:alpha=2,beta=4", "cubic", "red:min=1,max=2"]
        );
        assert_eq!(values("['aqt', 'acp'],[]"), ["['aqt', 'acp']", "[]"]);
        assert_eq!(values("1,1,2"), ["1", "2"]);
    }

    #[test]
    fn one_key_takes_several_values() {
        let sets = ["links.0.loss=0,0.01", "duration_s=3"].map(String::from);
        let (plain, swept) = sweep(&sets).expect("one key");
        assert_eq!(plain, ["duration_s=3"]);
        let swept = swept.expect("several values");
        assert_eq!((&*swept.key, swept.values.len()), ("links.0.loss", 2));
        let (plain, swept) = sweep(&["links.0.loss=0,0".into()]).expect("one value");
        assert_eq!((plain, swept), (vec!["links.0.loss=0".into()], None));
        let two = ["a=1,2", "b=3,4"].map(String::from);
        let error = sweep(&two).expect_err("two keys").to_string();
        assert!(error.contains("to a and to b"), "{error}");
    }
}
