//! Tests of HyStart++ with rounds worked by hand.

use super::*;
use crate::testing::{ack, epoch, ms};

/// A sender whose rounds are as long as their round trip.
struct Rounds {
    hystart: HyStart,
    now: Instant,
    window: u64,
}

impl Rounds {
    fn new(kind: SlowStart) -> Self {
        Self {
            hystart: HyStart::new(kind),
            now: epoch() + ms(1000),
            window: 10_000,
        }
    }

    /// A round with samples of `rtt` milliseconds, one for each ACK of 2000 bytes.
    fn round(&mut self, rtt: u64, acks: u32) -> Vec<Growth> {
        let began = self.now;
        self.now += ms(rtt);
        let mut growths = Vec::new();
        for number in 0..acks {
            // Sent one after the other, from the beginning of the round on.
            let now = self.now + Duration::from_micros(number.into());
            let sent = began + Duration::from_micros(number.into());
            let ack = Ack {
                now,
                sent,
                ..ack(now, rtt, 2000)
            };
            growths.push(self.hystart.on_ack(&ack, 2000, self.window, 1000));
        }
        growths
    }

    fn is_conservative(&self) -> bool {
        self.hystart.conservative.is_some()
    }
}

const WHOLE: Growth = Growth::By(2000);
const QUARTER: Growth = Growth::By(500);

#[test]
fn the_threshold_is_an_eighth_between_4_and_16_ms() {
    for (least, threshold) in [(8, 4), (32, 4), (80, 10), (128, 16), (500, 16)] {
        assert_eq!(growth_that_counts(ms(least)), ms(threshold), "{least}");
    }
}

#[test]
fn round_trips_that_grow_make_slow_start_conservative_with_the_eighth_sample() {
    let mut rounds = Rounds::new(SlowStart::HyStart);
    assert_eq!(rounds.round(40, 10), [WHOLE; 10]);
    // 4 ms less a sample.
    assert_eq!(rounds.round(44, 10), [WHOLE; 10]);
    let growths = rounds.round(50, 10);
    assert_eq!(growths[..8], [WHOLE; 8]);
    assert_eq!(growths[8..], [QUARTER; 2]);
}

#[test]
fn it_ends_when_five_rounds_are_over() {
    let mut rounds = Rounds::new(SlowStart::HyStart);
    rounds.round(40, 10);
    rounds.round(50, 10);
    // With the one that began it.
    for _ in 2..=5 {
        assert_eq!(rounds.round(60, 10), [QUARTER; 10]);
    }
    assert_eq!(rounds.round(60, 10)[0], Growth::Last(500));
}

#[test]
fn it_goes_on_to_the_loss_if_the_rule_wants_to_see_the_full_queue() {
    let mut rounds = Rounds::new(SlowStart::SlowLoss);
    rounds.round(40, 10);
    rounds.round(50, 10);
    for _ in 0..50 {
        assert_eq!(rounds.round(60, 10), [QUARTER; 10]);
    }
}

#[test]
fn slow_start_resumes_if_the_round_trip_falls_below_that_with_which_it_slowed_down() {
    let mut rounds = Rounds::new(SlowStart::HyStart);
    rounds.round(40, 10);
    rounds.round(50, 10);
    assert!(rounds.is_conservative());
    let growths = rounds.round(49, 10);
    assert_eq!(growths[..8], [QUARTER; 8]);
    assert_eq!(growths[8..], [WHOLE; 2]);
    assert!(!rounds.is_conservative());
}

#[test]
fn a_round_adds_no_more_than_400_packets_to_a_window_of_thousands() {
    let mut rounds = Rounds::new(SlowStart::HyStart);
    for (window, parts) in [(400, 1), (401, 2), (800, 2), (4000, 10)] {
        rounds.window = 1000 * window;
        assert_eq!(rounds.round(40, 1), [Growth::By(2000 / parts)], "{window}");
    }
    // While round trips grow, it adds a quarter or that, whichever is less.
    rounds.round(40, 10);
    rounds.round(50, 10);
    assert_eq!(rounds.round(60, 1), [Growth::By(200)]);
    rounds.window = 1_000_000;
    assert_eq!(rounds.round(60, 1), [QUARTER]);
}

#[test]
fn fewer_than_eight_samples_say_nothing() {
    let mut rounds = Rounds::new(SlowStart::HyStart);
    rounds.round(40, 10);
    for _ in 0..20 {
        assert_eq!(rounds.round(200, 7), [WHOLE; 7]);
    }
}

#[test]
fn without_hystart_round_trips_change_nothing() {
    let mut rounds = Rounds::new(SlowStart::Loss);
    for rtt in [40, 80, 160, 320] {
        assert_eq!(rounds.round(rtt, 10), [WHOLE; 10]);
    }
}

#[test]
fn a_quarter_of_any_bytes_is_a_quarter_in_the_end() {
    let mut rounds = Rounds::new(SlowStart::HyStart);
    rounds.round(40, 10);
    rounds.round(50, 10);
    let acks = 0..4;
    let ack = ack(rounds.now, 50, 1);
    let growths: Vec<_> = acks
        .map(|_| rounds.hystart.on_ack(&ack, 3, 10_000, 1000))
        .collect();
    assert_eq!(growths, [0, 1, 1, 1].map(Growth::By));
}
