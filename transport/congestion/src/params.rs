//! Parameters of a controller, from text: `name:key=value,key=value`.
//!
//! The text comes from command lines and scenario files. It is checked completely here, so that
//! algorithms are built from numbers in range.

use std::fmt;

/// Characters of a user's word that an error message repeats.
const ECHOED: usize = 40;

/// One parameter of a controller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// The key, as in `key=value`.
    pub name: &'static str,
    /// What it means, with its unit.
    pub meaning: &'static str,
    /// What it is without being given; `None` if the meaning says so.
    pub default: Option<f64>,
    /// Which numbers it takes.
    pub kind: Kind,
}

/// Numbers that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any number from the first to the second.
    Number(f64, f64),
    /// A whole number from the first to the second.
    Count(u16, u16),
}

impl fmt::Display for Parameter {
    /// `alpha=1: meaning (0 to 100)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(default) = self.default {
            write!(f, "={default}")?;
        }
        write!(f, ": {} ({})", self.meaning, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(least, most) => write!(f, "{least} to {most}"),
            Self::Count(least, most) => write!(f, "whole number, {least} to {most}"),
        }
    }
}

/// Why a text names no controller. Each message is one line with the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No controller has this name.
    #[error("unknown controller \"{name}\": use one of {known}")]
    UnknownController {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The controller has parameters, but none of this name.
    #[error("{controller} has no parameter \"{parameter}\": use one of {known}")]
    UnknownParameter {
        /// The controller's name.
        controller: &'static str,
        /// The name given.
        parameter: String,
        /// The names there are.
        known: String,
    },
    /// The controller has no parameters at all.
    #[error("{controller} takes no parameters: write \"{controller}\" alone")]
    NoParameters {
        /// The controller's name.
        controller: &'static str,
    },
    /// Something after the colon is not `key=value`.
    #[error("{controller}: \"{text}\" is not key=value; write {controller}:{example}=NUMBER,...")]
    NotKeyValue {
        /// The controller's name.
        controller: &'static str,
        /// The part given.
        text: String,
        /// A parameter the controller has.
        example: &'static str,
    },
    /// A parameter is given more than once.
    #[error("{controller}: {parameter} is given twice; give it once")]
    Duplicate {
        /// The controller's name.
        controller: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// A value is no number.
    #[error("{controller}: {parameter}={value} is not a number; use {expected}")]
    NotANumber {
        /// The controller's name.
        controller: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// A value is out of its range, or has a fraction where it may not.
    #[error("{controller}: {parameter}={value} is not allowed; use {expected}")]
    OutOfRange {
        /// The controller's name.
        controller: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Two values contradict each other.
    #[error(
        "{controller}: {lower}={lower_value} is above {upper}={upper_value}; make {lower} the smaller"
    )]
    Order {
        /// The controller's name.
        controller: &'static str,
        /// The parameter that must not be the larger.
        lower: &'static str,
        /// Its value.
        lower_value: String,
        /// The parameter that must not be the smaller.
        upper: &'static str,
        /// Its value.
        upper_value: String,
    },
}

/// Values for all parameters of one controller, given or by default.
#[derive(Debug)]
pub(crate) struct Values {
    controller: &'static str,
    values: Vec<(&'static Parameter, Option<f64>)>,
}

impl Values {
    /// Reads `text`, what follows the colon, if there is one.
    pub(crate) fn parse(
        controller: &'static str,
        parameters: &'static [Parameter],
        text: Option<&str>,
    ) -> Result<Self, SpecError> {
        let mut given: Vec<Option<f64>> = vec![None; parameters.len()];
        for part in text.iter().flat_map(|text| text.split(',')) {
            let Some(first) = parameters.first() else {
                return Err(SpecError::NoParameters { controller });
            };
            let (name, value) = part.split_once('=').ok_or_else(|| SpecError::NotKeyValue {
                controller,
                text: echo(part),
                example: first.name,
            })?;
            let index = parameters
                .iter()
                .position(|parameter| parameter.name == name)
                .ok_or_else(|| SpecError::UnknownParameter {
                    controller,
                    parameter: echo(name),
                    known: list(parameters.iter().map(|parameter| parameter.name)),
                })?;
            let parameter = &parameters[index];
            if given[index].is_some() {
                return Err(SpecError::Duplicate {
                    controller,
                    parameter: parameter.name,
                });
            }
            given[index] = Some(number(controller, parameter, value)?);
        }
        let values = parameters
            .iter()
            .zip(given)
            .map(|(parameter, given)| (parameter, given.or(parameter.default)))
            .collect();
        Ok(Self { controller, values })
    }

    /// The value of a parameter that has a default.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.optional(name)
            .expect("a parameter that is read unconditionally has a default in its row")
    }

    /// The value of a parameter, `None` if it was not given and has no default.
    pub(crate) fn optional(&self, name: &str) -> Option<f64> {
        let (_, value) = self
            .values
            .iter()
            .find(|(parameter, _)| parameter.name == name)
            .expect("a row builds from parameters that it lists");
        *value
    }

    /// Checks that the value of `lower` is not above that of `upper`.
    pub(crate) fn in_order(
        &self,
        lower: &'static str,
        upper: &'static str,
    ) -> Result<(), SpecError> {
        let (lower_value, upper_value) = (self.number(lower), self.number(upper));
        if lower_value <= upper_value {
            return Ok(());
        }
        Err(SpecError::Order {
            controller: self.controller,
            lower,
            lower_value: lower_value.to_string(),
            upper,
            upper_value: upper_value.to_string(),
        })
    }
}

/// The names as a person would list them.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What a user wrote, fit for one line of a message.
pub(crate) fn echo(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(ECHOED)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(ECHOED).is_some() {
        short += "...";
    }
    short
}

fn number(
    controller: &'static str,
    parameter: &'static Parameter,
    text: &str,
) -> Result<f64, SpecError> {
    let value = text
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
        .ok_or_else(|| SpecError::NotANumber {
            controller,
            parameter: parameter.name,
            value: echo(text),
            expected: parameter.kind.to_string(),
        })?;
    let allowed = match parameter.kind {
        Kind::Number(least, most) => (least..=most).contains(&value),
        Kind::Count(least, most) => {
            value.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&value)
        }
    };
    if allowed {
        Ok(value)
    } else {
        Err(SpecError::OutOfRange {
            controller,
            parameter: parameter.name,
            value: echo(text),
            expected: parameter.kind.to_string(),
        })
    }
}
