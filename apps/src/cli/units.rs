//! Sizes, times and rates as people write and read them.

use std::time::Duration;

use evenkeel_spec::quantity::{self, Unit};

use crate::bulk::MAX_BYTES;

/// The longest time of an option, a day: the longest transfer of the protocol.
const MAX_SECONDS: f64 = 86_400.0;

/// Reads the bytes of a transfer.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity::size(text).map_err(|error| error.to_string())?;
    if bytes > MAX_BYTES {
        return Err(format!(
            "'{text}' is more than one transfer can carry, 2^60 bytes"
        ));
    }
    Ok(bytes)
}

/// Reads a time of at most a day.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    within(0.0, MAX_SECONDS)(text)
}

/// Reads a time above 0 of at most a day.
pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    if time.is_zero() {
        return Err("it must be above 0 seconds".into());
    }
    Ok(time)
}

/// A reader of times from `least` to `most` seconds.
pub(crate) fn within(
    least: f64,
    most: f64,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let seconds = quantity::time(text, Unit::Seconds).map_err(|error| error.to_string())?;
        if !(least..=most).contains(&seconds) {
            return Err(format!(
                "'{text}' is not between {least} and {most} seconds"
            ));
        }
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// Bits per second with three digits: `93.9 Mb/s`.
pub(crate) fn show_rate(bits_per_second: f64) -> String {
    let (value, prefix) = scale(bits_per_second);
    format!("{value} {prefix}b/s")
}

/// As [`show_rate`], or a dash without a rate.
pub(crate) fn show_some_rate(bits_per_second: Option<f64>) -> String {
    bits_per_second.map_or("-".into(), show_rate)
}

/// Bytes with three digits: `20.0 MB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (value, prefix) = scale(bytes as f64);
    format!("{value} {prefix}B")
}

/// Start and end of an interval, of the same width for a day.
pub(crate) fn show_span(start_s: f64, end_s: f64) -> String {
    format!("{start_s:>8.2} to {end_s:>8.2} s")
}

/// Three significant digits and a decimal prefix.
fn scale(value: f64) -> (String, &'static str) {
    let prefixes = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = value;
    let mut prefix = 0;
    // 999.5 would be shown as 1000.
    while value.abs() >= 999.5 && prefix + 1 < prefixes.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    (format!("{value:.digits$}"), prefixes[prefix])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_size_or_an_error(text in "\\PC{0,30}|[0-9.]{0,25} ?[kKmMgGtT]?i?[bB]?") {
            if let Ok(bytes) = size(&text) {
                prop_assert!(bytes <= MAX_BYTES);
            }
        }

        #[test]
        fn any_text_is_a_time_or_an_error(text in "\\PC{0,30}|-?[0-9]{1,400}(e[0-9]{1,4})?s?") {
            if let Ok(time) = seconds(&text) {
                prop_assert!(time <= Duration::from_secs_f64(MAX_SECONDS));
            }
        }

        #[test]
        fn whole_bytes_read_as_themselves(bytes in 0..=MAX_BYTES) {
            prop_assert_eq!(size(&bytes.to_string()), Ok(bytes));
        }
    }

    #[test]
    fn sizes_have_the_units_and_bounds_of_a_transfer() {
        for (text, bytes) in [
            ("0", 0),
            ("500", 500),
            ("20MB", 20_000_000),
            ("20m", 20_000_000),
            ("1.5 GB", 1_500_000_000),
            ("64KiB", 65_536),
            ("0.5kib", 512),
            ("1e9", 1_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-1", "1..2", "20 bananas", "2000000TB", "nan"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_outside_their_range_are_errors() {
        for text in ["", "-1", "nan", "inf", "86401", "1h", "ten"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0.5s"), Ok(Duration::from_millis(500)));
        assert!(positive_seconds("0").is_err());
        let interval = within(0.01, 3600.0);
        for text in ["0", "0.009", "3600.1"] {
            assert!(interval(text).is_err(), "{text}");
        }
        assert_eq!(interval("0.01"), Ok(Duration::from_millis(10)));
        assert_eq!(interval("3600"), Ok(Duration::from_secs(3600)));
    }

    #[test]
    fn figures_are_shown_with_three_digits() {
        assert_eq!(show_rate(93_912_345.0), "93.9 Mb/s");
        assert_eq!(show_rate(999_700.0), "1.00 Mb/s");
        assert_eq!(show_some_rate(None), "-");
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(20_000_000), "20.0 MB");
        assert_eq!(show_bytes(u64::MAX), "18.4 EB");
    }
}
