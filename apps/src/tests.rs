//! What the unit tests of several modules share.

use std::time::{Duration, Instant};

use evenkeel::PathSample;
pub(crate) use evenkeel_tests::time::{epoch, ms};

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
