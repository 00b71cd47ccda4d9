//! Why a spec is refused.

use std::borrow::Cow;

/// Why a spec, or a list of specs, is refused. Displays as one line with the cause and the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The table has no row of this name.
    #[error("unknown {kind} \"{name}\": {remedy}")]
    Unknown {
        /// What the table lists, e.g. `controller`.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The names that exist, and the one that may have been meant.
        remedy: String,
    },
    /// The row has parameters, but none of this name.
    #[error("{row} has no parameter \"{parameter}\": {remedy}")]
    UnknownParameter {
        /// The row's name.
        row: &'static str,
        /// The name given.
        parameter: String,
        /// The names that exist, and the one that may have been meant.
        remedy: String,
    },
    /// The row has no parameters at all.
    #[error("{row} takes no parameters: write \"{row}\" alone")]
    NoParameters {
        /// The row's name.
        row: &'static str,
    },
    /// A part after the colon is not `key=value`.
    #[error("{row}: \"{text}\" is not key=value; write {row}:{example},...")]
    NotKeyValue {
        /// The row's name.
        row: &'static str,
        /// The part given.
        text: String,
        /// How one of the row's parameters is written.
        example: String,
    },
    /// A parameter is given more than once.
    #[error("{row}: {parameter} is given twice; give it once")]
    Duplicate {
        /// The row's name.
        row: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// A value is not a number.
    #[error("{row}: {parameter}={value} is not a number; use {expected}")]
    NotANumber {
        /// The row's name.
        row: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What the parameter takes.
        expected: String,
    },
    /// A value is out of range, has a fraction where it must be whole, or is not one of the words.
    #[error("{row}: {parameter}={value} is not allowed; use {expected}")]
    NotAllowed {
        /// The row's name.
        row: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What the parameter takes.
        expected: String,
    },
    /// Two parameters are given of which one makes the other meaningless.
    #[error("{row}: {parameter} means nothing with {other}; give one of them")]
    Excluded {
        /// The row's name.
        row: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// A parameter is given without another that it needs.
    #[error("{row}: {parameter} means nothing without {other}; give both")]
    Incomplete {
        /// The row's name.
        row: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// Two values contradict each other.
    #[error(
        "{row}: {lower}={lower_value} is {relation} {upper}={upper_value}; make {lower} the smaller"
    )]
    Order {
        /// The row's name.
        row: &'static str,
        /// The parameter that must be the smaller.
        lower: &'static str,
        /// Its value.
        lower_value: f64,
        /// `above` where the values may be equal, otherwise `not below`.
        relation: &'static str,
        /// The parameter that must be the larger.
        upper: &'static str,
        /// Its value.
        upper_value: f64,
    },
    /// A semicolon stands where a comma belongs.
    #[error("\"{text}\" has a semicolon; separate with commas: {remedy}")]
    Semicolon {
        /// What was given.
        text: String,
        /// The same with commas.
        remedy: String,
    },
    /// A comma stands before the first colon of a single spec.
    #[error("\"{text}\" has a comma where one {kind} belongs; write NAME or NAME:KEY=VALUE,...")]
    Comma {
        /// What was given.
        text: String,
        /// What the table lists, e.g. `controller`.
        kind: &'static str,
    },
    /// A `key=value` in a list follows a name without a colon, or nothing.
    #[error("\"{text}\" is a parameter of no name; write {name}:{text}")]
    NoName {
        /// The `key=value`.
        text: String,
        /// The name before it, if there is one, otherwise `NAME`.
        name: String,
    },
    /// A list has nothing before, between or after its commas.
    #[error("\"{text}\" has an empty element; remove a comma, or write a name")]
    Empty {
        /// The list.
        text: String,
    },
    /// A check of the row's own refuses the values.
    #[error("{0}")]
    Refused(Cow<'static, str>),
}
