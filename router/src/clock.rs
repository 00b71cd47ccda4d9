//! The machine's clock: the only place of this program that reads it.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a daemon in real time: everything else takes the time as an argument"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Translates instants to CLOCK_MONOTONIC, which they are read from on Linux.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    instant: Instant,
    reading: Duration,
}

impl Monotonic {
    /// Reads both; they differ by the nanoseconds in between, which make timers late, not early.
    pub(crate) fn read() -> Self {
        let instant = now();
        let reading = clock_gettime(ClockId::Monotonic);
        Self {
            instant,
            reading: Duration::try_from(reading).expect("CLOCK_MONOTONIC counts from the boot"),
        }
    }

    /// An instant as the kernel's timers want it.
    pub(crate) fn timespec(&self, at: Instant) -> Timespec {
        let since = at.saturating_duration_since(self.instant);
        Timespec::try_from(self.reading + since).expect("links refuse times beyond a century")
    }
}
