//! Reads rates, sizes and times, written the same on command lines and in TOML.
//!
//! A number may have a fraction, an exponent and underscores, as in TOML. A unit follows it:
//!
//! - rates, in bits per second: `5000000`, `5_000_000`, `5e6`, `5M`, `2.5 Mb/s`, `500kbps`;
//!   k, M, G and T are powers of 1000;
//! - sizes, in bytes: `500`, `1e6`, `20MB`, `1.5 GB`, `64KiB`; k, M, G and T are powers of 1000,
//!   Ki, Mi, Gi and Ti powers of 1024;
//! - times: `0.5s`, `250ms`, `50us`; a bare number has the unit of its option or key.
//!
//! Units may be in capitals, except the b of a rate, because B means bytes.
//! In TOML a quantity is a number or a string.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};

/// The most digits of a number: 10^26 T still fit into 128 bits.
const MAX_DIGITS: usize = 26;

/// The greatest exponent; its negative is the least.
const MAX_EXPONENT: i32 = 20;

/// Why a text is not a quantity. Displays as one line with the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a rate.
    #[error("'{0}' is no bitrate; write for example 3M or 500k")]
    Rate(String),
    /// Not a size.
    #[error("'{0}' is no size; write for example 20MB")]
    Size(String),
    /// A number whose unit is no unit of size.
    #[error("'{0}' is no unit of size; use kB, MB, GB, KiB, MiB or GiB")]
    SizeUnit(String),
    /// Not a time in seconds.
    #[error("'{0}' is no number of seconds; write for example 10, 0.5 or 250ms")]
    Seconds(String),
    /// Not a time in milliseconds.
    #[error("'{0}' is no number of milliseconds; write for example 10, 0.5 or 1s")]
    Milliseconds(String),
}

/// What a number counts, and the unit of a bare number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Something without units: text is no such number.
    None,
    /// Bits per second.
    BitsPerSecond,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// Reads a rate; returns bits per second, at most [`u64::MAX`].
///
/// # Errors
/// [`QuantityError::Rate`]
///
/// ```
/// use evenkeel_spec::quantity::rate;
///
/// for text in ["5M", "5_000_000", "5e6", "5 Mb/s", "5000kbps"] {
///     assert_eq!(rate(text), Ok(5_000_000));
/// }
/// ```
pub fn rate(text: &str) -> Result<u64, QuantityError> {
    let wrong = || QuantityError::Rate(text.to_owned());
    // A capital B could mean bytes.
    if text.contains('B') {
        return Err(wrong());
    }
    let (number, unit) = Decimal::split(text).ok_or_else(wrong)?;
    let prefix = ["b/s", "bps"]
        .iter()
        .find_map(|suffix| unit.strip_suffix(suffix))
        .unwrap_or(&unit);
    let factor = thousands(prefix).ok_or_else(wrong)?;
    number.times(factor).ok_or_else(wrong)
}

/// Reads a size; returns bytes, at most [`u64::MAX`].
///
/// # Errors
/// [`QuantityError::Size`], [`QuantityError::SizeUnit`]
///
/// ```
/// use evenkeel_spec::quantity::size;
///
/// assert_eq!((size("20MB"), size("64KiB")), (Ok(20_000_000), Ok(65_536)));
/// ```
pub fn size(text: &str) -> Result<u64, QuantityError> {
    let wrong = || QuantityError::Size(text.to_owned());
    let (number, unit) = Decimal::split(text).ok_or_else(wrong)?;
    let prefix = unit.strip_suffix('b').unwrap_or(&unit);
    let factor = match prefix {
        "ki" => Some(1 << 10),
        "mi" => Some(1 << 20),
        "gi" => Some(1 << 30),
        "ti" => Some(1 << 40),
        _ => thousands(prefix),
    };
    let factor = factor.ok_or(QuantityError::SizeUnit(unit))?;
    number.times(factor).ok_or_else(wrong)
}

/// Reads a time of at least 0; returns it in `unit`, seconds or milliseconds.
///
/// # Errors
/// [`QuantityError::Seconds`] or [`QuantityError::Milliseconds`], by the `unit`
///
/// ```
/// use evenkeel_spec::quantity::{Unit, time};
///
/// assert_eq!(time("250ms", Unit::Seconds), Ok(0.25));
/// assert_eq!(time("250", Unit::Milliseconds), Ok(250.0));
/// ```
pub fn time(text: &str, unit: Unit) -> Result<f64, QuantityError> {
    let wrong = || match unit {
        Unit::Milliseconds => QuantityError::Milliseconds(text.to_owned()),
        _ => QuantityError::Seconds(text.to_owned()),
    };
    let (number, suffix) = Decimal::split(text).ok_or_else(wrong)?;
    let number = number.to_f64();
    match (suffix.as_str(), unit) {
        ("", _) | ("s", Unit::Seconds) | ("ms", Unit::Milliseconds) => Ok(number),
        ("s", Unit::Milliseconds) => Ok(number * 1e3),
        ("ms", Unit::Seconds) | ("us", Unit::Milliseconds) => Ok(number / 1e3),
        ("us", Unit::Seconds) => Ok(number / 1e6),
        _ => Err(wrong()),
    }
}

