//! Reads the keys of one table: types, ranges, unknown keys, missing keys.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::error::Fault;
use super::tree::{Located, Node, Origin, Table, Value};

/// Longest name of anything, in characters.
const NAME_LENGTH: usize = 64;

/// A table whose keys are all known.
pub(super) struct Reader<'a> {
    table: &'a Table,
    origin: &'a Origin,
    /// How messages call the table, e.g. `[[links]]`.
    title: &'static str,
    keys: &'static [&'static str],
}

impl<'a> Reader<'a> {
    /// Opens a table, which is refused if it holds another key than `keys`.
    pub(super) fn open(
        node: &'a Node,
        title: &'static str,
        keys: &'static [&'static str],
    ) -> Result<Self, Fault> {
        let Value::Table(table) = &node.value else {
            let message = format!("{title} is {}; it must be a table", node.value.kind());
            return Err(Fault::new(&node.origin, message));
        };
        let unknown = table
            .entries
            .iter()
            .find(|entry| !keys.contains(&entry.key.as_str()));
        if let Some(entry) = unknown {
            let message = format!(
                "unknown key {:?} in {title}; use one of {}",
                entry.key,
                keys.join(", ")
            );
            return Err(Fault::new(&entry.key_origin, message));
        }
        Ok(Self {
            table,
            origin: &node.origin,
            title,
            keys,
        })
    }

    /// Where the table begins.
    pub(super) fn origin(&self) -> &'a Origin {
        self.origin
    }

    pub(super) fn node(&self, key: &str) -> Option<&'a Node> {
        debug_assert!(self.keys.contains(&key), "{key} is not in the list of keys");
        self.table.get(key)
    }

    /// A value that must be there.
    pub(super) fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Fault> {
        value
            .ok_or_else(|| Fault::new(self.origin, format!("{} has no {key}; add one", self.title)))
    }

    /// Refuses a key that means nothing here; `reason` says when it would.
    pub(super) fn refuse(&self, key: &str, reason: &str) -> Result<(), Fault> {
        match self.node(key) {
            None => Ok(()),
            Some(node) => Err(Fault::new(&node.origin, format!("{key} {reason}"))),
        }
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<Located<String>>, Fault> {
        self.read(key, "a string in quotes", |value| match value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// An array of strings.
    pub(super) fn strings(&self, key: &str) -> Result<Option<Vec<String>>, Fault> {
        let wanted = "an array of strings in quotes";
        let strings = self.read(key, wanted, |value| match value {
            Value::Array(elements) => elements
                .iter()
                .map(|element| match &element.value {
                    Value::String(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            _ => None,
        })?;
        Ok(strings.map(|strings| strings.value))
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, Fault> {
        let value = self.read(key, "true or false", |value| match value {
            Value::Boolean(value) => Some(*value),
            _ => None,
        })?;
        Ok(value.map(|value| value.value))
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let Some(text) = self.string(key)? else {
            return Ok(None);
        };
        let found = words.iter().find(|(word, _)| *word == text.value);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let names: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            let message = format!(
                "{key} = {:?} is unknown; use one of {}",
                text.value,
                names.join(", ")
            );
            Fault::new(&text.origin, message)
        })
    }

    /// A name: letters, digits, `-`, `_` and `.` inside, so that it is good in file names too.
    pub(super) fn name(&self, key: &str) -> Result<Option<Located<String>>, Fault> {
        let Some(name) = self.string(key)? else {
            return Ok(None);
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let begins_well = name.value.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins_well && name.value.chars().all(allowed) && name.value.len() <= NAME_LENGTH {
            return Ok(Some(name));
        }
        let message = format!(
            "{key} = {:?} is no name; use up to {NAME_LENGTH} of A-Z a-z 0-9 - _ . and begin with a letter or digit",
            shortened(&name.value)
        );
        Err(Fault::new(&name.origin, message))
    }

    /// A number, with or without a fraction.
    pub(super) fn number(
        &self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, Fault> {
        let number = self.read(key, "a number", |value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        })?;
        self.within(key, number, &range)
    }

    /// A number above zero.
    pub(super) fn positive(&self, key: &str, max: f64) -> Result<Option<f64>, Fault> {
        let number = self.number(key, 0.0..=max)?;
        match number {
            Some(number) if number <= 0.0 => Err(self.fault(key, format!("{key} must be above 0"))),
            number => Ok(number),
        }
    }

    /// A whole number; `2e6` is one.
    pub(super) fn integer(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Fault> {
        let number = self.read(key, "a whole number", |value| match value {
            Value::Integer(number) => Some(*number),
            // Up to 2^53 every whole f64 stands for itself.
            Value::Float(number) if number.fract() == 0.0 && number.abs() <= 2f64.powi(53) => {
                Some(*number as i128)
            }
            _ => None,
        })?;
        let range = i128::from(*range.start())..=i128::from(*range.end());
        let number = self.within(key, number, &range)?;
        Ok(number.map(|number| u64::try_from(number).expect("the range is within u64")))
    }

    /// The elements of an array; none if the key is absent.
    pub(super) fn array(&self, key: &str) -> Result<Option<&'a [Node]>, Fault> {
        match self.node(key) {
            None => Ok(None),
            Some(Node {
                value: Value::Array(elements),
                ..
            }) => Ok(Some(elements)),
            Some(node) => {
                let message = format!(
                    "{key} is {}; it must be an array of tables",
                    node.value.kind()
                );
                Err(Fault::new(&node.origin, message))
            }
        }
    }

    /// A fault at the value of `key`, or at the table if the key is absent.
    pub(super) fn fault(&self, key: &str, message: impl Into<String>) -> Fault {
        let origin = self.node(key).map_or(self.origin, |node| &node.origin);
        Fault::new(origin, message)
    }

    fn read<T>(
        &self,
        key: &str,
        wanted: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Located<T>>, Fault> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        match convert(&node.value) {
            Some(value) => Ok(Some(Located {
                value,
                origin: node.origin.clone(),
            })),
            None => {
                let message = format!("{key} is {}; it must be {wanted}", node.value.kind());
                Err(Fault::new(&node.origin, message))
            }
        }
    }

    fn within<T: PartialOrd + Display>(
        &self,
        key: &str,
        number: Option<Located<T>>,
        range: &RangeInclusive<T>,
    ) -> Result<Option<T>, Fault> {
        match number {
            // NaN lies in no range.
            Some(number) if !range.contains(&number.value) => {
                let message = format!(
                    "{key} = {} is out of range; use {} to {}",
                    number.value,
                    range.start(),
                    range.end()
                );
                Err(Fault::new(&number.origin, message))
            }
            number => Ok(number.map(|number| number.value)),
        }
    }
}

/// The beginning of a text that may be long.
pub(super) fn shortened(text: &str) -> String {
    const LENGTH: usize = 80;
    match text.char_indices().nth(LENGTH) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
