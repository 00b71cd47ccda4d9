//! TOML documents in which every value knows where it comes from, so that an error names the line
//! of the file, or the override that put the value there.
//!
//! [`parse`] reads a text, [`set`] overrides a value. [`read`] makes any type
//! of a table that serde can deserialize; [`Reader`] reads a table key by key, where keys depend on
//! each other. Both refuse unknown keys. [`Located`] keeps a value's origin for later checks;
//! [`number`], [`whole`] and [`positive`] check ranges.

mod de;
mod overrides;
mod reader;
mod tree;

pub use de::{Error, number, positive, read, whole};
pub use overrides::set;
pub use reader::{Reader, shortened};
pub use tree::{Fault, Located, Node, Origin, Table, Value, parse};

#[cfg(test)]
mod tests;
