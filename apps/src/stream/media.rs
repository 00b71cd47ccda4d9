//! Where frames come from.

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

/// Live pictures that are kept for viewers who have not taken them yet: 4 s at 30 a second.
const KEPT: usize = 120;

/// Content of synthetic frames; QUIC encrypts it, so that nothing on the path can compress it.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| vec![0x5a; MAX_FRAME].into());

/// What a server streams.
#[derive(Clone, Debug)]
pub enum Media {
    /// Frames of a synthetic encoder, one for each viewer.
    Synthetic(EncoderConfig),
    /// Pictures from the first on, for each viewer from its own beginning.
    Recorded {
        /// In order.
        pictures: Arc<[AccessUnit]>,
        /// How many a second, 1 to 240.
        frame_rate: f64,
        /// Whether the first follows the last.
        repeat: bool,
    },
    /// Pictures as they come, for all viewers at once.
    Live(Arc<Live>),
}

/// Pictures that come from outside while viewers watch.
#[derive(Debug)]
pub struct Live {
    frame_rate: f64,
    state: Mutex<LiveState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct LiveState {
    kept: VecDeque<(Instant, AccessUnit)>,
    /// The number of the first that is kept.
    first: u64,
    ended: bool,
}

/// A frame that was captured.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) at: Instant,
    pub(super) key: bool,
    pub(super) content: Bytes,
}

/// One viewer's way into the media.
#[derive(Debug)]
pub(super) enum Feed {
    Synthetic {
        encoder: Encoder,
        interval: Duration,
        next: Instant,
        content: Bytes,
    },
    Recorded {
        pictures: Arc<[AccessUnit]>,
        interval: Duration,
        repeat: bool,
        next: Instant,
        index: usize,
    },
    Live {
        live: Arc<Live>,
        /// The number of the next picture; `None` before the first key frame.
        next: Option<u64>,
    },
}

impl Media {
    /// Frames per second.
    pub fn frame_rate(&self) -> f64 {
        match self {
            Self::Synthetic(config) => config.frame_rate,
            Self::Recorded { frame_rate, .. } => *frame_rate,
            Self::Live(live) => live.frame_rate,
        }
    }

    /// Whether frames are pictures that a decoder understands.
    pub fn is_real(&self) -> bool {
        !matches!(self, Self::Synthetic(_))
    }

    /// For viewer number `viewer`, from `now` on.
    pub(super) fn feed(&self, viewer: u64, now: Instant) -> Feed {
        match self {
            Self::Synthetic(config) => Feed::Synthetic {
                encoder: Encoder::new(*config, viewer),
                interval: config.interval(),
                next: now,
                content: PATTERN.clone(),
            },
            Self::Recorded {
                pictures,
                frame_rate,
                repeat,
            } => Feed::Recorded {
                pictures: pictures.clone(),
                interval: Duration::from_secs_f64(1.0 / frame_rate),
                repeat: *repeat,
                next: now,
                index: 0,
            },
            Self::Live(live) => Feed::Live {
                live: live.clone(),
                next: None,
            },
        }
    }
}

impl Live {
    /// Of about `frame_rate` pictures a second.
    pub fn new(frame_rate: f64) -> Self {
        Self {
            frame_rate,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// A picture has come; the oldest is forgotten if too many are kept.
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

    /// No more pictures will come.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_waiters();
    }

    /// Picture number `next` if it is there, else the first key frame after it; without a number
    /// the newest key frame. `Err` if none will come.
    fn take(&self, next: Option<u64>) -> Result<Option<(u64, Captured)>, ()> {
        let state = lock(&self.state);
        let end = state.first + state.kept.len() as u64;
        let number = match next {
            Some(next) if next >= state.first => Some(next).filter(|next| *next < end),
            // It was forgotten: this viewer was too slow.
            Some(_) => state
                .kept
                .iter()
                .position(|(_, picture)| picture.key)
                .map(|at| state.first + at as u64),
            None => state
                .kept
                .iter()
                .rposition(|(_, picture)| picture.key)
                .map(|at| state.first + at as u64),
        };
        match number {
            Some(number) => {
                let (at, picture) = &state.kept[(number - state.first) as usize];
                let captured = Captured {
                    at: *at,
                    key: picture.key,
                    content: picture.bytes.clone(),
                };
                Ok(Some((number, captured)))
            }
            None if state.ended => Err(()),
            None => Ok(None),
        }
    }
}

impl Feed {
    /// Waits for the next frame; `None` when there are no more. `bitrate_bps` and `restart` are
    /// asked when it is captured, and only of who can do something about them.
    pub(super) async fn next(
        &mut self,
        runtime: &dyn Runtime,
        wish: impl FnOnce(Instant) -> (u64, bool),
    ) -> Option<Captured> {
        match self {
            Self::Synthetic {
                encoder,
                interval,
                next,
                content,
            } => {
                sleep_until(runtime, *next).await;
                let at = *next;
                *next += *interval;
                let (bitrate_bps, restart) = wish(at);
                let frame = encoder.next(bitrate_bps, restart);
                Some(Captured {
                    at,
                    key: frame.key,
                    content: content.slice(..frame.length),
                })
            }
            Self::Recorded {
                pictures,
                interval,
                repeat,
                next,
                index,
            } => {
                if *index == pictures.len() {
                    if !*repeat || pictures.is_empty() {
                        return None;
                    }
                    *index = 0;
                }
                sleep_until(runtime, *next).await;
                let at = *next;
                *next += *interval;
                wish(at);
                let picture = &pictures[*index];
                *index += 1;
                Some(Captured {
                    at,
                    key: picture.key,
                    content: picture.bytes.clone(),
                })
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
