//! Finds out whether the peer's flow control holds data back.
//!
//! quinn-proto 0.11.19 tells neither controllers nor runtimes. But it sends DATA_BLOCKED or
//! STREAM_DATA_BLOCKED when a write finds no credit, and the peer then sends MAX_DATA or
//! MAX_STREAM_DATA.

use evenkeel_headers::frames::{
    DATA_BLOCKED, Frames, MAX_DATA, MAX_STREAM_DATA, RESET_STREAM, STREAM_DATA_BLOCKED,
};

/// Returns what a frame of a packet that leaves says about credit: true if data waits for it, false
/// if data no longer does, because a stream is given up.
pub(super) fn sent(kind: u64) -> Option<bool> {
    match kind {
        DATA_BLOCKED | STREAM_DATA_BLOCKED => Some(true),
        RESET_STREAM => Some(false),
        _ => None,
    }
}

/// Returns true if the payload of the peer's packet gives credit.
pub(super) fn is_given(payload: &[u8]) -> bool {
    Frames::new(payload).any(|frame| matches!(frame.kind, MAX_DATA | MAX_STREAM_DATA))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(payload: &[u8]) -> Vec<bool> {
        let frames = Frames::new(payload);
        frames.filter_map(|frame| sent(frame.kind)).collect()
    }

    #[test]
    fn blocked_frames_and_credit_are_found_wherever_they_stand() {
        assert_eq!(blocked(&[0x14, 0x40, 0x64]), [true]);
        assert_eq!(blocked(&[0x01, 0x15, 0x04, 0x0a]), [true]);
        assert_eq!(blocked(&[0x0a, 0x00, 0x01, 0x14, 0x14, 0x05]), [true]);
        assert_eq!(blocked(&[0x04, 0x00, 0x00, 0x00]), [false]);
        assert!(is_given(&[0x12, 0x05, 0x11, 0x05, 0x06]));
        assert!(is_given(&[0x0a, 0x00, 0x01, 0x14, 0x10, 0x05]));
    }

    #[test]
    fn content_that_looks_like_a_frame_is_none() {
        for payload in [&[][..], &[0x08, 0x14, 0x14], &[0x08, 0x10, 0x10, 0x05]] {
            assert_eq!(blocked(payload), [false; 0], "{payload:?}");
            assert!(!is_given(payload), "{payload:?}");
        }
    }
}
