//! Tracks how long a controller may act on routers' feedback: `docs/path-header.md`, section 4.3,
//! Expiry.

use std::time::{Duration, Instant};

use evenkeel_wire::ECHO_LIFETIME;

/// Feedback holds for this many round trips.
const ROUND_TRIPS: u32 = 4;

/// Feedback holds at least this long.
const LEAST_HOLD: Duration = Duration::from_millis(100);

/// Returns how long routers' feedback holds, for controllers and for all that shows it, on a path
/// with a round trip time of `rtt`: four round trips, at least 100 ms, and at most as long as a
/// header may be echoed (`docs/path-header.md`, section 4.3, Expiry).
pub fn feedback_lifetime(rtt: Duration) -> Duration {
    let round_trips = rtt.saturating_mul(ROUND_TRIPS);
    round_trips.clamp(LEAST_HOLD, ECHO_LIFETIME)
}

/// Share of a new sample in the smoothed round trip time, as a power of two: 1/8
/// (RFC 9002, section 5.3).
const SMOOTHING: u32 = 8;

/// Whether there is feedback to act on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Freshness {
    smoothed_rtt: Option<Duration>,
    heard: Option<Instant>,
}

impl Freshness {
    /// Updates the smoothed round trip time with `rtt`.
    pub(crate) fn on_rtt(&mut self, rtt: Duration) {
        self.smoothed_rtt = Some(self.smoothed_rtt.map_or(rtt, |smoothed| {
            smoothed.saturating_mul(SMOOTHING - 1).saturating_add(rtt) / SMOOTHING
        }));
    }

    /// Notes feedback at `now`.
    pub(crate) fn on_feedback(&mut self, now: Instant) {
        self.heard = Some(self.heard.map_or(now, |heard| heard.max(now)));
    }

    /// Drops the feedback; nothing holds until there is new.
    pub(crate) fn forget(&mut self) {
        self.heard = None;
    }

    /// Returns true if the last feedback holds at `now`. Ask after reading what came with an ACK:
    /// at less than a packet in the time that feedback holds, each ACK brings its own.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        self.heard
            .is_some_and(|heard| now.saturating_duration_since(heard) <= self.hold())
    }

    /// Returns for how long feedback holds.
    pub(crate) fn hold(&self) -> Duration {
        feedback_lifetime(self.smoothed_rtt())
    }

    /// Returns the smoothed round trip time, 0 before the first sample.
    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.smoothed_rtt.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    #[test]
    fn feedback_holds_for_four_round_trips_within_bounds() {
        // (round trip in ms, hold in ms)
        for (rtt, hold) in [(1, 100), (25, 100), (80, 320), (2000, 8000)] {
            let mut freshness = Freshness::default();
            freshness.on_rtt(ms(rtt));
            assert_eq!(freshness.hold(), ms(hold));
            let t0 = epoch();
            assert!(!freshness.holds(t0), "nothing was heard yet");
            freshness.on_feedback(t0);
            assert!(freshness.holds(t0 + ms(hold)));
            assert!(!freshness.holds(t0 + ms(hold) + Duration::from_nanos(1)));
            freshness.on_feedback(t0 + ms(5000));
            freshness.on_feedback(t0);
            assert!(freshness.holds(t0 + ms(5000 + hold)), "the newest counts");
        }
        let mut freshness = Freshness::default();
        assert_eq!(freshness.hold(), ms(100), "before a sample");
        freshness.on_rtt(Duration::MAX);
        assert_eq!(freshness.hold(), ECHO_LIFETIME);
    }

    #[test]
    fn the_smoothed_round_trip_is_that_of_rfc_9002() {
        let mut freshness = Freshness::default();
        freshness.on_rtt(ms(80));
        freshness.on_rtt(ms(160));
        assert_eq!(freshness.smoothed_rtt(), ms(90));
    }
}
