//! Takes packets through one link and counts them. No I/O.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_queue::{
    Amount, CarriedHeader, Carrier, Change, FlowKey, Link, LinkConfig, LinkError, Packet,
    PacketMeta, Remains, WireCounters,
};
use evenkeel_wire::{PathHeaderMut, Skipped};
use rand_pcg::Pcg64;
use tracing::trace;

use crate::config::LinkSpec;
use crate::family::Family;
use crate::offload::{Checksum, Malformed, OffloadHeader, Outgoing, Segments};
use crate::packet::{self, Kind};

/// Buffers kept for later packets: more than most links hold packets.
const SPARE_BUFFERS: usize = 1024;

/// A link with packets of bytes in it.
#[derive(Debug)]
pub(crate) struct Transit {
    pub(crate) link: Link<Datagram>,
    /// What is still on its way in the links that this one replaces, the latest last.
    before: VecDeque<Remains<Datagram>>,
    began: Instant,
    tally: Tally,
    /// What comes out may come in again: it gets no hop back, so that it ends.
    pub(crate) comes_round: bool,
    /// Buffers to reuse: the allocator is slow for packets of over a kilobyte.
    spare: Vec<Vec<u8>>,
}

/// A packet in the link.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    family: Family,
    checksum: Checksum,
    bytes: Vec<u8>,
}

impl Carrier for Datagram {
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        let leaving_ttl = packet::leaving_hops(self.family, &self.bytes);
        let mut header = PathHeaderMut::find(&mut self.bytes)?;
        if self.checksum != Checksum::Complete {
            header = header.without_checksum();
        }
        Ok(CarriedHeader {
            header,
            leaving_ttl,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        FlowKey::of_ip_packet(&self.bytes)
    }

    fn flip_bit(&mut self, bit: u64) -> bool {
        let is_complete = self.checksum == Checksum::Complete;
        packet::flip_payload_bit(self.family, &mut self.bytes, bit, is_complete)
    }
}

/// Counts since the beginning, besides the port's own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Came out of the link at its far end.
    pub(crate) delivered: Amount,
    /// Copies made after the queue.
    pub(crate) duplicated: Amount,
    /// Lost after the queue.
    pub(crate) lost: Amount,
    /// Changed after the queue, or too large for what follows.
    pub(crate) wire: WireCounters,
    /// Refused entry to the link: multicast, broadcast, link-local.
    pub(crate) link_scope: Amount,
    /// Refused entry to the link: not IP packets.
    pub(crate) not_ip: Amount,
    /// Delivered with one hop less than they should have: 255 cannot grow.
    pub(crate) full_ttl: u64,
    /// Delivered, but the kernel did not accept them.
    pub(crate) refused: Amount,
}

impl Transit {
    /// Creates an empty link. Loss, jitter and reordering derive from `seed` and the link's
    /// position in the file; `flow_hash_key` must be secret: see [`LinkConfig::flow_hash_key`].
    pub(crate) fn new(
        epoch: Instant,
        spec: &LinkSpec,
        seed: u64,
        index: usize,
        flow_hash_key: [u8; 16],
    ) -> Result<Self, LinkError> {
        let config = spec.description.config(spec.trace.clone());
        let config = LinkConfig {
            flow_hash_key: Some(flow_hash_key),
            watches_flows: true,
            ..config.expect("the configuration has been checked")
        };
        let generator = Pcg64::new(seed.into(), index as u128);
        Ok(Self {
            link: Link::new(epoch, config, Box::new(generator))?,
            before: VecDeque::new(),
            began: epoch,
            tally: Tally::default(),
            comes_round: false,
            spare: Vec::new(),
        })
    }

    /// Takes the place of another link: what waits there arrives here, and what is on its way there
    /// comes out first.
    pub(crate) fn succeed(&mut self, now: Instant, earlier: Self) {
        let (waiting, remains) = earlier.link.split(now);
        self.before = earlier.before;
        self.before.push_back(remains);
        self.link.refill(now, waiting);
    }

    /// Changes the link while it goes on.
    pub(crate) fn alter(&mut self, now: Instant, changes: &[Change]) {
        for change in changes {
            let changed = self.link.alter(now, *change);
            changed.expect("the configuration has been checked");
        }
    }

