//! Factories of controllers that are written for quinn.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::{PathFactory, SharedFactory};
use crate::path_control::{AckFrame, PathFeed, Pauses};

/// Wraps a factory that is written for quinn. Its controllers learn nothing from path headers, and
/// see what quinn sees. Their endpoints learn which ACKs waited while the process stood still.
pub fn foreign(factory: Arc<dyn ControllerFactory + Send + Sync>) -> SharedFactory {
    Arc::new(Foreign {
        factory,
        repeats: true,
    })
}

pub(super) struct Foreign {
    pub(super) factory: Arc<dyn ControllerFactory + Send + Sync>,
    pub(super) repeats: bool,
}

impl ControllerFactory for Foreign {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.factory.clone().build(now, current_mtu)
    }
}

impl PathFactory for Foreign {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn Controller> {
        feed.follow(None);
        Box::new(Guest {
            controller: self.build(now, current_mtu),
            feed,
            frame: AckFrame::default(),
            pauses: Pauses::new(now),
        })
    }

    fn repeats(&self) -> bool {
        self.repeats
    }
}

/// A controller that hears all that quinn says.
struct Guest {
    controller: Box<dyn Controller>,
    feed: PathFeed,
    /// The ACK frame being processed.
    frame: AckFrame,
    pauses: Pauses,
}

impl Controller for Guest {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.pauses.on_sent(now);
        self.controller.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.pauses.on_packet(now, sent);
        self.frame.add(now, sent, bytes);
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        if let Some(acked) = self.frame.take(now) {
            let has_waited = (self.pauses).on_ack(now, acked.sent, self.feed.max_ack_delay());
            self.feed.begin_ack(largest_packet_num_acked, has_waited);
        }
        self.controller
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.pauses.on_packet(now, sent);
        self.controller
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
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
            frame: self.frame,
            pauses: self.pauses.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.controller.into_any()
    }
}
