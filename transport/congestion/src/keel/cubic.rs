//! The window of CUBIC (RFC 9438): how keel grows after a loss, and holds its share beside others.

use std::time::{Duration, Instant};

/// C, in packets per cubic second (RFC 9438, section 5.1).
const C: f64 = 0.4;

/// beta_cubic (RFC 9438, section 4.6).
pub(super) const BETA: f64 = 0.7;

/// Packets per round trip by which Reno's window grows if it falls by as much (RFC 9438,
/// section 4.3).
fn friendly(beta: f64) -> f64 {
    3.0 * (1.0 - beta) / (1.0 + beta)
}

/// A curve from one reduction to the next. Windows are packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    since: Instant,
    from: f64,
    most: f64,
    beta: f64,
}

impl Curve {
    /// The window was `most` and is now `from`; losses leave the part `beta`.
    pub(super) fn new(since: Instant, from: f64, most: f64, beta: f64) -> Self {
        Self {
            since,
            from,
            most: most.max(from),
            beta,
        }
    }

    /// The part of a window that losses leave.
    pub(super) fn beta(&self) -> f64 {
        self.beta
    }

    /// The window at which the last reduction came.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// The window at `now`, on a path of `rtt` (RFC 9438, sections 4.2 to 4.5; Reno's window grows
    /// as slowly beyond the last reduction as below it, as in RFC 8312, section 4.2).
    pub(super) fn window(&self, now: Instant, rtt: Duration) -> f64 {
        self.cubic(now, rtt).max(self.reno(now, rtt))
    }

    /// The same without Reno's growth beyond the window of the last reduction: nobody competes.
    pub(super) fn alone(&self, now: Instant, rtt: Duration) -> f64 {
        self.cubic(now, rtt).max(self.reno(now, rtt).min(self.most))
    }

    fn reno(&self, now: Instant, rtt: Duration) -> f64 {
        self.from + friendly(self.beta) * self.time(now) / rtt.as_secs_f64().max(1e-6)
    }

    fn cubic(&self, now: Instant, rtt: Duration) -> f64 {
        let plateau = ((self.most - self.from) / C).cbrt();
        let time = self.time(now) + rtt.as_secs_f64() - plateau;
        C * time.powi(3) + self.most
    }

    fn time(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.since).as_secs_f64()
    }

    /// Stands still for `time`: the application had nothing to send.
    pub(super) fn pause(&mut self, time: Duration) {
        self.since += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    #[test]
    fn on_short_paths_it_grows_like_reno_also_beyond_its_last_window() {
        let curve = Curve::new(epoch(), 7.0, 10.0, BETA);
        let after = |rounds: u32| curve.window(epoch() + ms(10) * rounds, ms(10));
        // 0.53 packets a round trip.
        assert!((after(4) - 9.1).abs() < 0.1, "{}", after(4));
        assert!((after(16) - 15.5).abs() < 0.1, "{}", after(16));
        // Without competitors it stays there until the cube of time exceeds it.
        let alone = curve.alone(epoch() + ms(160), ms(10));
        assert!((alone - 10.0).abs() < 0.1, "{alone}");
    }

    #[test]
    fn on_long_paths_it_follows_the_cube_of_time() {
        let curve = Curve::new(epoch(), 70.0, 100.0, BETA);
        // K = cbrt(30 / 0.4) = 4.22 s; the window is looked up a round trip ahead.
        let near = |at: u64, expected: f64| {
            let window = curve.window(epoch() + ms(at), ms(200));
            assert!((window - expected).abs() < 0.1, "{window} at {at} ms");
        };
        near(0, 74.1);
        near(4017, 100.0);
        near(8000, 125.3);
    }

    #[test]
    fn a_pause_moves_the_curve_by_its_length() {
        let mut curve = Curve::new(epoch(), 70.0, 100.0, BETA);
        let before = curve.window(epoch() + ms(1500), ms(200));
        curve.pause(ms(1000));
        assert_eq!(curve.window(epoch() + ms(2500), ms(200)), before);
    }
}
