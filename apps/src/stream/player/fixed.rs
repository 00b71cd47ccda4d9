//! What becomes of frames that are late for a fixed delay.

use std::time::Duration;

use super::micros;

/// How long a fixed delay may begin with pictures that are late, 2 s: without them the first one that
/// can be decoded is the next key frame. A controller's start often takes longer than a second.
pub(in super::super) const LATE_START: Duration = Duration::from_secs(2);

/// A picture that is at most this late is shown: few people notice sound that is so much ahead of it
/// (ITU-R BT.1359-1). If it were dropped, all that refer to it would be damaged.
const UNNOTICED: Duration = Duration::from_millis(45);

#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    /// Until when the playout delay has followed the clocks.
    pub(super) followed_us: i64,
    /// A picture was in time since the stream began, or began anew.
    pub(super) is_running: bool,
    /// When the first one was.
    pub(super) first_picture_us: Option<i64>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    OnTime,
    /// It is shown late.
    Shown,
    /// It is decoded for those that follow.
    Decoded,
    Dropped,
}

impl Fixed {
    /// Judges a frame that came `lateness_us` after it was due, `since_us` after the first one, where
    /// the next is due `frame_us` after it.
    pub(super) fn judge(&mut self, lateness_us: i64, frame_us: i64, since_us: i64) -> Fate {
        self.is_running |= lateness_us <= 0;
        match self.is_running {
            _ if lateness_us <= 0 => Fate::OnTime,
            true if lateness_us < frame_us.min(micros(UNNOTICED)) => Fate::Shown,
            false if since_us < micros(LATE_START) => Fate::Decoded,
            _ => Fate::Dropped,
        }
    }
}
