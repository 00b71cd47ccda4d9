use proptest::prelude::*;

use super::*;

/// A NAL unit with a four-byte start code.
fn nal(kind: u8, first: u8) -> Vec<u8> {
    vec![0, 0, 0, 1, 0x60 | kind, first, 0x55, 0xaa]
}

fn cut(stream: &[u8], chunk: usize) -> Vec<AccessUnit> {
    let mut parser = AccessUnits::default();
    let mut units = Vec::new();
    for bytes in stream.chunks(chunk) {
        units.extend(parser.push(bytes).unwrap());
    }
    units.extend(parser.finish());
    units
}

#[test]
fn a_picture_is_a_unit_with_what_stands_before_it() {
    let key = [nal(9, 0x10), nal(7, 1), nal(8, 1), nal(6, 1), nal(5, 0x88)].concat();
    let two_slices = [nal(9, 0x30), nal(1, 0x9a), nal(1, 0x40)].concat();
    let bare = nal(1, 0x80);
    let stream = [key.clone(), two_slices.clone(), bare.clone()].concat();
    for chunk in [1, 3, 7, 1000] {
        let units = cut(&stream, chunk);
        let unit = |bytes: &[u8], entry| AccessUnit {
            track: Track::VIDEO,
            time: None,
            bytes: Bytes::copy_from_slice(bytes),
            entry,
            parameters: Bytes::new(),
        };
        let expected = [
            unit(&key, Some(0)),
            unit(&two_slices, None),
            unit(&bare, None),
        ];
        assert_eq!(units, expected, "in chunks of {chunk}");
    }
}

#[test]
fn three_byte_start_codes_are_start_codes() {
    let stream = [
        0, 0, 1, 0x65, 0x88, 0, 0, 1, 0x41, 0x9a, 0, 0, 1, 0x41, 0x9a,
    ];
    let units = cut(&stream, 4);
    assert_eq!(
        units.iter().map(|u| u.bytes.len()).collect::<Vec<_>>(),
        [5, 5, 5]
    );
    assert_eq!(
        units.iter().map(|u| u.entry).collect::<Vec<_>>(),
        [Some(0), None, None]
    );
}

/// Concatenated NAL units, each after a start code.
fn units_of(nals: &[&[u8]]) -> Vec<u8> {
    nals.iter()
        .flat_map(|nal| [&START_CODE, *nal].concat())
        .collect()
}

#[test]
fn where_decoding_can_begin_the_parameter_sets_in_force_are_at_hand() {
    const SPS: &[u8] = &[0x67, 0x42, 0xc0, 0x1e, 0xda];
    // Identifiers 0, 1 and, again, 0.
    const PPS: [&[u8]; 3] = [
        &[0x68, 0xce, 0x01],
        &[0x68, 0x4c, 0x02],
        &[0x68, 0xce, 0x03],
    ];
    const DELIMITER: &[u8] = &[0x09, 0x10];
    const IDR: &[u8] = &[0x65, 0x88];
    const OTHER: &[u8] = &[0x41, 0x9a];
    let stream = units_of(&[
        SPS, PPS[0], PPS[1], IDR, OTHER, IDR, PPS[2], IDR, DELIMITER, IDR,
    ]);
    let units = cut(&stream, 1000);
    let parameters = [
        &[],
        &[],
        &[SPS, PPS[0], PPS[1]][..],
        &[SPS, PPS[1]],
        &[SPS, PPS[2], PPS[1]],
    ];
    for (unit, expected) in units.iter().zip(parameters) {
        assert_eq!(unit.parameters, units_of(expected));
    }
    assert_eq!(units[1].decodable(), units_of(&[OTHER]));
    assert_eq!(units[3].decodable(), units_of(&[SPS, PPS[1], PPS[2], IDR]));
    // A delimiter stays first.
    let last = units_of(&[DELIMITER, SPS, PPS[2], PPS[1], IDR]);
    assert_eq!(units[4].decodable(), last);
}

#[test]
fn decoding_can_begin_at_a_recovery_point() {
    // SEI of type 5 with 2 bytes, then type 6 with 1: the Exp-Golomb code of 9 is 0001010.
    let sei: &[u8] = &[0x06, 5, 2, 0, 0, 6, 1, 0b0001_0101, 0x80];
    let stream = units_of(&[sei, &[0x41, 0x9a], &[0x41, 0x9a]]);
    let entries: Vec<_> = cut(&stream, 5).iter().map(|unit| unit.entry).collect();
    assert_eq!(entries, [Some(9), None]);
}

