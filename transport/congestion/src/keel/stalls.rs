//! Finds out for how long a path holds packets back although it can deliver, as crowded Wi-Fi
//! does.
//!
//! A link behind which a queue waits delivers it at the link's rate. A path that has held packets
//! back delivers all of them at once: that shows a stall, and that the path has caught up with it.
//! A window of R x (base + the longest stall) keeps the link busy through all of them; a smaller
//! one leaves it idle after each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::delay::{NOTICED, SHORT};
use crate::controller::Ack;

/// Stalls and rates are remembered for this long.
const MEMORY: Duration = Duration::from_secs(2);

/// What is short is no stall, what is longer is an outage. Crowded Wi-Fi holds packets
/// back for up to 165 ms at a mean of 7 ms (private-octopus/c4, doc/c4-tests.md).
const LONGEST: Duration = Duration::from_millis(200);

/// Stalls count if the longest is longer than this many times the target, and than the empty round
/// trip over [`NOTICED`]: a queue on the target covers the rest.
const TARGETS: u32 = 2;

/// Once it is over, half of what the link would have delivered meanwhile, and at least this many
/// packets, come within this part of its length: at least at twice the link's rate.
const CAUGHT_UP: f64 = 0.5;
const CAUGHT_UP_PACKETS: f64 = 8.0;
const BURST: u32 = 4;

/// The stalls of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Stalls {
    last: Option<Instant>,
    over: Option<Over>,
    /// The remembered ones: when they ended, and their lengths.
    past: VecDeque<(Instant, Duration)>,
    /// Delivery rates in bytes per second, without those that a later one exceeds: the first is the
    /// greatest.
    rates: VecDeque<(Instant, f64)>,
}

/// Something that may have been a stall is over.
#[derive(Debug, Clone, Copy)]
struct Over {
    length: Duration,
    /// Until then the path must have caught up, by this many bytes.
    until: Instant,
    missing: f64,
}

impl Stalls {
    /// Takes in an ACK on a path with this empty round trip, for a flow with packets of `packet`
    /// bytes, which has seen `bandwidth` bytes per second delivered.
    pub(super) fn on_ack(&mut self, ack: &Ack, base: Duration, bandwidth: f64, packet: f64) {
        let now = ack.now;
        let is_old = |at: Instant| now.saturating_duration_since(at) > MEMORY;
        while self.past.front().is_some_and(|(at, _)| is_old(*at)) {
            self.past.pop_front();
        }
        while self.rates.front().is_some_and(|(at, _)| is_old(*at)) {
            self.rates.pop_front();
        }
        while self
            .rates
            .back()
            .is_some_and(|(_, rate)| *rate <= bandwidth)
        {
            self.rates.pop_back();
        }
        self.rates.push_back((now, bandwidth));
        let gap = self
            .last
            .replace(now)
            .map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.over.take_if(|over| now > over.until);
        if self.over.is_none()
            && let Some(rtt) = ack.rtt
        {
            let length = gap.min(rtt.saturating_sub(base));
            if length > SHORT && length <= LONGEST {
                let held = (self.rate() * length.as_secs_f64()).min(ack.in_flight as f64);
                self.over = Some(Over {
                    length,
                    until: now + length / BURST,
                    missing: (CAUGHT_UP * held).max(CAUGHT_UP_PACKETS * packet),
                });
            }
        }
        if let Some(over) = &mut self.over {
            over.missing -= ack.bytes as f64;
            if over.missing <= 0.0 {
                self.past.push_back((now, over.length));
                self.over = None;
            }
        }
    }

    /// The greatest delivery rate in memory, in bytes per second.
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// The window in bytes below which stalls leave the link idle, on a path with this empty round
    /// trip for a flow with this target; 0 if it has no stalls.
    pub(super) fn floor(&self, base: Duration, target: Duration) -> f64 {
        let least = (target * TARGETS).max(base / NOTICED);
        let longest = self.past.iter().map(|(_, length)| *length).max();
        longest
            .filter(|longest| *longest > least)
            .map_or(0.0, |longest| self.rate() * (base + longest).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const BASE: Duration = Duration::from_millis(10);
    const TARGET: Duration = Duration::from_millis(5);

    /// ACKs at these times in milliseconds, with these round trips in milliseconds and bytes, on a
    /// path that delivers 1 MB/s, with 100 kB in flight.
    fn stalls(acks: impl IntoIterator<Item = (u64, u64, u64)>) -> Stalls {
        let mut stalls = Stalls::default();
        for (at, rtt, bytes) in acks {
            let now = epoch() + ms(1000 + at);
            let ack = Ack {
                in_flight: 100_000,
                ..Ack::new(now, now - ms(rtt), bytes)
            };
            stalls.on_ack(&ack, BASE, 1e6, 1000.0);
        }
        stalls
    }

    /// An ACK each 2 ms, but in the first `held` of each 100 ms; what was held comes in the 2 ms
    /// after it if the path `catches_up`, else never.
    fn held(held: u64, catches_up: bool) -> Stalls {
        let ack = |at: u64| match at % 100 {
            0 => (at, 10 + held, if catches_up { 1000 * held } else { 2000 }),
            _ => (at, 10, 2000),
        };
        stalls(
            (0..1900)
                .step_by(2)
                .filter(|at| at % 100 == 0 || at % 100 < 100 - held)
                .map(ack),
        )
    }

    #[test]
    fn a_queue_of_any_length_is_no_stall() {
        // It grows from nothing to 50 ms and is gone again, each 100 ms.
        let queue = stalls((0..2000).step_by(2).map(|at| (at, 10 + at % 100 / 2, 2000)));
        assert_eq!(queue.floor(BASE, TARGET), 0.0);
    }

    #[test]
    fn a_window_covers_the_longest_stall_at_the_rate_between_stalls() {
        // 30 ms in each 100 nothing is delivered: the gap is from the ACK before, 32 ms.
        let stalls = held(30, true);
        // 1 MB/s in 10 + 30 ms.
        assert!((stalls.floor(BASE, TARGET) - 40_000.0).abs() < 1.0);
        // At most twice the target is none.
        assert_eq!(held(10, true).floor(BASE, TARGET), 0.0);
    }

    #[test]
    fn a_gap_after_which_the_path_does_not_catch_up_is_no_stall() {
        assert_eq!(held(30, false).floor(BASE, TARGET), 0.0);
    }

    #[test]
    fn what_lasts_longer_than_200_milliseconds_is_an_outage() {
        let after = |gap| stalls([(0, 10, 2000), (gap, gap + 10, 100_000)]).floor(BASE, TARGET);
        assert!((after(200) - 210_000.0).abs() < 1.0);
        assert_eq!(after(202), 0.0);
    }

    #[test]
    fn stalls_are_forgotten_after_2_seconds() {
        let acks = [(0, 10, 2000), (100, 110, 100_000), (2100, 10, 2000)];
        assert!(stalls(acks).floor(BASE, TARGET) > 0.0);
        assert_eq!(
            stalls(acks.into_iter().chain([(2101, 10, 2000)])).floor(BASE, TARGET),
            0.0
        );
    }
}
