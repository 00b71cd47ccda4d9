//! Figures that pages quote from `docs/league/league.json` and `docs/results/report.json`:
//! `cargo run -p evenkeel-tests --example figures` rewrites them; a test compares. CONTRIBUTING.md
//! has the syntax of a marker.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use serde_json::Value;

/// Where pages take figures from: the first word of a marker, and the file.
const SOURCES: [(&str, &str); 2] = [
    ("league", "docs/league/league.json"),
    ("report", "docs/results/report.json"),
];

const BEGIN: &str = "<!--=";
const END: &str = "<!--/-->";

/// A page with every figure as its source has it, and a line for each that was not so.
#[derive(Debug, Default)]
struct Rewritten {
    text: String,
    /// Figures that differed; they are right in `text`.
    differences: Vec<String>,
    /// Markers that lead to no figure, and stay as they were.
    mistakes: Vec<String>,
}

/// Sources by name, with the path of each.
struct Sources(Vec<(&'static str, &'static str, Value)>);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let sources = Sources::read()?;
    let mut mistakes = Vec::new();
    for page in pages(&root())? {
        let text = fs::read_to_string(&page)?;
        let new = rewrite(&named(&page), &text, &sources);
        for line in &new.differences {
            println!("{line}");
        }
        mistakes.extend(new.mistakes);
        if new.text != text {
            fs::write(&page, new.text)?;
        }
    }
    for line in &mistakes {
        eprintln!("{line}");
    }
    Ok(ExitCode::from(u8::from(!mistakes.is_empty())))
}

/// Rewrites the figures of the page `name`. What stands between fences is no marker.
fn rewrite(name: &str, text: &str, sources: &Sources) -> Rewritten {
    let mut new = Rewritten::default();
    let mut line = 1;
    for (index, part) in text.split("```").enumerate() {
        if index > 0 {
            new.text += "```";
        }
        let mut rest = part;
        while let Some(begin) = rest.find(BEGIN).filter(|_| index % 2 == 0) {
            let (before, marker) = rest.split_at(begin);
            new.text += before;
            line += before.matches('\n').count();
            let starts_line = new
                .text
                .rsplit('\n')
                .next()
                .is_none_or(|l| l.trim().is_empty());
            let parts = marker.split_once("-->").and_then(|(path, after)| {
                Some((
                    path,
                    after
                        .split_once(END)
                        .filter(|(old, _)| !old.contains("<!--"))?,
                ))
            });
            let Some((path, (old, after))) = parts else {
                new.mistakes
                    .push(format!("{name}:{line}: a marker lacks its {END}"));
                new.text += BEGIN;
                rest = &marker[BEGIN.len()..];
                continue;
            };
            let path_text = path[BEGIN.len()..].trim();
            let right = match starts_line {
                true => Err("begins a line, where Markdown ends a paragraph".to_owned()),
                false => sources.figures(path_text, old),
            };
            let right = right.unwrap_or_else(|why| {
                new.mistakes
                    .push(format!("{name}:{line}: `{path_text}` {why}"));
                old.to_owned()
            });
            if right != old {
                let said = format!(
                    "{name}:{line}: `{path_text}` is quoted as \"{old}\" and is \"{right}\""
                );
                new.differences.push(said);
            }
            new.text += &format!("{path}-->{right}{END}");
            line += marker[..marker.len() - after.len()].matches('\n').count();
            rest = after;
        }
        new.text += rest;
        line += rest.matches('\n').count();
    }
    new
}

