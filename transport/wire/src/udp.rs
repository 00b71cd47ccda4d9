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
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const V4: PseudoHeader = PseudoHeader::V4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(10, 0, 0, 2),
    };
    const V6: PseudoHeader = PseudoHeader::V6 {
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
    };

    #[test]
    fn a_known_datagram_has_the_checksum_worked_by_hand() {
        // Pseudo header: 0a00 + 0001 + 0a00 + 0002 + 0011 + 000b = 141f.
        // Header: 04d2 (1234) + 162e (5678) + 000b = 1b0b. Payload "abc": 6162 + 6300 = c462.
        // 141f + 1b0b + c462 = f38c; its complement is 0c73.
        let repr = UdpRepr {
            source_port: 1234,
            destination_port: 5678,
        };
        let header = repr.emit(&V4, b"abc");
        assert_eq!(header, [0x04, 0xd2, 0x16, 0x2e, 0x00, 0x0b, 0x0c, 0x73]);
    }

    #[test]
    fn a_checksum_of_zero_is_none_over_ipv4_and_wrong_over_ipv6() {
        let bytes = [0, 1, 0, 2, 0, 8, 0, 0];
        let view = UdpView::parse(&bytes).unwrap();
        assert!(view.checksum_holds(&V4));
        assert!(!view.checksum_holds(&V6));
    }

    #[test]
    fn a_computed_zero_is_sent_as_all_ones_and_still_holds() {
        // A source port equal to the checksum without it fills the sum up to ffff.
        let empty = UdpRepr {
            source_port: 0,
            destination_port: 0,
        }
        .emit(&V4, b"");
        let source_port = u16::from_be_bytes([empty[6], empty[7]]);
        let header = UdpRepr {
            source_port,
            destination_port: 0,
        }
        .emit(&V4, b"");
        assert_eq!(header[6..], [0xff, 0xff]);
        assert!(UdpView::parse(&header).unwrap().checksum_holds(&V4));
    }

    #[test]
    fn bytes_beyond_the_length_field_are_not_payload() {
        let view = UdpView::parse(&[0, 1, 0, 2, 0, 9, 0, 0, b'a', b'b']).unwrap();
        assert_eq!(view.payload(), b"a");
    }

    #[test]
    fn lengths_that_contradict_the_bytes_are_refused() {
        assert_eq!(UdpView::parse(&[0; 7]), Err(Malformed::Truncated));
        assert_eq!(
            UdpView::parse(&[0, 1, 0, 2, 0, 7, 0, 0]),
            Err(Malformed::Length)
        );
        assert_eq!(
            UdpView::parse(&[0, 1, 0, 2, 0, 9, 0, 0]),
            Err(Malformed::Length)
        );
    }

    #[test]
    fn a_changed_byte_breaks_the_checksum() {
        let repr = UdpRepr {
            source_port: 1,
            destination_port: 2,
        };
        let mut bytes = repr.emit(&V6, b"payload").to_vec();
        bytes.extend(b"payloae");
        assert!(!UdpView::parse(&bytes).unwrap().checksum_holds(&V6));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_view_panic(bytes in vec(any::<u8>(), 0..64)) {
            if let Ok(view) = UdpView::parse(&bytes) {
                prop_assert!(view.payload().len() + UDP_HEADER_LEN <= bytes.len());
                view.checksum_holds(&V4);
                UdpRepr::parse(&view);
            }
        }

        #[test]
        fn what_is_emitted_is_parsed_back(
            source_port: u16, destination_port: u16,
            payload in vec(any::<u8>(), 0..100), over_ipv6: bool,
        ) {
            let repr = UdpRepr { source_port, destination_port };
            let pseudo = if over_ipv6 { V6 } else { V4 };
            let mut bytes = repr.emit(&pseudo, &payload).to_vec();
            bytes.extend(&payload);
            let view = UdpView::parse(&bytes).unwrap();
            prop_assert_eq!(UdpRepr::parse(&view), repr);
            prop_assert_eq!(view.payload(), &payload[..]);
            prop_assert!(view.checksum_holds(&pseudo));
        }
    }
}
