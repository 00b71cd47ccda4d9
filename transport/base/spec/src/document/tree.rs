//! Holds the tree of values and their origins.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Origin {
    /// A line of the file, from 1.
    Line(usize),
    /// An override, as the user gave it.
    Override(#[serde(deserialize_with = "shared")] Arc<str>),
}

impl Origin {
    /// Returns the line of the file, from 1; 0 for an override.
    pub fn line(&self) -> usize {
        match self {
            Self::Line(line) => *line,
            Self::Override(_) => 0,
        }
    }
}

impl Default for Origin {
    /// Returns the file as a whole.
    fn default() -> Self {
        Self::Line(1)
    }
}

/// What is wrong with a value, and where the value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The origin of the value.
    pub origin: Origin,
    /// Cause and remedy.
    pub message: String,
}

impl Fault {
    /// Makes a fault of the value at `origin`.
    pub fn new(origin: &Origin, message: impl Into<String>) -> Self {
        Self {
            origin: origin.clone(),
            message: message.into(),
        }
    }

    /// Returns the place: `file_name` and line, or the override.
    pub fn place(&self, file_name: &str) -> String {
        match &self.origin {
            Origin::Line(line) => format!("{file_name}:{line}"),
            Origin::Override(text) => format!("--set {text}"),
        }
    }
}

/// A value of the document; by default an empty document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    pub(super) value: Value,
    /// Its origin.
    pub origin: Origin,
}

/// A value of TOML.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Text.
    String(String),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date: kept only so that an error can name its kind.
    Datetime,
    /// Elements, in their order.
    Array(Vec<Entry>),
    /// Keys and their values, in the order of the file.
    Table(Vec<Entry>),
}

impl Default for Value {
    fn default() -> Self {
        Self::Table(Vec::new())
    }
}

/// A value of a table or an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// In an array its number, from 0; it stays when another element is taken away.
    pub(super) key: String,
    pub(super) key_origin: Origin,
    pub(super) node: Node,
}

/// Nobody who has that many mistakes to mend needs more of them.
pub(super) const MOST_FAULTS: usize = 50;

/// The name by which [`Located`] asks for its origin.
pub(super) const LOCATED: &str = "$evenkeel_located";

/// A value with its origin, for checks that involve several values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename = "$evenkeel_located")]
pub struct Located<T> {
    /// Its origin.
    pub origin: Origin,
    /// The value.
    pub value: T,
}

impl<T> Located<T> {
    /// Makes a fault of this value.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(&self.origin, message)
    }
}

/// Parses a document.
///
/// # Errors
/// If the text is not TOML or contains a number that is too large: the first mistake.
pub fn parse(text: &str) -> Result<Node, Fault> {
    parse_all(text).map_err(|mut faults| faults.remove(0))
}

/// Parses a document.
///
/// # Errors
/// As [`parse`]: the mistakes in the grammar, the first of each line, or a number; at least one.
pub fn parse_all(text: &str) -> Result<Node, Vec<Fault>> {
    let lines = Lines::of(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let faults = errors.iter().map(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let message = format!("not TOML: {}", error.message());
            Fault::new(&lines.origin(offset), message)
        });
        let mut faults: Vec<_> = faults.collect();
        // One mistake may have several messages.
        faults.sort_by_key(|fault| fault.origin.line());
        faults.dedup_by_key(|fault| fault.origin.line());
        faults.truncate(MOST_FAULTS);
        return Err(faults);
    }
    let entries = table(document.into_inner(), &|offset| lines.origin(offset));
    Ok(Node {
        origin: Origin::Line(1),
        value: Value::Table(entries.map_err(|fault| vec![fault])?),
    })
}

/// Parses the value of an override; takes text that is not TOML as a string.
pub(super) fn parse_value(text: &str, origin: &Origin) -> Result<Node, Fault> {
    match DeValue::parse(text) {
        Ok(value) => node(value, &|_| origin.clone()),
        Err(_) => Ok(Node {
            value: Value::String(text.to_owned()),
            origin: origin.clone(),
        }),
    }
}

impl Node {
    /// Returns what is in this table or array; nothing is in any other value.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Array(entries) | Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the value to which the keys of `path` lead.
    pub(super) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| {
            let entry = node.entries().iter().find(|entry| entry.key == *key)?;
            Some(&entry.node)
        })
    }

    /// Takes away the value to which `path` leads.
    pub(super) fn remove(&mut self, path: &[String]) {
        let (Value::Array(entries) | Value::Table(entries)) = &mut self.value else {
            return;
        };
        match path {
            [] => {}
            [key] => entries.retain(|entry| entry.key != *key),
            [key, below @ ..] => {
                if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
                    entry.node.remove(below);
                }
            }
        }
    }
}

impl Value {
    /// Returns its kind, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(number) if number.is_finite() => "a number with a fraction",
            Self::Float(_) => "no finite number",
            Self::Boolean(_) => "true or false",
            Self::Datetime => "a date",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

impl<T> From<T> for Located<T> {
    /// Locates a value without a line of its own, such as a default.
    fn from(value: T) -> Self {
        Self {
            value,
            origin: Origin::default(),
        }
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Serialize> Serialize for Located<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    String::deserialize(deserializer).map(Arc::from)
}

/// The byte offsets at which lines begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self(std::iter::once(0).chain(after_breaks).collect())
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::Line(self.0.partition_point(|begin| *begin <= offset))
    }
}

fn table(table: DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Result<Vec<Entry>, Fault> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entries = entries.into_iter().map(|(key, value)| {
        Ok(Entry {
            key_origin: origin(key.span().start),
            key: key.into_inner().into_owned(),
            node: node(value, origin)?,
        })
    });
    entries.collect()
}

fn node(value: Spanned<DeValue<'_>>, origin: &dyn Fn(usize) -> Origin) -> Result<Node, Fault> {
    let here = origin(value.span().start);
    let out_of_range = |text: &str| Fault::new(&here, format!("{text} is too large a number"));
    let value = match value.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => Value::Integer(
            i128::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| out_of_range(number.as_str()))?,
        ),
        DeValue::Float(number) => Value::Float(
            number
                .as_str()
                .parse()
                .map_err(|_| out_of_range(number.as_str()))?,
        ),
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(_) => Value::Datetime,
        DeValue::Array(array) => {
            let elements = array.into_iter().enumerate().map(|(index, element)| {
                Ok(Entry {
                    key: index.to_string(),
                    key_origin: origin(element.span().start),
                    node: node(element, origin)?,
                })
            });
            Value::Array(elements.collect::<Result<_, Fault>>()?)
        }
        DeValue::Table(inner) => Value::Table(table(inner, origin)?),
    };
    Ok(Node {
        value,
        origin: here,
    })
}
