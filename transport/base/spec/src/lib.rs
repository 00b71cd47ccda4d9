//! Reads what users write on command lines and in TOML files.
//!
//! Internal to evenkeel: no promise, the API may change with every version.
//!
//! - A spec names a controller, a discipline or a stamp, and sets its parameters:
//!   `name:key=value,key=value`. A table of [`Row`]s lists the names and their parameters. [`find`]
//!   checks a spec against the table, [`SpecValues`] holds the typed values, and [`split_list`] splits
//!   a list of specs.
//! - [`quantity`] reads rates, sizes and times: `5M`, `5_000_000` and `5e6` are the same.
//! - `document` (with the feature `toml`) reads TOML files, and knows the line of each value.
//!
//! An error displays as one line with the cause and the remedy, and suggests the name that the user
//! may have meant.
//!
//! ```
//! use evenkeel_spec::{SpecParameter, Row, find};
//!
//! const PARAMETERS: &[SpecParameter] = &[
//!     SpecParameter::number("alpha", "packets", 0.5, 10.0, Some(1.0)),
//!     SpecParameter::flag("ecn", "marks instead of drops", false),
//! ];
//! static ROWS: [Row<()>; 1] = [Row {
//!     name: "vegas",
//!     summary: "keeps few packets queued",
//!     parameters: PARAMETERS,
//!     build: (),
//! }];
//!
//! let (row, values) = find("controller", &ROWS, "vegas:ecn=true")?;
//! assert_eq!((row.name, values.number("alpha"), values.flag("ecn")), ("vegas", 1.0, true));
//! let error = find("controller", &ROWS, "vega").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "unknown controller \"vega\": did you mean vegas? use one of vegas"
//! );
//! # Ok::<(), evenkeel_spec::SpecError>(())
//! ```

#[cfg(feature = "toml")]
pub mod document;
mod error;
mod list;
mod parameter;
pub mod quantity;
mod row;
mod values;
mod words;

pub use error::SpecError;
pub use list::split_list;
pub use parameter::{ParameterKind, SpecParameter};
pub use row::{Row, find};
pub use values::SpecValues;
pub use words::{echo, suggest};
