//! Reports to an application what its controllers see and decide.

use std::time::{Duration, Instant};

use crate::controller::PathSample;

/// Receives what every controller of one factory sees and decides.
///
/// The connection calls it while it works, for every ACK frame and for every batch of packets that
/// it sends. An observer must be quick and must not block.
pub trait Observer: Send + Sync {
    /// A factory built a controller at `now`: a connection begins, or its path has changed.
    fn on_start(&self, now: Instant) {
        let _ = now;
    }

    /// A transmit batch of `bytes` bytes of UDP payload left. Packets with nothing but ACKs count.
    /// Probes for a larger packet size do not.
    fn on_sent(&self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// The controller has processed an ACK frame.
    fn on_acks(&self, report: &AckReport) {
        let _ = report;
    }

    /// A path header measured a round trip. The call comes when the header's echo arrives, possibly
    /// on another thread. The controller gets the sample later, with the next ACK.
    fn on_path(&self, sample: &PathSample) {
        let _ = sample;
    }

    /// quinn found losses, or a mark if `lost` is 0 bytes. Every detection is reported, even if
    /// several share a recovery period.
    fn on_congestion(&self, now: Instant, lost: u64) {
        let _ = (now, lost);
    }
}

/// One ACK frame and what the controller made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AckReport {
    /// When the controller processed it.
    pub now: Instant,
    /// Time since the sender sent the newest of its packets, including the peer's acknowledgement
    /// delay. `None` if the ACK repeats a lost one: the peer then held it back longer than it may.
    pub rtt: Option<Duration>,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Window in bytes after the ACK: the controller's own, without the byte that the adapter adds.
    pub window: u64,
    /// Bytes in flight after the ACK.
    pub in_flight: u64,
    /// The application, not the window or the pacer, kept the connection from sending more.
    pub app_limited: bool,
}
