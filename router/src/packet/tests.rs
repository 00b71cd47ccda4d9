use evenkeel_wire::{Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, UdpRepr};
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

/// A UDP packet with this payload, and its checksum.
fn udp(family: Family, payload: &[u8]) -> Vec<u8> {
    let repr = UdpRepr {
        source_port: 50_000,
        destination_port: 443,
    };
    let payload_len = (UDP_HEADER_LEN + payload.len()) as u16;
    let (header, pseudo) = match family {
        Family::V4 => {
            let view = v4(64);
            let ip = Ipv4Repr::parse(&Ipv4View::parse(&view).unwrap()).unwrap();
            let ip = Ipv4Repr { payload_len, ..ip };
            (ip.emit().to_vec(), ip.pseudo_header())
        }
        Family::V6 => {
            let view = v6(64);
            let ip = Ipv6Repr::parse(&Ipv6View::parse(&view).unwrap()).unwrap();
            let ip = Ipv6Repr { payload_len, ..ip };
            (ip.emit().to_vec(), ip.pseudo_header())
        }
    };
    [&header[..], &repr.emit(&pseudo, payload), payload].concat()
}

fn udp_checksum_holds(family: Family, packet: &[u8]) -> bool {
    match family {
        Family::V4 => {
            let view = Ipv4View::parse(packet).unwrap();
            let udp = view.udp().unwrap().unwrap();
            udp.checksum_holds(&view.pseudo_header())
        }
        Family::V6 => {
            let view = Ipv6View::parse(packet).unwrap();
            let udp = view.udp().unwrap().unwrap();
            udp.checksum_holds(&view.pseudo_header())
        }
    }
}

proptest! {
    #[test]
    fn one_bit_of_the_payload_flips_and_the_checksum_stays_right(payload in vec(any::<u8>(), 1..50), bit in any::<u64>()) {
        for family in [Family::V4, Family::V6] {
            let before = udp(family, &payload);
            let start = before.len() - payload.len();
            let mut after = before.clone();
            prop_assert!(flip_payload_bit(family, &mut after, bit, true));
            prop_assert!(udp_checksum_holds(family, &after));
            let differ = before[start..].iter().zip(&after[start..]);
            prop_assert_eq!(differ.map(|(a, b)| (a ^ b).count_ones()).sum::<u32>(), 1);
            // The same bit again restores the packet; without a checksum nothing else changes.
            prop_assert!(flip_payload_bit(family, &mut after, bit, true));
            prop_assert!(udp_checksum_holds(family, &after));
            let mut pending = before.clone();
            prop_assert!(flip_payload_bit(family, &mut pending, bit, false));
            prop_assert_eq!(&pending[..start], &before[..start]);
        }
    }
}

#[test]
fn what_is_no_udp_or_has_no_payload_keeps_its_bits() {
    for family in [Family::V4, Family::V6] {
        let mut empty = udp(family, &[]);
        let before = empty.clone();
        assert!(!flip_payload_bit(family, &mut empty, 5, true));
        assert_eq!(empty, before);
    }
    let mut tcp = udp(Family::V4, b"abc");
    tcp[ipv4::PROTOCOL] = 6;
    assert!(!flip_payload_bit(Family::V4, &mut tcp, 5, true));
}
