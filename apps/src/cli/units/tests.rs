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
