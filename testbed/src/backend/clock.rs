//! The machine's clock, for what runs in its time.

use std::time::{Duration, Instant};

/// What the machine's clock says.
#[expect(
    clippy::disallowed_methods,
    reason = "kernel backends and the program run in the machine's time"
)]
pub fn wall_clock() -> Instant {
    Instant::now()
}

/// Waits for so long.
#[expect(
    clippy::disallowed_methods,
    reason = "kernel backends and the program run in the machine's time"
)]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
