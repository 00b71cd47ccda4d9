//! Holds the values that a spec sets.

use crate::error::SpecError;
use crate::parameter::{ParameterKind, SpecParameter};
use crate::words::{choose, echo};

/// The values of all parameters of one row, given or default.
///
/// A row reads each parameter by its name, as the kind that its table lists.
///
/// # Panics
/// The getters panic if the row does not list the parameter, or lists it as another kind. Getters
/// of required values also panic without a given or default value. Both are mistakes in the row,
/// which a test that builds each row finds: user input cannot cause them.
#[derive(Debug, Clone)]
pub struct SpecValues {
    row: &'static str,
    values: Vec<(&'static SpecParameter, Option<Value>)>,
}

#[derive(Debug, Clone, Copy)]
enum Value {
    Number(f64),
    Count(u64),
    /// The index of the word.
    Choice(usize),
    Flag(bool),
}

impl SpecValues {
    /// Reads the text after the colon of a spec; without one, every value is the default.
    ///
    /// # Errors
    /// [`SpecError`], if the text is not a list of `key=value` with keys and values that
    /// `parameters` allow.
    pub fn parse(
        row: &'static str,
        parameters: &'static [SpecParameter],
        text: Option<&str>,
    ) -> Result<Self, SpecError> {
        let mut values: Vec<_> = parameters.iter().map(|known| (known, None)).collect();
        for part in text.iter().flat_map(|text| text.split(',')) {
            let Some(first) = parameters.first() else {
                return Err(SpecError::new(format!(
                    "{row} takes no parameters: write \"{row}\" alone"
                )));
            };
            let (name, text) = part.split_once('=').ok_or_else(|| {
                let example = format!("{}={}", first.name, first.kind.placeholder());
                let part = echo(part);
                let remedy = format!("write {row}:{example},...");
                SpecError::new(format!("{row}: \"{part}\" is not key=value; {remedy}"))
            })?;
            let (parameter, value) = values
                .iter_mut()
                .find(|(parameter, _)| parameter.name == name)
                .ok_or_else(|| {
                    let remedy = choose(name, parameters.iter().map(|parameter| parameter.name));
                    let name = echo(name);
                    SpecError::new(format!("{row} has no parameter \"{name}\": {remedy}"))
                })?;
            let parameter = *parameter;
            if value.is_some() {
                return Err(SpecError::new(format!(
                    "{row}: {name} is given twice; give it once"
                )));
            }
            *value = Some(read(row, parameter, text)?);
        }
        Ok(Self { row, values })
    }

    /// Returns the name of the row: what builds several rows asks for it.
    pub fn row(&self) -> &'static str {
        self.row
    }

    /// Returns a number.
    pub fn number(&self, name: &str) -> f64 {
        expect_default(self.optional_number(name))
    }

    /// Returns a number, if given or if it has a default.
    pub fn optional_number(&self, name: &str) -> Option<f64> {
        match self.find(name) {
            (ParameterKind::Number { default, .. }, None) => default,
            (_, Some(Value::Number(number))) => Some(number),
            _ => wrong_kind(name),
        }
    }

    /// Returns a whole number, in any type that holds its range.
    pub fn count<T: TryFrom<u64>>(&self, name: &str) -> T {
        expect_default(self.optional_count(name))
    }

