//! Reads the machine's clock, and waits; nothing else in this program does.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

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

/// Converts instants to CLOCK_MONOTONIC, from which Linux reads them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    instant: Instant,
    reading: Duration,
}

impl Monotonic {
    /// Reads both clocks. The nanoseconds in between make timers late, not early.
    pub(crate) fn read() -> Self {
        let instant = now();
        let reading = clock_gettime(ClockId::Monotonic);
        Self {
            instant,
            reading: Duration::try_from(reading).expect("CLOCK_MONOTONIC counts from the boot"),
        }
    }

    /// Returns an instant as the kernel's timers expect it.
    pub(crate) fn timespec(&self, at: Instant) -> Timespec {
        let since = at.saturating_duration_since(self.instant);
        Timespec::try_from(self.reading + since).expect("links refuse times beyond a century")
    }
}
