//! IPv6 (RFC 8200), extension headers included.

use std::net::Ipv6Addr;

use crate::checksum::PseudoHeader;
use crate::ecn::Ecn;
use crate::error::{Malformed, NotRepresentable};
use crate::field::{array, word};
use crate::udp::UdpView;

/// Length of an IPv6 header without extension headers, in bytes.
pub const IPV6_HEADER_LEN: usize = 40;

mod field {
    use std::ops::Range;

    pub(super) const VERSION_CLASS_FLOW: Range<usize> = 0..4;
    pub(super) const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: Range<usize> = 8..24;
    pub(super) const DESTINATION: Range<usize> = 24..40;
}

/// Extension headers by protocol number (RFC 8200, section 4; RFC 4302 for AH). ESP is missing
/// because what follows it is encrypted.
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION_OPTIONS: u8 = 60;
}

/// An IPv6 packet in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6View<'a> {
    fixed: &'a [u8; IPV6_HEADER_LEN],
    /// The bytes after the fixed header, extension headers included.
    body: &'a [u8],
    chain: Chain,
}

/// The result of walking the extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chain {
    protocol: u8,
    /// Bytes of extension headers in front of the upper layer.
    len: usize,
    /// In bytes.
    fragment_offset: usize,
    more_fragments: bool,
}

impl<'a> Ipv6View<'a> {
    /// Reads a packet and walks its extension headers; leaves out bytes beyond its length.
    ///
    /// # Errors
    /// [`Malformed`] if the version is another, the header is cut off, the payload length exceeds
    /// the bytes given, or an extension header reaches beyond the payload (as in jumbograms,
    /// RFC 2675, whose payload length is 0).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (fixed, rest) = bytes
            .split_first_chunk::<IPV6_HEADER_LEN>()
            .ok_or(Malformed::Truncated)?;
        if fixed[0] >> 4 != 6 {
            return Err(Malformed::Version);
        }
        let length = word(fixed, field::PAYLOAD_LENGTH);
        let body = rest.get(..usize::from(length)).ok_or(Malformed::Length)?;
        let chain = walk(fixed[field::NEXT_HEADER], body)?;
        Ok(Self { fixed, body, chain })
    }

    /// Returns the bytes of the header with its extension headers: where the payload begins.
    pub fn header_len(&self) -> usize {
        IPV6_HEADER_LEN + self.chain.len
    }

    /// Returns the differentiated services codepoint, 0 to 63 (RFC 2474).
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Returns the ECN codepoint.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// Returns the flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.first_word() & 0x000f_ffff
    }

    /// Returns the length of header and payload in bytes.
    pub fn total_len(&self) -> usize {
        IPV6_HEADER_LEN + self.body.len()
    }

    /// Returns the hops that remain.
    pub fn hop_limit(&self) -> u8 {
        self.fixed[field::HOP_LIMIT]
    }

    /// Returns the protocol number of the payload (IANA), after the extension headers.
    pub fn protocol(&self) -> u8 {
        self.chain.protocol
    }

    /// Returns true if later fragments follow.
    pub fn more_fragments(&self) -> bool {
        self.chain.more_fragments
    }

    /// Returns the offset of this payload in that of the unfragmented packet, in bytes.
    pub fn fragment_offset(&self) -> usize {
        self.chain.fragment_offset
    }

    /// Returns true if this is one of several fragments. An atomic fragment (RFC 6946) is not.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset() != 0
    }

    /// Returns the sender.
    pub fn source(&self) -> Ipv6Addr {
        array::<16>(self.fixed, field::SOURCE).into()
    }

    /// Returns the receiver; the next one, if a routing header names others.
    pub fn destination(&self) -> Ipv6Addr {
        array::<16>(self.fixed, field::DESTINATION).into()
    }

    /// Returns the bytes after the extension headers, up to the packet's length.
    pub fn payload(&self) -> &'a [u8] {
        &self.body[self.chain.len..]
    }

    /// Returns what UDP's checksum covers, if no routing header names another receiver.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V6 {
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
            self.payload(),
            self.protocol(),
            self.fragment_offset(),
            self.more_fragments(),
        )
    }

    fn first_word(&self) -> u32 {
        u32::from_be_bytes(array(self.fixed, field::VERSION_CLASS_FLOW))
    }

    fn traffic_class(&self) -> u8 {
        // Bits 4 to 11 of the first word; the cast drops all others.
        (self.first_word() >> 20) as u8
    }
}

