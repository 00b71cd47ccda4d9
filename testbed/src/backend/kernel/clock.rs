//! The machine's clock, for the backends that run in its time.

use std::time::{Duration, Instant};

#[expect(
    clippy::disallowed_methods,
    reason = "a kernel backend runs in the machine's time"
)]
pub(in crate::backend) fn wall_clock() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a kernel backend runs in the machine's time"
)]
pub(in crate::backend) fn pause(time: Duration) {
    std::thread::sleep(time);
}
