//! Reports to an application what its controllers see and decide.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acked::AckFrame;
use crate::controller::PathSample;

/// Receives what every controller of one factory sees and decides.
///
/// The connection calls it while it works, for every ACK frame and for every batch of packets that
/// it sends. An observer must be quick and must not block.
///
/// ```
/// use std::sync::Arc;
///
/// use evenkeel_congestion::{AckReport, Observer, controller, observed};
///
/// struct Log;
///
/// impl Observer for Log {
///     fn on_acks(&self, report: &AckReport) {
///         println!("{:?}, a window of {} bytes", report.rtt, report.window);
///     }
/// }
///
/// let factory = observed(controller("keel")?, Arc::new(Log));
/// # drop(factory);
/// # Ok::<(), evenkeel_congestion::SpecError>(())
/// ```
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

    /// The connection found losses, or a mark if `lost` is 0 bytes. Every detection is reported, even if
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
    /// delay. `None` if the ACK repeats a lost one, which the peer then held back longer than it may,
    /// or waited while this process stood still.
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

/// Makes [`AckReport`]s of what a QUIC stack reports packet by packet, for adapters to QUIC stacks.
#[derive(Clone)]
pub struct AckReporter {
    observer: Arc<dyn Observer>,
    frame: AckFrame,
}

impl AckReporter {
    /// Reports to `observer`.
    pub fn new(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer,
            frame: AckFrame::default(),
        }
    }

    /// Returns the observer, for its other calls.
    pub fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    /// As [`PathControl::on_packet_acked`](super::PathControl::on_packet_acked).
    pub fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.frame.add(now, sent, bytes);
    }

    /// Reports the ACK frame, which the controller has processed and whose `window` it is now:
    /// otherwise as [`PathControl::on_end_acks`](super::PathControl::on_end_acks). An ACK that
    /// [has no sample](super::FeedState::has_sample) gives no round-trip time.
    pub fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        has_sample: bool,
        window: u64,
    ) {
        let Some(acked) = self.frame.take(now) else {
            return;
        };
        self.observer.on_acks(&AckReport {
            now,
            rtt: has_sample.then(|| now.saturating_duration_since(acked.sent)),
            acked: acked.bytes,
            window,
            in_flight,
            app_limited,
        });
    }
}

impl fmt::Debug for AckReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AckReporter")
            .field("frame", &self.frame)
            .finish_non_exhaustive()
    }
}
