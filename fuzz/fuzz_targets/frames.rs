//! What a viewer gets from a server, and a server from an encoder: datagrams put together to frames,
//! and a byte stream cut into pictures.
#![no_main]

use arbitrary::Arbitrary;
use bytes::{Buf, Bytes};
use evenkeel_apps::stream::{
    AccessUnits, Assembly, Delays, FRAGMENT_HEADER_LEN, HEADER_LEN, Header, MAX_FRAME,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    datagrams: Vec<Datagram>,
    video: Vec<Vec<u8>>,
}

#[derive(Arbitrary, Debug)]
enum Datagram {
    /// Of few frames that are short, so that some become whole.
    Fragment {
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
                sequence,
                entry,
                length,
                offset,
                content,
            } => {
                let header = Header {
                    sequence: u32::from(*sequence % 4),
                    captured_us: 1,
                    bitrate_bps: 2,
                    length: u32::from(*length % 16),
                    entry: entry.map(|frames| frames % 4),
                    delays: Delays::default(),
                };
                header.fragment(u32::from(*offset % 16), content)
            }
        }
    }
}

fuzz_target!(|input: Input| {
    put_together(&input.datagrams);
    cut(&input.video);
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
            if of.sequence != header.sequence {
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
