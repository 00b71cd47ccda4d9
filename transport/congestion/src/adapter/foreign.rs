//! Factories of controllers that are written for quinn.

use std::sync::Arc;
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory};

use super::watched::{AckEnd, Watch, Watched};
use super::{PathFactory, SharedFactory};
use crate::path_control::{AckFrame, Doubts, EcnFault, Found, Marks, PathFeed, Pauses};

/// Wraps a factory that is written for quinn. Its controllers learn nothing from path headers, and
/// see what quinn sees, except marks of a path that marks everything without a queue. Their
/// endpoints learn which ACKs measure no round trip, because they waited while the process stood
/// still or because quinn dated them early.
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
        Box::new(Watched {
            controller: self.build(now, current_mtu),
            watch: Watcher {
                feed,
                frame: AckFrame::default(),
                pauses: Pauses::new(now),
                marks: Marks::new(),
                mtu: current_mtu,
                newest: None,
                doubts: Doubts::default(),
            },
        })
    }

    fn repeats(&self) -> bool {
        self.repeats
    }
}

/// Finds ACKs that waited while the process stood still or are dated early, and marks that say
/// nothing; tells the endpoint.
#[derive(Clone)]
struct Watcher {
    feed: PathFeed,
    /// The ACK frame being processed.
    frame: AckFrame,
    pauses: Pauses,
    marks: Marks<Box<dyn Controller>>,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// The latest sending time of any acknowledged packet.
    newest: Option<Instant>,
    doubts: Doubts,
}

impl Watch for Watcher {
    fn on_sent(&mut self, now: Instant, _bytes: u64) {
        self.pauses.on_sent(now);
    }

    fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.pauses.on_packet(now, sent);
        self.frame.add(now, sent, bytes);
    }

    fn on_end_acks(&mut self, end: &AckEnd, controller: &mut Box<dyn Controller>) {
        if let Some(acked) = self.frame.take(end.now) {
            let max_ack_delay = self.feed.max_ack_delay();
            let has_waited = self.pauses.on_ack(end.now, acked.sent, max_ack_delay);
            let is_in_order = self.newest.is_none_or(|newest| acked.sent >= newest);
            self.newest = self.newest.max(Some(acked.sent));
            let (measures, marked) = self.feed.begin_ack(end.largest, has_waited);
            let rtt = end.now.saturating_duration_since(acked.sent);
            let is_doubtful = measures && is_in_order && self.doubts.on_rtt(end.now, rtt);
            if is_doubtful {
                self.feed.doubt();
            }
            let rtt = (measures && !is_doubtful).then_some(rtt);
            let copy = || controller.clone_box();
            let found = self.marks.on_ack(&acked, marked, rtt, false, copy);
            if let Some(Found::False(mut before)) = found {
                self.feed.set_ecn_fault(EcnFault::AllMarked);
                // quinn's BBR ignores marks: what it has learned since must not be lost.
                if before.window() >= controller.window() {
                    before.on_mtu_update(self.mtu);
                    *controller = before;
                }
            }
        }
    }

    fn on_congestion(&mut self, now: Instant, sent: Instant, lost_bytes: u64) -> bool {
        self.pauses.on_packet(now, sent);
        lost_bytes > 0 || !self.marks.are_false()
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }
}
