//! What a packet key reads of every packet that a peer sends: its frames, and the ECN counts of its
//! ACK frames, merged for the QUIC stack.
#![no_main]

use bytes::BytesMut;
use evenkeel_headers::frames::{AckFrame, Frames, take_acks};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    assert!(Frames::new(payload).count() <= payload.len());
    let mut bytes = BytesMut::from(payload);
    let before = taken(&mut bytes);
    let merged = bytes.clone();
    let after = taken(&mut bytes);
    assert_eq!(bytes, merged, "what is merged stays");
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(
            (before.path, before.largest, before.delay),
            (after.path, after.largest, after.delay)
        );
        let Some((before, after)) = before.counts.zip(after.counts) else {
            assert_eq!(before.counts, after.counts);
            continue;
        };
        let sum = (before.ect0 + before.ect1).min((1 << 62) - 1);
        assert_eq!((after.ect0, after.ect1, after.ce), (sum, 0, before.ce));
    }
});

fn taken(payload: &mut BytesMut) -> Vec<AckFrame> {
    let mut acks = Vec::new();
    take_acks(payload, |ack| acks.push(ack.clone()));
    acks
}
