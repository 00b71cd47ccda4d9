//! Finds out whether the peer's flow control holds data back.
//!
//! quinn-proto 0.11.19 tells neither controllers nor runtimes. But it sends DATA_BLOCKED or
//! STREAM_DATA_BLOCKED when a write finds no credit, and the peer then sends MAX_DATA or
//! MAX_STREAM_DATA. quinn writes these frames before all data, so the search ends at the first
//! frame with data.

use evenkeel_headers::parameters::variable_length;

/// Frames before data: RFC 9000, section 19; draft-ietf-quic-ack-frequency, sections 4 and 5.
pub(super) const PADDING: u64 = 0x00;
pub(super) const PING: u64 = 0x01;
pub(super) const ACK: u64 = 0x02;
pub(super) const ACK_ECN: u64 = 0x03;
const RESET_STREAM: u64 = 0x04;
const STOP_SENDING: u64 = 0x05;
const MAX_DATA: u64 = 0x10;
const MAX_STREAM_DATA: u64 = 0x11;
const MAX_STREAMS: u64 = 0x12;
const MAX_STREAMS_UNI: u64 = 0x13;
const DATA_BLOCKED: u64 = 0x14;
const STREAM_DATA_BLOCKED: u64 = 0x15;
pub(super) const HANDSHAKE_DONE: u64 = 0x1e;
pub(super) const IMMEDIATE_ACK: u64 = 0x1f;
const ACK_FREQUENCY: u64 = 0xaf;

/// Returns what the payload of a packet that leaves says about credit: true if data waits for it,
/// false if data no longer does, because a stream is given up.
pub(super) fn sent(payload: &[u8]) -> Option<bool> {
    match first_of(&[DATA_BLOCKED, STREAM_DATA_BLOCKED, RESET_STREAM], payload)? {
        RESET_STREAM => Some(false),
        _ => Some(true),
    }
}

/// Returns true if the payload of the peer's packet gives credit.
pub(super) fn is_given(payload: &[u8]) -> bool {
    first_of(&[MAX_DATA, MAX_STREAM_DATA], payload).is_some()
}

/// Returns the type of the first frame before all data that has one of these types.
fn first_of(types: &[u64], mut payload: &[u8]) -> Option<u64> {
    loop {
        let kind = variable_length(&mut payload)?;
        if types.contains(&kind) {
            return Some(kind);
        }
        let fields = match kind {
            PADDING | PING | HANDSHAKE_DONE | IMMEDIATE_ACK => 0,
            MAX_DATA | MAX_STREAMS | MAX_STREAMS_UNI | DATA_BLOCKED => 1,
            MAX_STREAM_DATA | STOP_SENDING | STREAM_DATA_BLOCKED => 2,
            RESET_STREAM => 3,
            ACK_FREQUENCY => 4,
            ACK | ACK_ECN => {
                let [_largest, _delay, ranges, _first] = numbers(&mut payload)?;
                let counts = if kind == ACK_ECN { 3 } else { 0 };
                ranges.saturating_mul(2).saturating_add(counts)
            }
            _ => return None,
        };
        for _ in 0..fields {
            variable_length(&mut payload)?;
        }
    }
}

fn numbers(payload: &mut &[u8]) -> Option<[u64; 4]> {
    let mut next = || variable_length(payload);
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACK with a second range and ECN counts.
    const FRAME: [u8; 10] = [0x03, 0x05, 0x01, 0x01, 0x00, 0x00, 0x01, 0x07, 0x08, 0x09];

    #[test]
    fn blocked_frames_and_credit_are_found_before_data() {
        assert_eq!(sent(&[0x14, 0x40, 0x64]), Some(true));
        assert_eq!(sent(&[0x01, 0x15, 0x04, 0x0a]), Some(true));
        assert_eq!(
            sent(&[&FRAME[..], &[0x10, 0x05, 0x14, 0x05]].concat()),
            Some(true)
        );
        assert_eq!(sent(&[0x04, 0x00, 0x00, 0x00]), Some(false));
        assert!(is_given(&[&FRAME[..], &[0x10, 0x05]].concat()));
        assert!(is_given(&[0x12, 0x05, 0x11, 0x05, 0x06]));
    }

    #[test]
    fn data_and_what_breaks_off_end_the_search() {
        // A STREAM frame whose content looks like a frame.
        for payload in [
            &[][..],
            &[0x08, 0x14, 0x14],
            &FRAME,
            &FRAME[..3],
            &[0x02, 0, 0, 0xff],
        ] {
            assert_eq!(sent(payload), None, "{payload:?}");
            assert!(!is_given(payload), "{payload:?}");
        }
        // More ranges than there are bytes.
        let endless = [&[0x02, 0, 0][..], &[0xff; 8], &[0; 100]].concat();
        assert_eq!(sent(&endless), None);
    }
}
