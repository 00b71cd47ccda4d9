//! Puts packets together that leave at once.

use std::io::{self, IoSlice};
use std::ops::Range;

use evenkeel_wire::{IPV4_HEADER_LEN, Sum};

use super::{
    Checksum, Kind, Layout, OffloadHeader, Transport, read_word, tcp, write_lengths, write_word,
};
use crate::device::Offloads;
use crate::family::Family;
use crate::packet::{ipv4, ipv6};

/// What the kernel puts at most into a superpacket of UDP (UDP_MAX_SEGMENTS, linux/udp.h, before 6.7).
const MAX_PACKETS: usize = 64;

/// The largest IP packet.
const MAX_BYTES: usize = 65_535;

/// A packet on its way to the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksum: Checksum,
}

/// Packets of one flow that leave together, in one superpacket.
///
/// A packet [joins](Train::takes) only if the kernel will make exactly the same packets of the
/// superpacket again. One thing may differ: the identification of IPv4 packets that must not be
/// fragmented, which means nothing (RFC 6864, section 4).
#[derive(Debug)]
pub(crate) struct Train {
    offloads: Offloads,
    packets: Vec<Outgoing>,
    /// Of the first packet; `None` if it can have no followers.
    layout: Option<Layout>,
    /// What the superpacket has: one set of headers, and all payloads.
    bytes: usize,
    /// Whether the first packet's checksum is known to be right.
    is_verified: bool,
    /// The last packet was shorter, or has PSH: it ends the train.
    has_ended: bool,
    /// What is written before the payloads.
    header: Vec<u8>,
}

impl Train {
    /// An empty train for a device with these offloads.
    pub(crate) fn new(offloads: Offloads) -> Self {
        Self {
            offloads,
            packets: Vec::with_capacity(MAX_PACKETS),
            layout: None,
            bytes: 0,
            is_verified: false,
            has_ended: false,
            header: Vec::new(),
        }
    }

    /// Whether [`Train::push`] may append a packet. The superpacket has a new checksum, so damaged
    /// packets travel alone.
    pub(crate) fn takes(&mut self, next: &Outgoing) -> bool {
        let Some(first) = self.packets.first() else {
            return true;
        };
        let Some(layout) = self.layout else {
            return false;
        };
        let allowed = match layout.transport {
            Transport::Tcp => self.offloads.tcp,
            Transport::Udp => self.offloads.udp,
        };
        let payload_len = next.bytes.len().saturating_sub(layout.payload_at);
        let fits = allowed
            && !self.has_ended
            && self.packets.len() < MAX_PACKETS
            && self.bytes + payload_len <= MAX_BYTES
            && next.bytes.len() <= first.bytes.len();
        let last = self.packets.last().expect("there is a first");
        if !fits || coalescible(next) != Some(layout) || !follows(layout, last, next) {
            return false;
        }
        self.is_verified = self.is_verified || is_right(layout, first);
        self.is_verified && is_right(layout, next)
    }

    /// Appends a packet that the train takes.
    pub(crate) fn push(&mut self, packet: Outgoing) {
        match (self.packets.first(), self.layout) {
            (Some(first), Some(layout)) => {
                self.has_ended = packet.bytes.len() < first.bytes.len() || pushes(layout, &packet);
                self.bytes += packet.bytes.len() - layout.payload_at;
            }
            _ => {
                self.layout = coalescible(&packet);
                self.bytes = packet.bytes.len();
                self.is_verified = false;
                self.has_ended = self.layout.is_some_and(|layout| pushes(layout, &packet));
            }
        }
        self.packets.push(packet);
    }

    /// Hands over the train, which is not empty, as the device expects it: in one piece, with an
    /// offload header if it has offloads.
    ///
    /// # Errors
    /// Those of `write`.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.header.clear();
        match (&self.packets[..], self.layout) {
            ([first, _, ..], Some(layout)) => {
                let offload = OffloadHeader {
                    checksum: layout.pending(),
                    kind: match layout.transport {
                        Transport::Tcp => Kind::Tcp(layout.family),
                        Transport::Udp => Kind::Udp,
                    },
                    header_len: layout.payload_at as u16,
                    segment_len: (first.bytes.len() - layout.payload_at) as u16,
                };
                self.header.extend_from_slice(&offload.emit());
                self.header
                    .extend_from_slice(&first.bytes[..layout.payload_at]);
                let header = &mut self.header[OffloadHeader::LEN..];
                write_lengths(layout, header, self.bytes);
                let sum = layout.pseudo_header(header, self.bytes - layout.transport_at);
                write_word(header, checksum_field(layout), !sum.checksum());
                if layout.transport == Transport::Tcp {
                    // The kernel gives it to the last segment.
                    let last = self.packets.last().expect("there are two");
                    let at = layout.transport_at + tcp::FLAGS;
                    header[at] |= last.bytes[at] & tcp::PSH;
                }
                let payloads = self.packets.iter().map(|packet| &packet.bytes);
                let mut slices = Vec::with_capacity(1 + self.packets.len());
                slices.push(IoSlice::new(&self.header));
                slices.extend(payloads.map(|bytes| IoSlice::new(&bytes[layout.payload_at..])));
                write(&slices)
            }
            ([only, ..], _) if self.offloads.has_headers() => {
                let offload = OffloadHeader::single(only.checksum).emit();
                write(&[IoSlice::new(&offload), IoSlice::new(&only.bytes)])
            }
            ([only, ..], _) => write(&[IoSlice::new(&only.bytes)]),
            ([], _) => Ok(()),
        }
    }

    /// Takes the packets out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Outgoing> {
        self.layout = None;
        self.packets.drain(..)
    }
}

