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