    /// Takes in what the device has given by `seen`: a packet, or several in one piece, that are
    /// reckoned to have come at `now`; see [`Link::push_seen`].
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        seen: Instant,
        header: OffloadHeader,
        packet: &[u8],
    ) {
        let mut segments = match Segments::new(header, packet) {
            Ok(segments) => segments,
            Err(Malformed) => return self.drop_foreign(packet.len()),
        };
        loop {
            let mut bytes = self.spare.pop().unwrap_or_default();
            match segments.next_into(&mut bytes) {
                Some(checksum) => self.take_in(now, seen, checksum, bytes),
                None => return self.recycle(bytes),
            }
        }
    }

    fn take_in(&mut self, now: Instant, seen: Instant, checksum: Checksum, bytes: Vec<u8>) {
        let length = u32::try_from(bytes.len()).expect("a packet has at most 64 KiB");
        match packet::classify(&bytes) {
            Kind::Forward(family) => {
                let meta = PacketMeta::new(length, packet::ecn(family, &bytes));
                let datagram = Datagram {
                    family,
                    checksum,
                    bytes,
                };
                self.link.push_seen(now, seen, Packet::new(meta, datagram));
            }
            Kind::LinkScope => {
                trace!(bytes = length, reason = "link scope", "packet dropped");
                self.tally.link_scope += Amount::one(length);
                self.recycle(bytes);
            }
            Kind::NotIp => {
                self.drop_foreign(bytes.len());
                self.recycle(bytes);
            }
        }
    }

    fn drop_foreign(&mut self, bytes: usize) {
        let length = u32::try_from(bytes).expect("a packet has at most 64 KiB");
        trace!(bytes = length, reason = "not IP", "packet dropped");
        self.tally.not_ip += Amount::one(length);
    }

    /// Returns the next packet that has come out by `now`, ready to send: marked if the discipline
    /// asked for it, with one hop added, because the kernel takes one off twice.
    pub(crate) fn depart(&mut self, now: Instant) -> Option<Outgoing> {
        let earlier = self.depart_earlier(now);
        // The figures are those of this link alone.
        let is_own = earlier.is_none();
        let Packet { meta, payload } = match earlier {
            Some(packet) => packet,
            None if self.before.is_empty() => self.link.pop(now)?,
            None => return None,
        };
        let Datagram {
            family,
            checksum,
            mut bytes,
        } = payload;
        if packet::ecn(family, &bytes) != meta.ecn {
            packet::set_ecn(family, &mut bytes, meta.ecn);
        }
        if !self.comes_round && !packet::give_hop_back(family, &mut bytes) {
            self.tally.full_ttl += 1;
        }
        if is_own {
            self.tally.delivered += Amount::one(meta.bytes);
        }
        Some(Outgoing { bytes, checksum })
    }

    fn depart_earlier(&mut self, now: Instant) -> Option<Packet<Datagram>> {
        while let Some(remains) = self.before.front_mut() {
            let packet = remains.pop(now);
            if packet.is_some() || remains.next_timeout().is_some() {
                return packet;
            }
            self.before.pop_front();
        }
        None
    }

    /// Takes back the buffer of a packet that has been sent.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Returns when [`Transit::depart`] may have a packet next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self.before.front() {
            // None if nothing is left of it.
            Some(remains) => remains.next_timeout().or(Some(self.began)),
            None => self.link.next_timeout(),
        }
    }

    /// Notes that the kernel did not accept a departed packet of that many bytes.
    pub(crate) fn refused(&mut self, bytes: usize) {
        let length = u32::try_from(bytes).expect("a packet has at most 64 KiB");
        trace!(
            bytes = length,
            reason = "refused by the kernel",
            "packet dropped"
        );
        self.tally.refused += Amount::one(length);
    }

    /// Returns the time since the link's epoch, from which blackouts and changes count.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Returns the remaining counters since the beginning.
    pub(crate) fn total(&self) -> Tally {
        Tally {
            duplicated: self.link.duplicated(),
            lost: self.link.lost(),
            wire: self.link.wire_counters(),
            ..self.tally
        }
    }
}

#[cfg(test)]
mod tests;
