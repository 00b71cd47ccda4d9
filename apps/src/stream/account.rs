//! Accounts for the time that frames wait at their sender.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use evenkeel::{Limit, PathState};

use super::lateness::Delays;
use super::media::Captured;
use crate::lock::lock;

/// The account of one viewer's frames.
#[derive(Debug)]
pub(super) struct Account(Mutex<State>);

#[derive(Debug)]
struct State {
    /// When what was captured would be sent, at the rates estimated when it was.
    free: Instant,
    /// Until when `blocked` counts.
    seen: Instant,
    /// How long flow control has held the connection so far.
    blocked: Duration,
}

/// What is known of a frame when it is captured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// Bytes of UDP payload per second that the encoder was told, if any was.
    estimate: Option<u64>,
    /// How long it takes to send the frame and those before it at that rate.
    encoder: Duration,
    /// How long flow control had held the connection.
    blocked: Duration,
}

impl Account {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State {
            free: now,
            seen: now,
            blocked: Duration::ZERO,
        }))
    }

    /// Enters a frame of `bytes` that is captured at `now`.
    pub(super) fn enter(&self, now: Instant, path: Option<&PathState>, bytes: usize) -> Entry {
        let mut state = lock(&self.0);
        state.see(now, path);
        let estimate = path.and_then(PathState::rate_estimate);
        state.free = state.free.max(now) + time(bytes, estimate);
        Entry {
            estimate,
            encoder: state.free.saturating_duration_since(now),
            blocked: state.blocked,
        }
    }

    /// Frames that wait were given up.
    pub(super) fn give_up(&self, now: Instant) {
        lock(&self.0).free = now;
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
        let own = time(captured.content.len(), entry.estimate);
        let encoder = entry.encoder.min(waited + own);
        let blocked = waited.min(state.blocked - entry.blocked);
        let queue = path.and_then(|path| path.queueing_delay);
        Delays {
            encoder_cs: centiseconds(encoder),
            window_cs: centiseconds(waited.saturating_sub(encoder + blocked)),
            flow_control_cs: centiseconds(blocked),
            queue_cs: centiseconds(queue.unwrap_or_default()),
            losses: path.map_or(0, |path| path.losses.detections as u8),
        }
    }
}

impl State {
    /// Takes what limits the connection at `now` for what has limited it since the last time.
    fn see(&mut self, now: Instant, path: Option<&PathState>) {
        let since = now.saturating_duration_since(self.seen);
        if path.is_some_and(|path| path.limited_by == Limit::FlowControl) {
            self.blocked += since;
        }
        self.seen = self.seen.max(now);
    }
}

/// Returns how long `bytes` take at a rate in bytes per second; no time if it is unknown.
fn time(bytes: usize, rate: Option<u64>) -> Duration {
    let seconds = rate.map_or(0.0, |rate| bytes as f64 / rate.max(1) as f64);
    Duration::from_secs_f64(seconds)
}

fn centiseconds(time: Duration) -> u8 {
    u8::try_from(time.as_millis() / 10).unwrap_or(u8::MAX)
}
