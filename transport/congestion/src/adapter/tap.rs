//! Reports what the controllers of a factory see and decide.

use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory};

use super::watched::{AckEnd, Watch, Watched};
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
        Box::new(Watched {
            controller: (self.factory.clone()).build_fed(now, current_mtu, feed.clone()),
            watch: Tap {
                feed,
                reporter: AckReporter::new(self.observer.clone()),
            },
        })
    }

    fn repeats(&self) -> bool {
        self.factory.repeats()
    }
}

#[derive(Clone)]
struct Tap {
    feed: PathFeed,
    reporter: AckReporter,
}

impl Watch for Tap {
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.reporter.observer().on_sent(now, bytes);
    }

    fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.reporter.on_packet_acked(now, sent, bytes);
    }

    fn on_end_acks(&mut self, end: &AckEnd, controller: &mut Box<dyn Controller>) {
        let window = controller.metrics().congestion_window;
        let has_sample = self.feed.has_sample(end.largest);
        self.reporter
            .on_end_acks(end.now, end.in_flight, end.app_limited, has_sample, window);
    }

    fn on_congestion(&mut self, now: Instant, _sent: Instant, lost_bytes: u64) -> bool {
        self.reporter.observer().on_congestion(now, lost_bytes);
        true
    }
}

#[cfg(test)]
mod tests;
