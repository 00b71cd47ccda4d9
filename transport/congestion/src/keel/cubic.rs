//! The window of CUBIC (RFC 9438): how keel grows after a loss, and holds its share beside others.

use std::time::{Duration, Instant};

/// C, in packets per cubic second (RFC 9438, section 5.1).
const C: f64 = 0.4;

/// beta_cubic (RFC 9438, section 4.6).
pub(super) const BETA: f64 = 0.7;

/// Packets per round trip by which Reno's window grows if it falls by as much (RFC 9438,
/// section 4.3).
const FRIENDLY: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// A curve from one reduction to the next. Windows are packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    since: Instant,
    from: f64,
    most: f64,
}

impl Curve {
    /// The window was `most` and is now `from`.
    pub(super) fn new(since: Instant, from: f64, most: f64) -> Self {
        Self {
            since,
            from,
            most: most.max(from),
        }
    }

    /// The window at which the last reduction came.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// The window at `now`, on a path of `rtt` (RFC 9438, sections 4.2 to 4.5).
    pub(super) fn window(&self, now: Instant, rtt: Duration) -> f64 {
        let time = now.saturating_duration_since(self.since).as_secs_f64();
        let plateau = ((self.most - self.from) / C).cbrt();
        let cubic = C * (time + rtt.as_secs_f64() - plateau).powi(3) + self.most;
        let reno = self.from + FRIENDLY * time / rtt.as_secs_f64().max(1e-6);
        cubic
            .max(if reno < self.most { reno } else { 0.0 })
            .max(self.from)
    }

    /// Stands still for `time`: the application had nothing to send.
    pub(super) fn pause(&mut self, time: Duration) {
        self.since += time;
    }
}
