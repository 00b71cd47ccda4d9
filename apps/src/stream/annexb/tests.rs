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
        let unit = |bytes: &[u8], key| AccessUnit {
            bytes: Bytes::copy_from_slice(bytes),
            key,
        };
        let expected = [
            unit(&key, true),
            unit(&two_slices, false),
            unit(&bare, false),
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
        units.iter().map(|u| u.key).collect::<Vec<_>>(),
        [true, false, false]
    );
}

#[test]
fn what_is_no_byte_stream_is_refused() {
    for wrong in [&b"RIFF...."[..], b"\0\0\0\x18ftyp", b"\x01"] {
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
