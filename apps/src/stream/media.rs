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

/// The least live pictures that are kept, for viewers who are not asked for a while: 4 s at 30 a
/// second.
const KEPT: usize = 120;

/// Bytes of live pictures that are kept, 64 MiB: the newest group, for viewers who are yet to come.
/// That is 50 s at 10 Mb/s. From a longer group without key frames no viewer can begin.
const MAX_KEPT: usize = 64 << 20;

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
    /// Bytes of pictures in `kept`.
    bytes: usize,
    /// The number of the first picture that is kept.
    first: u64,
    /// The number of the newest picture with which decoding can begin, if it is kept.
    entry: Option<u64>,
    ended: bool,
}

/// A captured frame.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) at: Instant,
    /// As of an [`AccessUnit`].
    pub(super) entry: Option<u8>,
    pub(super) content: Bytes,
}

/// Feeds the media to one viewer.
pub(super) enum Feed {
    Synthetic(Encoder, Pace),
    Recorded(Box<dyn Iterator<Item = AccessUnit> + Send>, Pace),
    Live {
        live: Arc<Live>,
        /// The number of the next picture; `None` before the first.
        next: Option<u64>,
    },
}

/// Frames are due at even intervals.
pub(super) struct Pace {
    interval: Duration,
    next: Instant,
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
        let pace = Pace {
            interval: Duration::from_secs_f64(1.0 / self.frame_rate()),
            next: now,
        };
        match self {
            Self::Synthetic(config) => Feed::Synthetic(Encoder::new(*config, viewer), pace),
            Self::Recorded {
                pictures, repeat, ..
            } => {
                let pictures = pictures.clone();
                let count = if *repeat { usize::MAX } else { pictures.len() };
                let numbers = (0..pictures.len()).cycle().take(count);
                let pictures = numbers.map(move |number| pictures[number].clone());
                Feed::Recorded(Box::new(pictures), pace)
            }
            Self::Live(live) => Feed::Live {
                live: live.clone(),
                next: None,
            },
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

    /// Adds a picture. Forgets the oldest, but of the newest group only what is too long.
    pub fn push(&self, now: Instant, picture: AccessUnit) {
        let mut state = lock(&self.state);
        if picture.entry.is_some() {
            state.entry = Some(state.first + state.kept.len() as u64);
        }
        state.bytes += picture.bytes.len();
        state.kept.push_back((now, picture));
        state.forget();
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

    /// Returns picture number `next` if it is there, else the first after it with which decoding
    /// can begin; without a number the newest of those. `Err` if none will come.
    fn take(&self, next: Option<u64>) -> Result<Option<(u64, Captured)>, ()> {
        let state = lock(&self.state);
        let index = match next.map(|next| next.checked_sub(state.first)) {
            Some(Some(index)) => Some(index as usize).filter(|index| *index < state.kept.len()),
            // It was forgotten because this viewer was not asked for too long.
            Some(None) => (state.kept.iter()).position(|(_, picture)| picture.entry.is_some()),
            None => state.entry.map(|entry| (entry - state.first) as usize),
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

impl LiveState {
    fn forget(&mut self) {
        loop {
            let is_past = self.entry.is_none_or(|entry| entry > self.first);
            let too_many = self.kept.len() > KEPT && is_past;
            if !too_many && self.bytes <= MAX_KEPT {
                return;
            }
            let Some((_, oldest)) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes.len();
            self.first += 1;
            self.entry = self.entry.filter(|entry| *entry >= self.first);
        }
    }
}

impl Captured {
    fn new(at: Instant, picture: &AccessUnit) -> Self {
        Self {
            at,
            entry: picture.entry,
            content: picture.decodable(),
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
            Self::Synthetic(encoder, pace) => {
                let at = pace.wait(runtime).await;
                let (bitrate_bps, restart) = wish(at);
                let frame = encoder.next(bitrate_bps, restart);
                Some(Captured {
                    at,
                    entry: frame.key.then_some(0),
                    content: PATTERN.slice(..frame.length),
                })
            }
            Self::Recorded(pictures, pace) => {
                let picture = pictures.next()?;
                let at = pace.wait(runtime).await;
                wish(at);
                Some(Captured::new(at, &picture))
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

impl Pace {
    /// Waits until the next frame is due; returns when that is.
    async fn wait(&mut self, runtime: &dyn Runtime) -> Instant {
        let due = self.next;
        sleep_until(runtime, due).await;
        self.next += self.interval;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_tests::time::epoch;

    /// One byte, and if `key`, parameter sets in force since an earlier picture.
    fn picture(key: bool) -> AccessUnit {
        AccessUnit {
            bytes: Bytes::from_static(b"x"),
            entry: key.then_some(0),
            parameters: Bytes::from_static(if key { b"set" } else { b"" }),
        }
    }

    fn number(live: &Live, next: Option<u64>) -> Option<u64> {
        let taken = live.take(next).expect("it has not ended");
        taken.map(|(number, _)| number)
    }

    #[test]
    fn a_viewer_of_live_pictures_begins_with_the_newest_key_frame_and_its_parameter_sets() {
        let live = Live::new(25.0);
        assert_eq!(number(&live, None), None);
        for key in [true, false, true, false, false] {
            live.push(epoch(), picture(key));
        }
        let (first, captured) = live.take(None).unwrap().unwrap();
        assert_eq!((first, &captured.content[..]), (2, &b"setx"[..]));
        assert_eq!(number(&live, Some(4)), Some(4));
        assert_eq!(number(&live, Some(5)), None);
        live.end();
        assert!(live.take(Some(5)).is_err());
    }

    #[test]
    fn a_group_is_kept_for_new_viewers_however_long_it_takes() {
        let live = Live::new(25.0);
        for number in 0..20 * KEPT {
            live.push(epoch(), picture(number == 50));
        }
        assert_eq!(number(&live, None), Some(50));
        live.push(epoch(), picture(true));
        assert_eq!(number(&live, None), Some(20 * KEPT as u64));
        assert_eq!(lock(&live.state).kept.len(), KEPT);
    }

    #[test]
    fn a_group_too_large_to_keep_is_no_beginning() {
        let live = Live::new(25.0);
        live.push(epoch(), picture(true));
        let large = AccessUnit {
            bytes: vec![0; MAX_FRAME].into(),
            ..picture(false)
        };
        for _ in 0..MAX_KEPT / MAX_FRAME {
            live.push(epoch(), large.clone());
        }
        assert_eq!(number(&live, None), None);
        assert_eq!(lock(&live.state).bytes, MAX_KEPT);
        live.push(epoch(), picture(true));
        assert!(number(&live, None).is_some());
    }

    #[test]
    fn a_viewer_that_is_too_slow_goes_on_with_a_key_frame() {
        let live = Live::new(25.0);
        for number in 0..2 * KEPT as u64 {
            live.push(epoch(), picture(number.is_multiple_of(50)));
        }
        // Kept are the last 120 of 240; key frames 150 and 200 are among them.
        assert_eq!(number(&live, Some(3)), Some(150));
        assert_eq!(number(&live, None), Some(200));
    }
}
