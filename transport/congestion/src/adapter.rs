//! Makes a quinn controller of a [`Controller`]. Nothing else in this crate imports quinn-proto.
//!
//! What quinn-proto 0.11.19 does (`connection/mod.rs`), and what handles it here or in
//! [`PathControl`]:
//!
//! - `on_ack_received` calls `on_ack` for each packet, then `on_end_acks` with the bytes in flight
//!   *after* it removed the packets, then `on_congestion_event` if it finds losses or marks.
//!   `PathControl` gathers the packets into one [`Ack`](crate::controller::Ack). In flight before =
//!   after + acknowledged.
//! - At a Retry, `on_ack` comes without `on_end_acks`. ACKs of ACK-only packets, and ACKs that
//!   arrive while quinn validates a new path, bring `on_end_acks` without `on_ack`.
//! - quinn updates the RTT estimator of `on_ack` only after `on_end_acks`, and the estimator does
//!   not reveal its last sample. The sample here is now - sending time of the newest packet.
//!   A late ACK gives none ([`FeedState::set_repeated`](crate::path_control::FeedState::set_repeated)),
//!   nor does one that waited while the process stood still, as `path_control/pauses.rs` finds out.
//!   quinn's own estimate includes late ACKs, as RFC 9002, section 5.3, says: delays beyond
//!   `max_ack_delay` count as the path's. A controller that looks for queues would see seconds of
//!   queueing where an ACK was lost.
//! - quinn calls `on_congestion_event` for every detection, even if several belong to one recovery
//!   period. 0 lost bytes mean ECN.
//! - A packet leaves while in flight + a full packet < window, *strictly*. A window of n packets
//!   would let n - 1 fly, and a window of one packet none. The adapter gives quinn the window + 1
//!   byte, and never less than one packet + 1. `ControllerMetrics`, and so qlog, has the
//!   controller's own window.
//! - A path that changed more than its port gets a controller built anew; otherwise a clone.

mod foreign;
mod tap;
mod watched;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, BbrConfig, ControllerFactory, ControllerMetrics, CubicConfig};

use crate::controller::Controller;
use crate::path_control::{PathControl, PathFeed};
use foreign::Foreign;

pub use foreign::foreign;
pub use tap::observed;

/// A factory of quinn controllers, as `quinn::TransportConfig::congestion_controller_factory`
/// takes it.
pub type SharedFactory = Arc<dyn PathFactory + Send + Sync>;

/// A factory of quinn controllers which take facts that quinn does not report.
pub trait PathFactory: ControllerFactory {
    /// Builds a controller like [`ControllerFactory::build`] does; it hears of its path through
    /// `feed`, before each ACK that it processes.
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller>;

    /// Returns what builds the controller itself, as the table does, for adapters to other QUIC stacks;
    /// it takes the present time and the bytes of UDP payload in a full-size packet. `None` if its
    /// controllers are written for quinn.
    fn own(&self) -> Option<&OwnBuild> {
        None
    }

    /// Whether its controllers decide the same again on the same facts. `false` for those
    /// that draw random numbers of their own, which no seed reaches.
    fn repeats(&self) -> bool {
        true
    }
}

/// Builds one of our controllers for a new path.
pub type OwnBuild = dyn Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync;

/// A factory of quinn controllers that run what `build` returns.
///
/// `build` is called for every new path, with the present time and the bytes of UDP payload
/// in a full-size packet.
pub fn adapt<B>(build: B) -> SharedFactory
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    Arc::new(Factory { build })
}

/// quinn's own CUBIC.
pub(crate) fn quinn_cubic() -> SharedFactory {
    foreign(Arc::new(CubicConfig::default()))
}

/// quinn's own BBR. It seeds a generator from the operating system, and has no setting for it
/// (quinn-proto 0.11.19, `Bbr::new`): runs do not repeat.
pub(crate) fn quinn_bbr() -> SharedFactory {
    Arc::new(Foreign {
        factory: Arc::new(BbrConfig::default()),
        repeats: false,
    })
}

struct Factory<B> {
    build: B,
}

impl<B> ControllerFactory for Factory<B>
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl<B> PathFactory for Factory<B>
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller> {
        let controller = (self.build)(now, current_mtu);
        Box::new(Adapter {
            path: PathControl::new(controller, feed, now, current_mtu),
        })
    }

    fn own(&self) -> Option<&OwnBuild> {
        Some(&self.build)
    }
}

/// One of our controllers as quinn sees it.
#[derive(Debug, Clone)]
struct Adapter {
    path: PathControl,
}

impl congestion::Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.path.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.path.on_packet_acked(now, sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_acked: Option<u64>,
    ) {
        self.path
            .on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.path
            .on_lost(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.path.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.path.least_window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.path.window();
        metrics.ssthresh = self.path.slow_start_threshold();
        metrics.pacing_rate = self.path.pacing_rate().map(|bytes| bytes.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.path.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests;
