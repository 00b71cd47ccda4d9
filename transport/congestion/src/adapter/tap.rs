//! Reports what the controllers of a factory see and decide.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::{PathFactory, SharedFactory};
use crate::path_control::{AckReporter, Observer, PathFeed};

/// Returns a factory like `factory` whose controllers report to `observer`.
pub fn observed(factory: SharedFactory, observer: Arc<dyn Observer>) -> SharedFactory {
    Arc::new(TapFactory { factory, observer })
}

struct TapFactory {
    factory: SharedFactory,
    observer: Arc<dyn Observer>,
}

impl ControllerFactory for TapFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl PathFactory for TapFactory {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn Controller> {
        self.observer.on_start(now);
        feed.observe(self.observer.clone());
        Box::new(Tap {
            controller: (self.factory.clone()).build_fed(now, current_mtu, feed.clone()),
            feed,
            reporter: AckReporter::new(self.observer.clone()),
        })
    }

    fn repeats(&self) -> bool {
        self.factory.repeats()
    }
}

struct Tap {
    controller: Box<dyn Controller>,
    feed: PathFeed,
    reporter: AckReporter,
}

impl Controller for Tap {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controller.on_sent(now, bytes, last_packet_number);
        self.reporter.observer().on_sent(now, bytes);
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
        let has_sample = self.feed.has_sample(largest_packet_num_acked);
        let window = self.controller.metrics().congestion_window;
        self.reporter
            .on_end_acks(now, in_flight, app_limited, has_sample, window);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.controller
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.reporter.observer().on_congestion(now, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
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
            feed: self.feed.clone(),
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

#[cfg(test)]
mod tests;
