//! Tests of what the link algorithms make of round trips.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{epoch, ms};

fn told(packets: &[(u32, Duration)]) -> MeanRtt {
    let mut told = MeanRtt::default();
    for (bytes, rtt) in packets {
        told.hear(*rtt, *bytes);
    }
    told
}

#[test]
fn round_trips_count_by_the_bytes_of_their_packets() {
    assert_eq!(told(&[]).get(), None);
    assert_eq!(told(&[(0, ms(50))]).get(), None);
    assert_eq!(
        told(&[(1000, ms(50)), (250, ms(100))]).get(),
        Some(ms(60)),
        "a fifth of the bytes says twice as much"
    );
}

#[test]
fn far_above_the_bulk_they_count_as_the_longest_that_is_not_far_above() {
    // 50 ms are between 2^15 and 2^16 us; the second octave above ends at 2^18.
    let far = told(&[(9000, ms(50)), (1000, ms(8000))]);
    // (9 x 50 ms + 262.144 ms) / 10, in whole microseconds.
    assert_eq!(far.get(), Some(Duration::from_micros(71_214)));
    // As long as that they count as they are.
    let near = told(&[(9000, ms(50)), (1000, ms(260))]);
    assert_eq!(near.get(), Some(ms(71)));
    // An eighth of the bytes belongs to the bulk.
    let bulk = told(&[(7000, ms(50)), (1000, ms(8000))]);
    assert_eq!(bulk.get(), Some((ms(50) * 7 + ms(8000)) / 8));
    // So does a link's only traffic.
    assert_eq!(told(&[(60, ms(8000))]).get(), Some(ms(8000)));
}

#[test]
fn short_round_trips_and_the_longest_have_octaves_too() {
    let least = Duration::from_micros(1);
    assert_eq!(told(&[(60, least)]).get(), Some(least));
    let most = Duration::from_secs_f64(RTT_MAX_MS / 1e3);
    assert_eq!(told(&[(60, most)]).get(), Some(most));
}

#[test]
fn the_bulk_is_remembered_while_it_sends_nothing() {
    let mut told = told(&[(100_000, ms(50))]);
    let most = Duration::from_micros(1 << 18);
    // 100,000 bytes, halved with each period, against 60 and what was heard of them.
    for period in 0..6 {
        told.restart();
        told.hear(ms(8000), 60);
        assert_eq!(told.get(), Some(most), "{period}");
    }
    for _ in 0..4 {
        told.restart();
        told.hear(ms(8000), 60);
    }
    assert_eq!(told.get(), Some(ms(8000)));
}

#[test]
fn a_period_ends_early_if_its_own_round_trips_are_an_eighth_of_it() {
    let start = epoch();
    let mut period = Period::new(start, ms(8000));
    let mut told = told(&[(60, ms(8000))]);
    period.look(start + ms(5), &told);
    assert_eq!(period.ends(), start + ms(8000));
    told.hear(ms(10), 100_000);
    // 10 ms and 60 / 100,060 of what is clamped to 65.536 ms.
    period.look(start + ms(79), &told);
    assert_eq!(period.ends(), start + ms(8000));
    // It was looked at a moment ago.
    period.look(start + ms(90), &told);
    assert_eq!(period.ends(), start + ms(8000));
    period.look(start + ms(99), &told);
    assert_eq!(period.ends(), start + ms(99));
    // Over is over.
    period.look(start + ms(200), &told);
    assert_eq!(period.ends(), start + ms(99));
}

/// Packets as honest senders have them: bytes and microseconds.
fn packets() -> impl Strategy<Value = Vec<(u32, u64)>> {
    vec((60u32..=1500, 1000u64..1_000_000), 1..100)
}

proptest! {
    #[test]
    fn a_trickle_adds_at_most_its_share_of_eight_times_the_longest_honest_round_trip(
        honest in vec(packets(), 1..5), lie in 1000u64..=1 << 23, share in 0.001f64..0.12,
    ) {
        let mut mean = MeanRtt::default();
        let mut longest = 0;
        for period in honest {
            mean.restart();
            let bytes: u64 = period.iter().map(|(bytes, _)| u64::from(*bytes)).sum();
            let weighted: u64 = period.iter().map(|(bytes, us)| u64::from(*bytes) * us).sum();
            for (bytes, us) in &period {
                mean.hear(Duration::from_micros(*us), *bytes);
                longest = longest.max(*us);
            }
            let lies = (bytes as f64 * share / (1.0 - share)) as u32;
            mean.hear(Duration::from_micros(lie), lies);
            let most = (1.0 - share) * weighted as f64 / bytes as f64 + share * 8.0 * longest as f64;
            let told = mean.get().expect("somebody told").as_micros() as f64;
            // A byte less of the lies than the share says.
            prop_assert!(told <= most + longest as f64 / bytes as f64, "{told} above {most}");
        }
    }

    #[test]
    fn a_trickle_beside_flows_of_one_round_trip_lengthens_the_period_at_most_by_seven_times_its_share(
        rtt in 1000u64..=1 << 23, lie in 1u64..=1 << 23, share in 0.0f64..0.12,
        sizes in vec(60u32..=1500, 1..100),
    ) {
        let honest: u32 = sizes.iter().sum();
        let mut mean = MeanRtt::default();
        for bytes in sizes {
            mean.hear(Duration::from_micros(rtt), bytes);
        }
        let lies = f64::from(honest) * share / (1.0 - share);
        mean.hear(Duration::from_micros(lie), lies as u32);
        let ratio = mean.get().expect("somebody told").as_micros() as f64 / rtt as f64;
        prop_assert!(ratio <= 1.0 + 7.0 * share + 1e-9, "{ratio}");
        prop_assert!(ratio >= 1.0 - share - 0.001, "{ratio}");
    }

    #[test]
    fn the_mean_is_at_most_the_longest_that_was_told(
        periods in vec(vec((any::<u32>(), 1u64..=1 << 23), 0..50), 0..20),
    ) {
        let mut mean = MeanRtt::default();
        for period in periods {
            mean.restart();
            for (bytes, us) in &period {
                // Real packets have at most 65,575 bytes.
                mean.hear(Duration::from_micros(*us), *bytes % 65_576);
            }
            let told = period.iter().filter(|(bytes, _)| bytes % 65_576 > 0);
            let longest = told.map(|(_, us)| Duration::from_micros(*us)).max();
            prop_assert_eq!(mean.get().is_some(), longest.is_some());
            prop_assert!(mean.get() <= longest);
        }
    }
}
