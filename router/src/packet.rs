//! The fields of an IP packet that a router reads and writes, in place.
//!
//! The views of `evenkeel-wire` are for endpoints: they check a packet whole. A router forwards
//! what it does not understand, so only what it touches is looked at here.

use evenkeel_wire::{Ecn, IPV4_HEADER_LEN, IPV6_HEADER_LEN, update_checksum};

use crate::family::Family;

/// Offsets in a header of IPv4 (RFC 791, section 3.1).
mod ipv4 {
    use std::ops::Range;

    pub(super) const TOS: usize = 1;
    pub(super) const TTL: usize = 8;
    pub(super) const CHECKSUM: Range<usize> = 10..12;
    pub(super) const DESTINATION: Range<usize> = 16..20;
}

/// Offsets in a header of IPv6 (RFC 8200, section 3).
mod ipv6 {
    /// The low half of the traffic class, then the flow label.
    pub(super) const CLASS_FLOW: usize = 1;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
}

/// What a packet is to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To forward.
    Forward(Family),
    /// Of one link's own life (multicast, broadcast, link-local): routers do not pass it on.
    LinkScope,
    /// No IP packet, or cut off within its fixed header.
    NotIp,
}

/// Looks at a packet; hostile bytes are of some [`Kind`] too.
pub(crate) fn classify(packet: &[u8]) -> Kind {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER_LEN => {
            let destination = &packet[ipv4::DESTINATION];
            // 224.0.0.0/4 (RFC 5771), and the limited broadcast (RFC 919, section 7).
            if destination[0] >> 4 == 0b1110 || destination == [255; 4] {
                Kind::LinkScope
            } else {
                Kind::Forward(Family::V4)
            }
        }
        Some(6) if packet.len() >= IPV6_HEADER_LEN => {
            // ff00::/8 and fe80::/10 (RFC 4291, section 2.4).
            let is_multicast = packet[ipv6::DESTINATION] == 0xff;
            let is_link_local = |at: usize| packet[at] == 0xfe && packet[at + 1] & 0xc0 == 0x80;
            if is_multicast || is_link_local(ipv6::SOURCE) || is_link_local(ipv6::DESTINATION) {
                Kind::LinkScope
            } else {
                Kind::Forward(Family::V6)
            }
        }
        _ => Kind::NotIp,
    }
}

/// The ECN codepoint of a packet to forward.
pub(crate) fn ecn(family: Family, packet: &[u8]) -> Ecn {
    match family {
        Family::V4 => Ecn::from_bits(packet[ipv4::TOS]),
        Family::V6 => Ecn::from_bits(packet[ipv6::CLASS_FLOW] >> 4),
    }
}

/// Writes the ECN codepoint of a packet to forward; a header checksum stays as right as it was.
pub(crate) fn set_ecn(family: Family, packet: &mut [u8], ecn: Ecn) {
    match family {
        Family::V4 => {
            let tos = packet[ipv4::TOS] & !0b11 | ecn.bits();
            replace_ipv4(packet, ipv4::TOS, tos);
        }
        Family::V6 => {
            let octet = &mut packet[ipv6::CLASS_FLOW];
            *octet = *octet & !0b0011_0000 | ecn.bits() << 4;
        }
    }
}

/// The time to live or hop limit that a packet will have on the next link. What the kernel takes
/// off as it forwards the packet from the device is given back, except from 255.
pub(crate) fn leaving_hops(family: Family, packet: &[u8]) -> u8 {
    packet[hops_at(family)].min(u8::MAX - 1)
}

/// Adds one to the time to live or hop limit of a packet to forward. `false`, and nothing
/// changes, if it is 255 already.
#[must_use]
pub(crate) fn give_hop_back(family: Family, packet: &mut [u8]) -> bool {
    let at = hops_at(family);
    let Some(hops) = packet[at].checked_add(1) else {
        return false;
    };
    match family {
        Family::V4 => replace_ipv4(packet, at, hops),
        Family::V6 => packet[at] = hops,
    }
    true
}

fn hops_at(family: Family) -> usize {
    match family {
        Family::V4 => ipv4::TTL,
        Family::V6 => ipv6::HOP_LIMIT,
    }
}