#[test]
fn hevc_is_cut_as_its_own_rules_say() {
    const VPS: &[u8] = &[0x40, 0x01, 0x0c];
    // Bytes of 3 prevent start codes.
    const SPS: &[u8] = &[
        0x42, 0x01, 0x01, 0x01, 0x60, 0, 0, 3, 0, 0x90, 0, 0, 3, 0, 0, 3, 0, 0x5d, 0xa0,
    ];
    const PPS: &[u8] = &[0x44, 0x01, 0xc1];
    const IDR: &[u8] = &[0x26, 0x01, 0xaf];
    const SECOND_SLICE: &[u8] = &[0x26, 0x01, 0x2f];
    const TRAIL: &[u8] = &[0x02, 0x01, 0xd0];
    const CRA: &[u8] = &[0x2a, 0x01, 0xaf];
    let key = units_of(&[VPS, SPS, PPS, IDR, SECOND_SLICE]);
    let stream = [&key[..], &units_of(&[TRAIL, CRA])].concat();
    for chunk in [1, 4, 1000] {
        let units = cut(&stream, chunk);
        let entries: Vec<_> = units.iter().map(|unit| unit.entry).collect();
        assert_eq!(entries, [Some(0), None, Some(0)], "in chunks of {chunk}");
        assert_eq!(units[0].bytes, key);
        assert_eq!(units[2].decodable(), units_of(&[VPS, SPS, PPS, CRA]));
    }
}

#[test]
fn what_is_no_byte_stream_is_refused_by_name_if_it_has_one() {
    for (wrong, name) in [
        (&b"\0\0\0\x18ftypisom"[..], "MP4"),
        (b"\x12\x00\x0a\x0b", "AV1"),
        (b"DKIF\0\0\x20\0AV01", "AV1 in IVF"),
        (b"\0\0\x01\xb3\x14", "MPEG-1, MPEG-2 or MPEG-4 Visual"),
        (b"\0\0\x01\0\x79", "H.266 (VVC)"),
    ] {
        let pushed = AccessUnits::default().push(wrong);
        assert_eq!(pushed, Err(AnnexBError::Other(name)), "{wrong:?}");
    }
    for wrong in [&b"What is this?"[..], b"\0\0\0\x18", b"\x01"] {
        let pushed = AccessUnits::default().push(wrong);
        assert_eq!(pushed, Err(AnnexBError::NoStartCode), "{wrong:?}");
    }
    let mut endless = AccessUnits::default();
    endless.push(&nal(5, 0x88)).unwrap();
    assert_eq!(endless.push(&vec![1; MAX_FRAME]), Err(AnnexBError::TooLong));
    assert_eq!(AccessUnits::default().finish(), None);
}

proptest! {
    #[test]
    fn the_units_joined_are_the_stream_however_it_comes(
        kinds in proptest::collection::vec((1_u8..15, any::<u8>()), 1..30),
        chunk in 1_usize..50,
    ) {
        let mut stream: Vec<u8> = kinds.iter().flat_map(|(kind, first)| nal(*kind, *first)).collect();
        stream.extend(nal(1, 0x80));
        let units = cut(&stream, chunk);
        let joined: Vec<u8> = units.iter().flat_map(|unit| unit.bytes.to_vec()).collect();
        prop_assert_eq!(&joined, &stream);
        prop_assert_eq!(units, cut(&stream, stream.len()));
        // Wherever an encoder pauses.
        let mut parser = AccessUnits::default();
        let mut units = Vec::new();
        for bytes in stream.chunks(chunk) {
            units.extend(parser.push(bytes).unwrap());
            units.extend(parser.flush());
        }
        units.extend(parser.finish());
        let joined: Vec<u8> = units.iter().flat_map(|unit| unit.bytes.to_vec()).collect();
        prop_assert_eq!(&joined, &stream);
    }

    #[test]
    fn any_bytes_are_units_or_an_error(
        bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..300),
        chunk in 1_usize..50,
    ) {
        let mut parser = AccessUnits::default();
        for bytes in bytes.chunks(chunk) {
            if parser.push(bytes).is_err() {
                return Ok(());
            }
        }
        let _ = parser.finish();
    }
}

#[test]
fn a_picture_that_is_flushed_does_not_wait_for_the_next_one() {
    let mut parser = AccessUnits::default();
    let stream = units_of(&[&[0x67, 1, 2, 3], &[0x65, 0x80, 7, 0]]);
    assert_eq!(parser.push(&stream).unwrap(), []);
    let picture = parser.flush().expect("it has a slice");
    assert_eq!(picture.entry, Some(0));
    // The zero may belong to the next start code.
    assert_eq!(picture.bytes[..], stream[..stream.len() - 1]);
    assert_eq!(parser.flush(), None);
    assert!(!parser.went_on());
    // A second slice of the same picture, and then another picture.
    let rest = units_of(&[&[0x65, 0x00, 9]]);
    let next = units_of(&[&[0x41, 0x80, 5, 6]]);
    let units = parser.push(&[&rest[..], &next].concat()).unwrap();
    assert_eq!(units.len(), 1);
    assert!(parser.went_on(), "it was not whole");
    assert_eq!(
        (units[0].entry, units[0].bytes.len()),
        (None, 1 + rest.len())
    );
    let last = parser.finish().expect("it has a picture");
    assert_eq!(last.bytes[..], next[..]);
}
