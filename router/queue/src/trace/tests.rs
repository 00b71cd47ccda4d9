use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::ms;

#[test]
fn a_trace_repeats_with_its_last_time_as_period() {
    let trace = DeliveryTrace::parse("2\n5\n5\n10\n").unwrap();
    assert_eq!(trace.period(), ms(10));
    assert_eq!(trace.opportunities(), 4);
    let times: Vec<_> = (0..9).map(|number| trace.time_of(number)).collect();
    assert_eq!(times, [2, 5, 5, 10, 12, 15, 15, 20, 22].map(ms));
}

#[test]
fn a_trace_that_begins_at_zero_begins_again_at_the_instant_it_ends() {
    let trace = DeliveryTrace::parse("0\n10").unwrap();
    let times: Vec<_> = (0..5).map(|number| trace.time_of(number)).collect();
    assert_eq!(times, [0, 10, 10, 20, 20].map(ms));
    assert_eq!(trace.opportunities_until(ms(10)), 3);
}

#[test]
fn the_mean_rate_is_the_bits_of_a_period_over_its_length() {
    // Four opportunities of 12,000 bits in 10 ms; one in 49 days.
    let mean = |text| DeliveryTrace::parse(text).unwrap().mean_rate();
    assert_eq!(mean("3\n3\n7\n10\n").bits_per_second(), 4_800_000);
    assert_eq!(mean("4294967295\n").bits_per_second(), 1);
}

#[test]
fn lines_may_end_as_on_windows() {
    assert_eq!(
        DeliveryTrace::parse("1\r\n2\r\n"),
        DeliveryTrace::parse("1\n2")
    );
}

#[test]
fn what_is_no_trace_is_refused_with_its_line_and_cause() {
    let error = |text: &str| DeliveryTrace::parse(text).unwrap_err().to_string();
    assert!(error("").starts_with("the trace is empty"));
    assert!(error("0\n0\n").starts_with("the last line, 2, is 0"));
    assert_eq!(
        error("1\n2x\n"),
        r#"line 2: expected whole milliseconds, found "2x""#
    );
    assert_eq!(
        error("1\n\n2\n"),
        r#"line 2: expected whole milliseconds, found """#
    );
    assert_eq!(
        error("+1\n"),
        r#"line 1: expected whole milliseconds, found "+1""#
    );
    assert_eq!(
        error("1\n 2\n"),
        r#"line 2: expected whole milliseconds, found " 2""#
    );
    assert_eq!(
        error("3\n1\n"),
        "line 2: 1 ms comes after 3 ms; sort the times"
    );
    assert!(error("4294967296").starts_with("line 1: 4294967296 is more than 4294967295 ms"));
    assert!(
        error(&"9".repeat(1000)).len() < 200,
        "a hostile line is not echoed whole"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = DeliveryTrace::parse(&text);
    }

    #[test]
    fn counting_and_dating_opportunities_agree(
        mut times in vec(0u32..100, 1..20), elapsed in 0u64..1000, microseconds in 0u64..1000,
    ) {
        times.sort_unstable();
        times.push(times[times.len() - 1].max(1));
        let text: String = times.iter().map(|time| format!("{time}\n")).collect();
        let trace = DeliveryTrace::parse(&text).unwrap();
        let elapsed = ms(elapsed) + Duration::from_micros(microseconds);
        let begun = trace.opportunities_until(elapsed);
        prop_assert!(trace.time_of(begun) > elapsed);
        if let Some(last) = begun.checked_sub(1) {
            prop_assert!(trace.time_of(last) <= elapsed);
        }
    }
}
