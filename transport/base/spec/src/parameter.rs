//! Describes a row's parameters and the values they take.

use std::fmt;

use crate::words::list;

/// One parameter: its key, what it means and which values it takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpecParameter {
    /// The key, as in `key=value`.
    pub name: &'static str,
    /// What it means, with its unit; without a default, also what happens if it is absent.
    pub meaning: &'static str,
    /// Which values it takes, and its default.
    pub kind: ParameterKind,
}

/// The values that a parameter takes. Ranges include both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterKind {
    /// A finite number.
    Number {
        /// The least.
        least: f64,
        /// The greatest.
        most: f64,
        /// The default; `None` if the meaning describes it.
        default: Option<f64>,
    },
    /// A whole number.
    Count {
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
        /// The default; `None` if the meaning describes it.
        default: Option<u64>,
    },
    /// One of several words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// The default; `None` if the meaning describes it.
        default: Option<&'static str>,
    },
    /// `true` or `false`.
    Flag {
        /// The default.
        default: bool,
    },
}

impl SpecParameter {
    /// A parameter that takes a number from `least` to `most`.
    pub const fn number(
        name: &'static str,
        meaning: &'static str,
        least: f64,
        most: f64,
        default: Option<f64>,
    ) -> Self {
        Self {
            name,
            meaning,
            kind: ParameterKind::Number {
                least,
                most,
                default,
            },
        }
    }

    /// A parameter that takes a whole number from `least` to `most`.
    pub const fn count(
        name: &'static str,
        meaning: &'static str,
        least: u64,
        most: u64,
        default: Option<u64>,
    ) -> Self {
        Self {
            name,
            meaning,
            kind: ParameterKind::Count {
                least,
                most,
                default,
            },
        }
    }

    /// A parameter that takes one of several words.
    pub const fn choice(
        name: &'static str,
        meaning: &'static str,
        words: &'static [&'static str],
        default: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            meaning,
            kind: ParameterKind::Choice { words, default },
        }
    }

    /// A parameter that takes `true` or `false`.
    pub const fn flag(name: &'static str, meaning: &'static str, default: bool) -> Self {
        Self {
            name,
            meaning,
            kind: ParameterKind::Flag { default },
        }
    }

    /// Returns the default as a user would write it; `None` if there is none.
    pub fn default_text(&self) -> Option<String> {
        match self.kind {
            ParameterKind::Number { default, .. } => default.map(|number| number.to_string()),
            ParameterKind::Count { default, .. } => default.map(|count| count.to_string()),
            ParameterKind::Choice { default, .. } => default.map(str::to_owned),
            ParameterKind::Flag { default } => Some(default.to_string()),
        }
    }
}

impl fmt::Display for SpecParameter {
    /// `alpha=1: meaning (a number from 0 to 100)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if let Some(default) = self.default_text() {
            write!(f, "={default}")?;
        }
        write!(f, ": {} ({})", self.meaning, self.kind)
    }
}

impl ParameterKind {
    /// Returns texts at the limits of the allowed values: both ends of a range, or every word.
    pub fn extremes(&self) -> Vec<String> {
        match self {
            Self::Number { least, most, .. } => vec![least.to_string(), most.to_string()],
            Self::Count { least, most, .. } => vec![least.to_string(), most.to_string()],
            Self::Choice { words, .. } => words.iter().map(ToString::to_string).collect(),
            Self::Flag { .. } => vec!["false".to_owned(), "true".to_owned()],
        }
    }

    /// Returns a placeholder for a value in the example of a message.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Self::Number { .. } | Self::Count { .. } => "NUMBER",
            Self::Choice { .. } => "WORD",
            Self::Flag { .. } => "true",
        }
    }
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { least, most, .. } => write!(f, "a number from {least} to {most}"),
            Self::Count { least, most, .. } => write!(f, "a whole number from {least} to {most}"),
            Self::Choice { words, .. } => write!(f, "one of {}", list(words.iter().copied())),
            Self::Flag { .. } => f.write_str("true or false"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_shows_its_default_meaning_and_range() {
        const WORDS: &[&str] = &["bold", "shy"];
        for (parameter, shown) in [
            (
                SpecParameter::number("alpha", "packets", 0.5, 10.0, Some(1.0)),
                "alpha=1: packets (a number from 0.5 to 10)",
            ),
            (
                SpecParameter::count("iw", "packets", 2, 100, None),
                "iw: packets (a whole number from 2 to 100)",
            ),
            (
                SpecParameter::choice("mood", "a word", WORDS, Some("shy")),
                "mood=shy: a word (one of bold, shy)",
            ),
            (
                SpecParameter::flag("ecn", "marks", false),
                "ecn=false: marks (true or false)",
            ),
        ] {
            assert_eq!(parameter.to_string(), shown);
        }
    }
}
