//! Waits on any runtime's clock, and formats times for records.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use quinn::Runtime;

/// Waits until `at` on the runtime's own clock.
pub(crate) async fn sleep_until(runtime: &dyn Runtime, at: Instant) {
    let mut timer = runtime.new_timer(at);
    poll_fn(|context| timer.as_mut().poll(context)).await;
}

/// Returns milliseconds, exact to the nanosecond, without superfluous digits.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_time_is_shown_to_the_nanosecond() {
        let time = Duration::from_nanos(40_000_001);
        assert_eq!(milliseconds(time).to_string(), "40.000001");
    }
}
