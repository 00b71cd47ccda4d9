use proptest::prelude::*;

use super::*;

#[test]
fn every_code_of_a_rate_survives_its_value() {
    for code in 0..CompactRate::NO_LIMIT.0 {
        let rate = CompactRate(code);
        let value = rate.bytes_per_second().unwrap();
        assert_eq!(CompactRate::from_bytes_per_second(value), rate);
    }
    assert_eq!(CompactRate::NO_LIMIT.bytes_per_second(), None);
}

#[test]
fn every_code_of_the_other_numbers_survives_its_value() {
    for code in 0..=u16::MAX {
        let bytes = CompactBytes(code);
        assert_eq!(CompactBytes::from_bytes(bytes.bytes()), bytes);
        if let Some(time) = CompactTime::from_bytes(code.to_be_bytes()) {
            assert_eq!(CompactTime::from_duration(time.duration()), time);
        }
        let change = Feedback(code.to_be_bytes()).window_change();
        assert_eq!(WindowChange::from_256ths(change.in_256ths()), change);
    }
    for code in 0..=u8::MAX {
        let count = CompactCount(code);
        assert_eq!(CompactCount::from_flows(count.flows()), count);
    }
}

#[test]
fn rates_reach_from_a_packet_in_ten_minutes_beyond_100_gigabits_per_second() {
    for rate in [2, 20, 12_500_000_000, 1_000_000_000_000] {
        let read = CompactRate::from_bytes_per_second(rate)
            .bytes_per_second()
            .unwrap();
        assert!(read <= rate && rate - read <= rate / 2048, "{rate}: {read}");
    }
}

#[test]
fn the_greatest_rate_is_a_limit() {
    let fastest = CompactRate::from_bytes_per_second(u64::MAX);
    assert_eq!(fastest, CompactRate::MAX);
    assert_eq!(fastest.bytes_per_second(), Some(4094 << 30));
    assert!(fastest < CompactRate::NO_LIMIT);
}

#[test]
fn times_round_to_the_nearest_and_saturate() {
    let nanos = Duration::from_nanos;
    assert_eq!(
        QueueingTime::from_duration(nanos(1_499)).duration(),
        nanos(1_000)
    );
    assert_eq!(
        QueueingTime::from_duration(nanos(1_500)).duration(),
        nanos(2_000)
    );
    assert_eq!(
        QueueingTime::from_duration(Duration::MAX),
        QueueingTime::MAX
    );
    assert_eq!(
        QueueingTime::MAX.saturating_add(QueueingTime(1)),
        QueueingTime::MAX
    );
    assert_eq!(CompactTime::from_duration(Duration::MAX), CompactTime::MAX);
    // The step is 2 us from 8192 us on.
    let step = |micros| CompactTime::from_duration(Duration::from_micros(micros)).duration();
    assert_eq!(step(8_191), Duration::from_micros(8_191));
    assert_eq!(step(8_193), Duration::from_micros(8_194));
}

#[test]
fn timestamps_come_round() {
    let late = HeaderTimestamp::from_micros((1 << 24) - 10);
    let next = HeaderTimestamp::from_micros((1 << 24) + 20);
    assert_eq!(next.micros(), 20);
    assert_eq!(next.since(late), Duration::from_micros(30));
}

#[test]
fn a_change_prints_its_sign_and_fraction() {
    assert_eq!(WindowChange::from_256ths(-1).to_string(), "-0 1/256 B");
    assert_eq!(WindowChange::from_256ths(512).to_string(), "+2 B");
}

proptest! {
    #[test]
    fn a_greater_rate_never_has_a_smaller_code(a: u64, b: u64) {
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(CompactRate::from_bytes_per_second(low)
            <= CompactRate::from_bytes_per_second(high));
    }

    #[test]
    fn a_rate_is_less_than_a_2048th_too_low(rate in 0u64..4_395_000_000_000, shift in 0u32..42) {
        let rate = rate >> shift;
        let read = CompactRate::from_bytes_per_second(rate).bytes_per_second().unwrap();
        prop_assert!(read <= rate);
        prop_assert!(rate < 4096 && read == rate || (rate - read) * 2048 < rate);
    }

    #[test]
    fn a_time_is_at_most_an_8192nd_wrong(micros in 0u64..134_000_000, shift in 0u32..27) {
        let micros = micros >> shift;
        let time = Duration::from_micros(micros);
        let read = CompactTime::from_duration(time).duration();
        let error = read.abs_diff(time);
        prop_assert!(micros < 8192 && error.is_zero() || error * 8192 <= time);
    }

    #[test]
    fn a_count_is_at_most_a_32nd_wrong(flows in 0u32..507_904, shift in 0u32..19) {
        let flows = flows >> shift;
        let read = CompactCount::from_flows(flows).flows();
        prop_assert!(flows < 32 && read == flows || read.abs_diff(flows) * 32 <= flows);
    }

    #[test]
    fn greater_times_counts_and_changes_never_have_smaller_codes(a: u64, b: u64, shift in 0u32..64) {
        let (low, high) = (a.min(b) >> shift, a.max(b) >> shift);
        let time = |micros| CompactTime::from_duration(Duration::from_micros(micros));
        prop_assert!(time(low) <= time(high));
        let count = |flows| CompactCount::from_flows(u32::try_from(flows).unwrap_or(u32::MAX));
        prop_assert!(count(low) <= count(high));
        let change = |value: u64| WindowChange::from_256ths(value.cast_signed());
        let (less, more) = (low.cast_signed().min(high.cast_signed()), low.cast_signed().max(high.cast_signed()));
        prop_assert!(change(less.cast_unsigned()) <= change(more.cast_unsigned()));
    }
}
