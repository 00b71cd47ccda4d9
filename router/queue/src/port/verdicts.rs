//! What becomes of packets at a port.

use std::time::{Duration, Instant};

use super::Port;
use crate::discipline::{Discipline, DropReason, PortView, Verdict};
use crate::packet::{Packet, PacketMeta};
use crate::server::Server;
use crate::stamp::Carrier;

impl<P: Carrier> Port<P> {
    /// Whether packets pass as they are, at once, and nobody looks at them: as in front of most wires
    /// that have a delay alone.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        let is_unlimited = matches!(self.server, Server::Unlimited);
        is_unlimited && !self.judges && self.hasher.is_none() && !self.reads_headers
    }

    /// A packet passes. All figures are those of a transmission that takes no time, so that those that
    /// time weighs need not be settled.
    pub(super) fn pass(&mut self, now: Instant, seen: Instant, packet: Packet<P>) -> Verdict {
        let bytes = packet.meta.bytes;
        self.overhead.count(bytes);
        self.stats.arrived(bytes);
        self.stats.started(bytes, Duration::ZERO);
        self.stats.ended();
        self.departed.push(now, Duration::ZERO, seen, false, packet);
        debug_assert_eq!(self.check_counters(), Ok(()));
        Verdict::Admit
    }

    /// Asks the discipline, and marks the packet if it says so and the packet can be marked.
    pub(super) fn decide(
        &mut self,
        queue: usize,
        meta: &mut PacketMeta,
        ask: impl FnOnce(&mut dyn Discipline, &mut PacketMeta, &PortView) -> Verdict,
    ) -> Verdict {
        if !self.judges {
            return Verdict::Admit;
        }
        let before = *meta;
        let port = self.view(queue);
        let verdict = ask(&mut *self.discipline, meta, &port);
        assert_eq!(
            (meta.bytes, meta.queued),
            (before.bytes, before.queued),
            "a discipline changes no sizes and no times"
        );
        match (verdict, meta.ecn.marked()) {
            (Verdict::Mark, Some(marked)) => {
                meta.ecn = marked;
                Verdict::Mark
            }
            (Verdict::Mark, None) => Verdict::Drop(DropReason::Early),
            (verdict, _) => verdict,
        }
    }
}
