use evenkeel_tests::time::{epoch, ms};
use proptest::prelude::*;

use super::super::track::Kind;
use super::*;

pub(in super::super) const VIDEO: u16 = 0x100;
pub(in super::super) const SOUND: u16 = 0x101;
const MAP: u16 = 0x1000;

/// A packet with this content, filled by a longer adaptation field with these flags.
fn packet(pid: u16, begins: bool, flags: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![
        SYNC_BYTE,
        (pid >> 8) as u8 | u8::from(begins) << 6,
        pid as u8,
    ];
    let field = PACKET - 4 - content.len();
    if field == 0 {
        packet.push(0x10);
    } else {
        let control = if content.is_empty() { 0x20 } else { 0x30 };
        packet.extend_from_slice(&[control, (field - 1) as u8]);
        if field > 1 {
            packet.push(flags);
            packet.resize(4 + field, 0xff);
        }
    }
    packet.extend_from_slice(content);
    assert_eq!(packet.len(), PACKET);
    packet
}

/// A table in one packet.
fn table(pid: u16, id: u8, number: u16, content: &[u8]) -> Vec<u8> {
    let length = 5 + content.len() + 4;
    let mut section = vec![id, 0xb0 | (length >> 8) as u8, length as u8];
    section.extend_from_slice(&number.to_be_bytes());
    section.extend_from_slice(&[0xc1, 0, 0]);
    section.extend_from_slice(content);
    let checksum = section.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
            let shifted = sum << 1;
            if sum >> 31 == 1 {
                shifted ^ 0x04c1_1db7
            } else {
                shifted
            }
        })
    });
    section.extend_from_slice(&checksum.to_be_bytes());
    section.insert(0, 0);
    section.resize(PACKET - 4, 0xff);
    packet(pid, true, 0, &section)
}

/// A program with H.264 and AAC.
pub(in super::super) fn tables() -> Vec<u8> {
    let pid = |pid: u16| [0xe0 | (pid >> 8) as u8, pid as u8];
    let programs = [&[0, 1][..], &pid(MAP)].concat();
    let streams = [
        &pid(VIDEO)[..],
        &[0xf0, 0, 0x1b],
        &pid(VIDEO),
        &[0xf0, 0, 0x0f],
        &pid(SOUND),
        &[0xf0, 0],
    ];
    [
        table(0, 0, 1, &programs),
        table(MAP, 2, 1, &streams.concat()),
    ]
    .concat()
}

/// A PES packet in packets; only sound says its length. Begins with the adaptation field's `flags`.
pub(in super::super) fn pes(pid: u16, time: u64, flags: u8, content: &[u8]) -> Vec<u8> {
    let stamp = [
        0x21 | (time >> 29) as u8 & 0x0e,
        (time >> 22) as u8,
        (time >> 14) as u8 | 1,
        (time >> 7) as u8,
        (time << 1) as u8 | 1,
    ];
    let length = match pid {
        SOUND => (content.len() + 8) as u16,
        _ => 0,
    };
    let id = if pid == SOUND { 0xc0 } else { 0xe0 };
    let head = [
        &[0, 0, 1, id][..],
        &length.to_be_bytes(),
        &[0x80, 0x80, 5],
        &stamp,
    ];
    let whole = [&head.concat(), content].concat();
    let (first, rest) = whole.split_at(whole.len().min(150));
    let mut packets = packet(pid, true, flags, first);
    for piece in rest.chunks(184) {
        packets.extend_from_slice(&packet(pid, false, 0, piece));
    }
    packets
}

pub(in super::super) fn key_picture(fill: usize) -> Vec<u8> {
    let mut picture = vec![0, 0, 0, 1, 0x65, 0x88];
    picture.resize(6 + fill, 0x5a);
    picture
}

fn kinds(units: &[(Instant, AccessUnit)]) -> Vec<(Track, usize, Option<u8>, Option<u64>)> {
    let kind = |(_, unit): &(_, AccessUnit)| {
        (unit.track, unit.bytes.len() / PACKET, unit.entry, unit.time)
    };
    units.iter().map(kind).collect()
}

const SOUND_TRACK: Track = Track::new(Kind::Sound, 0);

#[test]
fn a_clock_reference_between_two_pictures_does_not_overtake_the_second() {
    let picture = |time| pes(VIDEO, time, 0x40, &key_picture(300));
    let clock = packet(VIDEO, false, 0x10, &[]);
    let sound = pes(SOUND, 2, 0, &[7; 40]);
    let mut stream = TransportStream::default();
    let mut units = Vec::new();
    let mut push = |stream: &mut TransportStream, bytes: &[u8]| {
        units.extend(stream.push(epoch(), bytes).unwrap());
        units.extend(stream.flush());
    };
    for bytes in [&tables(), &picture(1), &clock, &sound, &picture(2), &clock] {
        push(&mut stream, bytes);
    }
    units.extend(stream.finish());
    let of = |track| {
        let units = units.iter().filter(move |(_, unit)| unit.track == track);
        units.map(|(_, unit)| &unit.bytes[..]).collect::<Vec<_>>()
    };
    assert_eq!(of(Track::TABLES).concat(), tables());
    let pictures = [picture(1), clock.clone(), picture(2), clock].concat();
    assert_eq!(of(Track::VIDEO).concat(), pictures);
    let times: Vec<_> = units.iter().filter_map(|(_, unit)| unit.time).collect();
    assert_eq!(
        times,
        [1, 2, 2],
        "it leads to the picture that it comes before"
    );
}

