//! Deserializes values of a document, with errors that name key and origin.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::slice;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::tree::{Entry, Fault, Located, Node, Origin, Value};
use crate::quantity::{Quantity, Unit};

/// Most elements of an array.
pub(super) const MAX_ELEMENTS: usize = 1000;

/// Name under which [`Located`] asks for its origin.
const LOCATED: &str = "$evenkeel_located";

/// Reads a table that has no keys but those of `T`; `title` is what messages call the table.
///
/// # Errors
/// The first mistake.
pub fn read<'a, T: Deserialize<'a>>(node: &'a Node, title: &str) -> Result<T, Fault> {
    read_part(node, title, &[])
}

/// Reads the keys of `T` from a table that may also have the keys `own`.
pub(super) fn read_part<'a, T: Deserialize<'a>>(
    node: &'a Node,
    title: &str,
    own: &'static [&'static str],
) -> Result<T, Fault> {
    T::deserialize(Part { node, own }).map_err(|error| error.about(title, &node.origin))
}

/// Reads a number with or without a fraction, in `unit`.
///
/// # Errors
/// If it is no number or out of range.
pub fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    unit: Unit,
    range: RangeInclusive<f64>,
) -> Result<f64, D::Error> {
    let number = Quantity::deserialize(deserializer)?.number(unit);
    within(number.map_err(de::Error::custom)?, &range)
}

/// Reads a number above 0 and at most `most`, in `unit`.
///
/// # Errors
/// If it is no number or out of range.
pub fn positive<'de, D: Deserializer<'de>>(
    deserializer: D,
    unit: Unit,
    most: f64,
) -> Result<f64, D::Error> {
    let number = number(deserializer, unit, 0.0..=most)?;
    if number <= 0.0 {
        return Err(de::Error::custom("must be above 0"));
    }
    Ok(number)
}

/// Reads a whole number in `unit`; `2e6` is one.
///
/// # Errors
/// If it is not whole or out of range.
pub fn whole<'de, D: Deserializer<'de>>(
    deserializer: D,
    unit: Unit,
    range: RangeInclusive<u64>,
) -> Result<u64, D::Error> {
    let number = Quantity::deserialize(deserializer)?.whole(unit);
    let range = i128::from(*range.start())..=i128::from(*range.end());
    let number = within(number.map_err(de::Error::custom)?, &range)?;
    Ok(u64::try_from(number).expect("the range is within u64"))
}

/// Refuses an array.
pub(super) fn too_many(elements: usize) -> Error {
    de::Error::custom(format!(
        "has {elements} elements, which are too many; the most is {MAX_ELEMENTS}"
    ))
}

fn within<T: PartialOrd + Display, E: de::Error>(
    number: T,
    range: &RangeInclusive<T>,
) -> Result<T, E> {
    // NaN lies in no range.
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    let message = format!("= {number} is out of range; use {least} to {most}");
    Err(E::custom(message))
}

/// Why a value is refused, before key and origin are known.
#[derive(Debug)]
pub struct Error {
    origin: Option<Origin>,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    /// What the key or title is, without it: `is a string; it must be a number`.
    Predicate(String),
    /// In the table whose title will follow.
    UnknownKey { key: String, known: String },
    /// All that there is to say.
    Sentence(String),
}

impl Error {
    /// Completes the message with the key or title, and the origin unless a deeper one is known.
    pub(super) fn about(self, subject: &str, origin: &Origin) -> Fault {
        let message = match self.cause {
            Cause::Predicate(text) if text.starts_with(':') => format!("{subject}{text}"),
            Cause::Predicate(text) => format!("{subject} {text}"),
            Cause::UnknownKey { key, known } => {
                format!("unknown key {key:?} in {subject}; use one of {known}")
            }
            Cause::Sentence(text) => text,
        };
        Fault {
            origin: self.origin.unwrap_or_else(|| origin.clone()),
            message,
        }
    }

    pub(super) fn unknown_key(entry: &Entry, known: &[&str]) -> Self {
        Self {
            origin: Some(entry.key_origin.clone()),
            cause: Cause::UnknownKey {
                key: entry.key.clone(),
                known: known.join(", "),
            },
        }
    }

    pub(super) fn wrong_type(value: &Value, wanted: &str) -> Self {
        de::Error::custom(format!("is {}; it must be {wanted}", value.kind()))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self {
            origin: Some(fault.origin),
            cause: Cause::Sentence(fault.message),
        }
    }
}

