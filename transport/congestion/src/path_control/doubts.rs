//! Finds round trips that only the date of an ACK makes short.
//!
//! quinn dates what an endpoint receives by the time at which it began to read. A thread that the
//! system sets aside between the two reads ACKs that arrived later, and so dates them early. Such a
//! round trip lacks the time for which the thread stood still. Controllers that know a path by its
//! least round trip would keep it.

use std::time::{Duration, Instant};

/// A round trip below this part of the least one is doubtful. What a smaller error costs is less
/// than what jitter costs anyway.
const PART: f64 = 0.75;

/// A doubt lasts for so long. Threads are set aside for milliseconds; a path that has become
/// shorter shows it with most ACKs.
const LIFETIME: Duration = Duration::from_secs(1);

/// The least round trip of a path, and a doubtful one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubts {
    least: Option<Duration>,
    /// The date of the ACK that gave a doubtful one.
    since: Option<Instant>,
}

impl Doubts {
    /// An ACK that is dated `now` gives a round trip of `rtt`. Returns whether it does not count: it
    /// is far below the least before, and no ACK that was read at another time confirms it.
    pub(crate) fn on_rtt(&mut self, now: Instant, rtt: Duration) -> bool {
        let is_far_below = self.least.is_some_and(|least| rtt < least.mul_f64(PART));
        if is_far_below && !self.is_confirmed(now) {
            self.since = Some(now);
            return true;
        }
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        false
    }

    fn is_confirmed(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| {
            let age = now.saturating_duration_since(since);
            age > Duration::ZERO && age <= LIFETIME
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    /// Whether each of these round trips, (date in ms, length in ms), counts.
    fn counted(samples: &[(u64, u64)]) -> Vec<bool> {
        let mut doubts = Doubts::default();
        let mut counts = |(at, rtt)| !doubts.on_rtt(epoch() + ms(at), ms(rtt));
        samples.iter().map(|sample| counts(*sample)).collect()
    }

    #[test]
    fn a_round_trip_far_below_the_least_counts_when_an_ack_of_another_poll_confirms_it() {
        assert_eq!(
            counted(&[(0, 40), (10, 20), (10, 21), (20, 40), (30, 22), (40, 20)]),
            [true, false, false, true, true, true]
        );
    }

    #[test]
    fn a_doubt_ends_after_a_second() {
        assert_eq!(
            counted(&[(0, 40), (10, 20), (1011, 20), (1012, 20)]),
            [true, false, false, true]
        );
    }

    #[test]
    fn a_round_trip_little_below_the_least_counts_at_once() {
        assert_eq!(counted(&[(0, 40), (10, 30), (20, 23)]), [true, true, true]);
    }
}
