//! Reads names of controllers.

/// Names of controllers with their parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

/// Reads names that commas separate, as do the parameters of one: `vegas:alpha=2,beta=4,cubic`.
pub(crate) fn names(text: &str) -> Result<Names, String> {
    let mut names: Vec<String> = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match names.last_mut() {
            Some(before) if part.contains('=') && !part.contains(':') => {
                *before = format!("{before},{part}");
            }
            _ => names.push(part.to_owned()),
        }
    }
    match (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        Some(twice) => Err(format!("{} stands there twice", names[twice])),
        None => Ok(Names(names)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commas_separate_names_and_the_parameters_of_one() {
        let read = |text| names(text).map(|names| names.0);
        assert_eq!(
            read("keel,cubic, bbr"),
            Ok(vec!["keel".into(), "cubic".into(), "bbr".into()])
        );
        assert_eq!(
            read("vegas:alpha=2,beta=4,cubic"),
            Ok(vec!["vegas:alpha=2,beta=4".into(), "cubic".into()])
        );
        assert_eq!(read(""), Ok(vec![]));
        assert!(
            read("keel,cubic,keel")
                .unwrap_err()
                .contains("keel stands there twice")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_names_or_an_error(text in "[a-c:=,. ]{0,30}") {
            if let Ok(Names(list)) = names(&text) {
                prop_assert!(list.iter().all(|name| !name.is_empty()));
                prop_assert_eq!(names(&list.join(",")), Ok(Names(list)));
            }
        }
    }
}
