use proptest::prelude::*;

use super::*;

/// 5 acknowledged, and 2 to 3; 9 packets with ECT(0), 8 with ECT(1), 7 with CE.
const COUNTED: [u8; 10] = [0x03, 0x05, 0x01, 0x01, 0x00, 0x00, 0x01, 0x09, 0x08, 0x07];

fn kinds(payload: &[u8]) -> Vec<u64> {
    Frames::new(payload).map(|frame| frame.kind).collect()
}

/// The ACK frames of a payload, and the payload with merged counts.
fn taken(payload: &[u8]) -> (Vec<AckFrame>, BytesMut) {
    let (mut bytes, mut acks) = (BytesMut::from(payload), Vec::new());
    take_acks(&mut bytes, |ack| acks.push(ack.clone()));
    (acks, bytes)
}

/// One frame of each kind that has an end of its own, but for ACKs.
fn others() -> Vec<Vec<u8>> {
    let mut frames = vec![
        vec![0x00],
        vec![0x01],
        vec![0x04, 1, 2, 3],
        vec![0x05, 1, 2],
        vec![0x06, 0x40, 0x64, 3, 3, 3, 3],
        vec![0x07, 2, 3, 3],
        vec![0x0a, 1, 2, 3, 3],
        vec![0x0b, 1, 0],
        vec![0x0e, 1, 0x80, 0, 0, 1, 2, 3, 3],
        vec![0x0f, 1, 1, 1, 3],
        vec![0x1a, 3, 3, 3, 3, 3, 3, 3, 3],
        vec![0x1b, 3, 3, 3, 3, 3, 3, 3, 3],
        vec![0x1c, 1, 2, 1, 3],
        vec![0x1d, 1, 1, 3],
        vec![0x1e],
        vec![0x1f],
        vec![0x31, 3, 3, 3, 3],
        vec![0x40, 0xaf, 1, 2, 3, 4],
    ];
    frames.extend((0x10..=0x10).chain(0x12..=0x14).map(|kind| vec![kind, 1]));
    frames.extend([0x16, 0x17, 0x19].map(|kind| vec![kind, 1]));
    frames.extend([0x11, 0x15].map(|kind| vec![kind, 1, 2]));
    frames.push([&[0x18, 1, 0, 4][..], &[3; 4 + 16]].concat());
    for kind in [0x75, 0x76, 0x77, 0x79, 0x7c] {
        frames.push(vec![0x7e, kind, 1, 2]);
    }
    frames.push([&[0x7e, 0x78, 1, 1, 0, 4][..], &[3; 4 + 16]].concat());
    frames.extend([0x7a, 0x7b].map(|kind| vec![0x7e, kind, 1]));
    for (kind, address) in [(0x90, 6), (0x91, 18), (0x92, 6), (0x93, 18), (0x94, 0)] {
        frames.push([&[0x80, 0x3d, 0x7f, kind, 1][..], &vec![3; address]].concat());
    }
    for (kind, address) in [(0xa6, 6), (0xa7, 18)] {
        frames.push([&[0x80, 0x9f, 0x81, kind, 1][..], &vec![3; address]].concat());
    }
    frames
}

#[test]
fn an_ack_is_found_behind_every_kind_of_frame() {
    for before in others() {
        let (acks, _) = taken(&[&before[..], &COUNTED].concat());
        assert_eq!(acks.len(), 1, "{before:02x?}");
        assert_eq!((acks[0].largest, acks[0].delay, acks[0].path), (5, 1, 0));
    }
}

#[test]
fn every_ack_of_a_packet_is_found_with_the_counts_that_it_has() {
    let plain = [0x02, 0x06, 0x44, 0x00, 0x00, 0x00];
    let of_path = [&[0x3f, 0x04][..], &COUNTED[1..]].concat();
    let (acks, bytes) = taken(&[&COUNTED[..], &plain, &[0x01], &of_path].concat());
    let counts = EcnCounts {
        ect0: 9,
        ect1: 8,
        ce: 7,
    };
    let seen = acks
        .iter()
        .map(|ack| (ack.path, ack.largest, ack.delay, ack.counts));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            (0, 5, 1, Some(counts)),
            (0, 6, 1024, None),
            (4, 5, 1, Some(counts))
        ]
    );
    let (merged, again) = taken(&bytes);
    let expected = EcnCounts {
        ect0: 17,
        ect1: 0,
        ce: 7,
    };
    assert_eq!(
        (merged[0].counts, merged[2].counts),
        (Some(expected), Some(expected))
    );
    assert_eq!(bytes, again, "what is merged stays");
}