/// Replaces an octet of an IPv4 header and updates the checksum.
fn replace_ipv4(packet: &mut [u8], at: usize, octet: u8) {
    // Checksums are of 16-bit words.
    let word = at & !1;
    let old = [packet[word], packet[word + 1]];
    packet[at] = octet;
    let new = [packet[word], packet[word + 1]];
    let [high, low] = [
        packet[ipv4::CHECKSUM.start],
        packet[ipv4::CHECKSUM.start + 1],
    ];
    let checksum = update_checksum(u16::from_be_bytes([high, low]), &old, &new);
    packet[ipv4::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::{Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn v4(ttl: u8) -> Vec<u8> {
        let repr = Ipv4Repr {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 2, 1].into(),
            protocol: 17,
            ecn: Ecn::Ect0,
            dscp: 46,
            ttl,
            identification: 7,
            dont_fragment: true,
            payload_len: 3,
        };
        [&repr.emit()[..], b"abc"].concat()
    }

    fn v6(hop_limit: u8) -> Vec<u8> {
        let repr = Ipv6Repr {
            source: "fd00::1".parse().unwrap(),
            destination: "fd00:2::1".parse().unwrap(),
            protocol: 17,
            ecn: Ecn::Ect1,
            dscp: 46,
            flow_label: 0xabcde,
            hop_limit,
            payload_len: 3,
        };
        [&repr.emit()[..], b"abc"].concat()
    }

    #[test]
    fn a_hop_is_given_back_and_the_checksum_stays_right() {
        for ttl in 0..255 {
            let mut packet = v4(ttl);
            assert!(give_hop_back(Family::V4, &mut packet));
            assert_eq!(packet, v4(ttl + 1), "one bit besides the TTL has changed");
            let mut packet = v6(ttl);
            assert!(give_hop_back(Family::V6, &mut packet));
            assert_eq!(packet, v6(ttl + 1));
        }
    }

    #[test]
    fn a_packet_leaves_with_the_hops_that_were_read_unless_they_were_full() {
        // The kernel takes one off what goes back to it.
        for hops in 1..=255 {
            for (family, mut packet) in [(Family::V4, v4(hops)), (Family::V6, v6(hops))] {
                let leaving = leaving_hops(family, &packet);
                let _ = give_hop_back(family, &mut packet);
                assert_eq!(leaving, packet[hops_at(family)] - 1);
            }
        }
    }

    #[test]
    fn a_full_time_to_live_stays_full() {
        for (family, packet) in [(Family::V4, v4(255)), (Family::V6, v6(255))] {
            let mut changed = packet.clone();
            assert!(!give_hop_back(family, &mut changed));
            assert_eq!(changed, packet);
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong_for_the_kernel_to_see() {
        let mut packet = v4(9);
        packet[10] ^= 0x40;
        assert!(give_hop_back(Family::V4, &mut packet));
        assert!(!Ipv4View::parse(&packet).unwrap().checksum_holds());
    }

    #[test]
    fn a_mark_changes_the_ecn_codepoint_and_nothing_else() {
        let mut packet = v4(9);
        assert_eq!(ecn(Family::V4, &packet), Ecn::Ect0);
        set_ecn(Family::V4, &mut packet, Ecn::Ce);
        let view = Ipv4View::parse(&packet).unwrap();
        assert_eq!((view.ecn(), view.dscp()), (Ecn::Ce, 46));
        assert!(view.checksum_holds());
        let mut packet = v6(9);
        assert_eq!(ecn(Family::V6, &packet), Ecn::Ect1);
        set_ecn(Family::V6, &mut packet, Ecn::Ce);
        let view = Ipv6View::parse(&packet).unwrap();
        assert_eq!(
            (view.ecn(), view.dscp(), view.flow_label()),
            (Ecn::Ce, 46, 0xabcde)
        );
    }

    #[test]
    fn what_no_router_passes_on_is_told_apart() {
        let to_v4 = |destination: [u8; 4]| {
            let mut packet = v4(1);
            packet[16..20].copy_from_slice(&destination);
            classify(&packet)
        };
        assert_eq!(to_v4([10, 0, 0, 1]), Kind::Forward(Family::V4));
        assert_eq!(to_v4([224, 0, 0, 22]), Kind::LinkScope);
        assert_eq!(to_v4([239, 255, 0, 1]), Kind::LinkScope);
        assert_eq!(to_v4([255; 4]), Kind::LinkScope);
        assert_eq!(to_v4([223, 255, 255, 255]), Kind::Forward(Family::V4));
        let to_v6 = |source: &str, destination: &str| {
            let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
            let mut packet = v6(1);
            packet[8..24].copy_from_slice(&address(source));
            packet[24..40].copy_from_slice(&address(destination));
            classify(&packet)
        };
        assert_eq!(to_v6("fd00::1", "fd00::2"), Kind::Forward(Family::V6));
        assert_eq!(to_v6("::", "ff02::16"), Kind::LinkScope);
        assert_eq!(to_v6("fe80::1", "fd00::2"), Kind::LinkScope);
        assert_eq!(to_v6("fd00::1", "febf::2"), Kind::LinkScope);
        assert_eq!(to_v6("fd00::1", "fec0::2"), Kind::Forward(Family::V6));
        for junk in [&[][..], &[0x45; 19], &[0x60; 39], &[0; 1500], &[0xff; 40]] {
            assert_eq!(classify(junk), Kind::NotIp);
        }
    }

    proptest! {
        #[test]
        fn no_packet_makes_a_router_panic_or_changes_in_length(
            first in prop::sample::select(vec![0x45u8, 0x46, 0x40, 0x60, 0x6f, 0x00, 0xf5]),
            rest in vec(any::<u8>(), 0..100),
        ) {
            let mut packet = [&[first][..], &rest].concat();
            if let Kind::Forward(family) = classify(&packet) {
                let before = packet.clone();
                set_ecn(family, &mut packet, Ecn::Ce);
                prop_assert_eq!(ecn(family, &packet), Ecn::Ce);
                let _ = give_hop_back(family, &mut packet);
                prop_assert_eq!(packet.len(), before.len());
                // Addresses and whatever follows the fixed header are no business of a router.
                let untouched = match family { Family::V4 => 12, Family::V6 => 8 };
                prop_assert_eq!(&packet[untouched..], &before[untouched..]);
            }
        }
    }
}
