use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::checksum::PROTOCOL_UDP;
use crate::udp::UdpRepr;

fn repr(protocol: u8, payload_len: u16) -> Ipv6Repr {
    Ipv6Repr {
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        protocol,
        ecn: Ecn::Ect0,
        dscp: 0,
        flow_label: 0x12345,
        hop_limit: 64,
        payload_len,
    }
}

/// A packet with `extensions` in front of a UDP datagram with "abc".
fn packet(first: u8, extensions: &[u8]) -> Vec<u8> {
    let header = repr(first, u16::try_from(extensions.len() + 11).unwrap());
    let udp = UdpRepr {
        source_port: 1,
        destination_port: 2,
    };
    let mut bytes = header.emit().to_vec();
    bytes.extend(extensions);
    bytes.extend(udp.emit(&header.pseudo_header(), b"abc"));
    bytes.extend(b"abc");
    bytes
}

#[test]
fn a_known_packet_is_emitted_byte_for_byte() {
    // Pseudo header: fd00 + 1 + fd00 + 2 + 0011 + 000b = 1fa1f, folded fa20. UDP: 1 + 2 + b = e.
    // Payload: 6162 + 6300 = c462. fa20 + 000e + c462 = 1be90, folded be91; complement 416e.
    let bytes = packet(PROTOCOL_UDP, &[]);
    let mut expected = vec![0x60, 0x21, 0x23, 0x45, 0x00, 0x0b, 17, 64];
    expected.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    expected.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    expected.extend([0, 1, 0, 2, 0, 11, 0x41, 0x6e, b'a', b'b', b'c']);
    assert_eq!(bytes, expected);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(
        (view.ecn(), view.flow_label(), view.hop_limit()),
        (Ecn::Ect0, 0x12345, 64)
    );
    assert!(
        view.udp()
            .unwrap()
            .unwrap()
            .checksum_holds(&view.pseudo_header())
    );
}

#[test]
fn udp_is_found_behind_every_extension_header() {
    let mut extensions = vec![extension::ROUTING, 0, 1, 4, 0, 0, 0, 0];
    extensions.extend([
        extension::DESTINATION_OPTIONS,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    extensions.extend([extension::AUTHENTICATION, 0, 1, 4, 0, 0, 0, 0]);
    extensions.extend([PROTOCOL_UDP, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let bytes = packet(extension::HOP_BY_HOP, &extensions);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(view.header_len(), IPV6_HEADER_LEN + extensions.len());
    assert_eq!(view.protocol(), PROTOCOL_UDP);
    assert_eq!(view.udp().unwrap().unwrap().payload(), b"abc");
    assert_eq!(Ipv6Repr::parse(&view), Err(NotRepresentable));
}

#[test]
fn a_first_fragment_shows_its_udp_header_and_a_later_one_none() {
    let mut bytes = packet(extension::FRAGMENT, &[PROTOCOL_UDP, 0, 0, 1, 0, 0, 0, 9]);
    bytes[IPV6_HEADER_LEN + 8 + 5] = 200;
    let view = Ipv6View::parse(&bytes).unwrap();
    assert!(view.is_fragment() && view.more_fragments());
    assert!(!view.udp().unwrap().unwrap().is_whole());

    let bytes = packet(extension::FRAGMENT, &[PROTOCOL_UDP, 0, 0, 200, 0, 0, 0, 9]);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(
        (view.fragment_offset(), view.more_fragments()),
        (200, false)
    );
    assert_eq!(view.udp(), Ok(None));
}

#[test]
fn a_later_fragment_of_options_is_not_walked() {
    let bytes = packet(
        extension::FRAGMENT,
        &[extension::HOP_BY_HOP, 0, 0, 200, 0, 0, 0, 9],
    );
    let view = Ipv6View::parse(&bytes).unwrap();
    assert_eq!(
        (view.protocol(), view.header_len()),
        (extension::HOP_BY_HOP, IPV6_HEADER_LEN + 8)
    );
}

#[test]
fn an_atomic_fragment_is_whole() {
    let bytes = packet(extension::FRAGMENT, &[PROTOCOL_UDP, 0, 0, 0, 0, 0, 0, 9]);
    let view = Ipv6View::parse(&bytes).unwrap();
    assert!(!view.is_fragment());
    assert!(
        view.udp()
            .unwrap()
            .unwrap()
            .checksum_holds(&view.pseudo_header())
    );
}

#[test]
fn an_extension_header_beyond_the_payload_is_malformed() {
    let bytes = packet(extension::HOP_BY_HOP, &[PROTOCOL_UDP, 9, 0, 0, 0, 0, 0, 0]);
    assert_eq!(Ipv6View::parse(&bytes), Err(Malformed::ExtensionHeader));
    let jumbogram = repr(extension::HOP_BY_HOP, 0).emit();
    assert_eq!(Ipv6View::parse(&jumbogram), Err(Malformed::ExtensionHeader));
}

#[test]
fn contradictions_are_refused_by_name() {
    let bytes = packet(PROTOCOL_UDP, &[]);
    assert_eq!(Ipv6View::parse(&bytes[..39]), Err(Malformed::Truncated));
    assert_eq!(Ipv6View::parse(&bytes[..50]), Err(Malformed::Length));
    let mut other = bytes;
    other[0] = 0x45;
    assert_eq!(Ipv6View::parse(&other), Err(Malformed::Version));
}

prop_compose! {
    fn any_repr()(
        (source, destination, ecn, hop_limit) in any::<(u128, u128, u8, u8)>(),
        protocol in prop::sample::select(vec![PROTOCOL_UDP, 6, 58, 59]),
        dscp in 0u8..64,
        flow_label in 0u32..1 << 20,
        payload_len in 0u16..100,
    ) -> Ipv6Repr {
        Ipv6Repr {
            source: source.into(), destination: destination.into(), protocol,
            ecn: Ecn::from_bits(ecn), dscp, flow_label, hop_limit, payload_len,
        }
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_back(repr in any_repr()) {
        let mut bytes = repr.emit().to_vec();
        bytes.resize(IPV6_HEADER_LEN + usize::from(repr.payload_len), 0xaa);
        let view = Ipv6View::parse(&bytes).unwrap();
        prop_assert_eq!(Ipv6Repr::parse(&view), Ok(repr));
    }

    #[test]
    fn no_bytes_make_a_view_panic(
        mut bytes in vec(any::<u8>(), 0..256),
        next in prop::option::of(prop::sample::select(vec![0u8, 17, 43, 44, 51, 60])),
    ) {
        if let (Some(next), true) = (next, bytes.len() > 6) {
            bytes[0] = 0x60;
            let rest = bytes.len().saturating_sub(IPV6_HEADER_LEN);
            bytes[4..6].copy_from_slice(&u16::try_from(rest).unwrap().to_be_bytes());
            bytes[6] = next;
            // Small bytes make plausible chains: known numbers, short lengths.
            for byte in bytes.iter_mut().skip(IPV6_HEADER_LEN) {
                *byte %= 61;
            }
        }
        if let Ok(view) = Ipv6View::parse(&bytes) {
            prop_assert_eq!(view.header_len() + view.payload().len(), view.total_len());
            if let Ok(Some(udp)) = view.udp() {
                udp.checksum_holds(&view.pseudo_header());
            }
            if let Ok(repr) = Ipv6Repr::parse(&view) {
                repr.emit();
            }
        }
    }
}
