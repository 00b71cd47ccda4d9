//! Clocks of both sides, and how far they are apart.

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// A clock that both sides of a stream may know: an instant and the reading at it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The instant.
    pub at: Instant,
    /// The reading at that instant, in microseconds.
    pub micros: u64,
    /// Whether the other side reads the same clock, as in one process or on one machine. Otherwise
    /// the offset is estimated.
    pub shared: bool,
}

/// How the viewer knows the sender's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClockReport {
    /// Both sides read the same clock.
    #[default]
    Shared,
    /// The offset was estimated from exchanges of messages and from frames, which do not arrive
    /// before their capture.
    Estimated {
        /// The offset to subtract from the sender's times at the end.
        offset_us: i64,
        /// The greatest possible error of a measured delay in milliseconds, if the clocks drift
        /// apart by at most 30 us a second.
        error_ms: f64,
    },
}

/// How much faster one clock may run than the other, in parts per million: each may be wrong by 15
/// (RFC 5905, section 7.3, the constant PHI).
const DRIFT_PPM: i64 = 30;

/// The most exchanges that are remembered: one every 5 s for five days.
const MAX_EXCHANGES: usize = 86_400;

/// Compares the sender's clock with ours over a session.
///
/// A message that leaves the sender at `s` on its clock arrives later: at `r` on ours, the sender's
/// clock is at least `s - r` ahead. Messages to the sender bound it from the other side. Each
/// direction keeps its own best bound, which becomes worse as clocks may drift.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// What is known after each exchange.
    exchanges: Vec<Bounds>,
    /// What is known now; `None` of a shared clock.
    now: Option<Bounds>,
}

/// By how many microseconds the sender's clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// When, on our clock.
    at_us: i64,
    least_us: i64,
    most_us: i64,
}

impl Clock {
    /// Returns the reading at `now`, but no earlier than at [`at`](Self::at).
    pub fn read(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.at).as_micros();
        self.micros
            .saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

impl Comparison {
    /// Takes an exchange: our readings around the sender's.
    pub(super) fn exchange(&mut self, asked_us: u64, server_us: u64, answered_us: u64) {
        let (asked, server, answered) = (signed(asked_us), signed(server_us), signed(answered_us));
        let new = Bounds {
            at_us: answered,
            least_us: server - answered,
            // Since the sender's reading its clock may have gained.
            most_us: server - asked + drift_us(answered - asked),
        };
        // A contradiction means that a clock was set.
        let known = self.now.and_then(|now| now.at(answered).and(new));
        let known = known.unwrap_or(new);
        self.now = Some(known);
        if self.exchanges.len() < MAX_EXCHANGES {
            self.exchanges.push(known);
        }
    }

    /// Takes a frame: it was captured before it arrived.
    pub(super) fn frame(&mut self, captured_us: u64, arrived_us: i64) {
        let least_us = signed(captured_us).saturating_sub(arrived_us);
        if let Some(now) = &mut self.now {
            let known = now.at(arrived_us);
            // More than is possible means that a clock was set.
            if (known.least_us..=known.most_us).contains(&least_us) {
                *now = Bounds { least_us, ..known };
            }
        }
    }

    /// Returns whether the clocks had to be compared.
    pub(super) fn is_estimated(&self) -> bool {
        self.now.is_some()
    }

    /// Returns what is known of a time of our clock that has come; no offset of a shared clock.
    pub(super) fn bounds(&self, at_us: i64) -> Bounds {
        let shared = Bounds {
            at_us,
            least_us: 0,
            most_us: 0,
        };
        self.now.map_or(shared, |now| now.at(at_us))
    }

    /// Returns what is known by now of each of these times, which must rise: later exchanges tell
    /// about earlier times, too.
    pub(super) fn settle(
        &self,
        times_us: impl Iterator<Item = i64>,
    ) -> impl Iterator<Item = Bounds> {
        let mut known = self.exchanges.clone();
        known.extend(self.now);
        for index in (1..known.len()).rev() {
            let later = known[index].at(known[index - 1].at_us);
            known[index - 1] = known[index - 1].and(later).unwrap_or(known[index - 1]);
        }
        let mut next = 0;
        times_us.map(move |at_us| {
            while known.get(next).is_some_and(|known| known.at_us <= at_us) {
                next += 1;
            }
            let before = next.checked_sub(1).map(|last| known[last].at(at_us));
            let after = known.get(next).map(|known| known.at(at_us));
            match (before, after) {
                (Some(before), Some(after)) => before.and(after).unwrap_or(before),
                (before, after) => before.or(after).unwrap_or(self.bounds(at_us)),
            }
        })
    }
}

impl Bounds {
    /// Returns the middle of the bounds: the best estimate.
    pub(super) fn offset_us(&self) -> i64 {
        self.least_us + (self.most_us - self.least_us) / 2
    }

    /// Returns the greatest possible error of the estimate.
    pub(super) fn error_ms(&self) -> f64 {
        (self.most_us - self.least_us) as f64 / 2e3
    }

    /// Returns what they say of another time.
    fn at(self, at_us: i64) -> Self {
        let apart_us = at_us.saturating_sub(self.at_us).saturating_abs();
        let drift_us = drift_us(apart_us);
        Self {
            at_us,
            least_us: self.least_us.saturating_sub(drift_us),
            most_us: self.most_us.saturating_add(drift_us),
        }
    }

