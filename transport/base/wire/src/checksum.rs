//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and UDP's pseudo headers.

use std::net::{Ipv4Addr, Ipv6Addr};

/// IP protocol number of UDP (IANA, RFC 768).
pub const PROTOCOL_UDP: u8 = 17;

/// A running one's complement sum of 16-bit big-endian words (RFC 1071).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds one word.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Adds bytes that begin at an even offset of the summed data. An odd last byte is padded with
    /// zero (RFC 1071, section 4.1), so nothing may follow it.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(2);
        let last = words
            .remainder()
            .first()
            .map_or(0, |byte| u64::from(*byte) << 8);
        // 64 bits hold the sum of 2^48 words: no carry is lost in any packet.
        Self(words.fold(self.0 + last, |sum, word| {
            sum + u64::from(u16::from_be_bytes([word[0], word[1]]))
        }))
    }

    /// Returns the checksum: the complement of the folded sum. It is 0 over data that includes its
    /// own correct checksum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        // The loop ends with at most sixteen bits.
        sum as u16
    }
}

/// The addresses that UDP's checksum covers besides the datagram (RFC 768; RFC 8200, section 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoHeader {
    /// Between IPv4 addresses.
    V4 {
        /// The sender.
        source: Ipv4Addr,
        /// The receiver.
        destination: Ipv4Addr,
    },
    /// Between IPv6 addresses.
    V6 {
        /// The sender.
        source: Ipv6Addr,
        /// The receiver (with a routing header: the final one).
        destination: Ipv6Addr,
    },
}

impl PseudoHeader {
    /// Sums the pseudo header of a UDP datagram of `length` bytes, header included.
    pub(crate) fn sum(&self, length: u16) -> Sum {
        let addresses = match self {
            Self::V4 {
                source,
                destination,
            } => Sum::default()
                .bytes(&source.octets())
                .bytes(&destination.octets()),
            Self::V6 {
                source,
                destination,
            } => Sum::default()
                .bytes(&source.octets())
                .bytes(&destination.octets()),
        };
        addresses.word(u16::from(PROTOCOL_UDP)).word(length)
    }
}

/// Returns the checksum after some of the covered bytes have changed from `old` to `new`.
///
/// HC' = ~(~HC + ~m + m') (RFC 1624, equation 3). Both slices start at an even offset of the
/// covered data. Equals a full computation unless every covered word becomes zero, which no IP
/// header and no pseudo header allows.
///
/// # Panics
/// If the slices differ in length or their length is odd: whole 16-bit words change.
#[must_use]
pub fn update_checksum(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    assert_eq!(old.len(), new.len(), "a field keeps its size");
    assert_eq!(old.len() % 2, 0, "a field is made of 16-bit words");
    let removed = old.chunks_exact(2).fold(Sum::default(), |sum, word| {
        sum.word(!u16::from_be_bytes([word[0], word[1]]))
    });
    removed.bytes(new).word(!checksum).checksum()
}

/// Applies [`update_checksum`] to the checksum field of UDP.
///
/// A field of 0 means that the sender computed none (RFC 768), and stays 0; a computed 0 is written
/// as all ones.
///
/// # Panics
/// As [`update_checksum`].
#[must_use]
pub fn update_udp_checksum(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    match checksum {
        0 => 0,
        checksum => nonzero(update_checksum(checksum, old, new)),
    }
}

/// Replaces a computed UDP checksum of 0, which would mean "none", by its equal 0xffff.
pub(crate) fn nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests;
