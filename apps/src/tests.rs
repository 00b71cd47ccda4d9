//! What the unit tests of several modules share.

use std::time::{Duration, Instant};

use evenkeel::PathSample;

/// The instant at which a test begins. An `Instant` can only come from the clock; nothing depends
/// on which one it is.
#[expect(
    clippy::disallowed_methods,
    reason = "the one source of a first Instant for tests"
)]
pub(crate) fn epoch() -> Instant {
    Instant::now()
}

/// A duration in milliseconds.
pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A round trip over a path whose routers report nothing.
pub(crate) fn path_sample(now: Instant, rtt: Duration) -> PathSample {
    PathSample {
        now,
        rtt,
        forward_queueing: None,
        backward_queueing: None,
        complete: false,
        grant: None,
        congested: false,
        flows: None,
    }
}