impl Sources {
    fn read() -> Result<Self, Box<dyn Error>> {
        let read = |(name, path)| {
            let text = fs::read_to_string(root().join(path))?;
            Ok((name, path, serde_json::from_str(&text)?))
        };
        SOURCES
            .into_iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// `old` with each of its numbers as the paths in `paths` have it, to as many decimals.
    fn figures(&self, paths: &str, old: &str) -> Result<String, String> {
        let mut words: Vec<String> = Vec::new();
        let mut values = Vec::new();
        for last in split(paths) {
            words.truncate(words.len().saturating_sub(last.len()));
            words.extend(last);
            values.push(self.value(&words)?);
        }
        if let [Value::String(text)] = values.as_slice() {
            return Ok(text.clone());
        }
        let numbers = numbers(old);
        if numbers.len() != values.len() {
            let (has, text) = (values.len(), numbers.len());
            return Err(format!(
                "has {has} figures for the {text} numbers of \"{old}\""
            ));
        }
        let mut new = String::new();
        let mut done = 0;
        for ((at, number), value) in numbers.into_iter().zip(values) {
            let value = value
                .as_f64()
                .ok_or_else(|| format!("is no number: {value}"))?;
            let decimals = number.split_once('.').map_or(0, |(_, after)| after.len());
            new += &old[done..at];
            new += &match number.starts_with(['+', '-']) {
                true => format!("{value:+.decimals$}"),
                false => format!("{value:.decimals$}"),
            };
            done = at + number.len();
        }
        Ok(new + &old[done..])
    }

    fn value(&self, words: &[String]) -> Result<Value, String> {
        let (first, mut rest) = words.split_first().ok_or("is empty")?;
        let mut sources = self.0.iter();
        let (_, file, root) = sources
            .find(|(name, ..)| name == first)
            .ok_or("begins with neither league nor report")?;
        let mut by = 1.0;
        if let [before @ .., percent] = rest
            && percent == "%"
        {
            (rest, by) = (before, 100.0);
        }
        let mut found = vec![root];
        for (index, word) in rest.iter().enumerate() {
            if index + 1 == rest.len()
                && let Some(number) = reduced(&found, word)
            {
                return Ok((number * by).into());
            }
            found = step(&found, word);
            if found.is_empty() {
                return Err(format!("has no {word} in {file}"));
            }
        }
        match found.as_slice() {
            [Value::Number(number)] => Ok((number.as_f64().unwrap_or(f64::NAN) * by).into()),
            [Value::String(text)] => Ok(text.as_str().into()),
            [_] => Err(format!("ends before a figure in {file}")),
            all => Err(format!("leads to {} figures in {file}", all.len())),
        }
    }
}

/// What `word` leads to from each of `found`: in a list of objects to those that have it as the
/// value of a field (of FIELD, if it is FIELD=VALUE; or what begins with it, if it ends with `*`), in
/// an object to the field of that
/// name, in `[median, least, greatest]` to one of these, in any list to the element of that number.
fn step<'v>(found: &[&'v Value], word: &str) -> Vec<&'v Value> {
    let rows = rows(found);
    let has = |(field, value): (&String, &Value)| {
        let value = value.as_str().unwrap_or_default();
        value == word
            || word
                .strip_suffix('*')
                .is_some_and(|begin| value.starts_with(begin))
            || word.split_once('=') == Some((field, value))
    };
    let named = |row: &&&Value| row.as_object().is_some_and(|row| row.iter().any(has));
    let chosen: Vec<&Value> = rows.iter().filter(named).copied().collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let inside = |row: &'v Value| match row {
        Value::Object(fields) => fields.get(word),
        // All seeds agree where there is one.
        Value::Array(all) => match word {
            "median" => all.first(),
            "least" => all.get(1).or(all.first()),
            "greatest" => all.get(2).or(all.first()),
            number => all.get(number.parse::<usize>().ok()?.checked_sub(1)?),
        },
        _ => None,
    };
    rows.into_iter().filter_map(inside).collect()
}

/// How many of `found` there are (of truth values, how many are true), or what they give together.
fn reduced(found: &[&Value], word: &str) -> Option<f64> {
    let all = found.iter().flat_map(|value| match value {
        Value::Array(all) => all.iter().collect(),
        other => vec![*other],
    });
    let all: Vec<&Value> = all.collect();
    let numbers = all.iter().filter_map(|value| value.as_f64());
    let is_true = |value: &&&Value| value.as_bool() != Some(false);
    match word {
        "count" => Some(all.iter().filter(is_true).count() as f64),
        "sum" => Some(numbers.sum()),
        "min" => numbers.reduce(f64::min),
        "max" => numbers.reduce(f64::max),
        _ => None,
    }
}

/// The elements of lists of objects or words, and everything else.
fn rows<'v>(found: &[&'v Value]) -> Vec<&'v Value> {
    let lists = found.iter().map(|value| match value {
        Value::Array(all) if !all.iter().any(|one| one.is_number() || one.is_array()) => {
            all.iter().collect()
        }
        other => vec![*other],
    });
    lists.flatten().collect()
}

/// The words of each path, which end with commas; quotation marks keep several together.
fn split(paths: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for (index, part) in paths.split('"').enumerate() {
        if index % 2 == 1 {
            all.last_mut().expect("one at least").push(part.to_owned());
            continue;
        }
        for (index, part) in part.split(',').enumerate() {
            if index > 0 {
                all.push(Vec::new());
            }
            let words = part.split_whitespace().map(str::to_owned);
            all.last_mut().expect("one at least").extend(words);
        }
    }
    all
}

/// The numbers in a text, with where each begins. A sign after a word or a number is a hyphen.
fn numbers(text: &str) -> Vec<(usize, &str)> {
    let mut numbers = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c.is_ascii_digit()) {
        let at = from + at;
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut length = digits(&text[at..]);
        if let Some(after) = text[at + length..].strip_prefix('.') {
            length += digits(after).checked_add(1).filter(|l| *l > 1).unwrap_or(0);
        }
        let before = &text[from..at];
        let signed = before.ends_with(['+', '-'])
            && !before[..before.len() - 1].ends_with(char::is_alphanumeric)
            && (from == 0 || before.len() > 1);
        let begin = at - usize::from(signed);
        numbers.push((begin, &text[begin..at + length]));
        from = at + length;
    }
    numbers
}

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ is in the workspace").into()
}

/// A page's path from the root.
fn named(page: &Path) -> String {
    let page = page.strip_prefix(root()).unwrap_or(page);
    page.display().to_string()
}

