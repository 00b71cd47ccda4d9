//! Reports the state of a connection's path to applications.

use std::time::Duration;

/// A connection's path as its congestion controller sees it.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct PathState {
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// The controller's own window in bytes, not the one that quinn sees.
    pub window: u64,
    /// The window in bytes at which slow start ends; `None` until set.
    pub slow_start_threshold: Option<u64>,
    /// Smoothed round trip time (RFC 9002, section 5.3); `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Bytes of UDP payload per second at which packets leave; `None` while unpaced: before the
    /// first round trip sample, and on paths too short for pacing.
    pub pacing_rate: Option<u64>,
    /// How often pacing has held packets back on this path.
    pub pacing_waits: u64,
    /// Bytes in flight after the last ACK.
    pub in_flight: u64,
    /// The application kept the connection from sending more, not the window or the pacer.
    pub app_limited: bool,
    /// The rate that the controller asks for, in bytes of UDP payload per second; `None` if it has
    /// only a window. Packets leave at this rate only with [`Pacing::Controller`](crate::Pacing).
    pub own_rate: Option<u64>,
}

impl PathState {
    pub(crate) fn new(mtu: u16) -> Self {
        Self {
            mtu,
            app_limited: true,
            ..Self::default()
        }
    }

    /// Returns the bytes of UDP payload per second that the controller lets the path carry at
    /// present: its window per round trip, or the rate it asks for if that is lower. `None` before
    /// the first round trip sample.
    ///
    /// Set an encoder a tenth lower, to leave room for packet headers, retransmissions and audio.
    /// While the application sends less than this rate, the controller has not tried it.
    pub fn rate_estimate(&self) -> Option<u64> {
        let rtt = self.smoothed_rtt?;
        let most = rate(self.window, rtt);
        Some(self.own_rate.map_or(most, |own| own.min(most)))
    }
}

/// Returns `bytes` per `time`, in bytes per second.
pub(crate) fn rate(bytes: u64, time: Duration) -> u64 {
    let nanoseconds = time.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}
