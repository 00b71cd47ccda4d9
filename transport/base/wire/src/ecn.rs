//! Explicit congestion notification.

/// The ECN codepoint of an IP packet (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// The sender does not support ECN: only a drop tells it of congestion.
    #[default]
    NotEct,
    /// ECN-capable transport, codepoint 1 (RFC 9331 gives it to scalable congestion control).
    Ect1,
    /// ECN-capable transport, codepoint 0.
    Ect0,
    /// Congestion experienced: a router has marked this packet.
    Ce,
}

impl Ecn {
    /// Reads the two low bits of an IPv4 TOS or IPv6 traffic class octet; ignores the others.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns the codepoint as the two low bits of an octet.
    pub fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }

    /// Returns the codepoint that a congested router writes; `None` if it may only drop the packet.
    pub fn marked(self) -> Option<Self> {
        match self {
            Self::NotEct => None,
            Self::Ect0 | Self::Ect1 | Self::Ce => Some(Self::Ce),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codepoint_survives_its_bits_and_the_dscp_is_ignored() {
        for bits in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 0b11);
        }
    }

    #[test]
    fn only_a_packet_of_an_ecn_capable_sender_can_be_marked() {
        assert_eq!(Ecn::NotEct.marked(), None);
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(ecn.marked(), Some(Ecn::Ce));
        }
    }
}
