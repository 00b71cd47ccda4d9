//! Parameters of a discipline, from text: `name:key=value,key=value`.
//!
//! The grammar is that of congestion controllers. The text comes from scenarios and router
//! configurations and is checked completely here: disciplines are built from values in range.

use std::fmt;

/// Characters of a user's word that an error message repeats.
const ECHOED: usize = 40;

/// One parameter of a discipline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// The key, as in `key=value`.
    pub name: &'static str,
    /// What it means, with its unit.
    pub meaning: &'static str,
    /// Which values it takes, and what it is without being given.
    pub kind: ParameterKind,
}

/// Values that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterKind {
    /// A number.
    Number {
        /// The least.
        least: f64,
        /// The greatest.
        most: f64,
        /// The value without being given; `None` if the meaning says so.
        default: Option<f64>,
    },
    /// `true`, or `false` without being given.
    Switch,
}

impl fmt::Display for Parameter {
    /// `max_p=0.1: meaning (a number from 0 to 1)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match self.kind {
            ParameterKind::Number { default, .. } => {
                if let Some(default) = default {
                    write!(f, "={default}")?;
                }
            }
            ParameterKind::Switch => f.write_str("=false")?,
        }
        write!(f, ": {} ({})", self.meaning, self.kind)
    }
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { least, most, .. } => write!(f, "a number from {least} to {most}"),
            Self::Switch => f.write_str("true or false"),
        }
    }
}

/// Why a text names no discipline that fits the port. Each message is one line with the cause and
/// the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DisciplineError {
    /// No discipline has this name.
    #[error("unknown discipline \"{name}\"; choose one of: {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The discipline has parameters, but none of this name.
    #[error("{discipline} has no parameter \"{parameter}\"; use one of {known}")]
    UnknownParameter {
        /// The discipline's name.
        discipline: &'static str,
        /// The name given.
        parameter: String,
        /// The names there are.
        known: String,
    },
    /// The discipline has no parameters at all.
    #[error("{discipline} takes no parameters; write \"{discipline}\" alone")]
    NoParameters {
        /// The discipline's name.
        discipline: &'static str,
    },
    /// Something after the colon is not `key=value`.
    #[error("{discipline}: \"{text}\" is not key=value; write {discipline}:{example}=VALUE,...")]
    NotKeyValue {
        /// The discipline's name.
        discipline: &'static str,
        /// The part given.
        text: String,
        /// A parameter the discipline has.
        example: &'static str,
    },
    /// A parameter is given more than once.
    #[error("{discipline}: {parameter} is given twice; give it once")]
    Duplicate {
        /// The discipline's name.
        discipline: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
    /// A value is of the wrong kind or out of its range.
    #[error("{discipline}: {parameter}={value} is not allowed; use {expected}")]
    NotAllowed {
        /// The discipline's name.
        discipline: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// Two values contradict each other.
    #[error(
        "{discipline}: {lower}={lower_value} is not below {upper}={upper_value}; make {lower} the smaller"
    )]
    Order {
        /// The discipline's name.
        discipline: &'static str,
        /// The parameter that must be the smaller.
        lower: &'static str,
        /// Its value.
        lower_value: f64,
        /// The parameter that must be the larger.
        upper: &'static str,
        /// Its value.
        upper_value: f64,
    },
    /// The port has no limit to derive a default from.
    #[error(
        "{discipline}: {parameter} is a share of the limit in packets, and this queue has none; \
         give {parameter}, or a limit of one packet or more"
    )]
    NeedsPacketLimit {
        /// The discipline's name.
        discipline: &'static str,
        /// The parameter's name.
        parameter: &'static str,
    },
}

/// Values for all parameters of one discipline, given or by default.
#[derive(Debug)]
pub(crate) struct Values {
    discipline: &'static str,
    values: Vec<(&'static Parameter, Option<Value>)>,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Number(f64),
    Switch(bool),
}

impl Values {
    /// Reads `text`, what follows the colon, if there is one.
    pub(crate) fn parse(
        discipline: &'static str,
        parameters: &'static [Parameter],
        text: Option<&str>,
    ) -> Result<Self, DisciplineError> {
        let mut values: Vec<_> = parameters.iter().map(|known| (known, None)).collect();
        for part in text.iter().flat_map(|text| text.split(',')) {
            let Some(first) = parameters.first() else {
                return Err(DisciplineError::NoParameters { discipline });
            };
            let (name, text) =
                part.split_once('=')
                    .ok_or_else(|| DisciplineError::NotKeyValue {
                        discipline,
                        text: echo(part),
                        example: first.name,
                    })?;
            let (parameter, value) = values
                .iter_mut()
                .find(|(parameter, _)| parameter.name == name)
                .ok_or_else(|| DisciplineError::UnknownParameter {
                    discipline,
                    parameter: echo(name),
                    known: list(parameters.iter().map(|parameter| parameter.name)),
                })?;
            if value.is_some() {
                return Err(DisciplineError::Duplicate {
                    discipline,
                    parameter: parameter.name,
                });
            }
            let read = read(parameter.kind, text).ok_or_else(|| DisciplineError::NotAllowed {
                discipline,
                parameter: parameter.name,
                value: echo(text),
                expected: parameter.kind.to_string(),
            })?;
            *value = Some(read);
        }
        Ok(Self { discipline, values })
    }

    /// The value of a number that has a default.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.optional(name)
            .expect("a number that is read unconditionally has a default in its row")
    }

    /// The value of a number, `None` if it was not given and has no default.
    pub(crate) fn optional(&self, name: &str) -> Option<f64> {
        match self.find(name) {
            (ParameterKind::Number { .. }, Some(Value::Number(value))) => Some(value),
            (ParameterKind::Number { default, .. }, None) => default,
            _ => unreachable!("a row reads each parameter as the kind that it lists"),
        }
    }

