//! Taking headers off buffers that hold several datagrams.

use evenkeel_tests::time::epoch;
use proptest::prelude::*;

use super::*;
use crate::fuzzing::{Arrival, HeaderSocket};

const HEADER: [u8; PATH_HEADER_LEN] = {
    let mut header = [0; PATH_HEADER_LEN];
    let magic = evenkeel_wire::PATH_HEADER_MAGIC;
    (header[0], header[1], header[2], header[3]) = (magic[0], magic[1], magic[2], magic[3]);
    // Version 1, kind ACP, 32 bytes.
    header[4] = 0x4f;
    header
};

/// What quinn sees of `buffers`, each with the stride of its datagrams.
fn received(buffers: Vec<(Vec<u8>, usize)>) -> Vec<Vec<u8>> {
    let from = SocketAddr::from(([127, 0, 0, 1], 9));
    let arrival = |(bytes, stride)| Arrival {
        from,
        bytes,
        stride,
    };
    let given = HeaderSocket::new(1, epoch()).receive(buffers.into_iter().map(arrival).collect());
    given.into_iter().map(|(_, datagram)| datagram).collect()
}

fn headed(packet: &[u8]) -> Vec<u8> {
    [&HEADER, packet].concat()
}

#[test]
fn every_datagram_of_a_batch_loses_its_header() {
    let packets: Vec<Vec<u8>> = (0..10).map(|i| vec![0x40 | i; 100]).collect();
    let mut bytes: Vec<u8> = packets.iter().flat_map(|packet| headed(packet)).collect();
    bytes.extend(headed(&[0x41; 7]));
    let seen = received(vec![(bytes, 132)]);
    assert_eq!(seen[..10], packets);
    assert_eq!(seen[10..], [vec![0x41; 7]]);
}

#[test]
fn one_header_is_taken_off_and_no_second_one() {
    let nested = headed(&headed(&[0x40; 50]));
    assert_eq!(
        received(vec![(nested.clone(), nested.len())]),
        [headed(&[0x40; 50])]
    );
}

#[test]
fn a_header_with_nothing_behind_it_is_no_datagram() {
    let seen = received(vec![(HEADER.to_vec(), 32), (vec![0x40; 9], 9)]);
    assert_eq!(seen, [vec![0x40; 9]]);
}

#[test]
fn a_stride_of_zero_ends() {
    assert_eq!(received(vec![(vec![0x40; 3], 0)]).concat(), [0x40; 3]);
}

#[test]
fn what_a_packet_adds_to_its_payload_depends_on_address_and_share_of_headers() {
    for (address, every, bytes) in [
        ("192.0.2.1:9", 1, 60),
        ("[2001:db8::1]:9", 1, 80),
        ("[::ffff:192.0.2.1]:9", 4, 36),
        ("192.0.2.1:9", 1000, 28),
    ] {
        let address = address.parse().expect("an address");
        assert_eq!(overhead(address, every), bytes, "{address}, {every}");
    }
}

proptest! {
    #[test]
    fn any_mixture_arrives_whole_and_in_order(
        messages in prop::collection::vec(
            (1_usize..120, prop::collection::vec((any::<bool>(), 0x40_u8..=0xff), 1..6), 1_usize..=120),
            1..12,
        ),
    ) {
        let (mut buffers, mut expected) = (Vec::new(), Vec::new());
        for (size, datagrams, last) in messages {
            // All on the wire as long as the first, but for the last.
            let stride = size + PATH_HEADER_LEN;
            let mut bytes = Vec::new();
            let count = datagrams.len();
            for (nth, (with, fill)) in datagrams.into_iter().enumerate() {
                let on_wire = if nth + 1 == count { stride.min(last + PATH_HEADER_LEN) } else { stride };
                let packet = vec![fill; if with { on_wire - PATH_HEADER_LEN } else { on_wire }];
                bytes.extend(if with { headed(&packet) } else { packet.clone() });
                expected.push(packet);
            }
            buffers.push((bytes, stride));
        }
        prop_assert_eq!(received(buffers), expected);
    }

    #[test]
    fn no_bytes_cause_a_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 1..300), stride in 0_usize..300, ours: bool) {
        let mut bytes = bytes;
        if ours {
            for datagram in bytes.chunks_mut(stride.max(1)).filter(|datagram| datagram.len() > 5) {
                datagram[..4].copy_from_slice(&evenkeel_wire::PATH_HEADER_MAGIC);
            }
        }
        let len = bytes.len();
        prop_assert!(received(vec![(bytes, stride)]).concat().len() <= len);
    }
}
