//! Sizes, times and rates as people write and read them.

use std::{ops::RangeInclusive, time::Duration};

use crate::bulk::MAX_BYTES;

/// The longest time an option can name, a day: the longest transfer of the protocol.
const MAX_SECONDS: f64 = 86_400.0;

/// What can be asked of records in a series: ten of the milliseconds that tokio's timers
/// count in, up to an hour.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// Bytes from `500`, `20MB`, `1.5 GB` or `64KiB`; decimal units by 1000, `i` ones by 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u128 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        other => {
            return Err(format!(
                "'{other}' is no unit of size; use kB, MB, GB, KiB, MiB or GiB"
            ));
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let wrong = || format!("'{text}' is no size; write for example 20MB");
    // Nine digits before a tera are whole bytes and more; further ones change nothing.
    if fraction.len() > 9 || fraction.is_empty() {
        return Err(wrong());
    }
    let whole: u128 = whole.parse::<u64>().map_err(|_| wrong())?.into();
    let parts: u128 = fraction.parse::<u64>().map_err(|_| wrong())?.into();
    let scale = 10u128.pow(u32::try_from(fraction.len()).expect("at most nine digits"));
    let bytes = whole * factor + parts * factor / scale;
    u64::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes <= MAX_BYTES)
        .ok_or_else(|| format!("'{text}' is more than one transfer can carry, 2^60 bytes"))
}

/// Bits per second from `3000000`, `3M`, `2.5 Mb/s` or `500kbps`, by thousands.
pub(super) fn parse_rate(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let number = ["b/s", "bps"]
        .iter()
        .find_map(|unit| trimmed.strip_suffix(unit))
        .unwrap_or(trimmed);
    let wrong = || format!("'{text}' is no bitrate; write for example 3M or 500k");
    if number.contains(['i', 'I', 'b', 'B']) {
        return Err(wrong());
    }
    parse_size(number).map_err(|_| wrong())
}

/// A time from `10`, `0.5` or `10s`, at most a day.
pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number = text.trim().strip_suffix('s').unwrap_or(text.trim());
    let seconds: f64 = number
        .parse()
        .map_err(|_| format!("'{text}' is no number of seconds; write for example 10 or 0.5"))?;
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(format!(
            "'{text}' is not between 0 and {MAX_SECONDS} seconds"
        ));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// As [`parse_seconds`], but not zero.
pub(super) fn parse_positive_seconds(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if time.is_zero() {
        return Err("it must be above 0 seconds".into());
    }
    Ok(time)
}

/// As [`parse_seconds`], from 0.1 to 20: a peer gives up what is silent for 30.
pub(super) fn parse_period(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if !(Duration::from_millis(100)..=Duration::from_secs(20)).contains(&time) {
        return Err(format!("'{text}' is not between 0.1 and 20 seconds"));
    }
    Ok(time)
}

/// As [`parse_seconds`], from 1 to 3600.
pub(super) fn parse_idle_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if !(Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time) {
        return Err(format!("'{text}' is not between 1 and 3600 seconds"));
    }
    Ok(time)
}

/// As [`parse_seconds`], from 0.01 to 60.
pub(super) fn parse_probe_interval(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&time) {
        return Err(format!("'{text}' is not between 0.01 and 60 seconds"));
    }
    Ok(time)
}

/// As [`parse_seconds`], but no interval shorter than the machine can keep or longer than
/// anybody waits for.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let time = parse_seconds(text)?;
    if !INTERVALS.contains(&time) {
        return Err(format!(
            "'{text}' is not between {} and {} seconds",
            INTERVALS.start().as_secs_f64(),
            INTERVALS.end().as_secs_f64()
        ));
    }
    Ok(time)
}

/// Bits per second with three digits: `93.9 Mb/s`.
pub(super) fn show_rate(bits_per_second: f64) -> String {
    let (value, prefix) = scale(bits_per_second);
    format!("{value} {prefix}b/s")
}

/// Bytes with three digits: `20.0 MB`.
pub(super) fn show_bytes(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (value, prefix) = scale(bytes as f64);
    format!("{value} {prefix}B")
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
        fn any_text_is_a_size_or_an_error(text in "\\PC{0,30}") {
            if let Ok(bytes) = parse_size(&text) {
                prop_assert!(bytes <= MAX_BYTES);
            }
        }

        #[test]
        fn any_digits_and_units_are_a_size_or_an_error(text in "[0-9.]{0,25} ?[kKmMgGtT]?i?[bB]?") {
            let _ = parse_size(&text);
        }

        #[test]
        fn any_text_is_a_time_or_an_error(text in "\\PC{0,30}|-?[0-9]{1,400}(e[0-9]{1,4})?s?") {
            if let Ok(time) = parse_seconds(&text) {
                prop_assert!(time <= Duration::from_secs_f64(MAX_SECONDS));
            }
        }

        #[test]
        fn whole_bytes_read_as_themselves(bytes in 0..=MAX_BYTES) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }
    }

    #[test]
    fn sizes_are_read_in_decimal_and_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("500", 500),
            ("20MB", 20_000_000),
            ("20m", 20_000_000),
            ("1.5 GB", 1_500_000_000),
            ("64KiB", 65_536),
            ("0.5kib", 512),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MB",
            "-1",
            "1..2",
            "1.",
            ".5",
            "20 bananas",
            "2000000TB",
            "1e9",
            "nan",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bitrates_are_read_in_thousands_of_bits() {
        for (text, bps) in [
            ("3000000", 3_000_000),
            ("3M", 3_000_000),
            ("2.5 Mb/s", 2_500_000),
            ("500kbps", 500_000),
        ] {
            assert_eq!(parse_rate(text), Ok(bps), "{text}");
        }
        for text in ["", "3MB", "3Mib", "fast", "-1", "3MB/s"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_that_are_no_times_are_errors() {
        for text in ["", "-1", "nan", "inf", "86401", "1h", "ten"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert_eq!(parse_seconds("0.5s"), Ok(Duration::from_millis(500)));
        assert!(parse_positive_seconds("0").is_err());
        for text in ["0", "0.009", "3600.1"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        assert_eq!(parse_interval("0.01"), Ok(Duration::from_millis(10)));
        assert_eq!(parse_interval("3600"), Ok(Duration::from_secs(3600)));
    }

    #[test]
    fn figures_are_shown_with_three_digits() {
        assert_eq!(show_rate(93_912_345.0), "93.9 Mb/s");
        assert_eq!(show_rate(999_700.0), "1.00 Mb/s");
        assert_eq!(show_bytes(999), "999 B");
        assert_eq!(show_bytes(20_000_000), "20.0 MB");
        assert_eq!(show_bytes(u64::MAX), "18.4 EB");
    }
}