/// An IPv6 header without extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
    /// Protocol number of the payload (IANA), not of an extension header.
    pub protocol: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Differentiated services codepoint, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Flow label, 20 bits (RFC 6437); 0 for none.
    pub flow_label: u32,
    /// Hops that remain.
    pub hop_limit: u8,
    /// Length of the payload in bytes.
    pub payload_len: u16,
}

impl Ipv6Repr {
    /// Copies the fields of a view.
    ///
    /// # Errors
    /// [`NotRepresentable`] for packets with extension headers, so also for fragments.
    pub fn parse(view: &Ipv6View<'_>) -> Result<Self, NotRepresentable> {
        if view.header_len() != IPV6_HEADER_LEN {
            return Err(NotRepresentable);
        }
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            protocol: view.protocol(),
            ecn: view.ecn(),
            dscp: view.dscp(),
            flow_label: view.flow_label(),
            hop_limit: view.hop_limit(),
            payload_len: u16::try_from(view.payload().len())
                .expect("the length field bounds the payload"),
        })
    }

    /// Returns the forty header bytes.
    ///
    /// # Panics
    /// If `dscp` exceeds 63 or `flow_label` 20 bits: the fields cannot hold more.
    pub fn emit(&self) -> [u8; IPV6_HEADER_LEN] {
        assert!(self.dscp < 64, "a DSCP has six bits");
        assert!(self.flow_label < 1 << 20, "a flow label has twenty bits");
        let class = u32::from(self.dscp << 2 | self.ecn.bits());
        let first_word = 6 << 28 | class << 20 | self.flow_label;
        let mut header = [0; IPV6_HEADER_LEN];
        header[field::VERSION_CLASS_FLOW].copy_from_slice(&first_word.to_be_bytes());
        header[field::PAYLOAD_LENGTH].copy_from_slice(&self.payload_len.to_be_bytes());
        header[field::NEXT_HEADER] = self.protocol;
        header[field::HOP_LIMIT] = self.hop_limit;
        header[field::SOURCE].copy_from_slice(&self.source.octets());
        header[field::DESTINATION].copy_from_slice(&self.destination.octets());
        header
    }

    /// Returns the addresses that UDP's checksum covers.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V6 {
            source: self.source,
            destination: self.destination,
        }
    }
}

/// Walks the extension headers at the start of `body`. Each has eight bytes or more, so the walk
/// ends. In a later fragment, data follows the fragment header, whatever its number says.
fn walk(first: u8, body: &[u8]) -> Result<Chain, Malformed> {
    let mut chain = Chain {
        protocol: first,
        len: 0,
        fragment_offset: 0,
        more_fragments: false,
    };
    while chain.fragment_offset == 0 {
        let rest = &body[chain.len..];
        let units = |at: usize| {
            rest.get(at)
                .copied()
                .map(usize::from)
                .ok_or(Malformed::ExtensionHeader)
        };
        let header_len = match chain.protocol {
            extension::HOP_BY_HOP | extension::ROUTING | extension::DESTINATION_OPTIONS => {
                8 + 8 * units(1)?
            }
            // RFC 4302, section 2.2: in words of four bytes, minus two.
            extension::AUTHENTICATION => 8 + 4 * units(1)?,
            extension::FRAGMENT => 8,
            _ => break,
        };
        let header = rest.get(..header_len).ok_or(Malformed::ExtensionHeader)?;
        if chain.protocol == extension::FRAGMENT {
            let word = u16::from_be_bytes([header[2], header[3]]);
            // The upper thirteen bits count units of eight bytes.
            chain.fragment_offset = usize::from(word & !0b111);
            chain.more_fragments |= word & 1 != 0;
        }
        chain.protocol = header[0];
        chain.len += header_len;
    }
    Ok(chain)
}

#[cfg(test)]
mod tests;
