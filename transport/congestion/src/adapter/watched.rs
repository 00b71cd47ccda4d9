//! Wraps any quinn controller, so that something else gets the same calls.

use std::any::Any;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerMetrics};

/// Gets a controller's calls, after the controller unless said otherwise.
pub(super) trait Watch: Clone + Send + Sync + 'static {
    /// Datagrams of `bytes` bytes left.
    fn on_sent(&mut self, now: Instant, bytes: u64);

    /// An ACK frame newly acknowledged a packet of `bytes` bytes, sent at `sent`.
    fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64);

    /// `controller` has processed the ACK frame. The watch may put another in its place.
    fn on_end_acks(&mut self, end: &AckEnd, controller: &mut Box<dyn Controller>);

    /// Packets of `lost_bytes` bytes, the newest sent at `sent`, were lost, or marked if 0. Comes
    /// before the controller hears of it; returns whether it does.
    fn on_congestion(&mut self, now: Instant, sent: Instant, lost_bytes: u64) -> bool;

    /// Full-size packets have another size, in bytes of UDP payload.
    fn on_mtu(&mut self, _mtu: u16) {}
}

/// What quinn says of an ACK frame when it has processed it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckEnd {
    pub(super) now: Instant,
    /// Bytes in flight without those that it acknowledged.
    pub(super) in_flight: u64,
    pub(super) app_limited: bool,
    pub(super) largest: Option<u64>,
}

/// A controller that something watches.
pub(super) struct Watched<W> {
    pub(super) controller: Box<dyn Controller>,
    pub(super) watch: W,
}

impl<W: Watch> Controller for Watched<W> {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controller.on_sent(now, bytes, last_packet_number);
        self.watch.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
        self.watch.on_packet_acked(now, sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.controller
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        let end = AckEnd {
            now,
            in_flight,
            app_limited,
            largest: largest_packet_num_acked,
        };
        self.watch.on_end_acks(&end, &mut self.controller);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        if self.watch.on_congestion(now, sent, lost_bytes) {
            self.controller
                .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
        self.watch.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.controller.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            controller: self.controller.clone_box(),
            watch: self.watch.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.controller.into_any()
    }
}
