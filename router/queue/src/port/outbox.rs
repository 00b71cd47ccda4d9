//! What a port has transmitted and its host has not fetched yet.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::packet::{Amount, Packet};

/// Packets with the instants at which they may be fetched.
///
/// A host that looks at intervals reckons when packets came, and sees them later. What it reckons
/// decides what happens in the queue; yet a packet may not leave before it can have come. So each
/// leaves at the end of its transmission, but not before it would have ended if all packets had come
/// when they were seen: begun when the packet was seen and the one before it had left. Had another one
/// been seen that waited, that would have gone first: then nobody behind the late packet is later.
#[derive(Debug)]
pub(super) struct Outbox<P> {
    packets: VecDeque<(Instant, Packet<P>)>,
    /// When the last one may be fetched.
    released: Instant,
    /// When as much would have been sent if all packets had come when they were seen.
    sent: Instant,
    fetched: Amount,
}

impl<P> Outbox<P> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            packets: VecDeque::new(),
            released: now,
            sent: now,
            fetched: Amount::ZERO,
        }
    }

    /// Takes a packet seen at `seen` whose transmission took `length` and has ended. When it began,
    /// another one `waited` that had been seen.
    pub(super) fn push(
        &mut self,
        ended: Instant,
        length: Duration,
        seen: Instant,
        waited: bool,
        packet: Packet<P>,
    ) {
        let began = if waited {
            self.sent
        } else {
            self.sent.max(seen)
        };
        // Where a transmission takes no time, sums are what costs most.
        let after = |start: Instant| match length {
            Duration::ZERO => start,
            length => start + length,
        };
        self.sent = ended.max(after(began));
        self.released = self.released.max(self.sent).max(after(seen));
        self.packets.push_back((self.released, packet));
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        if self.next()? > now {
            return None;
        }
        let popped = self.packets.pop_front()?;
        self.fetched += Amount::one(popped.1.meta.bytes);
        Some(popped)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.packets.front().map(|(released, _)| *released)
    }

    /// What the host has fetched.
    pub(super) fn fetched(&self) -> Amount {
        self.fetched
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet<P>> {
        self.packets.iter().map(|(_, packet)| packet)
    }

    /// Takes everything out, whenever it may be fetched.
    pub(super) fn take(&mut self) -> VecDeque<(Instant, Packet<P>)> {
        std::mem::take(&mut self.packets)
    }
}
