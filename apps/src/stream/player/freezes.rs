//! Times when the picture stood still.

use std::time::Duration;

use super::{duration, micros};

/// A picture that stands still this much longer than a frame is a freeze to viewers (W3C,
/// Identifiers for WebRTC's Statistics API, freezeCount: 150 ms above the mean, and three times the
/// mean).
const FREEZE: Duration = Duration::from_millis(150);

/// Times when the picture stood still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Freezes {
    pub(in super::super) count: u64,
    /// Their total length.
    pub(in super::super) total: Duration,
    pub(in super::super) longest: Duration,
}

impl Freezes {
    /// Notes that a picture stood for `stood_us`, where `frame_us` is the time of one.
    pub(super) fn add(&mut self, stood_us: i64, frame_us: i64) {
        let freeze_us = (3 * frame_us).max(frame_us + micros(FREEZE));
        if stood_us <= freeze_us {
            return;
        }
        let time = duration(stood_us.saturating_sub(frame_us));
        self.count += 1;
        self.total += time;
        self.longest = self.longest.max(time);
    }
}
