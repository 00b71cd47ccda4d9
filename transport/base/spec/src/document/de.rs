//! Deserializes values of a document, with errors that name key and origin.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::joined::JOINED;
use super::tree::{Entry, Fault, LOCATED, Node, Origin, Value};

/// The most elements of an array.
const MAX_ELEMENTS: usize = 1000;

/// Reads a table that may have only the keys of `T`. Messages call the table by serde's name of its
/// type if that is no identifier (`#[serde(rename = "[[links]]")]`), else by its key.
///
/// # Errors
/// The first mistake. [`read_all`](super::read_all) finds the others too.
pub fn read<'a, T: Deserialize<'a>>(node: &'a Node) -> Result<T, Fault> {
    T::deserialize(node).map_err(|error| error.into_fault(node))
}

/// Why a value is refused, before key and origin are known.
#[derive(Debug)]
pub struct Error {
    origin: Option<Origin>,
    message: Message,
    /// Keys from the value, or the table that lacks one, outwards to where reading began.
    pub(super) path: Vec<String>,
    pub(super) kind: Kind,
}

/// What leaving the value out means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value is lacking then.
    Wrong,
    /// Nothing is lacking then.
    UnknownKey,
    /// A key is lacking already, in the table at the end of the path.
    Missing(&'static str),
}

#[derive(Debug)]
enum Message {
    /// What comes before and behind the key or title, which will follow.
    Around(String, String),
    /// A complete sentence.
    Sentence(String),
}

impl Error {
    /// Adds the key or title to the message, and the origin unless a deeper one is known.
    fn about(self, subject: &str, origin: &Origin) -> Self {
        let sentence = match self.message {
            Message::Around(before, behind) => format!("{before}{subject}{behind}"),
            Message::Sentence(text) => text,
        };
        Self {
            origin: self.origin.or_else(|| Some(origin.clone())),
            message: Message::Sentence(sentence),
            ..self
        }
    }

    /// Notes that the value is in `entry`.
    fn within(mut self, entry: &Entry) -> Self {
        self.path.push(entry.key.clone());
        self.origin.get_or_insert_with(|| entry.node.origin.clone());
        self
    }

    /// The error of what was read from `node`, as people see it.
    pub(super) fn into_fault(self, node: &Node) -> Fault {
        let error = self.about("the document", &node.origin);
        let Message::Sentence(message) = error.message else {
            unreachable!("what is about something is a sentence");
        };
        Fault {
            origin: error.origin.unwrap_or_default(),
            message,
        }
    }

    fn unknown_key(entry: &Entry, known: &[&str]) -> Self {
        Self {
            origin: Some(entry.key_origin.clone()),
            message: Message::Around(
                format!("unknown key {:?} in ", entry.key),
                format!("; use one of {}", known.join(", ")),
            ),
            path: vec![entry.key.clone()],
            kind: Kind::UnknownKey,
        }
    }

    fn wrong_type(value: &Value, wanted: &str) -> Self {
        de::Error::custom(format!("is {}; it must be {wanted}", value.kind()))
    }
}

impl de::Error for Error {
    /// `message` is a sentence without its subject: `is a string; it must be a number`.
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        let gap = if message.starts_with(':') { "" } else { " " };
        Self {
            origin: None,
            message: Message::Around(String::new(), format!("{gap}{message}")),
            path: Vec::new(),
            kind: Kind::Wrong,
        }
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Str(_) => "a string",
            Unexpected::Signed(_) | Unexpected::Unsigned(_) => "an integer",
            Unexpected::Float(number) if number.is_finite() => "a number with a fraction",
            Unexpected::Float(_) => "no finite number",
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
        Self {
            kind: Kind::Missing(field),
            ..Self::custom(lacks(field))
        }
    }

    fn unknown_variant(word: &str, words: &'static [&'static str]) -> Self {
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        let words = words.join(", ");
        Self::custom(format!("= {word:?} is unknown; use one of {words}"))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.message)
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
                Err(de::Error::custom(format!(
                    "has {} elements, which are too many; the most is {MAX_ELEMENTS}",
                    elements.len()
                )))
            }
            Value::Array(elements) => visitor.visit_seq(Entries::of(elements, |_| true)),
            Value::Table(entries) => visitor.visit_map(Entries::of(entries, |_| true)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            LOCATED => visitor.visit_seq(WithOrigin {
                node: self,
                is_origin_next: true,
            }),
            JOINED => visitor.visit_seq(Halves {
                node: self,
                keys: Vec::new(),
                asked: 0,
            }),
            _ => self.visit_table(name, fields, fields, visitor),
        }
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

impl Node {
    /// Passes the keys `fields` of a table to `visitor`; refuses keys other than `known`.
    fn visit_table<'de, V: Visitor<'de>>(
        &'de self,
        type_name: &str,
        fields: &[&str],
        known: &[&str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let visit = || {
            let Value::Table(entries) = &self.value else {
                return Err(Error::wrong_type(&self.value, "a table"));
            };
            let unknown = |entry: &&Entry| !known.contains(&entry.key.as_str());
            if let Some(entry) = entries.iter().find(unknown) {
                return Err(Error::unknown_key(entry, known));
            }
            let of_type = |entry: &Entry| fields.contains(&entry.key.as_str());
            visitor.visit_map(Entries::of(entries, of_type))
        };
        let is_title = type_name.contains(['[', ' ']);
        visit().map_err(|error| match is_title {
            true => error.about(type_name, &self.origin),
            false => error,
        })
    }
}

/// Says, without its subject, that a table lacks a key.
pub(super) fn lacks(key: &str) -> String {
    format!("has no {key}; add one")
}

/// What is in an array or a table.
struct Entries<'de> {
    /// What is left, the last first.
    entries: Vec<&'de Entry>,
    /// The entry whose value comes next.
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

impl<'de> SeqAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let read = |entry: &'de Entry| {
            let value = seed.deserialize(&entry.node);
            value.map_err(|error| error.within(entry))
        };
        self.entries.pop().map(read).transpose()
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
        let value = seed.deserialize(&entry.node);
        value.map_err(|error| error.within(entry).about(&entry.key, &entry.node.origin))
    }
}

/// The fields of a [`Located`](super::Located): the origin, then the value.
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

/// The halves of a table, each asked for twice: first they name their keys and fail, so that the
/// second time neither refuses the other's keys.
struct Halves<'de> {
    node: &'de Node,
    keys: Vec<&'static str>,
    asked: u8,
}

impl<'de> SeqAccess<'de> for Halves<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.asked += 1;
        seed.deserialize(Half(self)).map(Some)
    }
}

struct Half<'a, 'de>(&'a mut Halves<'de>);

impl<'de> Deserializer<'de> for Half<'_, 'de> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let halves = self.0;
        if halves.asked > 2 {
            let node = halves.node;
            return node.visit_table(name, fields, &halves.keys, visitor);
        }
        for field in fields {
            // A key that both name is read by both.
            if !halves.keys.contains(field) {
                halves.keys.push(field);
            }
        }
        Err(de::Error::custom("names its keys first"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.node.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any option newtype_struct enum
    }
}
