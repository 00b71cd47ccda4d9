//! Reports what the controllers of a noq factory see and decide.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::{AckReporter, Observer, PathFeed};
use noq_proto::congestion::{Controller, ControllerFactory};

use crate::path_factory::{PathFactory, SharedFactory};
use crate::watched::{AckEnd, Watch, Watched};

/// Returns a factory like `factory`, ours or [`foreign`](crate::controller::foreign), whose controllers report
/// to `observer`. Each path of a multipath connection is a [start](Observer::on_start).
pub fn observed(factory: SharedFactory, observer: Arc<dyn Observer>) -> SharedFactory {
    Arc::new(ObservedFactory { factory, observer })
}

struct ObservedFactory {
    factory: SharedFactory,
    observer: Arc<dyn Observer>,
}

impl ControllerFactory for ObservedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl PathFactory for ObservedFactory {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn Controller> {
        self.observer.on_start(now);
        feed.observe(self.observer.clone());
        Box::new(Watched {
            controller: self
                .factory
                .clone()
                .build_fed(now, current_mtu, feed.clone()),
            watch: Observed {
                reporter: AckReporter::new(self.observer.clone()),
                feed,
            },
        })
    }
}

#[derive(Debug, Clone)]
struct Observed {
    reporter: AckReporter,
    feed: PathFeed,
}

impl Watch for Observed {
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.reporter.observer().on_sent(now, bytes);
    }

    fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64, _rtt: Duration) {
        self.reporter.on_packet_acked(now, sent, bytes);
    }

    fn on_end_acks(&mut self, end: &AckEnd, controller: &dyn Controller) {
        let window = controller.window();
        let has_sample = self.feed.has_sample(None);
        self.reporter
            .on_end_acks(end.now, end.in_flight, end.app_limited, has_sample, window);
    }

    fn on_congestion(&mut self, now: Instant, lost_bytes: u64, _controller: &dyn Controller) {
        self.reporter.observer().on_congestion(now, lost_bytes);
    }

    fn into_any(self, controller: Box<dyn Controller>) -> Box<dyn Any> {
        controller.into_any()
    }
}
