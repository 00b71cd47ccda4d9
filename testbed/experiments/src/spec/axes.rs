//! The axes of an experiment, and the text that their values put into templates.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::expression::{Expression, number_text};
use super::runs::{GROUPS, Point};

/// Axes with one value each.
pub(crate) type Place = BTreeMap<String, Word>;

/// Some values of some axes, as a file lists them.
pub(crate) type Words = BTreeMap<String, Vec<Word>>;

/// The axes by name, each with all its values.
pub(crate) type Axes = BTreeMap<String, Vec<AxisValue>>;

/// A string or a number, as text; `1` and `1.0` are the same.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "StringOrNumber")]
pub(crate) struct Word(pub(crate) String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a number")]
enum StringOrNumber {
    Text(String),
    Whole(i64),
    Number(f64),
}

/// A value of an axis: a word, or a table with a name and further fields.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum AxisEntry {
    Word(Word),
    Fields(Place),
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AxisValue {
    pub(crate) name: String,
    /// The name in figures.
    pub(crate) title: String,
    fields: BTreeMap<String, String>,
}

impl From<StringOrNumber> for Word {
    fn from(value: StringOrNumber) -> Self {
        Self(match value {
            StringOrNumber::Text(text) => text,
            StringOrNumber::Whole(number) => number.to_string(),
            StringOrNumber::Number(number) => number_text(number),
        })
    }
}

impl AxisValue {
    fn new(axis: &str, entry: AxisEntry) -> Result<Self, String> {
        let mut fields: BTreeMap<_, _> = match entry {
            AxisEntry::Word(Word(name)) => [("name".to_owned(), name)].into(),
            AxisEntry::Fields(fields) => {
                let fields = fields.into_iter();
                fields.map(|(key, Word(text))| (key, text)).collect()
            }
        };
        let Some(name) = fields.get("name").cloned() else {
            return Err(format!("a value of axis {axis} has no name; add one"));
        };
        if name.is_empty() || name.contains(|c: char| "[]=,".contains(c) || c.is_control()) {
            return Err(format!(
                "{name:?} of axis {axis} cannot be named in brackets; use no [ ] = or comma, and a title for people"
            ));
        }
        let title = fields.remove("title").unwrap_or_else(|| name.clone());
        Ok(Self {
            name,
            title,
            fields,
        })
    }
}

/// Checks the axes of a file.
pub(crate) fn axes(entries: BTreeMap<String, Vec<AxisEntry>>) -> Result<Axes, String> {
    let mut axes = BTreeMap::new();
    for (axis, entries) in entries {
        if axis == GROUPS || !is_plain(&axis) {
            return Err(format!(
                "an axis cannot be called {axis:?}; choose another name"
            ));
        }
        let values = entries
            .into_iter()
            .map(|entry| AxisValue::new(&axis, entry));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<_> = values.iter().map(|value| value.name.as_str()).collect();
        names.sort_unstable();
        if values.is_empty() || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("axis {axis} needs values, each once"));
        }
        axes.insert(axis, values);
    }
    Ok(axes)
}

/// Whether a name consists of letters, digits and `_`, and does not begin with a digit.
pub(crate) fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// Words with commas between them.
pub(crate) fn listed(words: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    words.join(", ")
}

/// The value that an axis, or the field `AXIS.FIELD`, has at a point.
fn text<'a>(axes: &'a Axes, point: &Point, name: &str) -> Option<&'a str> {
    let (axis, field) = name.split_once('.').unwrap_or((name, "name"));
    let at = point.axes.get(axis)?;
    let value = axes.get(axis)?.iter().find(|value| value.name == *at)?;
    value.fields.get(field).map(String::as_str)
}

/// The same as a number, if it is one.
pub(crate) fn number(axes: &Axes, point: &Point, name: &str) -> Option<f64> {
    text(axes, point, name)?.parse().ok()
}

/// Replaces every `$(...)` of a template by the word of an axis or the value of an expression.
pub(crate) fn fill(template: &str, axes: &Axes, point: &Point) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("$(") {
        filled += before;
        let mut depth = 1;
        let end = after.find(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let end = end.ok_or_else(|| format!("{template:?} lacks a ')'"))?;
        let text = replacement(axes, point, &after[..end]);
        filled += &text.map_err(|why| format!("{template:?}: {why}"))?;
        rest = &after[end + 1..];
    }
    Ok(filled + rest)
}

fn replacement(axes: &Axes, point: &Point, inside: &str) -> Result<String, String> {
    let name = inside.trim();
    let (axis, field) = name.split_once('.').unwrap_or((name, ""));
    if let Some(at) = point.axes.get(axis) {
        let text = text(axes, point, name).map(str::to_owned);
        return text.ok_or_else(|| format!("{at} of axis {axis} has no field {field}"));
    }
    let expression = Expression::parse(inside)?;
    let value = expression.evaluate(&mut |reference| number(axes, point, &reference.name));
    value
        .map(number_text)
        .ok_or_else(|| format!("$({inside}) is no number of an axis"))
}
