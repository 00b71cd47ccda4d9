//! Makes a noq controller of one of ours.
//!
//! What noq-proto 1.4.0 does (`connection/mod.rs`) that quinn-proto 0.11 does not, and how the
//! adapter handles it:
//!
//! - A packet leaves while in flight + a full packet <= window: a window of n packets lets n fly.
//!   The adapter gives noq the controller's window, and never less than two packets (RFC 9002,
//!   section 7.2). With one, the first 1-RTT packet of a server leaves no room for HANDSHAKE_DONE,
//!   and noq sets no timer for it when the handshake ends: if it is lost, nothing leaves any more.
//! - The pacer takes the controller's rate, in bytes per second, if there is one, and obeys it
//!   however low it is: the adapter gives at least a packet in ten seconds.
//! - Each path of a multipath connection has a controller, which hears of its own packets only.
//! - `on_packet_sent`, `on_packet_lost`, `on_cwnd_limited`, `on_ack_frequency_update` and
//!   `on_spurious_congestion_event` tell what no controller of ours asks for.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_congestion::{PathControl, PathFeed};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::path_factory::PathFactory;

/// Builds [`Adapter`]s of what a factory of ours builds, one that has [`PathFactory::own`].
///
/// [`PathFactory::own`]: evenkeel_congestion::PathFactory::own
pub(crate) struct Factory(pub(crate) evenkeel_congestion::SharedFactory);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl PathFactory for Factory {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn Controller> {
        let build = self.0.own().expect("only factories that have it come here");
        let controller = build(now, current_mtu);
        Box::new(Adapter {
            path: PathControl::new(controller, feed, now, current_mtu),
            mtu: current_mtu,
        })
    }
}

/// One of our controllers as noq sees it.
#[derive(Debug, Clone)]
struct Adapter {
    path: PathControl,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
}

/// Full-size packets that may always be in flight.
const LEAST_WINDOW: u64 = 2;

impl Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _largest_pn: u64) {
        self.path.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _pn: u64,
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
        largest_packet_num_acked: Option<u64>,
    ) {
        self.path
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        _is_ecn: bool,
        lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        // Of a mark, noq reports 0 lost bytes as quinn does.
        self.path
            .on_lost(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.path.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.path.window().max(LEAST_WINDOW * u64::from(self.mtu))
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = self.path.slow_start_threshold();
        metrics.pacing_rate = self.path.least_pacing_rate();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.path.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
