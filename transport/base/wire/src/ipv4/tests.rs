use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::update_checksum;

/// 10.0.0.1 to 10.0.0.2, UDP 1234 to 5678 with "abc". Header without checksum: 4500 + 001f +
/// 0000 + 4000 + 4011 + 0000 + 0a00 + 0001 + 0a00 + 0002 = d933; the complement is 26cc.
const PACKET: [u8; 31] = [
    0x45, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0xcc, 10, 0, 0, 1, 10, 0, 0,
    2, //
    0x04, 0xd2, 0x16, 0x2e, 0x00, 0x0b, 0x0c, 0x73, b'a', b'b', b'c',
];

#[test]
fn a_known_packet_is_read_field_by_field() {
    let view = Ipv4View::parse(&PACKET).unwrap();
    assert_eq!(view.header_len(), 20);
    assert_eq!(view.total_len(), 31);
    assert_eq!((view.dscp(), view.ecn()), (0, Ecn::NotEct));
    assert!(view.dont_fragment() && !view.is_fragment());
    assert_eq!((view.ttl(), view.protocol()), (64, 17));
    assert_eq!(view.source(), Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(view.destination(), Ipv4Addr::new(10, 0, 0, 2));
    assert!(view.checksum_holds());
    let udp = view.udp().unwrap().unwrap();
    assert_eq!((udp.source_port(), udp.destination_port()), (1234, 5678));
    assert_eq!(udp.payload(), b"abc");
    assert!(udp.checksum_holds(&view.pseudo_header()));
}

#[test]
fn a_known_packet_is_emitted_byte_for_byte() {
    let view = Ipv4View::parse(&PACKET).unwrap();
    assert_eq!(Ipv4Repr::parse(&view).unwrap().emit(), PACKET[..20]);
}

#[test]
fn options_move_the_payload() {
    let mut packet = PACKET.to_vec();
    packet[0] = 0x46;
    packet[3] += 4;
    packet.splice(20..20, [1, 1, 1, 0]);
    let view = Ipv4View::parse(&packet).unwrap();
    assert_eq!(view.options(), [1, 1, 1, 0]);
    assert_eq!(view.udp().unwrap().unwrap().payload(), b"abc");
    assert_eq!(Ipv4Repr::parse(&view), Err(NotRepresentable));
}

#[test]
fn a_first_fragment_shows_its_udp_header_and_a_later_one_none() {
    let mut first = PACKET;
    first[6] = 0x20;
    first[25] = 200;
    let view = Ipv4View::parse(&first).unwrap();
    let udp = view.udp().unwrap().unwrap();
    assert_eq!(
        (udp.length(), udp.is_whole(), udp.payload()),
        (200, false, &b"abc"[..])
    );
    assert!(!udp.checksum_holds(&view.pseudo_header()));
    assert_eq!(Ipv4Repr::parse(&view), Err(NotRepresentable));

    let mut later = PACKET;
    later[6..8].copy_from_slice(&[0x00, 0x19]);
    let view = Ipv4View::parse(&later).unwrap();
    assert_eq!(
        (view.fragment_offset(), view.more_fragments()),
        (200, false)
    );
    assert_eq!(view.udp(), Ok(None));
}

#[test]
fn an_unfragmented_datagram_longer_than_its_packet_is_malformed() {
    let mut packet = PACKET;
    packet[25] = 200;
    assert_eq!(
        Ipv4View::parse(&packet).unwrap().udp(),
        Err(Malformed::Length)
    );
}

#[test]
fn another_protocol_is_no_udp() {
    let mut packet = PACKET;
    packet[9] = 6;
    assert_eq!(Ipv4View::parse(&packet).unwrap().udp(), Ok(None));
}

#[test]
fn contradictions_are_refused_by_name() {
    let with = |at: usize, byte: u8| {
        let mut packet = PACKET;
        packet[at] = byte;
        Ipv4View::parse(&packet).map(|_| ())
    };
    assert_eq!(Ipv4View::parse(&PACKET[..19]), Err(Malformed::Truncated));
    assert_eq!(with(0, 0x65), Err(Malformed::Version));
    assert_eq!(with(0, 0x44), Err(Malformed::HeaderLength));
    assert_eq!(with(0, 0x4f), Err(Malformed::Truncated));
    assert_eq!(with(3, 19), Err(Malformed::Length));
    assert_eq!(with(3, 32), Err(Malformed::Length));
}

#[test]
fn marking_with_an_incremental_update_keeps_the_header_checksum_right() {
    let mut packet = PACKET;
    packet[1] = Ecn::Ce.bits();
    let checksum = update_checksum(0x26cc, &PACKET[..2], &packet[..2]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    assert!(Ipv4View::parse(&packet).unwrap().checksum_holds());
}

prop_compose! {
    fn any_repr()(
        (source, destination, protocol, ecn) in any::<(u32, u32, u8, u8)>(),
        (ttl, identification, dont_fragment) in any::<(u8, u16, bool)>(),
        dscp in 0u8..64,
        payload_len in 0u16..100,
    ) -> Ipv4Repr {
        Ipv4Repr {
            source: source.into(), destination: destination.into(), protocol,
            ecn: Ecn::from_bits(ecn), dscp, ttl, identification, dont_fragment, payload_len,
        }
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_back_with_a_right_checksum(repr in any_repr()) {
        let mut bytes = repr.emit().to_vec();
        bytes.resize(IPV4_HEADER_LEN + usize::from(repr.payload_len), 0xaa);
        let view = Ipv4View::parse(&bytes).unwrap();
        prop_assert!(view.checksum_holds());
        prop_assert_eq!(Ipv4Repr::parse(&view), Ok(repr));
    }

    #[test]
    fn no_bytes_make_a_view_panic(mut bytes in vec(any::<u8>(), 0..128), sensible: bool) {
        if sensible && bytes.len() > 3 {
            bytes[0] = 0x40 | bytes[0] & 0x0f;
            bytes[2] = 0;
        }
        if let Ok(view) = Ipv4View::parse(&bytes) {
            prop_assert_eq!(view.header_len() + view.payload().len(), usize::from(view.total_len()));
            view.options();
            view.checksum_holds();
            if let Ok(Some(udp)) = view.udp() {
                udp.checksum_holds(&view.pseudo_header());
            }
            if let Ok(repr) = Ipv4Repr::parse(&view) {
                repr.emit();
            }
        }
    }
}
