//! Clocks of both sides, and the offset between them.

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
    /// The offset was estimated from one exchange of messages. All delays can be wrong by up to
    /// half the time of the exchange.
    Estimated {
        /// The offset to subtract from the sender's times.
        offset_us: i64,
        /// The greatest possible error in milliseconds.
        error_ms: f64,
    },
}

impl Clock {
    /// Returns the reading at `now`, but no earlier than at [`at`](Self::at).
    pub fn read(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.at).as_micros();
        self.micros
            .saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

impl ClockReport {
    /// Estimates from our readings around the server's, which most likely was in the middle.
    pub(super) fn estimated(asked_us: u64, server_us: u64, answered_us: u64) -> Self {
        let half_us = answered_us.saturating_sub(asked_us) / 2;
        let middle_us = asked_us.saturating_add(half_us);
        let apart = i128::from(server_us) - i128::from(middle_us);
        Self::Estimated {
            offset_us: i64::try_from(apart).unwrap_or(if apart < 0 { i64::MIN } else { i64::MAX }),
            error_ms: half_us as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_that_of_the_middle_of_the_exchange() {
        let report = ClockReport::estimated(1_000_000, 5_030_000, 1_040_000);
        let expected = ClockReport::Estimated {
            offset_us: 4_010_000,
            error_ms: 20.0,
        };
        assert_eq!(report, expected);
        let ClockReport::Estimated { offset_us, .. } = ClockReport::estimated(0, u64::MAX, 10)
        else {
            panic!("it is estimated");
        };
        assert_eq!(offset_us, i64::MAX);
    }
}