/// All pages below `directory`.
fn pages(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            pages.extend(self::pages(&path)?);
        } else if name.ends_with(".md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sources() -> Sources {
        let league = json!({
            "version": "1.2",
            "below": -7.2,
            "rows": [
                { "name": "keel", "case": "clean/dsl", "share": [0.949], "loss": [0.0331, 0.02, 0.061] },
                { "name": "keel", "case": "clean/cable", "share": [0.91, 0.5, 0.95] },
                { "name": "cubic", "case": "clean/dsl", "share": [0.4], "late": true },
                { "name": "cubic", "case": "clean/cable", "share": [0.6], "late": false },
            ],
            "several, words": { "value": [7, [8, 9]] },
        });
        Sources(vec![("league", "league.json", league)])
    }

    /// The text between the marks of a marker with `path` around `old`, and its faults.
    fn quoted(path: &str, old: &str) -> (String, Vec<String>) {
        let new = rewrite(
            "p.md",
            &format!("It has <!--= {path} -->{old}<!--/-->.\n"),
            &sources(),
        );
        let text = new
            .text
            .split("-->")
            .nth(1)
            .unwrap()
            .trim_end_matches("<!--/");
        (text.to_owned(), [new.differences, new.mistakes].concat())
    }

    #[test]
    fn every_figure_that_a_page_quotes_is_that_of_the_documents() {
        let sources = Sources::read().unwrap();
        let mut wrong = Vec::new();
        let mut markers = 0;
        for page in pages(&root()).unwrap() {
            let text = fs::read_to_string(&page).unwrap();
            markers += text.matches(END).count();
            let new = rewrite(&named(&page), &text, &sources);
            wrong.extend([new.mistakes, new.differences].concat());
        }
        assert!(
            wrong.is_empty(),
            "{}\nrewrite with: cargo run -p evenkeel-tests --example figures",
            wrong.join("\n")
        );
        assert!(markers >= 20, "{markers} markers");
    }

    #[test]
    fn a_figure_has_as_many_decimals_as_the_text_and_a_sign_if_that_has_one() {
        let path = "league rows keel clean/dsl share median";
        assert_eq!(quoted(path, "0.95"), ("0.95".into(), vec![]));
        assert_eq!(
            quoted(path, "about 1.0 of it"),
            (
                "about 0.9 of it".into(),
                vec![format!(
                    "p.md:1: `{path}` is quoted as \"about 1.0 of it\" and is \"about 0.9 of it\""
                )]
            )
        );
        assert_eq!(quoted("league version", "1.1").0, "1.2");
        for (old, new) in [("-9 %", "-7 %"), ("+9", "-7"), ("a-9", "a--7")] {
            assert_eq!(quoted("league below", old).0, new);
        }
        assert_eq!(quoted(path, "-1.00").0, "+0.95");
    }

    #[test]
    fn further_paths_replace_the_last_words_of_the_one_before() {
        let path = "league rows keel clean/cable share median, least, clean/dsl loss greatest %";
        assert_eq!(quoted(path, "0 (0.0), 0.0 %").0, "1 (0.5), 6.1 %");
    }

    #[test]
    fn figures_of_several_rows_become_one() {
        for (path, old, new) in [
            ("rows clean/* share median max", "0.00", "0.95"),
            ("rows clean/* share least min", "0.00", "0.40"),
            ("rows keel count", "0", "2"),
            ("rows name=keel count", "0", "2"),
            ("rows late count", "0", "1"),
            ("rows cubic share median sum", "0", "1"),
            ("\"several, words\" value 2 1", "0", "8"),
            ("\"several, words\" value 2 max", "0", "9"),
        ] {
            assert_eq!(quoted(&format!("league {path}"), old).0, new, "{path}");
        }
    }

    #[test]
    fn a_marker_that_leads_nowhere_says_where_it_is() {
        for (path, old, why) in [
            ("leage rows", "1", "begins with neither league nor report"),
            (
                "league rows keel clean/lan share",
                "1",
                "has no clean/lan in league.json",
            ),
            (
                "league rows keel share median",
                "1",
                "leads to 2 figures in league.json",
            ),
            (
                "league rows keel clean/dsl share",
                "1",
                "ends before a figure in league.json",
            ),
            (
                "league rows count",
                "1 of 2",
                "has 1 figures for the 2 numbers of \"1 of 2\"",
            ),
        ] {
            let expected = format!("p.md:1: `{path}` {why}");
            assert_eq!(quoted(path, old), (old.to_owned(), vec![expected]));
        }
        for (text, line, why) in [
            (
                "a\n\nb <!--= league version -->1\n",
                3,
                "a marker lacks its <!--/-->",
            ),
            (
                "a\n<!--= league version -->1.2<!--/-->\n",
                2,
                "`league version` begins a line, where Markdown ends a paragraph",
            ),
        ] {
            let new = rewrite("p.md", text, &sources());
            assert_eq!(new.mistakes, [format!("p.md:{line}: {why}")]);
            assert_eq!(new.text, text);
        }
    }

    #[test]
    fn code_between_fences_holds_no_markers() {
        let text =
            "a\n```\nb <!--= nothing -->1<!--/-->\n```\nc <!--= league version -->1.2<!--/-->\n";
        let new = rewrite("p.md", text, &sources());
        assert_eq!((new.text.as_str(), new.mistakes), (text, vec![]));
    }
}
