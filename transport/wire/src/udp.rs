//! UDP (RFC 768).

use crate::checksum::{PROTOCOL_UDP, PseudoHeader, nonzero};
use crate::error::Malformed;
use crate::field::word;

/// Length of a UDP header in bytes.
pub const UDP_HEADER_LEN: usize = 8;

mod field {
    use std::ops::Range;

    pub(super) const SOURCE_PORT: Range<usize> = 0..2;
    pub(super) const DESTINATION_PORT: Range<usize> = 2..4;
    pub(super) const LENGTH: Range<usize> = 4..6;
    pub(super) const CHECKSUM: Range<usize> = 6..8;
}

/// A UDP datagram in bytes, as much of it as there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpView<'a> {
    header: &'a [u8; UDP_HEADER_LEN],
    /// What follows the header, up to the datagram's length.
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Reads a whole datagram; bytes beyond its length field are left out.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] below eight bytes, [`Malformed::Length`] if the length field is
    /// below eight or exceeds the bytes given.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let view = Self::parse_start(bytes)?;
        if view.is_whole() {
            Ok(view)
        } else {
            Err(Malformed::Length)
        }
    }

    /// The datagram in an IP packet's `payload`; `None` if that is of another protocol, or of a
    /// later fragment, which holds no UDP header. In a first fragment the length may exceed the
    /// bytes given.
    pub(crate) fn in_ip(
        payload: &'a [u8],
        protocol: u8,
        fragment_offset: usize,
        more_fragments: bool,
    ) -> Result<Option<Self>, Malformed> {
        if protocol != PROTOCOL_UDP || fragment_offset != 0 {
            return Ok(None);
        }
        let view = if more_fragments {
            Self::parse_start(payload)?
        } else {
            Self::parse(payload)?
        };
        Ok(Some(view))
    }

    /// Reads the start of a datagram of which later fragments may hold the rest.
    fn parse_start(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = bytes.split_first_chunk().ok_or(Malformed::Truncated)?;
        let length = usize::from(word(header, field::LENGTH));
        let payload_len = length
            .checked_sub(UDP_HEADER_LEN)
            .ok_or(Malformed::Length)?;
        Ok(Self {
            header,
            payload: rest.get(..payload_len).unwrap_or(rest),
        })
    }

    /// Port of the sender.
    pub fn source_port(&self) -> u16 {
        word(self.header, field::SOURCE_PORT)
    }

    /// Port of the receiver.
    pub fn destination_port(&self) -> u16 {
        word(self.header, field::DESTINATION_PORT)
    }

    /// Length field: header and payload of the whole datagram, in bytes; at least eight.
    pub fn length(&self) -> u16 {
        word(self.header, field::LENGTH)
    }

    /// Checksum field; 0 if the sender computed none.
    pub fn checksum(&self) -> u16 {
        word(self.header, field::CHECKSUM)
    }

    /// The payload; in a first fragment, the part of it that is there.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether all bytes of the datagram are here. False in a first fragment.
    pub fn is_whole(&self) -> bool {
        UDP_HEADER_LEN + self.payload.len() == usize::from(self.length())
    }

    /// Whether the checksum is right. A datagram over IPv4 may have none (RFC 768), over IPv6
    /// it must have one (RFC 8200, section 8.1). False for a first fragment: the sum needs all.
    pub fn checksum_holds(&self, pseudo: &PseudoHeader) -> bool {
        if self.checksum() == 0 {
            return matches!(pseudo, PseudoHeader::V4 { .. });
        }
        self.is_whole()
            && pseudo
                .sum(self.length())
                .bytes(self.header)
                .bytes(self.payload)
                .checksum()
                == 0
    }
}

/// A UDP header of ours; length and checksum follow from the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRepr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
}

impl UdpRepr {
    /// What a view says of itself.
    pub fn parse(view: &UdpView<'_>) -> Self {
        Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
        }
    }

    /// The eight header bytes that go in front of `payload`, with the checksum over both and
    /// the pseudo header.
    ///
    /// # Panics
    /// If header and payload exceed 65535 bytes: no IP packet without jumbo options holds it.
    pub fn emit(&self, pseudo: &PseudoHeader, payload: &[u8]) -> [u8; UDP_HEADER_LEN] {
        let length = u16::try_from(UDP_HEADER_LEN + payload.len())
            .expect("a UDP datagram has at most 65535 bytes");
        let mut header = [0; UDP_HEADER_LEN];
        header[field::SOURCE_PORT].copy_from_slice(&self.source_port.to_be_bytes());
        header[field::DESTINATION_PORT].copy_from_slice(&self.destination_port.to_be_bytes());
        header[field::LENGTH].copy_from_slice(&length.to_be_bytes());
        let checksum = nonzero(pseudo.sum(length).bytes(&header).bytes(payload).checksum());
        header[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
        header
    }
}

#[cfg(test)]
mod tests;
