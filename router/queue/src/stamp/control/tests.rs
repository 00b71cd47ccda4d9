//! Tests of what the link algorithms make of round trips.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::ms;

/// The mean after `present` and these packets: bytes and round trip of each.
fn told(present: Duration, packets: &[(u32, Duration)]) -> MeanRtt {
    let mut told = MeanRtt::new(Some(present));
    for (bytes, rtt) in packets {
        told.count(*rtt, *bytes);
    }
    told
}

#[test]
fn round_trips_count_by_the_bytes_of_their_packets() {
    // A fifth of the bytes says twice as much.
    let packets = [(1000, ms(50)), (250, ms(100))];
    assert_eq!(told(ms(50), &packets).get(), Some(ms(60)));
    assert_eq!(told(ms(50), &[]).get(), None);
}

#[test]
fn a_lie_counts_as_four_times_the_end_of_the_medians_octave_whatever_was_told_before() {
    let packets = [(9000, ms(50)), (1000, ms(8000))];
    // 50 ms are in the octave that ends at 65,536 us.
    let mean = Duration::from_micros((9 * 50_000 + 4 * 65_536) / 10);
    assert_eq!(told(ms(50), &packets).get(), Some(mean));
    assert_eq!(told(ms(8000), &packets).get(), Some(mean));
    let mut first = MeanRtt::new(None);
    for (bytes, rtt) in packets {
        first.count(rtt, bytes);
    }
    assert_eq!(first.get(), Some(mean));
}

#[test]
fn the_mean_becomes_at_most_four_times_as_long_in_a_period() {
    assert_eq!(told(ms(50), &[(60, ms(8000))]).get(), Some(ms(200)));
    assert_eq!(told(ms(3200), &[(60, ms(8000))]).get(), Some(ms(8000)));
    // The first one counts as it is.
    let mut first = MeanRtt::new(None);
    first.count(ms(8000), 60);
    assert_eq!(first.get(), Some(ms(8000)));
    // One that has fallen is followed at once.
    assert_eq!(told(ms(3200), &[(60, ms(10))]).get(), Some(ms(10)));
}

#[test]
fn more_than_a_trickle_says_how_long_a_period_may_be() {
    let capacity = 1e6;
    let trickle = told(ms(8000), &[(12_499, ms(10))]);
    assert_eq!(trickle.longest_period(ms(100), capacity), None);
    let more = told(ms(8000), &[(12_500, ms(10))]);
    assert_eq!(more.longest_period(ms(100), capacity), Some(ms(40)));
    assert_eq!(more.longest_period(ms(101), capacity), None);
    assert_eq!(told(ms(50), &[]).longest_period(ms(0), capacity), None);
}

/// Packets as honest senders have them: bytes and microseconds.
fn packets() -> impl Strategy<Value = Vec<(u32, u64)>> {
    vec((60u32..=1500, 1000u64..1_000_000), 1..100)
}

proptest! {
    #[test]
    fn lies_of_less_than_half_of_the_bytes_make_the_mean_longer_by_little(
        honest in vec(packets(), 1..50), lie in 1u64..=1 << 23, share in 0.0f64..0.49,
    ) {
        let packets = honest.iter().flatten();
        let longest = packets.map(|(_, us)| *us).max().expect("there is one") as f64;
        let most = longest * (1.0 + 7.0 * share) + 1.0;
        let mut mean = Duration::from_micros(longest as u64);
        for period in honest {
            let mut told = MeanRtt::new(Some(mean));
            let mut bytes = 0;
            for (size, us) in &period {
                told.count(Duration::from_micros(*us), *size);
                bytes += *size;
            }
            let lies = f64::from(bytes) * share / (1.0 - share);
            told.count(Duration::from_micros(lie), lies as u32);
            mean = told.get().expect("somebody told");
            prop_assert!(mean.as_micros() as f64 <= most, "{mean:?} above {most} us");
        }
    }

    #[test]
    fn whatever_is_told_the_mean_is_at_most_the_longest_round_trip(
        packets in vec((20u32..65_576, 1u64..=1 << 23), 0..50), present in 1u64..1 << 23,
    ) {
        let packets: Vec<_> = packets
            .into_iter()
            .map(|(bytes, us)| (bytes, Duration::from_micros(us)))
            .collect();
        let told = told(Duration::from_micros(present), &packets);
        let longest = packets.iter().map(|(_, rtt)| *rtt).max();
        prop_assert_eq!(told.get().is_some(), longest.is_some());
        prop_assert!(told.get() <= longest);
    }
}