/// A quantity or another number from a TOML file: a number, or text with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// A number without a fraction.
    Whole(i128),
    /// A number with a fraction or an exponent.
    Fraction(f64),
    /// Text.
    Text(String),
}

impl Quantity {
    /// Returns the number in `unit`, with or without a fraction.
    ///
    /// # Errors
    /// Says what it is instead, as the rest of a sentence that begins with its key.
    pub fn number(&self, unit: Unit) -> Result<f64, String> {
        match (self, unit) {
            (Self::Whole(number), _) => Ok(*number as f64),
            (Self::Fraction(number), _) => Ok(*number),
            (Self::Text(text), Unit::Seconds | Unit::Milliseconds) => {
                time(text, unit).map_err(|error| format!(": {error}"))
            }
            (Self::Text(_), Unit::None) => Err("is a string; it must be a number".to_owned()),
            (Self::Text(_), _) => self.whole(unit).map(|number| number as f64),
        }
    }

    /// Returns the number in `unit` if it is whole.
    ///
    /// # Errors
    /// As [`Quantity::number`].
    pub fn whole(&self, unit: Unit) -> Result<i128, String> {
        let text = match self {
            Self::Whole(number) => return Ok(*number),
            // Beyond 2^53 it is near enough to be found out of range.
            Self::Fraction(number) if number.fract() == 0.0 => return Ok(*number as i128),
            Self::Fraction(number) if number.is_finite() => {
                return Err("is a number with a fraction; it must be a whole number".to_owned());
            }
            Self::Fraction(_) => {
                return Err("is no finite number; it must be a whole number".to_owned());
            }
            Self::Text(text) => text,
        };
        let number = match unit {
            Unit::BitsPerSecond => rate(text),
            Unit::Bytes => size(text),
            Unit::Seconds | Unit::Milliseconds => {
                return Self::Fraction(self.number(unit)?).whole(unit);
            }
            Unit::None => return Err("is a string; it must be a whole number".to_owned()),
        };
        number.map(i128::from).map_err(|error| format!(": {error}"))
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::Whole(number.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity::Whole(number.into()))
            }

            fn visit_i128<E>(self, number: i128) -> Result<Quantity, E> {
                Ok(Quantity::Whole(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity::Fraction(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::Text(text.to_owned()))
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

/// Returns the factor that k, m, g or t means; 1 without one.
fn thousands(prefix: &str) -> Option<u128> {
    let power = ["", "k", "m", "g", "t"]
        .iter()
        .position(|known| *known == prefix)?;
    Some(1000u128.pow(u32::try_from(power).expect("at most four")))
}

/// digits x 10^exponent
#[derive(Debug, Clone, Copy)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    /// Splits a text into a number and its unit in small letters.
    fn split(text: &str) -> Option<(Self, String)> {
        let text = text.trim();
        let (whole, rest) = take_digits(text)?;
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => take_digits(rest)?,
            None => (String::new(), rest),
        };
        let (exponent, rest) = match rest.strip_prefix(['e', 'E']) {
            Some(rest) => {
                let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
                let (exponent, unit) = take_digits(unsigned)?;
                let exponent: i32 = exponent.parse().ok()?;
                let negative = rest.starts_with('-');
                (if negative { -exponent } else { exponent }, unit)
            }
            None => (0, rest),
        };
        let digits = format!("{whole}{fraction}");
        if digits.len() > MAX_DIGITS || !(-MAX_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
            return None;
        }
        let number = Self {
            digits: digits.parse().ok()?,
            exponent: exponent - i32::try_from(fraction.len()).ok()?,
        };
        Some((number, rest.trim().to_ascii_lowercase()))
    }

    /// Multiplies, and cuts off to a whole number. Without a unit (a factor of 1) it must be whole.
    fn times(self, factor: u128) -> Option<u64> {
        // The digits are below 10^26, the factor is at most 2^40.
        let product = self.digits * factor;
        let scale = 10u128.checked_pow(self.exponent.unsigned_abs());
        let value = if self.exponent >= 0 {
            scale.map_or(u128::MAX, |scale| product.saturating_mul(scale))
        } else {
            let (value, rest) = scale.map_or((0, product), |s| (product / s, product % s));
            if factor == 1 && rest > 0 {
                return None;
            }
            value
        };
        Some(u64::try_from(value).unwrap_or(u64::MAX))
    }

    fn to_f64(self) -> f64 {
        let text = format!("{}e{}", self.digits, self.exponent);
        text.parse().expect("digits and an exponent are a number")
    }
}

/// Takes the digits at the beginning, at least one, with underscores between digits.
fn take_digits(text: &str) -> Option<(String, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let groups = digits.split('_');
    if groups.clone().any(str::is_empty) {
        return None;
    }
    Some((groups.collect(), rest))
}

#[cfg(test)]
mod tests;