    /// Returns what both say of a time; `None` if they contradict each other.
    fn and(self, other: Self) -> Option<Self> {
        let both = Self {
            at_us: self.at_us,
            least_us: self.least_us.max(other.least_us),
            most_us: self.most_us.min(other.most_us),
        };
        (both.least_us <= both.most_us).then_some(both)
    }
}

/// How far clocks may drift apart in this time, rounded up.
fn drift_us(apart_us: i64) -> i64 {
    apart_us / (1_000_000 / DRIFT_PPM) + i64::from(apart_us > 0)
}

/// A reading as a signed number, so small that sums of a few cannot overflow.
fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_direction_bounds_the_offset_from_its_side() {
        let mut clocks = Comparison::default();
        // The sender's clock is 4 s ahead; 5 ms there, 35 ms back.
        clocks.exchange(1_000_000, 5_005_000, 1_040_000);
        let first = clocks.bounds(1_040_000);
        // 2 us of drift on the way back.
        assert_eq!((first.offset_us(), first.error_ms()), (3_985_001, 20.001));
        // A frame took 2 ms.
        clocks.frame(5_100_000, 1_102_000);
        let second = clocks.bounds(1_102_000);
        assert_eq!((second.least_us, second.most_us), (3_998_000, 4_005_004));
        // 30 ms there, 1 ms back: only the second half tells something new.
        clocks.exchange(1_200_000, 5_230_000, 1_231_000);
        let third = clocks.bounds(1_231_000);
        assert_eq!(third.least_us, 3_999_000);
        assert!((4_005_000..4_005_010).contains(&third.most_us));
    }

    #[test]
    fn a_frame_is_never_older_than_its_arrival_allows() {
        let mut clocks = Comparison::default();
        // On one machine; the first answer took 30 ms.
        clocks.exchange(0, 100, 30_000);
        assert_eq!(clocks.bounds(30_000).offset_us(), -14_900);
        for number in 1..10_u64 {
            let captured_us = number * 40_000;
            let arrived_us = captured_us as i64 + 200;
            clocks.frame(captured_us, arrived_us);
            let delay_us = 200 + clocks.bounds(arrived_us).offset_us();
            assert!(delay_us >= 0, "{delay_us}");
        }
    }

    #[test]
    fn later_exchanges_tell_about_earlier_times() {
        let mut clocks = Comparison::default();
        clocks.exchange(0, 100, 30_000);
        clocks.exchange(100_000, 100_100, 100_200);
        let settled: Vec<_> = clocks
            .settle([30_000, 60_000, 200_000].into_iter())
            .collect();
        for bounds in settled {
            assert!(bounds.offset_us().abs() <= 10, "{bounds:?}");
            assert!(bounds.error_ms() < 0.2, "{bounds:?}");
        }
    }

    #[test]
    fn a_clock_that_is_set_is_compared_anew() {
        let mut clocks = Comparison::default();
        clocks.exchange(0, 50, 100);
        clocks.frame(3_600_000_000, 1_000_000);
        assert!(clocks.bounds(1_000_000).offset_us().abs() < 100);
        clocks.exchange(2_000_000, 3_602_000_050, 2_000_100);
        assert_eq!(clocks.bounds(2_000_100).offset_us(), 3_600_000_000);
        let settled: Vec<_> = clocks.settle([1000, 2_100_000].into_iter()).collect();
        assert!(settled[0].offset_us().abs() < 100, "{settled:?}");
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_bounds_however_clocks_drift_and_packets_wait(
            ahead_us in 0_i64..10_000_000,
            ppm in -DRIFT_PPM..=DRIFT_PPM,
            events in proptest::collection::vec((1_i64..20_000_000, 0_i64..300_000, 0_i64..300_000, any::<bool>()), 1..40),
        ) {
            let sender = |at_us: i64| (at_us + ahead_us + at_us * ppm / 1_000_000) as u64;
            let mut clocks = Comparison::default();
            clocks.exchange(0, sender(1000), 2000);
            let (mut now_us, mut times) = (2000, vec![2000]);
            for (pause_us, there_us, back_us, is_frame) in events {
                let asked_us = now_us + pause_us;
                now_us = asked_us + there_us + back_us;
                match is_frame {
                    true => clocks.frame(sender(asked_us), now_us),
                    false => clocks.exchange(asked_us as u64, sender(asked_us + there_us), now_us as u64),
                }
                times.push(now_us);
                let (truth, known) = (sender(now_us) as i64 - now_us, clocks.bounds(now_us));
                prop_assert!((known.least_us - 2..=known.most_us + 2).contains(&truth), "{known:?} {truth}");
            }
            let settled: Vec<_> = clocks.settle(times.iter().copied()).collect();
            for (at_us, known) in times.iter().zip(settled) {
                let truth = sender(*at_us) as i64 - at_us;
                prop_assert!((known.least_us - 2..=known.most_us + 2).contains(&truth), "{known:?} {truth}");
            }
        }

        #[test]
        fn no_reading_is_too_absurd(readings in proptest::collection::vec(any::<(u64, u64, u64, i64)>(), 1..20)) {
            let mut clocks = Comparison::default();
            for (asked, server, answered, arrived) in readings {
                clocks.exchange(asked, server, answered);
                clocks.frame(server, arrived);
                let bounds = clocks.bounds(arrived);
                let _ = (bounds.offset_us(), bounds.error_ms());
            }
            let _ = clocks.settle([i64::MIN, 0, i64::MAX].into_iter()).count();
        }
    }
}
