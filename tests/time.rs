//! Times of unit tests.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The instant at which tests begin, the same at each call. An `Instant` can only come from the clock;
/// nothing depends on which one it is.
#[expect(
    clippy::disallowed_methods,
    reason = "the one source of a first Instant for tests"
)]
pub fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// A duration in milliseconds.
pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A duration in microseconds.
pub fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}
