//! Reads and formats sizes and rates.

use evenkeel_spec::quantity;

use crate::bulk::MAX_BYTES;

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

/// Formats bits per second with three digits: `93.9 Mb/s`.
pub(crate) fn show_rate(bits_per_second: f64) -> String {
    let (value, prefix) = scale(bits_per_second);
    format!("{value} {prefix}b/s")
}

/// Formats like [`show_rate`]; a dash stands for no rate.
pub(crate) fn show_some_rate(bits_per_second: Option<f64>) -> String {
    bits_per_second.map_or("-".into(), show_rate)
}

/// Formats bytes with three digits: `20.0 MB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (value, prefix) = scale(bytes as f64);
    format!("{value} {prefix}B")
}

/// Returns three significant digits and a decimal prefix.
fn scale(value: f64) -> (String, &'static str) {
    let prefixes = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = value;
    let mut prefix = 0;
    // Otherwise 999.5 would be shown as 1000.
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
mod tests;
