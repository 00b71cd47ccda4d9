//! Superpackets: what the kernel's segmentation offloads hand over in one piece.
//!
//! A TUN device with offloads puts a header in front of each packet (virtio 1.2, section 5.1.6).
//! It says of what size the packets are that a superpacket stands for, and whether somebody still
//! has to compute their checksums. [`Segments`] takes superpackets apart, so that queues and stamps
//! see packets as they would be on a wire. [`Train`] puts packets together that leave at once.
//! Nothing here does I/O.

mod segments;
mod train;

pub(crate) use segments::Segments;
pub(crate) use train::{Outgoing, Train};

use evenkeel_wire::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, PROTOCOL_UDP, Sum, UDP_HEADER_LEN};

use crate::family::Family;
use crate::packet::{ipv4, ipv6};

/// Who computes the checksum of a packet's TCP segment or UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// The sender has.
    Complete,
    /// The device that puts the packet on a wire will; until then the field holds the sum of the
    /// pseudo header, which changes of the payload must leave alone.
    Pending {
        /// Where the TCP or UDP header begins.
        start: u16,
        /// Where the field is in it.
        offset: u16,
    },
}

impl Checksum {
    /// Does what the device does that puts the packet on a wire.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn completed(self, mut packet: Vec<u8>) -> Vec<u8> {
        if let Self::Pending { start, offset } = self {
            let (start, field) = (usize::from(start), usize::from(start + offset));
            // 0 would mean "none" in UDP; Linux writes 0xffff for TCP as well.
            let checksum = match Sum::default().bytes(&packet[start..]).checksum() {
                0 => 0xffff,
                checksum => checksum,
            };
            write_word(&mut packet, field..field + 2, checksum);
        }
        packet
    }
}

/// The header in front of packets (`struct virtio_net_hdr`), in the machine's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffloadHeader {
    checksum: Checksum,
    kind: Kind,
    /// Length of the headers of each segment. The kernel's own is a hint, and not read.
    header_len: u16,
    /// Bytes of payload in each segment but the last.
    segment_len: u16,
}

/// What a packet stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Itself.
    Single,
    /// Segments of TCP.
    Tcp(Family),
    /// Datagrams of UDP.
    Udp,
    /// Something that was not asked for.
    Unknown,
}

/// A packet that the offload header does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Values of the header's first two octets (linux/virtio_net.h).
mod octet {
    pub(super) const NEEDS_CHECKSUM: u8 = 1;
    pub(super) const SINGLE: u8 = 0;
    pub(super) const TCP_V4: u8 = 1;
    pub(super) const TCP_V6: u8 = 4;
    pub(super) const UDP: u8 = 5;
    /// The first segment has CWR, and only the first may keep it.
    pub(super) const ECN: u8 = 0x80;
}

impl OffloadHeader {
    /// Its length in bytes.
    pub(crate) const LEN: usize = 10;

    /// The most packets that one superpacket may stand for: one of full size has segments of 128
    /// bytes or more. No path has an MTU below that, and a neighbour that may send raw packets could
    /// otherwise have 60,000 made of one.
    pub(crate) const MAX_SEGMENTS: usize = 512;

    /// Of a packet that nobody works on.
    pub(crate) const PLAIN: Self = Self::single(Checksum::Complete);

    /// Of a packet that stands for itself.
    const fn single(checksum: Checksum) -> Self {
        Self {
            checksum,
            kind: Kind::Single,
            header_len: 0,
            segment_len: 0,
        }
    }

    /// Reads a header.
    pub(crate) fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let [flags, kind, words @ ..] = *bytes;
        let word = |at: usize| u16::from_ne_bytes([words[at], words[at + 1]]);
        let checksum = if flags & octet::NEEDS_CHECKSUM == 0 {
            Checksum::Complete
        } else {
            Checksum::Pending {
                start: word(4),
                offset: word(6),
            }
        };
        Self {
            checksum,
            kind: match kind & !octet::ECN {
                octet::SINGLE => Kind::Single,
                octet::TCP_V4 => Kind::Tcp(Family::V4),
                octet::TCP_V6 => Kind::Tcp(Family::V6),
                octet::UDP => Kind::Udp,
                _ => Kind::Unknown,
            },
            header_len: word(0),
            segment_len: word(2),
        }
    }

    /// Returns how many packets one of `length` bytes at most stands for.
    pub(crate) fn count(&self, length: usize) -> usize {
        match (self.kind, self.segment_len) {
            (Kind::Tcp(_) | Kind::Udp, segment @ 1..) => length.div_ceil(segment.into()),
            _ => 1,
        }
    }

    /// Writes a header.
    pub(crate) fn emit(self) -> [u8; Self::LEN] {
        let (flags, start, offset) = match self.checksum {
            Checksum::Complete => (0, 0, 0),
            Checksum::Pending { start, offset } => (octet::NEEDS_CHECKSUM, start, offset),
        };
        let kind = match self.kind {
            Kind::Single | Kind::Unknown => octet::SINGLE,
            Kind::Tcp(Family::V4) => octet::TCP_V4,
            Kind::Tcp(Family::V6) => octet::TCP_V6,
            Kind::Udp => octet::UDP,
        };
        let mut bytes = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.header_len, self.segment_len, start, offset];
        for (at, word) in words.into_iter().enumerate() {
            bytes[2 + 2 * at..][..2].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// The protocols whose packets can be split and put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    fn of(protocol: u8) -> Option<Self> {
        match protocol {
            tcp::PROTOCOL => Some(Self::Tcp),
            PROTOCOL_UDP => Some(Self::Udp),
            _ => None,
        }
    }

    fn protocol(self) -> u8 {
        match self {
            Self::Tcp => tcp::PROTOCOL,
            Self::Udp => PROTOCOL_UDP,
        }
    }

    /// Where the checksum is in its header.
    fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }
}

