//! Reads the machine's clock, and waits; nothing else in this program does.

use std::time::{Duration, Instant};

/// Returns the present time.
#[expect(
    clippy::disallowed_methods,
    reason = "a daemon in real time: everything else takes the time as an argument"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits, within a tokio runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "a daemon in real time, for what no packet depends on"
)]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
