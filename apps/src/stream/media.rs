//! Sources of frames.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::Runtime;
use tokio::sync::Notify;

use super::annexb::AccessUnit;
use super::encoder::{Encoded, Encoder, EncoderConfig};
use super::frame::MAX_FRAME;
use super::synthetic::SyntheticTrack;
use super::timeline::Timeline;
use super::track::{Kind, Track};
use crate::lock::lock;
use crate::time::sleep_until;

/// The least live frames that are kept, for viewers who are not asked for a while: 4 s of pictures
/// and sound.
const KEPT: usize = 400;

/// Bytes of live frames that are kept, 64 MiB: the newest group, for viewers who are yet to come.
/// That is 50 s at 10 Mb/s. From a longer group without key frames no viewer can begin.
const MAX_KEPT: usize = 64 << 20;

/// Content of synthetic frames; QUIC encrypts it, so nothing on the path can compress it.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| vec![0x5a; MAX_FRAME].into());

/// What a server streams.
#[derive(Clone, Debug)]
pub enum Media {
    /// Frames of a synthetic encoder, one for each viewer.
    Synthetic(EncoderConfig),
    /// Synthetic tracks whose bitrates are fixed.
    Tracks(Arc<[SyntheticTrack]>),
    /// Recorded frames; each viewer starts with the first.
    Recorded {
        /// The frames in order.
        pictures: Arc<[AccessUnit]>,
        /// What viewers get before any frame: tables, if there are some.
        tables: Bytes,
        /// Pictures per second, 1 to 240, of those without a time.
        frame_rate: f64,
        /// Whether the first picture follows the last.
        repeat: bool,
    },
    /// Live frames, the same for all viewers.
    Live(Arc<Live>),
}

/// Frames that arrive from outside while viewers watch.
#[derive(Debug)]
pub struct Live {
    frame_rate: f64,
    follows: bool,
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
    /// The number of the newest frame with which a viewer can begin, if it is kept.
    entry: Option<u64>,
    /// There has been such a frame.
    could_begin: bool,
    /// There are pictures, with which viewers begin.
    has_pictures: bool,
    /// The tables in force; `None` before the format is known.
    tables: Option<Bytes>,
    ended: bool,
}

/// A captured frame.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) track: Track,
    pub(super) at: Instant,
    /// As of an [`AccessUnit`].
    pub(super) entry: Option<u8>,
    pub(super) content: Bytes,
}

/// Feeds the media to one viewer.
pub(super) enum Feed {
    Synthetic(Encoder, Pace),
    Tracks(Vec<(SyntheticTrack, Encoder, Pace)>),
    Recorded(Box<dyn Iterator<Item = AccessUnit> + Send>, Pace, Timeline),
    Live {
        live: Arc<Live>,
        /// The number of the next picture; `None` before the first.
        next: Option<u64>,
    },
}

/// Frames are due at even intervals.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    interval: Duration,
    next: Instant,
}

impl Media {
    /// Returns the frames per second.
    pub fn frame_rate(&self) -> f64 {
        match self {
            Self::Synthetic(config) => config.frame_rate,
            Self::Tracks(tracks) => {
                let pictures = tracks.iter().find(|track| track.track.has_groups());
                let pictures = pictures.or(tracks.first());
                pictures.map_or(1.0, |track| track.encoder.frame_rate)
            }
            Self::Recorded { frame_rate, .. } => *frame_rate,
            Self::Live(live) => live.frame_rate,
        }
    }

    /// Returns whether an encoder follows the connection.
    pub fn is_encoded(&self) -> bool {
        match self {
            Self::Synthetic(_) | Self::Tracks(_) => true,
            Self::Recorded { .. } => false,
            Self::Live(live) => live.follows,
        }
    }