/// Returns where the headers of a packet are if it can be part of a superpacket: a TCP segment with
/// data or a UDP datagram, whole, without IP options, whose lengths are right.
fn coalescible(packet: &Outgoing) -> Option<Layout> {
    let Outgoing { bytes, checksum } = packet;
    let layout = Layout::of(bytes)?;
    let lengths_are_right = match layout.family {
        Family::V4 => {
            layout.transport_at == IPV4_HEADER_LEN
                && usize::from(read_word(bytes, ipv4::TOTAL_LENGTH)) == bytes.len()
                && read_word(bytes, ipv4::FLAGS_OFFSET) & !ipv4::DONT_FRAGMENT == 0
        }
        Family::V6 => {
            let payload_len = usize::from(read_word(bytes, ipv6::PAYLOAD_LENGTH));
            layout.transport_at + payload_len == bytes.len()
        }
    };
    let header = &bytes[layout.transport_at..];
    let transport_is_right = match layout.transport {
        Transport::Udp => usize::from(read_word(header, super::UDP_LENGTH)) == header.len(),
        Transport::Tcp => header[tcp::FLAGS] & !(tcp::PSH | tcp::ECE) == tcp::ACK,
    };
    // Nobody can verify a datagram without a checksum.
    let checksum_is_there = match checksum {
        Checksum::Complete => read_word(bytes, checksum_field(layout)) != 0,
        pending @ Checksum::Pending { .. } => *pending == layout.pending(),
    };
    let is_coalescible = lengths_are_right
        && transport_is_right
        && checksum_is_there
        && layout.payload_at < bytes.len();
    is_coalescible.then_some(layout)
}

/// Whether `next` is what the kernel would put behind `last`.
fn follows(layout: Layout, last: &Outgoing, next: &Outgoing) -> bool {
    let (last, next) = (&last.bytes[..], &next.bytes[..]);
    let equal = |range: Range<usize>| last[range.clone()] == next[range];
    let ip = match layout.family {
        Family::V4 => {
            let id = |packet| read_word(packet, ipv4::IDENTIFICATION);
            let is_atomic = read_word(last, ipv4::FLAGS_OFFSET) & ipv4::DONT_FRAGMENT != 0;
            equal(0..ipv4::TOTAL_LENGTH.start)
                && equal(ipv4::FLAGS_OFFSET.start..ipv4::CHECKSUM.start)
                && equal(ipv4::ADDRESSES)
                && (is_atomic || id(next) == id(last).wrapping_add(1))
        }
        Family::V6 => equal(0..ipv6::PAYLOAD_LENGTH.start) && equal(6..40),
    };
    let at = layout.transport_at;
    let transport = match layout.transport {
        Transport::Udp => equal(at..at + super::UDP_LENGTH.start),
        Transport::Tcp => {
            let flags = at + tcp::FLAGS;
            let sequence = |packet: &[u8]| {
                let field = &packet[at + tcp::SEQUENCE.start..at + tcp::SEQUENCE.end];
                u32::from_be_bytes(field.try_into().expect("four octets"))
            };
            let passed = (last.len() - layout.payload_at) as u32;
            equal(at..at + tcp::SEQUENCE.start)
                && sequence(next) == sequence(last).wrapping_add(passed)
                && equal(at + tcp::SEQUENCE.end..flags)
                && last[flags] & !tcp::PSH == next[flags] & !tcp::PSH
                && equal(flags + 1..at + Transport::Tcp.checksum_at())
                && equal(at + Transport::Tcp.checksum_at() + 2..layout.payload_at)
        }
    };
    ip && transport
}

/// Whether the checksums hold, and a pending one has the sum that it begins with.
fn is_right(layout: Layout, packet: &Outgoing) -> bool {
    let Outgoing { bytes, checksum } = packet;
    let (header, covered) = bytes.split_at(layout.transport_at);
    let pseudo_header = layout.pseudo_header(bytes, covered.len());
    let transport = match checksum {
        Checksum::Pending { .. } => {
            read_word(bytes, checksum_field(layout)) == !pseudo_header.checksum()
        }
        Checksum::Complete => pseudo_header.bytes(covered).checksum() == 0,
    };
    transport && (layout.family == Family::V6 || Sum::default().bytes(header).checksum() == 0)
}

/// Whether a packet has TCP's PSH, behind which the kernel puts nothing.
fn pushes(layout: Layout, packet: &Outgoing) -> bool {
    let flags = layout.transport_at + tcp::FLAGS;
    layout.transport == Transport::Tcp && packet.bytes[flags] & tcp::PSH != 0
}

fn checksum_field(layout: Layout) -> Range<usize> {
    layout.checksum_at()..layout.checksum_at() + 2
}
