//! X_recv_set: tracks how fast data has arrived lately (RFC 5348, section 4.3).

use std::time::{Duration, Instant};

/// Round trips after which rates are forgotten (RFC 5348, section 4.3, Update X_recv_set).
const ROUND_TRIPS: u32 = 2;

/// Rates at which data was acknowledged, in bytes per second, each with its time.
#[derive(Debug, Clone)]
pub(super) struct ReceiveRates {
    entries: Vec<(Instant, f64)>,
}

impl ReceiveRates {
    /// Creates a set that limits nothing until its entry is two round trips old or replaced.
    pub(super) fn unlimited(now: Instant) -> Self {
        Self {
            entries: vec![(now, f64::INFINITY)],
        }
    }

    /// Returns the greatest rate.
    pub(super) fn max(&self) -> f64 {
        self.entries
            .iter()
            .map(|(_, rate)| *rate)
            .fold(0.0, f64::max)
    }

    /// Adds a rate and forgets those that are too old.
    pub(super) fn update(&mut self, now: Instant, rate: f64, rtt: Duration) {
        let age = |at| now.saturating_duration_since(at);
        self.entries
            .retain(|(at, _)| age(*at) <= rtt.saturating_mul(ROUND_TRIPS));
        self.entries.push((now, rate));
    }

    /// Keeps only the greatest rate, as of now: a sender that sent less than it might have learns
    /// nothing from what arrived. An unlimited set begins to limit.
    pub(super) fn maximize(&mut self, now: Instant, rate: f64) {
        self.entries.retain(|(_, rate)| rate.is_finite());
        self.entries.push((now, rate));
        self.replace(now, self.max());
    }

    /// Halves all rates.
    pub(super) fn halve(&mut self) {
        for (_, rate) in &mut self.entries {
            *rate /= 2.0;
        }
    }

    /// Replaces all rates by this one.
    pub(super) fn replace(&mut self, now: Instant, rate: f64) {
        self.entries.clear();
        self.entries.push((now, rate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    #[test]
    fn the_greatest_rate_of_two_round_trips_counts() {
        let t0 = epoch();
        let mut rates = ReceiveRates::unlimited(t0);
        // (now in ms, rate, the greatest)
        let table = [
            (100, 50.0, f64::INFINITY),
            (200, 70.0, f64::INFINITY),
            (300, 60.0, 70.0),
            (400, 40.0, 70.0),
            (401, 30.0, 60.0),
        ];
        for (now, rate, most) in table {
            rates.update(t0 + ms(now), rate, ms(100));
            assert_eq!(rates.max(), most, "at {now} ms");
        }
    }

    #[test]
    fn an_interval_limited_by_its_data_keeps_the_maximum_and_makes_it_new() {
        let t0 = epoch();
        let mut rates = ReceiveRates::unlimited(t0);
        rates.maximize(t0 + ms(100), 50.0);
        assert_eq!(rates.max(), 50.0, "no longer unlimited");
        rates.maximize(t0 + ms(200), 10.0);
        rates.maximize(t0 + ms(900), 20.0);
        assert_eq!(rates.max(), 50.0);
        rates.update(t0 + ms(1100), 15.0, ms(100));
        assert_eq!(rates.max(), 50.0, "as of 900 ms");
        rates.halve();
        assert_eq!(rates.max(), 25.0);
        rates.update(t0 + ms(1101), 16.0, ms(100));
        assert_eq!(rates.max(), 16.0);
        rates.replace(t0 + ms(1200), 3.0);
        assert_eq!(rates.max(), 3.0);
    }
}
