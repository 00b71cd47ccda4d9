//! Checks the values of keys: numbers in a range, names, words.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};

use super::tree::Located;
use crate::quantity::{Quantity, Unit};

/// The longest name in characters, unless a key says otherwise.
pub const NAME_LENGTH: usize = 64;

/// Defines what keys may hold, as functions for serde's `deserialize_with`. Each line has a name,
/// the type, and [`number`](crate::document::number), [`positive`](crate::document::positive),
/// [`whole`](crate::document::whole) or [`name`](crate::document::name) with their arguments. A
/// field may have this type, or an `Option`, a [`Located`], or an `Option<Located>` of it.
///
/// ```
/// use evenkeel_spec::document::{Located, parse, read};
/// use evenkeel_spec::{keys, quantity::Unit};
///
/// keys! {
///     /// The share of packets that are lost.
///     loss: f64 = number(Unit::None, 0.0..=1.0);
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Link {
///     #[serde(deserialize_with = "loss")]
///     loss: Located<f64>,
/// }
///
/// let link: Link = read(&parse("loss = 0.1").unwrap()).unwrap();
/// assert_eq!((link.loss.value, link.loss.origin.line()), (0.1, 1));
/// let fault = read::<Link>(&parse("loss = 2").unwrap()).err().unwrap();
/// assert_eq!(fault.message, "loss = 2 is out of range; use 0 to 1");
/// ```
#[macro_export]
macro_rules! keys {
    ($($(#[$about:meta])* $visible:vis $key:ident: $kind:ty = $read:ident($($argument:expr),+);)+) => {$(
        $(#[$about])*
        ///
        /// # Errors
        /// If it is no such value or out of range.
        $visible fn $key<'de, D, T>(deserializer: D) -> Result<T, D::Error>
        where
            D: ::serde::Deserializer<'de>,
            T: From<$crate::document::Located<$kind>>,
        {
            $crate::document::$read(deserializer, $($argument),+).map(T::from)
        }
    )+};
}

/// Reads a number, with or without a fraction, in `unit`.
///
/// # Errors
/// If it is no number or out of range.
pub fn number<'de, D: Deserializer<'de>>(
    deserializer: D,
    unit: Unit,
    range: RangeInclusive<f64>,
) -> Result<Located<f64>, D::Error> {
    let quantity: Located<Quantity> = Located::deserialize(deserializer)?;
    let number = quantity.value.number(unit).map_err(D::Error::custom)?;
    Ok(Located {
        value: within(number, &range)?,
        origin: quantity.origin,
    })
}

/// Reads a number above 0 and at most `most`, in `unit`.
///
/// # Errors
/// If it is no number or out of range.
pub fn positive<'de, D: Deserializer<'de>>(
    deserializer: D,
    unit: Unit,
    most: f64,
) -> Result<Located<f64>, D::Error> {
    let number = number(deserializer, unit, 0.0..=most)?;
    if number.value <= 0.0 {
        return Err(D::Error::custom("must be above 0"));
    }
    Ok(number)
}

/// Reads a whole number in `unit`; `2e6` is one.
///
/// # Errors
/// If it is not whole or out of range.
pub fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
    unit: Unit,
    range: RangeInclusive<u64>,
) -> Result<Located<T>, D::Error> {
    let quantity: Located<Quantity> = Located::deserialize(deserializer)?;
    let number = quantity.value.whole(unit).map_err(D::Error::custom)?;
    let range = i128::from(*range.start())..=i128::from(*range.end());
    let number = u64::try_from(within(number, &range)?).map(T::try_from);
    let Ok(Ok(value)) = number else {
        panic!("the range is wider than its type");
    };
    Ok(Located {
        value,
        origin: quantity.origin,
    })
}

/// Reads a name: letters, digits, and inside also `-`, `_` and `.`, so that it suits file names;
/// `longest` is in characters.
///
/// # Errors
/// If it is not a name.
pub fn name<'de, D: Deserializer<'de>>(
    deserializer: D,
    longest: usize,
) -> Result<Located<String>, D::Error> {
    let name: Located<String> = Located::deserialize(deserializer)?;
    let text = &name.value;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && text.chars().all(allowed) && text.len() <= longest {
        return Ok(name);
    }
    Err(D::Error::custom(format!(
        "= {:?} is no name; use up to {longest} of A-Z a-z 0-9 - _ . and begin with a letter or digit",
        shortened(text)
    )))
}

/// Reads a string, and parses it.
///
/// # Errors
/// If it is no string, or cannot be parsed.
pub fn parsed<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|error| D::Error::custom(format!(": {error}")))
}

/// Returns the beginning of a text that may be long.
pub fn shortened(text: &str) -> String {
    const LENGTH: usize = 80;
    match text.char_indices().nth(LENGTH) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

fn within<T: PartialOrd + Display, E: Error>(number: T, range: &RangeInclusive<T>) -> Result<T, E> {
    // No range contains NaN.
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    let message = format!("= {number} is out of range; use {least} to {most}");
    Err(E::custom(message))
}

/// Lets a field do without the origin.
macro_rules! without_origin {
    ($($kind:ty),+) => {$(
        impl From<Located<$kind>> for $kind {
            fn from(located: Located<$kind>) -> Self {
                located.value
            }
        }

        impl From<Located<$kind>> for Option<$kind> {
            fn from(located: Located<$kind>) -> Self {
                Some(located.value)
            }
        }
    )+};
}

without_origin!(f64, u16, u32, u64, String);
