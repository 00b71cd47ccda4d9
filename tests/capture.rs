//! Captures in libpcap's format, for tests that read what the testbed writes or write what tshark
//! reads.

use std::time::Duration;

/// Four bytes at the beginning: little-endian, times in microseconds or nanoseconds.
const MICROSECONDS: [u8; 4] = [0xd4, 0xc3, 0xb2, 0xa1];
const NANOSECONDS: [u8; 4] = [0x4d, 0x3c, 0xb2, 0xa1];

/// The packets of a capture in nanoseconds, each with its time.
///
/// # Panics
/// If it is none, or ends within a packet.
pub fn packets(capture: &[u8]) -> Vec<(Duration, &[u8])> {
    let (header, mut rest) = capture.split_at(24);
    assert_eq!(header[..4], NANOSECONDS, "a capture in nanoseconds");
    let mut packets = Vec::new();
    while let Some((record, behind)) = rest.split_at_checked(16) {
        let field = |at| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
        let [seconds, nanoseconds, kept, length] = [0, 4, 8, 12].map(field);
        assert_eq!(kept, length, "packets are whole");
        let (packet, behind) = behind.split_at(kept as usize);
        packets.push((Duration::new(seconds.into(), nanoseconds), packet));
        rest = behind;
    }
    assert!(rest.is_empty(), "the capture ends with a packet");
    packets
}

/// A capture of these IP packets, all of the same time.
pub fn of(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut capture = MICROSECONDS.to_vec();
    // Version 2.4, no offset of the time zone, no accuracy, the longest packet, LINKTYPE_RAW.
    for field in [4 << 16 | 2, 0, 0, 65_535, 101_u32] {
        capture.extend(field.to_le_bytes());
    }
    for packet in packets {
        let length = u32::try_from(packet.len()).expect("packets are short");
        for field in [0, 0, length, length] {
            capture.extend(field.to_le_bytes());
        }
        capture.extend(packet);
    }
    capture
}
