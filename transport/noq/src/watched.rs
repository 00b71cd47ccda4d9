//! Wraps any noq controller, so that something else sees its calls and decisions.

use std::any::Any;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerMetrics};

/// Gets a controller's calls, after the controller.
pub(crate) trait Watch: Clone + Debug + Send + Sync + 'static {
    /// An ack-eliciting packet was built.
    fn on_packet(&mut self) {}

    /// Datagrams of `bytes` were built, and leave next.
    fn on_sent(&mut self, now: Instant, bytes: u64);

    /// An ACK frame newly acknowledged a packet. `rtt` is noq's estimate before the frame.
    fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64, rtt: Duration);

    /// The ACK frame is processed.
    fn on_end_acks(&mut self, end: &AckEnd, controller: &dyn Controller);

    /// Packets were lost or marked.
    fn on_congestion(&mut self, now: Instant, lost_bytes: u64, controller: &dyn Controller);

    /// Full-size packets have another size, in bytes of UDP payload.
    fn on_mtu(&mut self, _mtu: u16) {}

    /// Returns what [`Controller::into_any`] of a wrapper of `controller` returns.
    fn into_any(self, controller: Box<dyn Controller>) -> Box<dyn Any>;
}

/// What noq says of an ACK frame when it has processed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckEnd {
    pub(crate) now: Instant,
    /// Bytes in flight without those that it acknowledged.
    pub(crate) in_flight: u64,
    pub(crate) app_limited: bool,
}

/// A controller that something watches.
#[derive(Debug)]
pub(crate) struct Watched<W> {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) watch: W,
}

impl<W: Watch> Controller for Watched<W> {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.controller.on_sent(now, bytes, largest_pn);
        self.watch.on_sent(now, bytes);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.controller.on_packet_sent(now, bytes, pn);
        self.watch.on_packet();
    }

    fn on_cwnd_limited(&mut self) {
        self.controller.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.controller
            .on_ack(now, sent, bytes, pn, app_limited, rtt);
        self.watch.on_packet_acked(now, sent, bytes, rtt.get());
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
        };
        self.watch.on_end_acks(&end, &*self.controller);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.controller.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
        self.watch.on_congestion(now, lost_bytes, &*self.controller);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.controller.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.controller.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
        self.watch.on_mtu(new_mtu);
    }

    fn on_ack_frequency_update(
        &mut self,
        ack_eliciting_threshold: u64,
        requested_max_ack_delay: Duration,
    ) {
        self.controller
            .on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
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
        self.watch.into_any(self.controller)
    }
}
