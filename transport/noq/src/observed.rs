//! Reports what the controllers of a noq factory see and decide.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::{AckReporter, Observer};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::SharedFactory;

/// Returns a factory like `factory`, ours or noq's own, whose controllers report to `observer`.
/// Each path of a multipath connection is a [start](Observer::on_start).
pub fn observed(factory: SharedFactory, observer: Arc<dyn Observer>) -> SharedFactory {
    Arc::new(ObservedFactory { factory, observer })
}

struct ObservedFactory {
    factory: SharedFactory,
    observer: Arc<dyn Observer>,
}

impl ControllerFactory for ObservedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.observer.on_start(now);
        Box::new(Observed {
            controller: self.factory.clone().build(now, current_mtu),
            reporter: AckReporter::new(self.observer.clone()),
        })
    }
}

#[derive(Debug)]
struct Observed {
    controller: Box<dyn Controller>,
    reporter: AckReporter,
}

impl Controller for Observed {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.controller.on_sent(now, bytes, largest_pn);
        self.reporter.observer().on_sent(now, bytes);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.controller.on_packet_sent(now, bytes, pn);
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
        self.reporter.on_packet_acked(now, sent, bytes);
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
        let window = self.controller.window();
        self.reporter
            .on_end_acks(now, in_flight, app_limited, false, window);
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
        self.reporter.observer().on_congestion(now, lost_bytes);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.controller.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.controller.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
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
            reporter: self.reporter.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.controller.into_any()
    }
}
