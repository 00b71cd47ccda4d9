//! Reads TOML documents and keeps the origin of every value, so that an error names the line of the
//! file, or the override that set the value.
//!
//! [`parse`] reads a text, [`set`] overrides a value, and [`read`] deserializes a table with serde
//! and refuses unknown keys; [`read_all`] finds all mistakes. [`Joined`] reads two types from one
//! table. [`Located`] keeps a value's origin for later checks; [`keys!`](crate::keys) defines the
//! ranges of keys.

mod all;
mod de;
mod joined;
mod keys;
mod overrides;
mod path;
mod tree;

pub use all::{Faults, read_all};
pub use de::{Error, read};
pub use joined::Joined;
pub use keys::{NAME_LENGTH, name, number, parsed, positive, shortened, whole};
pub use overrides::set;
pub use tree::{Fault, Located, Node, Origin, parse, parse_all};

#[cfg(test)]
mod tests;
