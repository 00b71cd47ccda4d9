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

    /// Adds bytes that begin at an even offset of what is summed. An odd last byte is padded
    /// with zero (RFC 1071, section 4.1), so nothing may follow it.
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

    /// The checksum: the complement of the folded sum. Over data that holds its own correct
    /// checksum it is 0.
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

/// The addresses that UDP's checksum covers beside the datagram (RFC 768; RFC 8200, section 8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoHeader {
    /// Between IPv4 addresses.
    V4 {
        /// Sender.
        source: Ipv4Addr,
        /// Receiver.
        destination: Ipv4Addr,
    },
    /// Between IPv6 addresses.
    V6 {
        /// Sender.
        source: Ipv6Addr,
        /// Receiver (with a routing header: the final one).
        destination: Ipv6Addr,
    },
}

impl PseudoHeader {
    /// The sum over the pseudo header of a UDP datagram of `length` bytes, header included.
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

/// The checksum after some of the covered bytes changed from `old` to `new`.
///
/// HC' = ~(~HC + ~m + m') (RFC 1624, equation 3). Both slices start at an even offset of what the
/// checksum covers. Equal to a full computation unless every covered word is zero afterwards,
/// which no IP header and no pseudo header is.
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

/// [`update_checksum`] for the checksum field of UDP.
///
/// A field of 0 says that the sender computed none (RFC 768) and stays 0; a computed 0 is
/// written as all ones.
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

/// A computed UDP checksum as it is sent: 0 is taken for "none", its equal 0xffff goes instead.
pub(crate) fn nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_sum_of_rfc_1071_section_3_is_ddf2() {
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn the_update_of_rfc_1624_section_4_gives_zero_and_not_ffff() {
        // HC = 0xDD2F, m = 0x5555 -> m' = 0x3285; equation 2 of RFC 1141 gave 0xFFFF.
        assert_eq!(
            update_checksum(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]),
            0x0000
        );
    }

    #[test]
    fn an_absent_udp_checksum_stays_absent() {
        assert_eq!(update_udp_checksum(0, &[1, 2], &[3, 4]), 0);
    }

    #[test]
    fn a_udp_checksum_that_becomes_zero_is_written_as_all_ones() {
        assert_eq!(
            update_udp_checksum(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]),
            0xffff
        );
    }

    proptest! {
        #[test]
        fn an_incremental_update_equals_a_full_computation(
            mut data in vec(any::<u8>(), 4..200),
            at in any::<prop::sample::Index>(),
            replacement in vec(any::<u8>(), 0..40),
        ) {
            // One word that stays and is not zero, like the version of IPv4 or UDP's protocol.
            data.splice(0..0, [0x45, 0x00]);
            let replacement = &replacement[..replacement.len() / 2 * 2];
            let room = data.len() - 2;
            let length = replacement.len().min(room / 2 * 2);
            let start = 2 + at.index((room - length) / 2 + 1) * 2;
            let before = Sum::default().bytes(&data).checksum();
            let old = data[start..start + length].to_vec();
            data[start..start + length].copy_from_slice(&replacement[..length]);
            let after = Sum::default().bytes(&data).checksum();
            prop_assert_eq!(update_checksum(before, &old, &replacement[..length]), after);
        }

        #[test]
        fn data_with_its_own_checksum_sums_to_zero(mut data in vec(any::<u8>(), 2..100)) {
            data.truncate(data.len() / 2 * 2);
            let checksum = Sum::default().bytes(&data).checksum();
            data.extend(checksum.to_be_bytes());
            prop_assert_eq!(Sum::default().bytes(&data).checksum(), 0);
        }
    }
}
