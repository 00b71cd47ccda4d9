//! Reads a table key by key, where keys depend on each other.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::Error as _;

use super::de::{self, Error, read_part};
use super::tree::{Fault, Located, Node, Origin, Table, Value};
use crate::quantity::Unit;

/// Longest name of anything, in characters.
const NAME_LENGTH: usize = 64;

/// A table whose keys are all known.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    table: &'a Table,
    origin: &'a Origin,
    /// What messages call the table, e.g. `[[links]]`.
    title: &'static str,
}

impl<'a> Reader<'a> {
    /// Opens a table.
    ///
    /// # Errors
    /// If it is no table or has another key than `keys`.
    pub fn open(
        node: &'a Node,
        title: &'static str,
        keys: &'static [&'static str],
    ) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Nothing {}

        Ok(Self::open_with::<Nothing>(node, title, keys)?.0)
    }

    /// Opens a table that has the keys of `T` too, and reads those.
    ///
    /// # Errors
    /// As [`Reader::open`], and if a key of `T` is wrong.
    pub fn open_with<T: Deserialize<'a>>(
        node: &'a Node,
        title: &'static str,
        keys: &'static [&'static str],
    ) -> Result<(Self, T), Fault> {
        let part = read_part(node, title, keys)?;
        let Value::Table(table) = &node.value else {
            unreachable!("a part was read from it");
        };
        let reader = Self {
            table,
            origin: &node.origin,
            title,
        };
        Ok((reader, part))
    }

    /// Where the table begins.
    pub fn origin(&self) -> &'a Origin {
        self.origin
    }

    /// The value of a key.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// A value that must be there.
    ///
    /// # Errors
    /// If it is not.
    pub fn required<T>(&self, key: &str, value: Option<T>) -> Result<T, Fault> {
        value
            .ok_or_else(|| Fault::new(self.origin, format!("{} has no {key}; add one", self.title)))
    }

    /// Refuses a key that means nothing here; `reason` says when it would.
    ///
    /// # Errors
    /// If it is there.
    pub fn refuse(&self, key: &str, reason: &str) -> Result<(), Fault> {
        match self.node(key) {
            None => Ok(()),
            Some(node) => Err(Fault::new(&node.origin, format!("{key} {reason}"))),
        }
    }

    /// Anything that serde can deserialize.
    ///
    /// # Errors
    /// If the value is not one.
    pub fn get<T: Deserialize<'a>>(&self, key: &str) -> Result<Option<T>, Fault> {
        self.read(key, |node| T::deserialize(node))
    }

    /// A string and its origin.
    ///
    /// # Errors
    /// If it is no string.
    pub fn string(&self, key: &str) -> Result<Option<Located<String>>, Fault> {
        self.get(key)
    }

    /// One of several words.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Fault> {
        self.read(key, |node| {
            let text = String::deserialize(node)?;
            let found = words.iter().find(|(word, _)| *word == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
                let names = names.join(", ");
                Error::custom(format!("= {text:?} is unknown; use one of {names}"))
            })
        })
    }

    /// A name: letters, digits, `-`, `_` and `.` inside, so that it is good in file names too.
    ///
    /// # Errors
    /// If it is none.
    pub fn name(&self, key: &str) -> Result<Option<Located<String>>, Fault> {
        self.name_up_to(key, NAME_LENGTH)
    }

    /// As [`Reader::name`], with at most `longest` characters.
    ///
    /// # Errors
    /// If it is none.
    pub fn name_up_to(&self, key: &str, longest: usize) -> Result<Option<Located<String>>, Fault> {
        let Some(name) = self.string(key)? else {
            return Ok(None);
        };
        let text = &name.value;
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins_well && text.chars().all(allowed) && text.len() <= longest {
            return Ok(Some(name));
        }
        Err(name.fault(format!(
            "{key} = {:?} is no name; use up to {longest} of A-Z a-z 0-9 - _ . and begin with a letter or digit",
            shortened(text)
        )))
    }

    /// A number, with or without a fraction, in `unit`.
    ///
    /// # Errors
    /// If it is none or out of range.
    pub fn number(
        &self,
        key: &str,
        unit: Unit,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, Fault> {
        self.read(key, |node| de::number(node, unit, range))
    }

    /// A number above 0 and at most `most`, in `unit`.
    ///
    /// # Errors
    /// If it is none or out of range.
    pub fn positive(&self, key: &str, unit: Unit, most: f64) -> Result<Option<f64>, Fault> {
        self.read(key, |node| de::positive(node, unit, most))
    }

    /// A whole number in `unit`; `2e6` is one.
    ///
    /// # Errors
    /// If it is none or out of range.
    pub fn whole(
        &self,
        key: &str,
        unit: Unit,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, Fault> {
        self.read(key, |node| de::whole(node, unit, range))
    }

    /// The elements of an array of tables; none if the key is absent.
    ///
    /// # Errors
    /// If it is no array, or `read` refuses one.
    pub fn tables<T>(
        &self,
        key: &str,
        read: impl Fn(&'a Node) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let elements = self.read(key, |node| match &node.value {
            Value::Array(elements) if elements.len() <= de::MAX_ELEMENTS => Ok(elements),
            Value::Array(elements) => Err(de::too_many(elements.len())),
            other => Err(Error::wrong_type(other, "an array of tables")),
        })?;
        elements.into_iter().flatten().map(read).collect()
    }

    /// A fault at the value of `key`, or at the table if the key is absent.
    pub fn fault(&self, key: &str, message: impl Into<String>) -> Fault {
        let origin = self.node(key).map_or(self.origin, |node| &node.origin);
        Fault::new(origin, message)
    }

    fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Result<T, Error>,
    ) -> Result<Option<T>, Fault> {
        let value = self
            .node(key)
            .map(|node| read(node).map_err(|error| error.about(key, &node.origin)));
        value.transpose()
    }
}

/// The beginning of a text that may be long.
pub fn shortened(text: &str) -> String {
    const LENGTH: usize = 80;
    match text.char_indices().nth(LENGTH) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
