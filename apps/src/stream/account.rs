//! Accounts for the time that frames wait at their sender.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use evenkeel::{LimitedBy, PathState};

use super::cause::Cause;
use super::lateness::{Delays, greatest, parts};
use super::media::Captured;
use super::track::Track;
use crate::lock::lock;

/// A queue of less than this may be jitter.
const QUEUE: Duration = Duration::from_millis(20);

/// A path without acknowledgements for this long carries nothing.
const SILENCE: Duration = Duration::from_millis(100);

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
    /// From when until when nothing was acknowledged the last time.
    silence: Option<[Instant; 2]>,
}

/// What is known of a frame when it is captured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// Bytes of UDP payload per second that the path was known to carry; `None` at first.
    rate: Option<u64>,
    /// How long the encoder took to make it.
    encoder: Duration,
    /// How long it takes to send the frame and those before it at that rate.
    own_queue: Duration,
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
            silence: None,
        }))
    }

    /// Enters a frame that an encoder has made by `now`. What goes first delays it, and it delays what
    /// stands behind.
    pub(super) fn enter(
        &self,
        now: Instant,
        path: Option<&PathState>,
        captured: &Captured,
    ) -> Entry {
        let mut state = lock(&self.0);
        state.see(now, path);
        let rate = path.and_then(known_rate);
        let rank = usize::from(captured.track.rank());
        for free in &mut state.free[rank..] {
            *free = (*free).max(now) + time(captured.content.len(), rate);
        }
        Entry {
            rate,
            encoder: now.saturating_duration_since(captured.at),
            own_queue: state.free[rank].saturating_duration_since(now),
            blocked: state.blocked,
        }
    }

    /// Frames of a track that wait were given up.
    pub(super) fn give_up(&self, now: Instant, track: Track) {
        lock(&self.0).free[usize::from(track.rank())..].fill(now);
    }

    /// Returns why the viewer does not have a frame of this age at `now`, with the delays when it was
    /// written and at present. If for most of its time nothing was acknowledged, the path has lost
    /// it, or what would have made room for it.
    pub(super) fn cause(
        &self,
        now: Instant,
        age: Duration,
        then: Delays,
        present: Delays,
    ) -> Cause {
        let silent = lock(&self.0).silence.map_or(Duration::ZERO, |[from, to]| {
            let passed = now.saturating_duration_since(from).min(age);
            passed.saturating_sub(now.saturating_duration_since(to))
        });
        match silent > age / 2 {
            true => Cause::Loss,
            false => greatest(&parts(age, then, present)),
        }
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
        let waited = now.saturating_duration_since(captured.at + entry.encoder);
        let own = time(captured.content.len(), entry.rate);
        let [queue, hop] = path.map_or([Duration::ZERO; 2], queueing);
        let own_queue = entry.own_queue.min(waited + own + queue);
        let blocked = waited.min(state.blocked - entry.blocked);
        // What is ours of the network's queue.
        let queue = queue.saturating_sub(own_queue.saturating_sub(waited + own));
        Delays {
            encoder_cs: centiseconds(entry.encoder),
            own_queue_cs: centiseconds(own_queue),
            window_cs: centiseconds(waited.saturating_sub(own_queue + blocked)),
            flow_control_cs: centiseconds(blocked),
            queue_cs: centiseconds(queue),
            hop_cs: centiseconds(hop.min(queue)),
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
        let heard = path.and_then(|path| path.updated);
        if let Some(heard) = heard.filter(|heard| now > *heard + SILENCE) {
            self.silence = Some([heard, now]);
        }
    }
}

/// Returns the estimate, or what the path has delivered if that is less although the connection sends
/// all it may, or although something queues: then the estimate promises too much.
fn known_rate(path: &PathState) -> Option<u64> {
    let [queue, _] = queueing(path);
    let promises = path.app_limited && queue < QUEUE;
    let delivered = path.delivered_rate.filter(|_| !promises);
    path.rate_estimate()
        .map(|estimate| delivered.map_or(estimate, |delivered| delivered.min(estimate)))
}