#[test]
fn a_picture_that_goes_on_after_a_flush_was_not_whole() {
    let mut stream = TransportStream::default();
    let picture = pes(VIDEO, 1, 0x40, &key_picture(600));
    let (first, rest) = picture.split_at(2 * PACKET);
    stream.push(epoch(), &tables()).unwrap();
    let tables = stream.push(epoch(), first).unwrap();
    assert_eq!((tables.len(), stream.flush().len()), (1, 1));
    assert!(!stream.went_on());
    stream.push(epoch(), rest).unwrap();
    assert!(stream.went_on() && !stream.went_on());
}

#[test]
fn a_pes_packet_is_a_frame_with_its_track_its_time_and_whether_it_is_an_entry() {
    let last = (1 << 33) - 1;
    let stream = [
        tables(),
        pes(VIDEO, last, 0, &key_picture(500)),
        pes(SOUND, 5, 0, &[7; 300]),
        pes(VIDEO, 3600, 0, &[0, 0, 1, 0x41, 0x9a]),
        pes(VIDEO, 7200, 0x40, &[0, 0, 1, 0x41, 0x9a]),
    ]
    .concat();
    for piece in [1, 100, 188, 5000] {
        let mut source = TransportStream::default();
        let mut units = Vec::new();
        for bytes in stream.chunks(piece) {
            units.extend(source.push(epoch(), bytes).unwrap());
        }
        assert_eq!(source.tables().unwrap()[..], tables());
        units.extend(source.finish());
        let expected = [
            (Track::TABLES, 2, Some(0), None),
            (SOUND_TRACK, 2, Some(0), Some(5)),
            (Track::VIDEO, 4, Some(0), Some(last)),
            (Track::VIDEO, 1, None, Some(3600)),
            // The multiplexer says so.
            (Track::VIDEO, 1, Some(0), Some(7200)),
        ];
        assert_eq!(kinds(&units), expected, "in pieces of {piece}");
        let bytes: usize = units.iter().map(|(_, unit)| unit.bytes.len()).sum();
        assert_eq!(bytes, stream.len());
    }
}

#[test]
fn sound_that_says_its_length_is_whole_at_once_and_a_picture_when_nothing_comes() {
    let mut source = TransportStream::default();
    let begun = source.push(epoch(), &tables()).unwrap();
    assert!(begun.is_empty() && source.has_begun());
    let units = source
        .push(epoch() + ms(1), &pes(SOUND, 0, 0, &[7; 300]))
        .unwrap();
    assert_eq!(units[1].0, epoch() + ms(1));
    assert!(!source.has_begun());
    let picture = pes(VIDEO, 0, 0, &key_picture(500));
    let (most, rest) = picture.split_at(3 * PACKET);
    assert!(source.push(epoch() + ms(2), most).unwrap().is_empty());
    assert!(source.has_begun());
    let units = source.flush();
    assert_eq!(units[0].0, epoch() + ms(2));
    assert_eq!(kinds(&units), [(Track::VIDEO, 3, Some(0), Some(0))]);
    // It was not whole.
    assert!(source.push(epoch() + ms(9), rest).unwrap().is_empty());
    let units = source.flush();
    assert_eq!(units[0].0, epoch() + ms(9));
    assert_eq!(kinds(&units), [(Track::VIDEO, 1, None, None)]);
}

#[test]
fn what_fills_is_broken_or_belongs_to_nothing_is_left_out_and_clocks_are_kept() {
    let mut broken = packet(VIDEO, true, 0, &[0, 0, 1]);
    broken[1] |= 0x80;
    let clock = packet(VIDEO, false, 0x10, &[]);
    let stream = [
        pes(VIDEO, 0, 0, &key_picture(1)),
        tables(),
        packet(0x1fff, false, 0, &[0; 184]),
        packet(0x200, true, 0, &[0; 184]),
        broken,
        b"noise".to_vec(),
        pes(SOUND, 0, 0, &[7; 3]),
        packet(SOUND, false, 0x10, &[]),
        pes(VIDEO, 0, 0, &key_picture(1)),
        clock,
    ]
    .concat();
    let mut source = TransportStream::default();
    let mut units = source.push(epoch(), &stream).unwrap();
    units.extend(source.finish());
    let tracks: Vec<_> = kinds(&units).iter().map(|unit| (unit.0, unit.1)).collect();
    let expected = [
        (Track::TABLES, 2),
        (SOUND_TRACK, 1),
        (Track::VIDEO, 2),
        (SOUND_TRACK, 1),
    ];
    assert_eq!(tracks, expected);
}

#[test]
fn what_has_no_packets_of_188_bytes_is_refused() {
    let mut source = TransportStream::default();
    let wide = [packet(0, true, 0, &[0; 184]), vec![0; 16]]
        .concat()
        .repeat(400);
    assert_eq!(source.push(epoch(), &wide).unwrap_err(), TsError::NoPackets);
}

proptest! {
    #[test]
    fn any_bytes_are_packets_or_an_error(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 0..20)
    ) {
        let mut source = TransportStream::default();
        for piece in pieces {
            if source.push(epoch(), &piece).is_err() {
                return Ok(());
            }
            source.flush();
        }
        source.finish();
    }

    #[test]
    fn no_change_of_a_byte_makes_packets_of_what_is_none(
        place in 0_usize..3000, byte in any::<u8>()
    ) {
        let picture = pes(VIDEO, 0, 0, &key_picture(1000));
        let mut stream = [tables(), picture, pes(SOUND, 0, 0, &[7; 300])].concat().repeat(2);
        let place = place % stream.len();
        stream[place] = byte;
        let mut source = TransportStream::default();
        let mut units = source.push(epoch(), &stream).unwrap();
        units.extend(source.finish());
        let bytes: usize = units.iter().map(|(_, unit)| unit.bytes.len()).sum();
        prop_assert!(bytes <= stream.len());
        prop_assert!(units.iter().all(|(_, unit)| unit.bytes.len() % PACKET == 0));
    }
}
