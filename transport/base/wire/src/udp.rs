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

/// A UDP datagram in bytes, or the first fragment of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpView<'a> {
    header: &'a [u8; UDP_HEADER_LEN],
    /// The bytes after the header, up to the datagram's length.
    payload: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Reads a whole datagram; leaves out bytes beyond its length field.
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

    /// Reads the datagram in an IP packet's `payload`; `None` if the protocol is another, or in a
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

    /// Reads the start of a datagram; later fragments may hold the rest.
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

    /// Returns the sender's port.
    pub fn source_port(&self) -> u16 {
        word(self.header, field::SOURCE_PORT)
    }

    /// Returns the receiver's port.
    pub fn destination_port(&self) -> u16 {
        word(self.header, field::DESTINATION_PORT)
    }

    /// Returns the length field: bytes of the whole datagram with its header; at least eight.
    pub fn length(&self) -> u16 {
        word(self.header, field::LENGTH)
    }

    /// Returns the checksum field; 0 if the sender computed none.
    pub fn checksum(&self) -> u16 {
        word(self.header, field::CHECKSUM)
    }

    /// Returns the payload; in a first fragment, the part of it that is there.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns true if all bytes of the datagram are here; false in a first fragment.
    pub fn is_whole(&self) -> bool {
        UDP_HEADER_LEN + self.payload.len() == usize::from(self.length())
    }

    /// Returns true if the checksum is right. IPv4 allows none (RFC 768), IPv6 does not (RFC 8200,
    /// section 8.1). False for a first fragment: the sum needs all bytes.
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

/// A UDP header that evenkeel sends; length and checksum follow from the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRepr {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
}

impl UdpRepr {
    /// Copies the ports of a view.
    pub fn parse(view: &UdpView<'_>) -> Self {
        Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
        }
    }

    /// Returns the eight header bytes to put in front of `payload`, with the checksum over both and
    /// the pseudo header.
    ///
    /// # Panics
    /// If header and payload exceed 65535 bytes: no IP packet without jumbo options holds that.
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