    /// Returns a whole number, if given or if it has a default, in any type that holds its range.
    pub fn optional_count<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let count = match self.find(name) {
            (ParameterKind::Count { default, .. }, None) => default?,
            (_, Some(Value::Count(count))) => count,
            _ => wrong_kind(name),
        };
        match T::try_from(count) {
            Ok(count) => Some(count),
            Err(_) => panic!("{name}: the type does not hold the range"),
        }
    }

    /// Returns a word.
    pub fn word(&self, name: &str) -> &'static str {
        let (words, index) = self.choose(name);
        words[expect_default(index)]
    }

    /// Returns the element of `values` at the position of the word in its list.
    pub fn choice<T: Copy>(&self, name: &str, values: &[T]) -> T {
        expect_default(self.optional_choice(name, values))
    }

    /// As [`SpecValues::choice`], if the word is given or has a default.
    pub fn optional_choice<T: Copy>(&self, name: &str, values: &[T]) -> Option<T> {
        let (words, index) = self.choose(name);
        assert_eq!(words.len(), values.len(), "{name}: one value for each word");
        index.map(|index| values[index])
    }

    /// Returns a flag.
    pub fn flag(&self, name: &str) -> bool {
        match self.find(name) {
            (ParameterKind::Flag { default }, None) => default,
            (_, Some(Value::Flag(flag))) => flag,
            _ => wrong_kind(name),
        }
    }

    /// Returns true if the row has this parameter and the user gave it.
    pub fn is_given(&self, name: &str) -> bool {
        self.values
            .iter()
            .any(|(parameter, value)| parameter.name == name && value.is_some())
    }

    /// Checks that `parameter` and `other` are not both given.
    ///
    /// # Errors
    /// If they are.
    pub fn exclude(&self, parameter: &'static str, other: &'static str) -> Result<(), SpecError> {
        if !(self.is_given(parameter) && self.is_given(other)) {
            return Ok(());
        }
        Err(self.refusal(&format!(
            "{parameter} means nothing with {other}; give one of them"
        )))
    }

    /// Checks that `other` is given if `parameter` is.
    ///
    /// # Errors
    /// If it is not.
    pub fn require(&self, parameter: &'static str, other: &'static str) -> Result<(), SpecError> {
        if !self.is_given(parameter) || self.is_given(other) {
            return Ok(());
        }
        Err(self.refusal(&format!(
            "{parameter} means nothing without {other}; give both"
        )))
    }

    /// Checks that the number `lower` is not above the number `upper`.
    ///
    /// # Errors
    /// If `lower` is above `upper`.
    pub fn in_order(&self, lower: &'static str, upper: &'static str) -> Result<(), SpecError> {
        let (lower, upper) = ((lower, self.number(lower)), (upper, self.number(upper)));
        self.check_order(lower.1 <= upper.1, lower, "above", upper)
    }

    /// Checks that a number is below another; the error names both. Takes numbers, which may also
    /// be computed from other parameters.
    ///
    /// # Errors
    /// If `lower` is not below `upper`.
    pub fn below(
        &self,
        lower: (&'static str, f64),
        upper: (&'static str, f64),
    ) -> Result<(), SpecError> {
        self.check_order(lower.1 < upper.1, lower, "not below", upper)
    }

    /// Makes an error of the row's own; `message` states the cause and the remedy.
    pub fn refusal(&self, message: &str) -> SpecError {
        SpecError::new(format!("{}: {message}", self.row))
    }

    fn check_order(
        &self,
        ordered: bool,
        (lower, lower_value): (&'static str, f64),
        relation: &'static str,
        (upper, upper_value): (&'static str, f64),
    ) -> Result<(), SpecError> {
        if ordered {
            return Ok(());
        }
        Err(self.refusal(&format!(
            "{lower}={lower_value} is {relation} {upper}={upper_value}; make {lower} the smaller"
        )))
    }

    /// Returns the words of a choice, and the index of the one given or default.
    fn choose(&self, name: &str) -> (&'static [&'static str], Option<usize>) {
        let (ParameterKind::Choice { words, default }, value) = self.find(name) else {
            wrong_kind(name);
        };
        let default = default.map(|default| {
            let index = words.iter().position(|word| *word == default);
            index.expect("the default is one of the words")
        });
        match value {
            Some(Value::Choice(index)) => (words, Some(index)),
            _ => (words, default),
        }
    }

    fn find(&self, name: &str) -> (ParameterKind, Option<Value>) {
        let (parameter, value) = self
            .values
            .iter()
            .find(|(parameter, _)| parameter.name == name)
            .unwrap_or_else(|| panic!("{} does not list the parameter {name}", self.row));
        (parameter.kind, *value)
    }
}

fn expect_default<T>(value: Option<T>) -> T {
    value.expect("a parameter that a row requires has a default")
}

fn wrong_kind(name: &str) -> ! {
    panic!("{name} is listed as another kind of parameter")
}

fn read(
    row: &'static str,
    parameter: &'static SpecParameter,
    text: &str,
) -> Result<Value, SpecError> {
    let refused = |why: &str| {
        let (name, value, expected) = (parameter.name, echo(text), parameter.kind);
        SpecError::new(format!("{row}: {name}={value} {why}; use {expected}"))
    };
    let number = || {
        let number: Option<f64> = text.parse().ok();
        number
            .filter(|number| number.is_finite())
            .ok_or_else(|| refused("is not a number"))
    };
    let value = match parameter.kind {
        ParameterKind::Number { least, most, .. } => Some(number()?)
            .filter(|number| (least..=most).contains(number))
            .map(Value::Number),
        ParameterKind::Count { least, most, .. } => match text.parse::<u64>() {
            Ok(count) => Some(count),
            // `1e3` and `4.0` are whole too; above 2^53 a float may stand for its neighbour.
            Err(_) => Some(number()?)
                .filter(|number| number.fract() == 0.0 && (0.0..=2f64.powi(53)).contains(number))
                .map(|number| number as u64),
        }
        .filter(|count| (least..=most).contains(count))
        .map(Value::Count),
        ParameterKind::Choice { words, .. } => words
            .iter()
            .position(|word| *word == text)
            .map(Value::Choice),
        ParameterKind::Flag { .. } => text.parse().ok().map(Value::Flag),
    };
    value.ok_or_else(|| refused("is not allowed"))
}

#[cfg(test)]
mod tests;
