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
fn figures_are_shown_with_three_digits() {
    assert_eq!(show_rate(93_912_345.0), "93.9 Mb/s");
    assert_eq!(show_rate(999_700.0), "1.00 Mb/s");
    assert_eq!(show_some_rate(None), "-");
    assert_eq!(show_bytes(999), "999 B");
    assert_eq!(show_bytes(20_000_000), "20.0 MB");
    assert_eq!(show_bytes(u64::MAX), "18.4 EB");
}
