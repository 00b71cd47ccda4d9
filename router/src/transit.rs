//! A packet's way through one link: in, queued, out; and what is counted on it. No I/O.

use std::time::{Duration, Instant};

use evenkeel_queue::{
    Amount, CarriedHeader, Carrier, FlowKey, Link, LinkConfig, LinkError, Packet, PacketMeta,
    PortStats, QueueInterval, StampFigures,
};
use evenkeel_wire::{PathHeaderMut, Skipped};
use rand_pcg::Pcg64;
use tracing::trace;

use crate::config::LinkSpec;
use crate::family::Family;
use crate::packet::{self, Kind};

/// Buffers that are kept for packets to come: more than most links hold packets.
const SPARE_BUFFERS: usize = 1024;

/// A link with packets of bytes in it.
#[derive(Debug)]
pub(crate) struct Transit {
    link: Link<Datagram>,
    began: Instant,
    tally: Tally,
    at_restart: Tally,
    /// Buffers to use again: the allocator is slow for packets of over a kilobyte.
    spare: Vec<Vec<u8>>,
}

/// A packet in the link.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    family: Family,
    bytes: Vec<u8>,
}

impl Carrier for Datagram {
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        let leaving_ttl = packet::leaving_hops(self.family, &self.bytes);
        let header = PathHeaderMut::find(&mut self.bytes)?;
        Ok(CarriedHeader {
            header,
            leaving_ttl,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        FlowKey::of_ip_packet(&self.bytes)
    }
}

/// What is counted besides the port's own counters, since the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Came out of the link at its far end.
    pub(crate) delivered: Amount,
    /// Copies that were made behind the queue.
    pub(crate) duplicated: Amount,
    /// Lost behind the queue.
    pub(crate) lost: Amount,
    /// Not let into the link: multicast, broadcast, link-local.
    pub(crate) link_scope: Amount,
    /// Not let into the link: no IP packets.
    pub(crate) not_ip: Amount,
    /// Delivered with a hop less than they should have: 255 cannot grow.
    pub(crate) full_ttl: u64,
    /// Delivered, but the kernel did not take them.
    pub(crate) refused: Amount,
}

impl Transit {
    /// An empty link. Loss, jitter and reordering derive from `seed` and the link's position in the file;
    /// `flow_hash_key` must be nobody else's: see [`LinkConfig::flow_hash_key`].
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
            ..config.expect("the configuration has been checked")
        };
        let generator = Pcg64::new(seed.into(), index as u128);
        Ok(Self {
            link: Link::new(epoch, config, Box::new(generator))?,
            began: epoch,
            tally: Tally::default(),
            at_restart: Tally::default(),
            spare: Vec::new(),
        })
    }

    /// A packet has come in.
    pub(crate) fn arrive(&mut self, now: Instant, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a packet has at most 64 KiB");
        match packet::classify(bytes) {
            Kind::Forward(family) => {
                let meta = PacketMeta::new(length, packet::ecn(family, bytes));
                let mut copy = self.spare.pop().unwrap_or_default();
                copy.extend_from_slice(bytes);
                let datagram = Datagram {
                    family,
                    bytes: copy,
                };
                self.link.push(now, Packet::new(meta, datagram));
            }
            Kind::LinkScope => {
                trace!(bytes = length, reason = "link scope", "packet dropped");
                self.tally.link_scope += Amount::one(length);
            }
            Kind::NotIp => {
                trace!(bytes = length, reason = "not IP", "packet dropped");
                self.tally.not_ip += Amount::one(length);
            }
        }
    }

    /// The next packet that has come out by `now`, as it is to be sent on: marked if the
    /// discipline said so, and with the hop back that the kernel takes twice.
    pub(crate) fn depart(&mut self, now: Instant) -> Option<Vec<u8>> {
        let Packet { meta, payload } = self.link.pop(now)?;
        let Datagram { family, mut bytes } = payload;
        if packet::ecn(family, &bytes) != meta.ecn {
            packet::set_ecn(family, &mut bytes, meta.ecn);
        }
        if !packet::give_hop_back(family, &mut bytes) {
            self.tally.full_ttl += 1;
        }
        self.tally.delivered += Amount::one(meta.bytes);
        Some(bytes)
    }

    /// Takes the buffer of a packet that has been sent.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// When [`Transit::depart`] may have something next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.link.next_timeout()
    }

    /// The kernel did not take a packet of so many bytes that had departed.
    pub(crate) fn refused(&mut self, bytes: usize) {
        let length = u32::try_from(bytes).expect("a packet has at most 64 KiB");
        trace!(
            bytes = length,
            reason = "refused by the kernel",
            "packet dropped"
        );
        self.tally.refused += Amount::one(length);
    }

    /// Time since the link's epoch, which blackouts and changes count from.
    pub(crate) fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// What the port has measured up to `now`.
    pub(crate) fn stats(&mut self, now: Instant) -> &PortStats {
        self.link.stats(now)
    }

    /// Where the stamps stand.
    pub(crate) fn stamp_figures(&mut self, now: Instant) -> Vec<StampFigures> {
        self.link.stamp_figures(now)
    }

    /// The rest of the counters, since the beginning.
    pub(crate) fn total(&self) -> Tally {
        Tally {
            duplicated: self.link.duplicated(),
            lost: self.link.lost(),
            ..self.tally
        }
    }

    /// The rest of the counters, of the measurement window.
    pub(crate) fn window(&self) -> Tally {
        self.total().since(&self.at_restart)
    }

    /// Starts a new measurement window.
    pub(crate) fn restart_measurement(&mut self, now: Instant) {
        self.link.restart_measurement(now);
        self.at_restart = self.total();
    }

    /// The port's queue since the last call.
    pub(crate) fn take_interval(&mut self, now: Instant) -> QueueInterval {
        self.link.take_interval(now)
    }
}

impl Tally {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            delivered: self.delivered - earlier.delivered,
            duplicated: self.duplicated - earlier.duplicated,
            lost: self.lost - earlier.lost,
            link_scope: self.link_scope - earlier.link_scope,
            not_ip: self.not_ip - earlier.not_ip,
            full_ttl: self.full_ttl - earlier.full_ttl,
            refused: self.refused - earlier.refused,
        }
    }
}

#[cfg(test)]
mod tests;
