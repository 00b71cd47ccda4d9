//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use crate::checksum::{PseudoHeader, Sum};
use crate::ecn::Ecn;
use crate::error::{Malformed, NotRepresentable};
use crate::field::{array, word};
use crate::udp::UdpView;

/// Length of an IPv4 header without options, in bytes.
pub const IPV4_HEADER_LEN: usize = 20;

mod field {
    use std::ops::Range;

    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LENGTH: Range<usize> = 2..4;
    pub(super) const IDENTIFICATION: Range<usize> = 4..6;
    pub(super) const FLAGS_OFFSET: Range<usize> = 6..8;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
    pub(super) const SOURCE: Range<usize> = 12..16;
    pub(super) const DESTINATION: Range<usize> = 16..20;
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 packet in bytes.
///
/// `parse` does not check the header checksum, so a router that only looks need not pay for it.
/// [`Ipv4View::checksum_holds`] checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4View<'a> {
    fixed: &'a [u8; IPV4_HEADER_LEN],
    /// Header with options.
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Reads a packet; leaves out bytes beyond its total length.
    ///
    /// # Errors
    /// [`Malformed`] if the version is another, the header is cut off or shorter than 20 bytes, or
    /// the total length is less than the header or more than the bytes given.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let fixed: &[u8; IPV4_HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
        if fixed[field::VERSION_IHL] >> 4 != 4 {
            return Err(Malformed::Version);
        }
        let header_len = usize::from(fixed[field::VERSION_IHL] & 0x0f) * 4;
        if header_len < IPV4_HEADER_LEN {
            return Err(Malformed::HeaderLength);
        }
        let header = bytes.get(..header_len).ok_or(Malformed::Truncated)?;
        let total_len = usize::from(word(fixed, field::TOTAL_LENGTH));
        let payload = bytes.get(header_len..total_len).ok_or(Malformed::Length)?;
        Ok(Self {
            fixed,
            header,
            payload,
        })
    }

    /// Returns the bytes of the header with its options (20 to 60): where the payload begins.
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// Returns the options, padding included; empty in most packets.
    pub fn options(&self) -> &'a [u8] {
        &self.header[IPV4_HEADER_LEN..]
    }

    /// Returns the differentiated services codepoint, 0 to 63 (RFC 2474).
    pub fn dscp(&self) -> u8 {
        self.fixed[field::TOS] >> 2
    }

    /// Returns the ECN codepoint.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.fixed[field::TOS])
    }

    /// Returns the length of header and payload in bytes.
    pub fn total_len(&self) -> u16 {
        word(self.fixed, field::TOTAL_LENGTH)
    }

    /// Returns the identification, which all fragments of a packet share.
    pub fn identification(&self) -> u16 {
        word(self.fixed, field::IDENTIFICATION)
    }

    /// Returns true if routers must not fragment this packet.
    pub fn dont_fragment(&self) -> bool {
        word(self.fixed, field::FLAGS_OFFSET) & DONT_FRAGMENT != 0
    }

    /// Returns true if later fragments follow.
    pub fn more_fragments(&self) -> bool {
        word(self.fixed, field::FLAGS_OFFSET) & MORE_FRAGMENTS != 0
    }

    /// Returns the offset of this payload in that of the unfragmented packet, in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(word(self.fixed, field::FLAGS_OFFSET) & OFFSET_MASK) * 8
    }

    /// Returns true if this is one of several fragments.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    /// Returns the time to live, in hops.
    pub fn ttl(&self) -> u8 {
        self.fixed[field::TTL]
    }

    /// Returns the protocol number of the payload (IANA).
    pub fn protocol(&self) -> u8 {
        self.fixed[field::PROTOCOL]
    }

    /// Returns the sender.
    pub fn source(&self) -> Ipv4Addr {
        array::<4>(self.fixed, field::SOURCE).into()
    }

    /// Returns the receiver.
    pub fn destination(&self) -> Ipv4Addr {
        array::<4>(self.fixed, field::DESTINATION).into()
    }

    /// Returns the header checksum field.
    pub fn checksum(&self) -> u16 {
        word(self.fixed, field::CHECKSUM)
    }

    /// Returns true if the header checksum is right.
    pub fn checksum_holds(&self) -> bool {
        Sum::default().bytes(self.header).checksum() == 0
    }

    /// Returns the bytes after the header, up to the total length.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the addresses that UDP's checksum covers.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V4 {
            source: self.source(),
            destination: self.destination(),
        }
    }

    /// Returns the UDP datagram inside; `None` for another protocol, or a later fragment, which
    /// holds no UDP header. For a first fragment, returns the part that is there.
    ///
    /// # Errors
    /// [`Malformed`] if protocol and offset promise a UDP header but there is none.
    pub fn udp(&self) -> Result<Option<UdpView<'a>>, Malformed> {
        UdpView::in_ip(
            self.payload,
            self.protocol(),
            self.fragment_offset(),
            self.more_fragments(),
        )
    }
}

/// An unfragmented IPv4 header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// The sender.
    pub source: Ipv4Addr,
    /// The receiver.
    pub destination: Ipv4Addr,
    /// Protocol number of the payload (IANA).
    pub protocol: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Differentiated services codepoint, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Identification; meaningless where `dont_fragment` is set (RFC 6864).
    pub identification: u16,
    /// True if routers must not fragment this packet.
    pub dont_fragment: bool,
    /// Length of the payload in bytes, at most 65515.
    pub payload_len: u16,
}

impl Ipv4Repr {
    /// Copies the fields of a view.
    ///
    /// # Errors
    /// [`NotRepresentable`] for fragments and packets with options.
    pub fn parse(view: &Ipv4View<'_>) -> Result<Self, NotRepresentable> {
        if view.is_fragment() || !view.options().is_empty() {
            return Err(NotRepresentable);
        }
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            ecn: view.ecn(),
            dscp: view.dscp(),
            ttl: view.ttl(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            payload_len: u16::try_from(view.payload().len())
                .expect("the total length bounds the payload"),
        })
    }

    /// Returns the twenty header bytes, with their checksum.
    ///
    /// # Panics
    /// If `payload_len` exceeds 65515 or `dscp` 63: the fields cannot hold more.
    pub fn emit(&self) -> [u8; IPV4_HEADER_LEN] {
        assert!(self.dscp < 64, "a DSCP has six bits");
        let total_len = u16::try_from(IPV4_HEADER_LEN + usize::from(self.payload_len))
            .expect("an IPv4 packet has at most 65535 bytes");
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let mut header = [0; IPV4_HEADER_LEN];
        header[field::VERSION_IHL] = 0x45;
        header[field::TOS] = self.dscp << 2 | self.ecn.bits();
        header[field::TOTAL_LENGTH].copy_from_slice(&total_len.to_be_bytes());
        header[field::IDENTIFICATION].copy_from_slice(&self.identification.to_be_bytes());
        header[field::FLAGS_OFFSET].copy_from_slice(&flags.to_be_bytes());
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol;
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        let checksum = Sum::default().bytes(&header).checksum();
        header[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    /// Returns the addresses that UDP's checksum covers.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V4 {
            source: self.source,
            destination: self.destination,
        }
    }
}

#[cfg(test)]
mod tests;