impl de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self {
            origin: None,
            cause: Cause::Predicate(message.to_string()),
        }
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Str(_) => "a string",
            Unexpected::Signed(_) | Unexpected::Unsigned(_) => "an integer",
            Unexpected::Float(_) => "a number with a fraction",
            Unexpected::Bool(_) => "true or false",
            Unexpected::Seq => "an array",
            Unexpected::Map => "a table",
            _ => "a date",
        };
        let wanted = match wanted.to_string().as_str() {
            "a string" => "a string in quotes".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "a sequence" => "an array".to_owned(),
            other => other.to_owned(),
        };
        Self::custom(format!("is {found}; it must be {wanted}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("has no {field}; add one"))
    }

    fn unknown_variant(word: &str, words: &'static [&'static str]) -> Self {
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        let words = words.join(", ");
        Self::custom(format!("= {word:?} is unknown; use one of {words}"))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.cause)
    }
}

impl std::error::Error for Error {}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(number) => match i64::try_from(*number) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => visitor.visit_i128(*number),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::Datetime => Err(de::Error::invalid_type(
                Unexpected::Other("a date"),
                &visitor,
            )),
            Value::Array(elements) if elements.len() > MAX_ELEMENTS => {
                Err(too_many(elements.len()))
            }
            Value::Array(elements) => visitor.visit_seq(Elements(elements.iter())),
            Value::Table(table) => visitor.visit_map(Entries::of(&table.entries, |_| true)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name != LOCATED {
            return visitor.visit_newtype_struct(self);
        }
        visitor.visit_seq(WithOrigin {
            node: self,
            is_origin_next: true,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let part = Part {
            node: self,
            own: &[],
        };
        part.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.value {
            Value::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            other => Err(Error::wrong_type(other, "a string in quotes")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// The keys of a type in a table that may also have keys of its own.
struct Part<'de> {
    node: &'de Node,
    own: &'static [&'static str],
}

impl<'de> Deserializer<'de> for Part<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.node.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Value::Table(table) = &self.node.value else {
            return Err(Error::wrong_type(&self.node.value, "a table"));
        };
        let of_type = |entry: &Entry| fields.contains(&entry.key.as_str());
        let unknown = table
            .entries
            .iter()
            .find(|entry| !of_type(entry) && !self.own.contains(&entry.key.as_str()));
        if let Some(entry) = unknown {
            return Err(Error::unknown_key(entry, &[self.own, fields].concat()));
        }
        visitor.visit_map(Entries::of(&table.entries, of_type))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any option newtype_struct enum
    }
}

struct Elements<'de>(slice::Iter<'de, Node>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(node) = self.0.next() else {
            return Ok(None);
        };
        let value = seed.deserialize(node).map_err(|error| Error {
            origin: error.origin.or_else(|| Some(node.origin.clone())),
            ..error
        })?;
        Ok(Some(value))
    }
}

struct Entries<'de> {
    entries: Vec<&'de Entry>,
    /// The one whose value comes next.
    at: Option<&'de Entry>,
}

impl<'de> Entries<'de> {
    fn of(entries: &'de [Entry], counts: impl Fn(&Entry) -> bool) -> Self {
        Self {
            entries: entries.iter().rev().filter(|entry| counts(entry)).collect(),
            at: None,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.at = self.entries.pop();
        let key = self.at.map(|entry| entry.key.as_str().into_deserializer());
        key.map(|key: StrDeserializer<'_, Error>| seed.deserialize(key))
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let entry = self.at.expect("a value comes after its key");
        seed.deserialize(&entry.node)
            .map_err(|error| error.about(&entry.key, &entry.node.origin).into())
    }
}

/// What a [`Located`] is made of: the origin, then the value.
struct WithOrigin<'de> {
    node: &'de Node,
    is_origin_next: bool,
}

impl<'de> SeqAccess<'de> for WithOrigin<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if !std::mem::take(&mut self.is_origin_next) {
            return seed.deserialize(self.node).map(Some);
        }
        let origin = match &self.node.origin {
            Origin::Line(line) => seed.deserialize(line.into_deserializer()),
            Origin::Override(text) => seed.deserialize(text.as_ref().into_deserializer()),
        };
        origin.map(Some)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pair<T> {
            type Value = Located<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a document")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Self::Value, A::Error> {
                let missing = || de::Error::custom("is not of a document");
                Ok(Located {
                    origin: pair.next_element()?.ok_or_else(missing)?,
                    value: pair.next_element()?.ok_or_else(missing)?,
                })
            }
        }

        deserializer.deserialize_newtype_struct(LOCATED, Pair(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineOrOverride;

        impl Visitor<'_> for LineOrOverride {
            type Value = Origin;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a line or an override")
            }

            fn visit_u64<E>(self, line: u64) -> Result<Origin, E> {
                Ok(Origin::Line(line as usize))
            }

            fn visit_str<E>(self, text: &str) -> Result<Origin, E> {
                Ok(Origin::Override(text.into()))
            }
        }

        deserializer.deserialize_any(LineOrOverride)
    }
}