    /// The value of a switch.
    pub(crate) fn switch(&self, name: &str) -> bool {
        match self.find(name) {
            (ParameterKind::Switch, Some(Value::Switch(value))) => value,
            (ParameterKind::Switch, None) => false,
            _ => unreachable!("a row reads each parameter as the kind that it lists"),
        }
    }

    /// The value of a number; if it was not given, the `share` of `limit`.
    pub(crate) fn number_or_share(
        &self,
        parameter: &'static str,
        share: f64,
        limit: Option<u64>,
    ) -> Result<f64, DisciplineError> {
        let default = || {
            let packets = limit.filter(|packets| *packets > 0)?;
            Some(packets as f64 * share)
        };
        self.optional(parameter)
            .or_else(default)
            .ok_or(DisciplineError::NeedsPacketLimit {
                discipline: self.discipline,
                parameter,
            })
    }

    /// That the `lower` of two values is contradicted by the `upper`.
    pub(crate) fn out_of_order(
        &self,
        (lower, lower_value): (&'static str, f64),
        (upper, upper_value): (&'static str, f64),
    ) -> DisciplineError {
        DisciplineError::Order {
            discipline: self.discipline,
            lower,
            lower_value,
            upper,
            upper_value,
        }
    }

    fn find(&self, name: &str) -> (ParameterKind, Option<Value>) {
        let (parameter, value) = self
            .values
            .iter()
            .find(|(parameter, _)| parameter.name == name)
            .expect("a row builds from parameters that it lists");
        (parameter.kind, *value)
    }
}

/// The names as a person would list them.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// What a user wrote, fit for one line of a message.
pub(crate) fn echo(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters
        .by_ref()
        .take(ECHOED)
        .flat_map(char::escape_debug)
        .collect();
    if characters.next().is_some() {
        short += "...";
    }
    short
}

fn read(kind: ParameterKind, text: &str) -> Option<Value> {
    match kind {
        ParameterKind::Number { least, most, .. } => {
            // No range contains NaN or an infinity.
            let value: f64 = text.parse().ok()?;
            (least..=most)
                .contains(&value)
                .then_some(Value::Number(value))
        }
        ParameterKind::Switch => text.parse().ok().map(Value::Switch),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PARAMETERS: [Parameter; 3] = [
        Parameter {
            name: "min",
            meaning: "packets",
            kind: ParameterKind::Number {
                least: 0.0,
                most: 10.0,
                default: None,
            },
        },
        Parameter {
            name: "w",
            meaning: "weight",
            kind: ParameterKind::Number {
                least: 0.5,
                most: 1.0,
                default: Some(0.75),
            },
        },
        Parameter {
            name: "ecn",
            meaning: "marks",
            kind: ParameterKind::Switch,
        },
    ];

    fn parse(text: Option<&str>) -> Result<Values, DisciplineError> {
        Values::parse("red", &PARAMETERS, text)
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let values = parse(None).unwrap();
        assert_eq!(
            (
                values.optional("min"),
                values.number("w"),
                values.switch("ecn")
            ),
            (None, 0.75, false)
        );
        assert_eq!(values.number_or_share("min", 0.25, Some(20)), Ok(5.0));
        let values = parse(Some("ecn=true,min=2.5")).unwrap();
        assert_eq!(
            (
                values.optional("min"),
                values.number("w"),
                values.switch("ecn")
            ),
            (Some(2.5), 0.75, true)
        );
        assert_eq!(values.number_or_share("min", 0.25, None), Ok(2.5));
    }

    #[test]
    fn every_mistake_gets_one_line_that_says_what_would_be_right() {
        let number = "use a number from 0.5 to 1";
        let table = [
            (
                "mni=1",
                "red has no parameter \"mni\"; use one of min, w, ecn".to_owned(),
            ),
            (
                "",
                "red: \"\" is not key=value; write red:min=VALUE,...".to_owned(),
            ),
            (
                "ecn",
                "red: \"ecn\" is not key=value; write red:min=VALUE,...".to_owned(),
            ),
            (
                "w=1,",
                "red: \"\" is not key=value; write red:min=VALUE,...".to_owned(),
            ),
            ("w=x", format!("red: w=x is not allowed; {number}")),
            ("w=", format!("red: w= is not allowed; {number}")),
            ("w=NaN", format!("red: w=NaN is not allowed; {number}")),
            ("w=inf", format!("red: w=inf is not allowed; {number}")),
            ("w=1=1", format!("red: w=1=1 is not allowed; {number}")),
            ("w=0.4", format!("red: w=0.4 is not allowed; {number}")),
            ("w=1\n2", format!("red: w=1\\n2 is not allowed; {number}")),
            (
                "ecn=1",
                "red: ecn=1 is not allowed; use true or false".to_owned(),
            ),
            (
                "ecn=true,ecn=true",
                "red: ecn is given twice; give it once".to_owned(),
            ),
        ];
        for (text, message) in table {
            assert_eq!(parse(Some(text)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_long_word_is_repeated_in_part() {
        let error = parse(Some(&format!("{}=1", "x".repeat(1000)))).unwrap_err();
        assert!(error.to_string().len() < 120, "{error}");
    }

    #[test]
    fn parameters_are_listed_with_default_and_range() {
        let listed = PARAMETERS.map(|parameter| parameter.to_string());
        assert_eq!(
            listed,
            [
                "min: packets (a number from 0 to 10)",
                "w=0.75: weight (a number from 0.5 to 1)",
                "ecn=false: marks (true or false)",
            ]
        );
    }
}
