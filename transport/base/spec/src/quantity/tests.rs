use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn any_text_is_a_quantity_or_an_error(
        text in "\\PC{0,30}|[0-9._]{0,30}(e-?[0-9]{0,3})? ?[kKmMgGtT]?i?(b|B|b/s|s)?"
    ) {
        let _ = (rate(&text), size(&text));
        for unit in [Unit::Seconds, Unit::Milliseconds] {
            if let Ok(time) = time(&text, unit) {
                prop_assert!(time >= 0.0 && time.is_finite());
            }
        }
    }

    #[test]
    fn whole_numbers_read_as_themselves(number: u64) {
        prop_assert_eq!(size(&number.to_string()), Ok(number));
        prop_assert_eq!(rate(&number.to_string()), Ok(number));
    }

    #[test]
    fn times_read_as_numbers_do(number in 0.0..1e9) {
        prop_assert_eq!(time(&format!("{number}"), Unit::Seconds), Ok(number));
    }
}

#[test]
fn sizes_are_read_in_decimal_and_binary_units() {
    for (text, bytes) in [
        ("0", 0),
        ("500", 500),
        ("1_000", 1000),
        ("1e9", 1_000_000_000),
        ("1.5E3", 1500),
        ("25e-1kB", 2500),
        ("20MB", 20_000_000),
        ("20m", 20_000_000),
        ("1.5 GB", 1_500_000_000),
        ("64KiB", 65_536),
        ("0.5kib", 512),
        ("1.0000001kB", 1000),
        ("1e20TB", u64::MAX),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for text in [
        "",
        "MB",
        "-1",
        "1..2",
        "1.",
        ".5",
        "1.5",
        "1__0",
        "_1",
        "1_",
        "1e",
        "1e99",
        "1e-99",
        "20 bananas",
        "nan",
        "inf",
    ] {
        assert!(size(text).is_err(), "{text}");
    }
    assert_eq!(
        size("20 bananas").unwrap_err().to_string(),
        "'bananas' is no unit of size; use kB, MB, GB, KiB, MiB or GiB"
    );
}

#[test]
fn rates_are_read_in_thousands_of_bits() {
    for (text, bps) in [
        ("3000000", 3_000_000),
        ("3_000_000", 3_000_000),
        ("3e6", 3_000_000),
        ("3M", 3_000_000),
        ("2.5 Mb/s", 2_500_000),
        ("2.5mbps", 2_500_000),
        ("500kbps", 500_000),
    ] {
        assert_eq!(rate(text), Ok(bps), "{text}");
    }
    for text in [
        "", "3MB", "3Mib", "3Mi", "fast", "-1", "3MB/s", "3MiB/s", "0.5",
    ] {
        assert!(rate(text).is_err(), "{text}");
    }
}

#[test]
fn times_are_read_in_the_unit_asked_for() {
    use Unit::{Milliseconds, Seconds};
    for (text, seconds, milliseconds) in [
        ("10", 10.0, 10.0),
        ("0.5s", 0.5, 500.0),
        ("250 ms", 0.25, 250.0),
        ("50us", 50e-6, 0.05),
        ("1e1", 10.0, 10.0),
    ] {
        assert_eq!(time(text, Seconds), Ok(seconds), "{text}");
        assert_eq!(time(text, Milliseconds), Ok(milliseconds), "{text}");
    }
    for text in ["", "-1", "nan", "inf", "1h", "ten", "5M"] {
        assert!(time(text, Seconds).is_err(), "{text}");
    }
}

#[test]
fn toml_gives_numbers_or_text() {
    #[derive(serde::Deserialize)]
    struct File {
        rates: Vec<Quantity>,
    }
    let file: File = toml::from_str("rates = [5_000_000, 5e6, \"5M\"]").unwrap();
    assert_eq!(
        file.rates,
        [
            Quantity::Whole(5_000_000),
            Quantity::Fraction(5e6),
            Quantity::Text("5M".to_owned())
        ]
    );
    let error = toml::from_str::<File>("rates = [true]").err().unwrap();
    assert!(error.message().contains("expected a number"), "{error}");
}
