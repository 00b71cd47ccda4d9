//! Sources of frames.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::Runtime;
use tokio::sync::Notify;

use super::annexb::AccessUnit;
use super::encoder::{Encoder, EncoderConfig};
use super::frame::MAX_FRAME;
use crate::lock::lock;
use crate::time::sleep_until;

/// Live pictures that are kept for slow viewers: 4 s at 30 a second.
const KEPT: usize = 120;

/// Content of synthetic frames; QUIC encrypts it, so nothing on the path can compress it.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| vec![0x5a; MAX_FRAME].into());

/// What a server streams.
#[derive(Clone, Debug)]
pub enum Media {
    /// Frames of a synthetic encoder, one for each viewer.
    Synthetic(EncoderConfig),
    /// Recorded pictures; each viewer starts with the first.
    Recorded {
        /// The pictures in order.
        pictures: Arc<[AccessUnit]>,
        /// Pictures per second, 1 to 240.
        frame_rate: f64,
        /// Whether the first picture follows the last.
        repeat: bool,
    },
    /// Live pictures, the same for all viewers.
    Live(Arc<Live>),
}

/// Pictures that arrive from outside while viewers watch.
#[derive(Debug)]
pub struct Live {
    frame_rate: f64,
    state: Mutex<LiveState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct LiveState {
    kept: VecDeque<(Instant, AccessUnit)>,
    /// The number of the first picture that is kept.
    first: u64,
    ended: bool,
}

/// A captured frame.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) at: Instant,
    pub(super) key: bool,
    pub(super) content: Bytes,
}

/// Feeds the media to one viewer.
#[derive(Debug)]
pub(super) enum Feed {
    /// Frames at even intervals.
    Paced {
        frames: Frames,
        interval: Duration,
        next: Instant,
    },
    Live {
        live: Arc<Live>,
        /// The number of the next picture; `None` before the first key frame.
        next: Option<u64>,
    },
}

/// Frames that are made or read when they are due.
#[derive(Debug)]
pub(super) enum Frames {
    Synthetic(Encoder),
    Recorded {
        pictures: Arc<[AccessUnit]>,
        repeat: bool,
        /// The number of pictures shown.
        shown: usize,
    },
}

impl Media {
    /// Returns the frames per second.
    pub fn frame_rate(&self) -> f64 {
        match self {
            Self::Synthetic(config) => config.frame_rate,
            Self::Recorded { frame_rate, .. } => *frame_rate,
            Self::Live(live) => live.frame_rate,
        }
    }

    /// Returns whether frames are pictures that a decoder understands.
    pub fn is_real(&self) -> bool {
        !matches!(self, Self::Synthetic(_))
    }

    /// Returns whether there is nothing more to see for viewers who come now.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Live(live) if live.has_ended())
    }

    /// Starts the feed of viewer number `viewer` at `now`.
    pub(super) fn feed(&self, viewer: u64, now: Instant) -> Feed {
        let frames = match self {
            Self::Synthetic(config) => Frames::Synthetic(Encoder::new(*config, viewer)),
            Self::Recorded {
                pictures, repeat, ..
            } => Frames::Recorded {
                pictures: pictures.clone(),
                repeat: *repeat,
                shown: 0,
            },
            Self::Live(live) => {
                let live = live.clone();
                return Feed::Live { live, next: None };
            }
        };
        Feed::Paced {
            frames,
            interval: Duration::from_secs_f64(1.0 / self.frame_rate()),
            next: now,
        }
    }
}

