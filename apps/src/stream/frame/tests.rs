use proptest::prelude::*;

use super::*;

fn any_header() -> impl Strategy<Value = Header> {
    (
        any::<(u8, u32)>(),
        any::<u64>(),
        any::<u32>(),
        1..=MAX_FRAME as u32,
        proptest::option::of(0_u8..=254),
        any::<[u8; 10]>(),
    )
        .prop_map(
            |((track, sequence), captured_us, bitrate_bps, length, entry, delays)| Header {
                track: Track::of_byte(track),
                sequence,
                captured_us,
                bitrate_bps,
                length,
                entry,
                delays: Delays {
                    encoder_cs: delays[0],
                    own_queue_cs: delays[1],
                    window_cs: delays[2],
                    flow_control_cs: delays[3],
                    queue_cs: delays[4],
                    hop_cs: delays[5],
                    losses: delays[6],
                    held_clock_cs: delays[7],
                    blocked_clock_cs: delays[8],
                },
                given_up: Cause::of_byte(delays[9] % 8),
            },
        )
}

fn header(length: usize) -> Header {
    Header {
        track: Track::VIDEO,
        sequence: 7,
        captured_us: 1,
        bitrate_bps: 2,
        length: length as u32,
        entry: Some(0),
        delays: Delays::default(),
        given_up: None,
    }
}

proptest! {
    #[test]
    fn a_header_arrives_as_it_was_sent(header in any_header()) {
        let mut bytes = BytesMut::new();
        header.encode(&mut bytes);
        let bytes: [u8; HEADER_LEN] = bytes[..].try_into().unwrap();
        prop_assert_eq!(Header::decode(&bytes).unwrap(), header);
    }

    #[test]
    fn any_datagrams_are_fragments_or_errors(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20)
    ) {
        let mut assembly = Assembly::default();
        for datagram in datagrams {
            let _ = assembly.add(datagram.into());
        }
        let kept: usize = assembly.partial.values().map(|partial| partial.received).sum();
        prop_assert_eq!(kept, assembly.bytes);
    }

    #[test]
    fn a_frame_is_whole_whatever_the_order_of_its_fragments(
        content in proptest::collection::vec(any::<u8>(), 1..2000),
        size in 1_usize..300,
        seed in any::<u64>(),
    ) {
        let header = header(content.len());
        let mut datagrams: Vec<Bytes> = content
            .chunks(size)
            .enumerate()
            .map(|(nth, chunk)| header.fragment((nth * size) as u32, chunk))
            .collect();
        let length = datagrams.len();
        for nth in 0..length {
            datagrams.swap(nth, (seed as usize).wrapping_mul(nth + 1) % length);
        }
        let mut assembly = Assembly::default();
        let (last, others) = datagrams.split_last().unwrap();
        for datagram in others {
            prop_assert_eq!(assembly.add(datagram.clone()).unwrap(), None);
        }
        let whole = assembly.add(last.clone()).unwrap();
        prop_assert_eq!(whole, Some((header, Bytes::from(content))));
        prop_assert_eq!((assembly.bytes, assembly.fragments), (0, 0));
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let first = header(10).fragment(0, b"01234");
    for wrong in [
        header(10).fragment(4, b"4"),
        header(10).fragment(0, b"0"),
        header(11).fragment(5, b"56789"),
        header(10).fragment(5, b"567890"),
        header(10).fragment(u32::MAX, b"x"),
        header(10).fragment(5, b""),
        header(0).fragment(0, b"x"),
        Bytes::from_static(b"short"),
    ] {
        let mut assembly = Assembly::default();
        assembly.add(first.clone()).unwrap();
        assert!(assembly.add(wrong.clone()).is_err(), "{wrong:?}");
    }
}

#[test]
fn frames_that_never_become_whole_are_forgotten() {
    let mut assembly = Assembly::default();
    for sequence in 0..1000 {
        let header = Header {
            sequence,
            ..header(10)
        };
        assembly.add(header.fragment(0, b"0")).unwrap();
    }
    assert_eq!(assembly.partial.len(), MAX_PARTIAL_FRAMES);
    assert_eq!(assembly.bytes, MAX_PARTIAL_FRAMES);
    // The newest are kept.
    let newest = Header {
        sequence: 999,
        ..header(10)
    };
    assert!(
        assembly
            .add(newest.fragment(1, b"123456789"))
            .unwrap()
            .is_some()
    );
}

#[test]
fn fragments_of_one_byte_are_kept_up_to_a_number_and_not_up_to_their_bytes() {
    let mut assembly = Assembly::default();
    for sequence in 0..10 {
        for nth in 0..10_000 {
            let header = Header {
                sequence,
                ..header(MAX_FRAME)
            };
            assembly.add(header.fragment(2 * nth, b"x")).unwrap();
            let kept = assembly.partial.values();
            assert!(kept.map(|partial| partial.fragments.len()).sum::<usize>() <= MAX_FRAGMENTS);
        }
    }
    // The longest frames in the shortest datagrams of QUIC still become whole, several at a time.
    assert!(4 * MAX_FRAME.div_ceil(1100) <= MAX_FRAGMENTS);
}