#[test]
fn a_frame_without_a_length_and_an_unknown_one_end_the_walk() {
    assert_eq!(kinds(&[0x01, 0x08, 0x00, 0x02, 0x00]), [0x01, 0x08]);
    assert_eq!(kinds(&[0x0c, 0x00, 0x05, 0x02]), [0x0c]);
    // With data that looks like ACK frames, behind another frame and with a length.
    let data = [0x02; 40];
    assert_eq!(kinds(&[&[0x01, 0x0d][..], &data].concat()), [0x01, 0x0d]);
    let whole = [&[0x0a, 0x00, 0x01, 0x02, 0x08][..], &data].concat();
    assert_eq!(kinds(&whole), [0x0a, 0x08]);
    assert_eq!(kinds(&[0x01, 0x30, 0x02, 0x00]), [0x01, 0x30]);
    assert_eq!(kinds(&[0x01, 0x21, 0x01]), [0x01]);
    // More ranges than there are bytes.
    let endless = [&[0x02, 0, 0][..], &[0xff; 8], &[0; 100]].concat();
    assert_eq!(kinds(&endless), [0; 0]);
}

#[test]
fn a_sum_that_needs_more_bytes_moves_what_is_behind_it() {
    // 40 + 40 need two bytes, and all three numbers had one.
    let payload = [0x03, 5, 0, 0, 0, 40, 40, 1, 0x10, 0x05];
    let (_, bytes) = taken(&payload);
    assert_eq!(&bytes[..], [0x03, 5, 0, 0, 0, 0x40, 80, 0, 1, 0x10, 0x05]);
    // Nothing that a peer writes overflows.
    let greatest = [&[0x03, 5, 0, 0, 0][..], &[0xff; 24]].concat();
    let (acks, _) = taken(&taken(&greatest).1);
    assert_eq!(
        acks[0].counts.map(|counts| (counts.ect0, counts.ect1)),
        Some((GREATEST, 0))
    );
}

/// Numbers that need one, two, four or eight bytes.
fn number() -> impl Strategy<Value = u64> {
    (0u32..62).prop_flat_map(|bits| 0..=(2u64 << bits) - 1)
}

proptest! {
    #[test]
    fn merging_keeps_the_sum_and_every_other_byte(
        (ect0, ect1, ce) in (number(), number(), number()),
        room in 0usize..25,
        before in proptest::sample::select(others()),
        after in proptest::sample::select(others()),
    ) {
        let counts = EcnCounts { ect0, ect1, ce };
        let encoded = encoded(counts, room);
        let head = [&before[..], &[0x03, 5, 0, 0, 0]].concat();
        let (acks, bytes) = taken(&[&head[..], &encoded, &after].concat());
        prop_assert_eq!(acks.len(), 1);
        prop_assert_eq!(acks[0].counts, Some(counts));
        let (merged, _) = taken(&bytes);
        let sum = ect0.saturating_add(ect1).min(GREATEST);
        prop_assert_eq!(merged[0].counts, Some(EcnCounts { ect0: sum, ect1: 0, ce }));
        prop_assert!(bytes.starts_with(&head) && bytes.ends_with(&after));
        prop_assert_eq!(kinds(&bytes).len(), 3);
    }

    #[test]
    fn the_walk_of_any_bytes_ends_and_merges_but_once(
        payload in proptest::collection::vec(0u8..0x40, 0..80),
    ) {
        prop_assert!(Frames::new(&payload).count() <= payload.len());
        let (acks, bytes) = taken(&payload);
        let (again, unchanged) = taken(&bytes);
        prop_assert_eq!(acks.len(), again.len());
        prop_assert_eq!(&bytes, &unchanged);
        prop_assert!(again.iter().all(|ack| ack.counts.is_none_or(|counts| counts.ect1 == 0)));
    }
}
