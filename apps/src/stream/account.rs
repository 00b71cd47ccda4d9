//! Accounts for the time that frames wait at their sender.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use evenkeel::{LimitedBy, PathState};

use super::lateness::Delays;
use super::media::Captured;
use super::track::Track;
use crate::lock::lock;

/// The account of one viewer's frames.
#[derive(Debug)]
pub(super) struct Account(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When what was captured, of tracks up to each rank, would be sent, at the rates known when it
    /// was.
    free: [Instant; Track::RANKS],
    /// Until when the times below count.
    seen: Instant,
    /// How long the congestion window or the pacer has held the connection so far.
    held: Duration,
    /// How long flow control has.
    blocked: Duration,
}

/// What is known of a frame when it is captured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// Bytes of UDP payload per second that the path was known to carry; `None` at first.
    rate: Option<u64>,
    /// How long it takes to send the frame and those before it at that rate.
    encoder: Duration,
    /// How long flow control had held the connection.
    blocked: Duration,
}

impl Account {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            free: [now; Track::RANKS],
            seen: now,
            held: Duration::ZERO,
            blocked: Duration::ZERO,
        }))
    }

    /// Enters a frame of `bytes` that is captured at `now`. What goes first delays it, and it delays
    /// what stands behind.
    pub(super) fn enter(
        &self,
        now: Instant,
        path: Option<&PathState>,
        track: Track,
        bytes: usize,
    ) -> Entry {
        let mut state = lock(&self.0);
        state.see(now, path);
        let rate = path.and_then(known_rate);
        let rank = usize::from(track.rank());
        for free in &mut state.free[rank..] {
            *free = (*free).max(now) + time(bytes, rate);
        }
        Entry {
            rate,
            encoder: state.free[rank].saturating_duration_since(now),
            blocked: state.blocked,
        }
    }

    /// Frames of a track that wait were given up.
    pub(super) fn give_up(&self, now: Instant, track: Track) {
        lock(&self.0).free[usize::from(track.rank())..].fill(now);
    }

    /// Returns what has delayed a frame that is handed to the connection at `now`.
    pub(super) fn delays(
        &self,
        now: Instant,
        path: Option<&PathState>,
        entry: &Entry,
        captured: &Captured,
    ) -> Delays {
        let mut state = lock(&self.0);
        state.see(now, path);
        let waited = now.saturating_duration_since(captured.at);
        let own = time(captured.content.len(), entry.rate);
        let encoder = entry.encoder.min(waited + own);
        let blocked = waited.min(state.blocked - entry.blocked);
        let queue = path.and_then(|path| path.queueing_delay);
        Delays {
            encoder_cs: centiseconds(encoder),
            window_cs: centiseconds(waited.saturating_sub(encoder + blocked)),
            flow_control_cs: centiseconds(blocked),
            queue_cs: centiseconds(queue.unwrap_or_default()),
            losses: path.map_or(0, |path| path.losses.detections as u8),
            held_clock_cs: clock(state.held),
            blocked_clock_cs: clock(state.blocked),
        }
    }
}

impl State {
    /// Takes what limits the connection at `now` for what has limited it since the last time.
    fn see(&mut self, now: Instant, path: Option<&PathState>) {
        let since = now.saturating_duration_since(self.seen);
        match path.map(|path| path.limited_by) {
            Some(LimitedBy::Window | LimitedBy::Pacing) => self.held += since,
            Some(LimitedBy::FlowControl) => self.blocked += since,
            _ => {}
        }
        self.seen = self.seen.max(now);
    }
}

/// Returns the estimate, or what the path has delivered if that is less although the connection sends
/// all it may: then the estimate promises too much.
fn known_rate(path: &PathState) -> Option<u64> {
    let delivered = path.delivered_rate.filter(|_| !path.app_limited);
    path.rate_estimate()
        .map(|estimate| delivered.map_or(estimate, |delivered| delivered.min(estimate)))
}

/// Returns how long `bytes` take at a rate in bytes per second; no time if it is unknown.
fn time(bytes: usize, rate: Option<u64>) -> Duration {
    let seconds = rate.map_or(0.0, |rate| bytes as f64 / rate.max(1) as f64);
    Duration::from_secs_f64(seconds)
}

fn centiseconds(time: Duration) -> u8 {
    u8::try_from(time.as_millis() / 10).unwrap_or(u8::MAX)
}