/// Returns what packets queue on both ways, and how much of it routers report.
fn queueing(path: &PathState) -> [Duration; 2] {
    let reported = path.reported_queueing.unwrap_or_default();
    let measured = path.queueing_delay.unwrap_or_default();
    [measured.max(reported), reported]
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
    fn frames_that_are_captured_faster_than_the_estimate_wait_behind_each_other() {
        let (account, path) = (Account::new(epoch()), path(LimitedBy::Window));
        account.enter(epoch(), Some(&path), &frame(epoch()));
        let second = account.enter(epoch(), Some(&path), &frame(epoch()));
        // 200 ms at the estimate; the other 50 ms it waits for the window.
        let (now, frame) = (epoch() + ms(250), frame(epoch()));
        let delays = account.delays(now, Some(&path), &second, &frame);
        let expected = Delays {
            encoder_cs: 0,
            own_queue_cs: 20,
            window_cs: 5,
            flow_control_cs: 0,
            queue_cs: 4,
            hop_cs: 0,
            losses: 1,
            held_clock_cs: 25,
            blocked_clock_cs: 0,
        };
        assert_eq!(delays, expected);
        // It goes earlier than the estimate promised, its own bytes still take their time, and the
        // queue in the network is ours.
        let delays = account.delays(epoch() + ms(50), Some(&path), &second, &frame);
        let parts = (delays.own_queue_cs, delays.window_cs, delays.queue_cs);
        assert_eq!(parts, (19, 0, 0));
    }

    #[test]
    fn what_was_given_up_after_an_outage_was_lost_by_it() {
        let (account, mut path) = (Account::new(epoch()), path(LimitedBy::Window));
        let waited = Delays {
            window_cs: 30,
            ..Delays::default()
        };
        let cause = |at, age| account.cause(epoch() + ms(at), ms(age), waited, waited);
        path.updated = Some(epoch() + ms(100));
        account.enter(epoch() + ms(200), Some(&path), &frame(epoch() + ms(200)));
        assert_eq!(cause(200, 100), Cause::Window);
        account.enter(epoch() + ms(500), Some(&path), &frame(epoch() + ms(500)));
        assert_eq!(cause(500, 300), Cause::Loss);
        // It was heard again, 250 ms ago; the first of these had waited for 300 ms of the outage.
        assert_eq!(cause(750, 550), Cause::Loss);
        assert_eq!(cause(750, 400), Cause::Window);
    }

    #[test]
    fn what_stands_behind_delays_no_sound() {
        let (account, path) = (Account::new(epoch()), path(LimitedBy::Window));
        let sound = Track::new(Kind::Sound, 0);
        let enter = |track| {
            let frame = Captured {
                track,
                ..frame(epoch())
            };
            account.enter(epoch(), Some(&path), &frame).own_queue
        };
        assert_eq!((enter(Track::VIDEO), enter(sound)), (ms(100), ms(100)));
        assert_eq!(enter(Track::VIDEO), ms(300));
    }

    #[test]
    fn an_estimate_that_the_path_does_not_keep_is_not_believed() {
        let mut path = path(LimitedBy::Window);
        path.delivered_rate = Some(5_000);
        let own_queue = |path: &PathState| {
            let account = Account::new(epoch());
            account
                .enter(epoch(), Some(path), &frame(epoch()))
                .own_queue
        };
        assert_eq!(own_queue(&path), ms(200));
        // What was not asked for was not delivered, either, unless it queues.
        path.app_limited = true;
        assert_eq!(own_queue(&path), ms(200));
        path.queueing_delay = Some(ms(5));
        assert_eq!(own_queue(&path), ms(100));
    }

    #[test]
    fn what_was_given_up_delays_nothing() {
        let (account, path) = (Account::new(epoch()), path(LimitedBy::Window));
        for _ in 0..10 {
            account.enter(epoch(), Some(&path), &frame(epoch()));
        }
        account.give_up(epoch(), Track::VIDEO);
        let next = account.enter(epoch(), Some(&path), &frame(epoch()));
        let now = epoch() + ms(100);
        let delays = account.delays(now, Some(&path), &next, &frame(epoch()));
        assert_eq!((delays.own_queue_cs, delays.window_cs), (10, 0));
    }

    #[test]
    fn what_an_encoder_takes_and_what_routers_report_is_told_apart() {
        let (account, mut path) = (Account::new(epoch()), path(LimitedBy::Application));
        let frame = frame(epoch());
        let entry = account.enter(epoch() + ms(70), Some(&path), &frame);
        path.queueing_delay = Some(ms(300));
        path.reported_queueing = Some(ms(250));
        let delays = account.delays(epoch() + ms(70), Some(&path), &entry, &frame);
        let sender = (delays.encoder_cs, delays.own_queue_cs, delays.window_cs);
        assert_eq!(sender, (7, 10, 0));
        assert_eq!((delays.queue_cs, delays.hop_cs), (30, 25));
    }

    #[test]
    fn time_held_by_flow_control_counts_from_a_frames_capture_on() {
        let account = Account::new(epoch());
        let (held, free) = (path(LimitedBy::FlowControl), path(LimitedBy::Window));
        // An earlier frame's trouble.
        account.enter(epoch() + ms(300), Some(&held), &frame(epoch() + ms(300)));
        let at = epoch() + ms(400);
        let entry = account.enter(at, Some(&free), &frame(at));
        account.enter(at + ms(200), Some(&held), &frame(at + ms(200)));
        let delays = account.delays(at + ms(300), Some(&free), &entry, &frame(at));
        assert_eq!((delays.own_queue_cs, delays.flow_control_cs), (10, 20));
        assert_eq!(delays.window_cs, 0);
        // 2.80 and 0.50 s.
        let later = at + ms(2_900);
        let delays = account.delays(later, Some(&free), &entry, &frame(at));
        assert_eq!((delays.held_clock_cs, delays.blocked_clock_cs), (24, 50));
    }

    #[test]
    fn without_a_path_all_delay_is_the_windows() {
        let account = Account::new(epoch());
        let entry = account.enter(epoch(), None, &frame(epoch()));
        let delays = account.delays(epoch() + ms(9_000), None, &entry, &frame(epoch()));
        assert_eq!((delays.own_queue_cs, delays.window_cs), (0, 255));
    }
}
