//! What a viewer gets from a server, and a server from an encoder: datagrams put together to frames,
//! a byte stream cut into pictures, and a transport stream into frames.
#![no_main]

use std::time::Instant;

use arbitrary::Arbitrary;
use bytes::{Buf, Bytes};
use evenkeel_apps::stream::{
    AccessUnits, Assembly, Delays, FRAGMENT_HEADER_LEN, HEADER_LEN, Header, Kind, MAX_FRAME,
    Source, Track,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    datagrams: Vec<Datagram>,
    video: Vec<Vec<u8>>,
    packets: Vec<Packet>,
}

/// A packet of a transport stream, whose PIDs are few, so that some become streams.
#[derive(Arbitrary, Debug)]
struct Packet {
    begins: bool,
    pid: u8,
    control: u8,
    content: Vec<u8>,
    flushes: bool,
}

#[derive(Arbitrary, Debug)]
enum Datagram {
    /// Of few frames that are short, so that some become whole.
    Fragment {
        is_sound: bool,
        sequence: u8,
        entry: Option<u8>,
        length: u8,
        offset: u8,
        content: Vec<u8>,
    },
    Anything(Vec<u8>),
}

impl Datagram {
    fn bytes(&self) -> Bytes {
        match self {
            Self::Anything(bytes) => bytes.clone().into(),
            Self::Fragment {
                is_sound,
                sequence,
                entry,
                length,
                offset,
                content,
            } => {
                let header = Header {
                    track: match is_sound {
                        true => Track::new(Kind::Sound, 0),
                        false => Track::VIDEO,
                    },
                    sequence: u32::from(*sequence % 4),
                    captured_us: 1,
                    bitrate_bps: 2,
                    length: u32::from(*length % 16),
                    entry: entry.map(|frames| frames % 4),
                    delays: Delays::default(),
                    given_up: None,
                };
                header.fragment(u32::from(*offset % 16), content)
            }
        }
    }
}

fuzz_target!(|input: Input| {
    put_together(&input.datagrams);
    cut(&input.video);
    sort(&input.packets);
});

/// A frame is whole when all of it has come, and is made of what came.
fn put_together(datagrams: &[Datagram]) {
    // Of more frames the oldest would be forgotten.
    let datagrams = &datagrams[..datagrams.len().min(256)];
    let mut assembly = Assembly::default();
    let mut taken: Vec<(Header, usize, Bytes)> = Vec::new();
    for datagram in datagrams {
        let mut bytes = datagram.bytes();
        let Ok(whole) = assembly.add(bytes.clone()) else {
            continue;
        };
        let head: [u8; HEADER_LEN] = bytes[..HEADER_LEN].try_into().unwrap();
        let header = Header::decode(&head).expect("it was taken");
        assert!(bytes.len() > FRAGMENT_HEADER_LEN);
        bytes.advance(HEADER_LEN);
        let offset = bytes.get_u32() as usize;
        taken.push((header, offset, bytes));
        let Some((header, content)) = whole else {
            continue;
        };
        assert_eq!(content.len(), header.length as usize);
        assert!((1..=MAX_FRAME).contains(&content.len()));
        let mut covered = 0;
        taken.retain(|(of, offset, part)| {
            if (of.track, of.sequence) != (header.track, header.sequence) {
                return true;
            }
            assert_eq!(*of, header);
            assert_eq!(content[*offset..offset + part.len()], part[..]);
            covered += part.len();
            false
        });
        assert_eq!(
            covered,
            content.len(),
            "parts neither overlap nor are missing"
        );
    }
}

/// Pictures, joined, are the stream again, however it was handed over.
fn cut(video: &[Vec<u8>]) {
    let mut units = AccessUnits::default();
    let mut joined = Vec::new();
    for piece in video {
        let Ok(complete) = units.push(piece) else {
            return;
        };
        for unit in complete {
            // What decoding needs is added, and only where it can begin.
            let decodable = unit.decodable();
            assert_eq!(decodable.len(), unit.bytes.len() + unit.parameters.len());
            assert!(unit.parameters.is_empty() || unit.entry.is_some());
            joined.extend_from_slice(&unit.bytes);
        }
    }
    // Without a picture the rest is dropped.
    if let Some(last) = units.finish() {
        joined.extend_from_slice(&last.bytes);
        assert_eq!(joined, video.concat());
    }
}

/// Frames are whole packets, and no more of them than came.
fn sort(packets: &[Packet]) {
    #[expect(clippy::disallowed_methods, reason = "the one source of an Instant")]
    let now = Instant::now();
    let mut source = Source::default();
    let mut length = 0;
    for packet in packets {
        let mut bytes = [0xff; 188];
        let pid = packet.pid % 8;
        let begins = u8::from(packet.begins) << 6;
        bytes[..4].copy_from_slice(&[0x47, begins, pid, packet.control]);
        let content = &packet.content[..packet.content.len().min(184)];
        bytes[4..4 + content.len()].copy_from_slice(content);
        let Ok(mut frames) = source.push(now, &bytes) else {
            return;
        };
        if packet.flushes {
            frames.extend(source.flush());
        }
        length += frames
            .iter()
            .map(|(_, frame)| frame.bytes.len())
            .sum::<usize>();
        assert!(frames.iter().all(|(_, frame)| frame.bytes.len() % 188 == 0));
        let tables = source.tables();
        assert!(tables.is_none_or(|tables| tables.len() <= 32 * 188));
    }
    let last = source.finish(now);
    length += last
        .iter()
        .map(|(_, frame)| frame.bytes.len())
        .sum::<usize>();
    assert!(length <= 188 * packets.len());
}
