//! What an application may observe of a controller.

use std::time::{Duration, Instant};

use crate::controller::PathSample;

/// Receives what every controller of one factory sees and decides.
///
/// It is called inside the connection's work, for every ACK frame and every batch of packets
/// sent: it must be quick and must not block.
pub trait Observer: Send + Sync {
    /// A controller was built at `now`: a connection begins, or its path has changed.
    fn on_start(&self, now: Instant) {
        let _ = now;
    }

    /// A transmit batch of `bytes` bytes of UDP payload left, packets that hold nothing but
    /// ACKs included; probes for a larger packet size are not reported.
    fn on_sent(&self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// An ACK frame was processed by the controller.
    fn on_acks(&self, report: &AckReport) {
        let _ = report;
    }

    /// A path header told of a round trip; called when its echo arrives, before the ACK of which
    /// the controller hears of it, and possibly by another thread.
    fn on_path(&self, sample: &PathSample) {
        let _ = sample;
    }

    /// Losses were found, or a mark if `lost` is 0 bytes: every detection, also those that
    /// share a recovery period.
    fn on_congestion(&self, now: Instant, lost: u64) {
        let _ = (now, lost);
    }
}

/// One ACK frame and what the controller made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AckReport {
    /// When it was processed.
    pub now: Instant,
    /// Time since the newest of its packets was sent, the peer's acknowledgement delay included;
    /// `None` if the peer held the ACK back for longer than it may, because it repeats one that was
    /// lost.
    pub rtt: Option<Duration>,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Window in bytes after the ACK: the controller's own, not the one that quinn is told.
    pub window: u64,
    /// Bytes in flight after the ACK.
    pub in_flight: u64,
    /// The application, not the window or the pacer, kept the connection from sending more.
    pub app_limited: bool,
}
