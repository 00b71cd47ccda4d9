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
    /// Which values it takes.
    pub kind: Kind,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any number from the first to the second.
    Number(f64, f64),
    /// A whole number from the first to the second.
    Count(u16, u16),
    /// One of these words; its number is its place among them, from 0.
    Choice(&'static [&'static str]),
}

impl Parameter {
    /// The default as it would be written; `None` if there is none.
    pub fn default_text(&self) -> Option<String> {
        let default = self.default?;
        Some(match self.kind {
            Kind::Number(..) | Kind::Count(..) => default.to_string(),
            Kind::Choice(words) => words[default as usize].to_owned(),
        })
    }
}

impl fmt::Display for Parameter {
    /// `alpha=1: meaning (a number from 0 to 100)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(default) = self.default_text() {
            write!(f, "={default}")?;
        }
        write!(f, ": {} ({})", self.meaning, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Count(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Choice(words) => write!(f, "one of {}", list(words.iter().copied())),
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
    /// A value is out of its range, has a fraction where it may not, or is none of the words.
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
    /// A parameter is given that another makes meaningless.
    #[error("{controller}: {parameter} means nothing with {other}; give one of them")]
    Excluded {
        /// The controller's name.
        controller: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// A parameter is given that means nothing without another.
    #[error("{controller}: {parameter} means nothing without {other}; give both")]
    Incomplete {
        /// The controller's name.
        controller: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The other one.
        other: &'static str,
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
    values: Vec<Given>,
}

/// The value of one parameter.
#[derive(Debug)]
struct Given {
    parameter: &'static Parameter,
    given: Option<f64>,
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
            given[index] = Some(read(controller, parameter, value)?);
        }
        let values = parameters
            .iter()
            .zip(given)
            .map(|(parameter, given)| Given { parameter, given })
            .collect();
        Ok(Self { controller, values })
    }

    /// The value of a parameter that has a default. Of a choice, the place of the word.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.optional(name)
            .expect("a parameter that is read unconditionally has a default in its row")
    }

    /// The value of a parameter, `None` if it was not given and has no default.
    pub(crate) fn optional(&self, name: &str) -> Option<f64> {
        let value = self
            .values
            .iter()
            .find(|value| value.parameter.name == name)
            .expect("a row builds from parameters that it lists");
        value.given.or(value.parameter.default)
    }

    /// Whether the controller has this parameter and it was given.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.values
            .iter()
            .any(|value| value.parameter.name == name && value.given.is_some())
    }

    /// Checks that `parameter` and `other` are not both given.
    pub(crate) fn exclude(
        &self,
        parameter: &'static str,
        other: &'static str,
    ) -> Result<(), SpecError> {
        if !(self.is_given(parameter) && self.is_given(other)) {
            return Ok(());
        }
        Err(SpecError::Excluded {
            controller: self.controller,
            parameter,
            other,
        })
    }

    /// Checks that `other` is given if `parameter` is.
    pub(crate) fn require(
        &self,
        parameter: &'static str,
        other: &'static str,
    ) -> Result<(), SpecError> {
        if !self.is_given(parameter) || self.is_given(other) {
            return Ok(());
        }
        Err(SpecError::Incomplete {
            controller: self.controller,
            parameter,
            other,
        })
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

/// The number that `text` means to `parameter`.
fn read(
    controller: &'static str,
    parameter: &'static Parameter,
    text: &str,
) -> Result<f64, SpecError> {
    let out_of_range = || SpecError::OutOfRange {
        controller,
        parameter: parameter.name,
        value: echo(text),
        expected: parameter.kind.to_string(),
    };
    let (least, most, whole) = match parameter.kind {
        Kind::Number(least, most) => (least, most, false),
        Kind::Count(least, most) => (f64::from(least), f64::from(most), true),
        Kind::Choice(words) => {
            let place = words.iter().position(|word| *word == text);
            return Ok(place.ok_or_else(out_of_range)? as f64);
        }
    };
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
    if (least..=most).contains(&value) && (!whole || value.fract() == 0.0) {
        Ok(value)
    } else {
        Err(out_of_range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PARAMETERS: [Parameter; 4] = [
        Parameter {
            name: "alpha",
            meaning: "packets",
            default: Some(1.0),
            kind: Kind::Number(0.5, 10.0),
        },
        Parameter {
            name: "beta",
            meaning: "packets",
            default: Some(3.0),
            kind: Kind::Number(0.0, 10.0),
        },
        Parameter {
            name: "iw",
            meaning: "packets",
            default: None,
            kind: Kind::Count(2, 100),
        },
        Parameter {
            name: "mood",
            meaning: "a word",
            default: Some(1.0),
            kind: Kind::Choice(&["bold", "shy"]),
        },
    ];

    fn parse(text: &str) -> Result<Values, SpecError> {
        Values::parse("vegas", &PARAMETERS, Some(text))
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let values = Values::parse("vegas", &PARAMETERS, None).expect("nothing is wrong");
        assert_eq!(
            (
                values.number("alpha"),
                values.number("beta"),
                values.optional("iw")
            ),
            (1.0, 3.0, None)
        );
        let values = parse("iw=4,alpha=2.5").expect("nothing is wrong");
        assert_eq!(
            (
                values.number("alpha"),
                values.number("beta"),
                values.optional("iw")
            ),
            (2.5, 3.0, Some(4.0))
        );
    }

    #[test]
    fn every_mistake_gets_one_line_that_says_what_would_be_right() {
        let table = [
            (
                "alpa=1",
                "vegas has no parameter \"alpa\": use one of alpha, beta, iw, mood",
            ),
            (
                "",
                "vegas: \"\" is not key=value; write vegas:alpha=NUMBER,...",
            ),
            (
                "alpha",
                "vegas: \"alpha\" is not key=value; write vegas:alpha=NUMBER,...",
            ),
            (
                "alpha=1,",
                "vegas: \"\" is not key=value; write vegas:alpha=NUMBER,...",
            ),
            (
                "alpha=x",
                "vegas: alpha=x is not a number; use a number from 0.5 to 10",
            ),
            (
                "alpha=",
                "vegas: alpha= is not a number; use a number from 0.5 to 10",
            ),
            (
                "alpha=NaN",
                "vegas: alpha=NaN is not a number; use a number from 0.5 to 10",
            ),
            (
                "alpha=inf",
                "vegas: alpha=inf is not a number; use a number from 0.5 to 10",
            ),
            (
                "alpha=1=2",
                "vegas: alpha=1=2 is not a number; use a number from 0.5 to 10",
            ),
            (
                "alpha=0.4",
                "vegas: alpha=0.4 is not allowed; use a number from 0.5 to 10",
            ),
            (
                "alpha=-1",
                "vegas: alpha=-1 is not allowed; use a number from 0.5 to 10",
            ),
            (
                "alpha=1e9",
                "vegas: alpha=1e9 is not allowed; use a number from 0.5 to 10",
            ),
            (
                "iw=2.5",
                "vegas: iw=2.5 is not allowed; use a whole number from 2 to 100",
            ),
            (
                "iw=1",
                "vegas: iw=1 is not allowed; use a whole number from 2 to 100",
            ),
            (
                "mood=1",
                "vegas: mood=1 is not allowed; use one of bold, shy",
            ),
            (
                "alpha=1,alpha=1",
                "vegas: alpha is given twice; give it once",
            ),
            (
                "alpha=1\n2",
                "vegas: alpha=1\\n2 is not a number; use a number from 0.5 to 10",
            ),
        ];
        for (text, message) in table {
            let error = parse(text).expect_err(text);
            assert_eq!(error.to_string(), message, "for {text:?}");
        }
    }

    #[test]
    fn a_word_has_the_number_of_its_place() {
        for (text, number) in [("mood=bold", 0.0), ("mood=shy", 1.0), ("iw=2", 1.0)] {
            assert_eq!(parse(text).expect("right").number("mood"), number, "{text}");
        }
    }

    #[test]
    fn values_that_contradict_each_other_are_named() {
        let values = parse("alpha=5").expect("in range");
        let error = values.in_order("alpha", "beta").expect_err("5 > 3");
        assert_eq!(
            error.to_string(),
            "vegas: alpha=5 is above beta=3; make alpha the smaller"
        );
        assert_eq!(
            parse("alpha=3")
                .expect("in range")
                .in_order("alpha", "beta"),
            Ok(())
        );
    }

    #[test]
    fn parameters_that_do_not_go_together_are_named() {
        let values = parse("alpha=1,mood=shy").expect("right");
        assert!(values.is_given("alpha") && !values.is_given("beta"));
        assert!(!values.is_given("no such parameter"));
        assert_eq!(values.exclude("alpha", "beta"), Ok(()));
        assert_eq!(values.require("alpha", "mood"), Ok(()));
        assert_eq!(values.require("iw", "beta"), Ok(()));
        let both = values.exclude("alpha", "mood").expect_err("both are given");
        assert_eq!(
            both.to_string(),
            "vegas: alpha means nothing with mood; give one of them"
        );
        let alone = values.require("alpha", "iw").expect_err("iw is not given");
        assert_eq!(
            alone.to_string(),
            "vegas: alpha means nothing without iw; give both"
        );
    }

    #[test]
    fn a_long_word_is_not_repeated_at_length() {
        assert_eq!(echo(&"x".repeat(40)), "x".repeat(40));
        assert_eq!(echo(&"x".repeat(4000)), format!("{}...", "x".repeat(40)));
    }

    #[test]
    fn a_parameter_shows_its_default_meaning_and_range() {
        assert_eq!(
            PARAMETERS[0].to_string(),
            "alpha=1: packets (a number from 0.5 to 10)"
        );
        assert_eq!(
            PARAMETERS[2].to_string(),
            "iw: packets (a whole number from 2 to 100)"
        );
        assert_eq!(
            PARAMETERS[3].to_string(),
            "mood=shy: a word (one of bold, shy)"
        );
    }
}