impl Live {
    /// Creates a source of about `frame_rate` pictures a second.
    pub fn new(frame_rate: f64) -> Self {
        Self {
            frame_rate,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Adds a picture; forgets the oldest if too many are kept.
    pub fn push(&self, now: Instant, picture: AccessUnit) {
        let mut state = lock(&self.state);
        state.kept.push_back((now, picture));
        if state.kept.len() > KEPT {
            state.kept.pop_front();
            state.first += 1;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the source: no more pictures will come.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_waiters();
    }

    /// Waits until the source has ended.
    pub async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            if self.has_ended() {
                return;
            }
            changed.await;
        }
    }

    /// Returns whether the source has ended.
    pub fn has_ended(&self) -> bool {
        lock(&self.state).ended
    }

    /// Returns picture number `next` if it is there, else the first key frame after it; without a
    /// number the newest key frame. `Err` if none will come.
    fn take(&self, next: Option<u64>) -> Result<Option<(u64, Captured)>, ()> {
        let state = lock(&self.state);
        let is_key = |(_, picture): &(Instant, AccessUnit)| picture.key;
        let index = match next.map(|next| next.checked_sub(state.first)) {
            Some(Some(index)) => Some(index as usize).filter(|index| *index < state.kept.len()),
            // It was forgotten because this viewer was too slow.
            Some(None) => state.kept.iter().position(is_key),
            None => state.kept.iter().rposition(is_key),
        };
        match index {
            Some(index) => {
                let (at, picture) = &state.kept[index];
                let captured = Captured::new(*at, picture);
                Ok(Some((state.first + index as u64, captured)))
            }
            None if state.ended => Err(()),
            None => Ok(None),
        }
    }
}

impl Captured {
    fn new(at: Instant, picture: &AccessUnit) -> Self {
        Self {
            at,
            key: picture.key,
            content: picture.bytes.clone(),
        }
    }
}

impl Feed {
    /// Waits for the next frame; `None` after the last. Calls `wish` for the bitrate and whether to
    /// restart when the frame is captured; only a synthetic encoder follows them.
    pub(super) async fn next(
        &mut self,
        runtime: &dyn Runtime,
        wish: impl FnOnce(Instant) -> (u64, bool),
    ) -> Option<Captured> {
        match self {
            Self::Paced {
                frames,
                interval,
                next,
            } => {
                if frames.is_over() {
                    return None;
                }
                sleep_until(runtime, *next).await;
                let at = *next;
                *next += *interval;
                let (bitrate_bps, restart) = wish(at);
                Some(frames.next(at, bitrate_bps, restart))
            }
            Self::Live { live, next } => loop {
                let changed = live.changed.notified();
                match live.take(*next) {
                    Ok(Some((number, captured))) => {
                        *next = Some(number + 1);
                        wish(captured.at);
                        return Some(captured);
                    }
                    Ok(None) => changed.await,
                    Err(()) => return None,
                }
            },
        }
    }
}

impl Frames {
    fn is_over(&self) -> bool {
        match self {
            Self::Synthetic(_) => false,
            Self::Recorded {
                pictures,
                repeat,
                shown,
            } => pictures.is_empty() || (!repeat && *shown == pictures.len()),
        }
    }

    fn next(&mut self, at: Instant, bitrate_bps: u64, restart: bool) -> Captured {
        match self {
            Self::Synthetic(encoder) => {
                let frame = encoder.next(bitrate_bps, restart);
                Captured {
                    at,
                    key: frame.key,
                    content: PATTERN.slice(..frame.length),
                }
            }
            Self::Recorded {
                pictures, shown, ..
            } => {
                let picture = &pictures[*shown % pictures.len()];
                *shown += 1;
                Captured::new(at, picture)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::epoch;

    fn picture(key: bool) -> AccessUnit {
        AccessUnit {
            bytes: Bytes::from_static(b"x"),
            key,
        }
    }

    #[test]
    fn a_viewer_of_live_pictures_begins_with_the_newest_key_frame() {
        let live = Live::new(25.0);
        assert_eq!(live.take(None).unwrap().map(|(number, _)| number), None);
        for key in [true, false, true, false, false] {
            live.push(epoch(), picture(key));
        }
        assert_eq!(live.take(None).unwrap().unwrap().0, 2);
        assert_eq!(live.take(Some(4)).unwrap().unwrap().0, 4);
        assert!(live.take(Some(5)).unwrap().is_none());
        live.end();
        assert!(live.take(Some(5)).is_err());
    }

    #[test]
    fn a_viewer_that_is_too_slow_goes_on_with_a_key_frame() {
        let live = Live::new(25.0);
        for number in 0..2 * KEPT as u64 {
            live.push(epoch(), picture(number.is_multiple_of(50)));
        }
        // Kept are the last 120 of 240; key frames 150 and 200 are among them.
        assert_eq!(live.take(Some(3)).unwrap().unwrap().0, 150);
        assert_eq!(live.take(None).unwrap().unwrap().0, 200);
    }
}
