//! What all nodes share: packets on their way, in order.

use std::collections::VecDeque;
use std::time::Instant;

use super::NodeCounters;
use crate::{Amount, Packet};

/// Packets with the instants at which they come out, which never decrease.
#[derive(Debug)]
pub(super) struct Line<P> {
    packets: VecDeque<(Instant, Packet<P>)>,
    /// When the last packet that was let in at the end comes out.
    last: Option<Instant>,
    arrived: Amount,
    forwarded: Amount,
    dropped: Amount,
}

impl<P> Line<P> {
    pub(super) fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            last: None,
            arrived: Amount::ZERO,
            forwarded: Amount::ZERO,
            dropped: Amount::ZERO,
        }
    }

    /// Lets a packet in that comes out at `at`, or with the one before it if that is later.
    pub(super) fn admit(&mut self, at: Instant, packet: Packet<P>) {
        self.arrived += Amount::one(packet.meta.bytes);
        let at = self.last.map_or(at, |last| last.max(at));
        self.last = Some(at);
        self.packets.push_back((at, packet));
    }

    /// Lets a packet in that comes out at `now`, before all that come out later.
    pub(super) fn admit_at_once(&mut self, now: Instant, packet: Packet<P>) {
        self.arrived += Amount::one(packet.meta.bytes);
        let due = self.packets.partition_point(|(at, _)| *at <= now);
        self.packets.insert(due, (now, packet));
    }

    /// Counts a packet that never comes out.
    pub(super) fn discard(&mut self, packet: &Packet<P>) {
        let bytes = packet.meta.bytes;
        tracing::trace!(bytes, reason = "lost", "packet dropped");
        let amount = Amount::one(packet.meta.bytes);
        self.arrived += amount;
        self.dropped += amount;
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        if self.next_timeout()? > now {
            return None;
        }
        let (at, packet) = self.packets.pop_front()?;
        self.forwarded += Amount::one(packet.meta.bytes);
        Some((at, packet))
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }

    pub(super) fn counters(&self) -> NodeCounters {
        NodeCounters {
            arrived: self.arrived,
            forwarded: self.forwarded,
            dropped: self.dropped,
            held: self
                .packets
                .iter()
                .map(|(_, packet)| Amount::one(packet.meta.bytes))
                .sum(),
        }
    }
}