/// Offsets in a header of TCP (RFC 9293, section 3.1), and its flags.
mod tcp {
    use std::ops::Range;

    pub(super) const PROTOCOL: u8 = 6;
    pub(super) const MIN_HEADER_LEN: usize = 20;
    pub(super) const SEQUENCE: Range<usize> = 4..8;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const FIN: u8 = 1;
    pub(super) const PSH: u8 = 8;
    pub(super) const ACK: u8 = 16;
    pub(super) const ECE: u8 = 64;
    pub(super) const CWR: u8 = 128;
}

/// The length field's place in a header of UDP (RFC 768).
const UDP_LENGTH: std::ops::Range<usize> = 4..6;

/// Where the headers of a packet are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    family: Family,
    transport: Transport,
    transport_at: usize,
    payload_at: usize,
}

impl Layout {
    /// Finds the headers of a TCP segment or UDP datagram directly behind those of IP; `None` for
    /// every other packet. Lengths in the headers may be wrong.
    fn of(packet: &[u8]) -> Option<Self> {
        let (family, transport_at, protocol) = match packet.first()? >> 4 {
            4 if packet.len() >= IPV4_HEADER_LEN => {
                let words = usize::from(packet[ipv4::VERSION_LENGTH] & 0x0f);
                (Family::V4, 4 * words, packet[ipv4::PROTOCOL])
            }
            6 if packet.len() >= IPV6_HEADER_LEN => {
                (Family::V6, IPV6_HEADER_LEN, packet[ipv6::NEXT_HEADER])
            }
            _ => return None,
        };
        Self::behind(packet, family, transport_at, Transport::of(protocol)?)
    }

    /// Finds the end of a transport header that begins at a known place.
    fn behind(
        packet: &[u8],
        family: Family,
        transport_at: usize,
        transport: Transport,
    ) -> Option<Self> {
        let least = match family {
            Family::V4 => IPV4_HEADER_LEN,
            Family::V6 => IPV6_HEADER_LEN,
        };
        let header = packet.get(transport_at..)?;
        let header_len = match transport {
            Transport::Udp => UDP_HEADER_LEN,
            Transport::Tcp => 4 * usize::from(header.get(tcp::DATA_OFFSET)? >> 4),
        };
        let is_whole = transport_at >= least
            && header_len <= header.len()
            && (transport == Transport::Udp || header_len >= tcp::MIN_HEADER_LEN);
        is_whole.then_some(Self {
            family,
            transport,
            transport_at,
            payload_at: transport_at + header_len,
        })
    }

    fn checksum_at(&self) -> usize {
        self.transport_at + self.transport.checksum_at()
    }

    /// The checksum of a packet that a device completes.
    fn pending(&self) -> Checksum {
        Checksum::Pending {
            start: self.transport_at as u16,
            offset: self.transport.checksum_at() as u16,
        }
    }

    /// Sums the pseudo header of a packet without extension headers (RFC 768, RFC 9293, RFC 8200).
    fn pseudo_header(&self, packet: &[u8], transport_len: usize) -> Sum {
        let addresses = match self.family {
            Family::V4 => &packet[ipv4::ADDRESSES],
            Family::V6 => &packet[ipv6::ADDRESSES],
        };
        Sum::default()
            .bytes(addresses)
            .word(u16::from(self.transport.protocol()))
            .word(transport_len as u16)
    }
}

fn read_word(packet: &[u8], at: std::ops::Range<usize>) -> u16 {
    u16::from_be_bytes([packet[at.start], packet[at.start + 1]])
}

fn write_word(packet: &mut [u8], at: std::ops::Range<usize>, word: u16) {
    packet[at].copy_from_slice(&word.to_be_bytes());
}

/// Writes the lengths of a packet that has this many bytes, and IPv4's checksum.
fn write_lengths(layout: Layout, header: &mut [u8], packet_len: usize) {
    match layout.family {
        Family::V4 => {
            write_word(header, ipv4::TOTAL_LENGTH, packet_len as u16);
            write_word(header, ipv4::CHECKSUM, 0);
            let checksum = Sum::default()
                .bytes(&header[..layout.transport_at])
                .checksum();
            write_word(header, ipv4::CHECKSUM, checksum);
        }
        Family::V6 => {
            let payload_len = packet_len - IPV6_HEADER_LEN;
            write_word(header, ipv6::PAYLOAD_LENGTH, payload_len as u16);
        }
    }
    if layout.transport == Transport::Udp {
        let at = layout.transport_at;
        let range = at + UDP_LENGTH.start..at + UDP_LENGTH.end;
        write_word(header, range, (packet_len - at) as u16);
    }
}

#[cfg(test)]
mod tests;