    /// Waits until it is known what a viewer has to get before any frame, and returns that.
    pub(super) async fn tables(&self) -> Bytes {
        match self {
            Self::Synthetic(_) | Self::Tracks(_) => Bytes::new(),
            Self::Recorded { tables, .. } => tables.clone(),
            Self::Live(live) => live.tables().await,
        }
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
            Self::Tracks(tracks) => {
                let tracks = tracks.iter().map(|track| {
                    let interval = Duration::from_secs_f64(1.0 / track.encoder.frame_rate);
                    let encoder = Encoder::new(track.encoder, viewer);
                    (track.clone(), encoder, Pace { interval, ..pace })
                });
                Feed::Tracks(tracks.collect())
            }
            Self::Recorded {
                pictures, repeat, ..
            } => {
                let pictures = pictures.clone();
                let count = if *repeat { usize::MAX } else { pictures.len() };
                let numbers = (0..pictures.len()).cycle().take(count);
                let pictures = numbers.map(move |number| pictures[number].clone());
                Feed::Recorded(Box::new(pictures), pace, Timeline::new(now))
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
            follows: false,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// The same, of an encoder that is told the rate to use, as [`SentCounts`](super::SentCounts)
    /// say it.
    pub fn following(frame_rate: f64) -> Self {
        Self {
            follows: true,
            ..Self::new(frame_rate)
        }
    }

    /// Sets the tables in force, which viewers get before any frame; what has none needs no call.
    pub fn describe(&self, tables: Bytes) {
        lock(&self.state).tables = Some(tables);
        self.changed.notify_waiters();
    }

    /// Waits for the tables, or for the first frame or the end without them.
    async fn tables(&self) -> Bytes {
        loop {
            let changed = self.changed.notified();
            {
                let state = lock(&self.state);
                if let Some(tables) = &state.tables {
                    return tables.clone();
                }
                if state.ended {
                    return Bytes::new();
                }
            }
            changed.await;
        }
    }

    /// Adds a frame that was captured at `now`. Forgets the oldest, but of the newest group only
    /// what is too long.
    pub fn push(&self, now: Instant, picture: AccessUnit) {
        let mut state = lock(&self.state);
        if picture.track.kind != Kind::Tables {
            state.tables.get_or_insert_default();
        }
        if picture.track == Track::VIDEO && !state.has_pictures {
            (state.has_pictures, state.entry, state.could_begin) = (true, None, false);
        }
        if state.can_begin(&picture) {
            state.entry = Some(state.first + state.kept.len() as u64);
            state.could_begin = true;
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

    /// Returns whether a frame has come with which a viewer can begin.
    pub fn can_begin(&self) -> bool {
        lock(&self.state).could_begin
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
            Some(None) => (state.kept.iter()).position(|(_, picture)| state.can_begin(picture)),
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
    /// Returns whether a viewer can begin with a frame: with pictures, or with any sound where there
    /// are none.
    fn can_begin(&self, frame: &AccessUnit) -> bool {
        let begins = match self.has_pictures {
            true => frame.track == Track::VIDEO,
            false => frame.track.kind != Kind::Tables,
        };
        begins && frame.entry.is_some()
    }

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
    fn synthetic(track: Track, at: Instant, frame: Encoded) -> Self {
        Self {
            track,
            at,
            entry: frame.key.then_some(0),
            content: PATTERN.slice(..frame.length),
        }
    }

    fn new(at: Instant, picture: &AccessUnit) -> Self {
        Self {
            track: picture.track,
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
                Some(Captured::synthetic(Track::VIDEO, at, frame))
            }
            Self::Tracks(tracks) => {
                let (track, encoder, pace) =
                    tracks.iter_mut().min_by_key(|(.., pace)| pace.next)?;
                let at = pace.wait(runtime).await;
                wish(at);
                let frame = encoder.next(track.bitrate_bps, false);
                Some(Captured::synthetic(track.track, at, frame))
            }
            Self::Recorded(pictures, pace, timeline) => {
                let picture = pictures.next()?;
                let at = match (picture.time, picture.track.kind) {
                    (None, Kind::Video) => pace.wait(runtime).await,
                    (time, _) => {
                        let due = timeline.due(picture.track, time);
                        sleep_until(runtime, due).await;
                        due
                    }
                };
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
            track: Track::VIDEO,
            bytes: Bytes::from_static(b"x"),
            entry: key.then_some(0),
            parameters: Bytes::from_static(if key { b"set" } else { b"" }),
            time: None,
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
    fn a_viewer_begins_with_pictures_once_there_are_some() {
        let live = Live::new(25.0);
        let sound = AccessUnit {
            track: Track::new(Kind::Sound, 0),
            ..picture(true)
        };
        live.push(epoch(), sound.clone());
        live.push(epoch(), sound.clone());
        assert_eq!(number(&live, None), Some(1));
        live.push(epoch(), picture(false));
        live.push(epoch(), sound.clone());
        assert_eq!(number(&live, None), None);
        live.push(epoch(), picture(true));
        live.push(epoch(), sound);
        assert_eq!(number(&live, None), Some(4));
    }

    #[test]
    fn a_viewer_that_is_too_slow_goes_on_with_a_key_frame() {
        let live = Live::new(25.0);
        for number in 0..2 * KEPT as u64 {
            live.push(epoch(), picture(number.is_multiple_of(50)));
        }
        // Kept are the last 400 of 800; key frames 400 and 750 are among them.
        assert_eq!(number(&live, Some(3)), Some(400));
        assert_eq!(number(&live, None), Some(750));
    }
}
