//! That a port neither loses nor invents packets.

use super::Port;
use super::watch::FlowHash;
use crate::conservation::{ConservationError, NodeCounters};
use crate::discipline::Verdict;
use crate::packet::Amount;
use crate::stamp::Carrier;

impl<P: Carrier> Port<P> {
    /// Checks arrived = forwarded + dropped + queued + in transmission, in packets and bytes, and
    /// the counters against what is really held.
    ///
    /// # Errors
    /// [`ConservationError`] with the figures: a bug in this crate.
    pub fn check_conservation(&self) -> Result<(), ConservationError> {
        self.check_counters()?;
        self.counters().check("port")
    }

    /// What came, what the host has fetched, what was dropped, and what is really here: counted
    /// anew, in time proportional to the queue.
    pub(crate) fn counters(&self) -> NodeCounters {
        let waiting = self.queues.iter().flatten();
        let waiting = waiting.map(|waiting| &waiting.packet);
        let transmission = self
            .transmission
            .iter()
            .map(|transmission| &transmission.packet);
        let held = waiting.chain(transmission).chain(self.departed.packets());
        NodeCounters {
            arrived: self.stats.total().arrived,
            forwarded: self.departed.fetched(),
            dropped: self.stats.total().dropped.total(),
            held: held.map(|packet| Amount::one(packet.meta.bytes)).sum(),
            ..NodeCounters::default()
        }
    }

    pub(super) fn count(&mut self, verdict: Verdict, flow: FlowHash, queue: usize, bytes: u32) {
        if let Some(watch) = &mut self.watch {
            watch.is_judged(verdict, flow, self.discipline.class_of(queue), bytes);
        }
        match verdict {
            Verdict::Admit => {}
            Verdict::Mark => self.stats.marked(bytes),
            Verdict::Drop(reason) => {
                tracing::trace!(bytes, ?reason, "packet dropped");
                self.stats.dropped(reason, bytes);
            }
        }
    }

    pub(super) fn check_counters(&self) -> Result<(), ConservationError> {
        let total = self.stats.total();
        NodeCounters {
            arrived: total.arrived,
            forwarded: total.forwarded,
            dropped: total.dropped.total(),
            held: self.stats.queued() + self.stats.in_transmission(),
            ..NodeCounters::default()
        }
        .check("port")
    }
}
