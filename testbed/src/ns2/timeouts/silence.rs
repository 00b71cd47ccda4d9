//! Finds probe timeouts.
//!
//! A probe leaves however full the window is (RFC 9002, section 7.5), after more than a round trip
//! without an ACK. Nothing else does both. A timeout with room in the window is not found: then
//! something else limits the connection.

use std::time::{Duration, Instant};

/// Bytes of the least batch that counts: half of the least full-size packet. Packets that hold
/// only ACKs are smaller, and are not in flight; probes that hold data are not.
const LEAST_BATCH: u64 = 600;

/// What is in flight, and how long no ACK has come for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Silence {
    /// When an ACK came last, or a probe timeout passed.
    since: Instant,
    /// From sending the newest packet of the last ACK to that ACK; `None` before the first one.
    round_trip: Option<Duration>,
    /// Bytes in flight: those that quinn reported with the last ACK, and what was sent since.
    in_flight: u64,
}

impl Silence {
    /// The connection begins at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            round_trip: None,
            in_flight: 0,
        }
    }

    /// An ACK came whose newest packet was sent at `sent`; it leaves `in_flight` bytes.
    pub(super) fn on_ack(&mut self, now: Instant, sent: Instant, in_flight: u64) {
        *self = Self {
            since: now,
            round_trip: Some(now.saturating_duration_since(sent)),
            in_flight,
        };
    }

    /// Bytes were found lost.
    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// A batch of `bytes` leaves while quinn uses a window of `window` bytes. Returns whether it
    /// shows a probe timeout.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, window: u64) -> bool {
        if bytes < LEAST_BATCH {
            return false;
        }
        self.in_flight = self.in_flight.saturating_add(bytes);
        let silence = now.saturating_duration_since(self.since);
        let too_long = self.round_trip.is_some_and(|rtt| silence > rtt);
        let timeout = too_long && self.in_flight > window;
        if timeout {
            self.since = now;
        }
        timeout
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;

    const WINDOW: u64 = 10_001;

    #[test]
    fn only_what_leaves_beyond_a_window_that_nobody_acknowledges_is_a_probe() {
        let t0 = epoch();
        let at = |now| t0 + ms(now);
        let mut silence = Silence::new(t0);
        assert!(!silence.on_sent(at(0), 12_000, WINDOW));
        assert!(
            !silence.on_sent(at(300), 1000, WINDOW),
            "no round trip is known"
        );
        silence.on_ack(at(400), at(300), 9000);
        // (now, bytes, window, whether it is a probe)
        for (now, bytes, window, probe) in [
            (400, 1000, WINDOW, false),
            (400, 40, WINDOW, false),   // an ACK
            (450, 1200, WINDOW, false), // too soon
            (500, 1200, WINDOW, false), // a round trip: still too soon
            (501, 1200, WINDOW, true),
            (501, 1200, WINDOW, false), // the second probe of the same timeout
            (601, 1200, 2401, false),
            (750, 1200, 2401, true),
        ] {
            assert_eq!(silence.on_sent(at(now), bytes, window), probe, "at {now}");
        }
        silence.on_lost(16_000);
        assert!(
            !silence.on_sent(at(900), 1200, WINDOW),
            "losses leave room in the window"
        );
    }

    #[test]
    fn an_ack_ends_the_silence() {
        let t0 = epoch();
        let mut silence = Silence::new(t0);
        silence.on_ack(t0 + ms(100), t0, 10_000);
        silence.on_ack(t0 + ms(190), t0 + ms(100), 10_000);
        assert!(!silence.on_sent(t0 + ms(250), 1200, WINDOW));
        assert!(silence.on_sent(t0 + ms(281), 1200, WINDOW));
    }
}