/// Returns hundredths of a second, modulo 256.
fn clock(time: Duration) -> u8 {
    (time.as_millis() / 10) as u8
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use evenkeel_tests::time::{epoch, ms};

    use super::super::track::Kind;
    use super::*;

    /// A path whose estimate is 10,000 bytes a second: 1000 bytes take 100 ms.
    fn path(limited_by: LimitedBy) -> PathState {
        let mut path = PathState::default();
        path.window = 1_000;
        path.smoothed_rtt = Some(ms(100));
        path.delivered_rate = Some(10_000);
        path.queueing_delay = Some(ms(45));
        path.losses.detections = 257;
        path.limited_by = limited_by;
        path
    }

    fn frame(at: Instant) -> Captured {
        Captured {
            track: Track::VIDEO,
            at,
            entry: None,
            content: Bytes::from(vec![0; 1_000]),
        }
    }

    #[test]
    fn frames_that_are_captured_faster_than_the_estimate_wait_for_the_encoders_sake() {
        let (account, path) = (Account::new(epoch()), path(LimitedBy::Window));
        account.enter(epoch(), Some(&path), Track::VIDEO, 1_000);
        let second = account.enter(epoch(), Some(&path), Track::VIDEO, 1_000);
        // 200 ms at the estimate; the other 50 ms it waits for the window.
        let (now, frame) = (epoch() + ms(250), frame(epoch()));
        let delays = account.delays(now, Some(&path), &second, &frame);
        let expected = Delays {
            encoder_cs: 20,
            window_cs: 5,
            flow_control_cs: 0,
            queue_cs: 4,
            losses: 1,
            held_clock_cs: 25,
            blocked_clock_cs: 0,
        };
        assert_eq!(delays, expected);
        // It goes earlier than the estimate promised, and its own bytes still take their time.
        let delays = account.delays(epoch() + ms(50), Some(&path), &second, &frame);
        assert_eq!((delays.encoder_cs, delays.window_cs), (15, 0));
    }

    #[test]
    fn what_stands_behind_delays_no_sound() {
        let (account, path) = (Account::new(epoch()), path(LimitedBy::Window));
        let sound = Track::new(Kind::Sound, 0);
        let enter = |track| account.enter(epoch(), Some(&path), track, 1_000).encoder;
        assert_eq!((enter(Track::VIDEO), enter(sound)), (ms(100), ms(100)));
        assert_eq!(enter(Track::VIDEO), ms(300));
    }

    #[test]
    fn an_estimate_that_the_path_does_not_keep_is_no_excuse_for_the_encoder() {
        let mut path = path(LimitedBy::Window);
        path.delivered_rate = Some(5_000);
        let entry = Account::new(epoch()).enter(epoch(), Some(&path), Track::VIDEO, 1_000);
        assert_eq!(entry.encoder, ms(200));
        // What was not asked for was not delivered, either.
        path.app_limited = true;
        let entry = Account::new(epoch()).enter(epoch(), Some(&path), Track::VIDEO, 1_000);
        assert_eq!(entry.encoder, ms(100));
    }

    #[test]
    fn what_was_given_up_delays_nothing() {
        let (account, path) = (Account::new(epoch()), path(LimitedBy::Window));
        for _ in 0..10 {
            account.enter(epoch(), Some(&path), Track::VIDEO, 1_000);
        }
        account.give_up(epoch(), Track::VIDEO);
        let next = account.enter(epoch(), Some(&path), Track::VIDEO, 1_000);
        let now = epoch() + ms(100);
        let delays = account.delays(now, Some(&path), &next, &frame(epoch()));
        assert_eq!((delays.encoder_cs, delays.window_cs), (10, 0));
    }

    #[test]
    fn time_held_by_flow_control_counts_from_a_frames_capture_on() {
        let account = Account::new(epoch());
        let (held, free) = (path(LimitedBy::FlowControl), path(LimitedBy::Window));
        // An earlier frame's trouble.
        account.enter(epoch() + ms(300), Some(&held), Track::VIDEO, 1_000);
        let at = epoch() + ms(400);
        let entry = account.enter(at, Some(&free), Track::VIDEO, 1_000);
        account.enter(at + ms(200), Some(&held), Track::VIDEO, 1_000);
        let delays = account.delays(at + ms(300), Some(&free), &entry, &frame(at));
        assert_eq!((delays.encoder_cs, delays.flow_control_cs), (10, 20));
        assert_eq!(delays.window_cs, 0);
        // 2.80 and 0.50 s.
        let later = at + ms(2_900);
        let delays = account.delays(later, Some(&free), &entry, &frame(at));
        assert_eq!((delays.held_clock_cs, delays.blocked_clock_cs), (24, 50));
    }

    #[test]
    fn without_a_path_all_delay_is_the_windows() {
        let account = Account::new(epoch());
        let entry = account.enter(epoch(), None, Track::VIDEO, 1_000);
        let delays = account.delays(epoch() + ms(9_000), None, &entry, &frame(epoch()));
        assert_eq!((delays.encoder_cs, delays.window_cs), (0, 255));
    }
}
