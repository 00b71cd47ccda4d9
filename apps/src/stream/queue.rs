//! Queues frames between the encoder and the connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::account::Entry;
use super::frame::Header;
use super::media::Captured;
use super::track::Track;
use crate::lock::lock;

/// The queues of all tracks. Where they compete, those of a lower rank go first.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: Mutex<Vec<Arc<Queue>>>,
    changed: Arc<Notify>,
}

/// Frames of one track that wait for the connection, in order.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) track: Track,
    state: Mutex<State>,
    changed: Notify,
    /// Something of any track has changed.
    any_changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    /// Bytes of the frame that was taken and is not yet written.
    writing: usize,
    /// The group of the last frame was given up: only a frame with which decoding can begin is of
    /// use next.
    wants_entry: bool,
    /// How many groups were given up.
    given_up: u64,
    ended: bool,
    /// The number of the next frame.
    number: u32,
}

/// A frame with its header.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) header: Header,
    pub(super) account: Entry,
    pub(super) captured: Captured,
}

impl Queues {
    /// Returns the queue of a track, and whether it is new.
    pub(super) fn of(&self, track: Track) -> (Arc<Queue>, bool) {
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.iter().find(|queue| queue.track == track) {
            return (queue.clone(), false);
        }
        let queue = Arc::new(Queue::new(track, self.changed.clone()));
        queues.push(queue.clone());
        (queue, true)
    }

    /// Ends all queues.
    pub(super) fn end(&self) {
        lock(&self.queues).iter().for_each(|queue| queue.end());
    }

    /// Returns whether any track wants the encoder to begin a new group.
    pub(super) fn wants_entry(&self) -> bool {
        lock(&self.queues).iter().any(|queue| queue.wants_entry())
    }

    /// Returns how many groups of the first pictures were given up.
    pub(super) fn given_up(&self) -> u64 {
        let queues = lock(&self.queues);
        let mut first = queues.iter().filter(|queue| queue.track == Track::VIDEO);
        first.next().map_or(0, |queue| lock(&queue.state).given_up)
    }

    /// Returns the bytes of frames not yet written.
    pub(super) fn waiting(&self) -> u64 {
        lock(&self.queues).iter().map(|queue| queue.waiting()).sum()
    }

    /// Returns whether there are tracks that stand behind this one.
    pub(super) fn has_behind(&self, track: Track) -> bool {
        let queues = lock(&self.queues);
        queues.iter().any(|other| other.track.rank() > track.rank())
    }

    /// Waits until no track that goes first has frames.
    pub(super) async fn turn(&self, track: Track) {
        self.until(|| !self.goes_first(track)).await;
    }

    /// Waits until a track that goes first has frames.
    pub(super) async fn overtaken(&self, track: Track) {
        self.until(|| self.goes_first(track)).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    }

    fn goes_first(&self, track: Track) -> bool {
        let queues = lock(&self.queues);
        let mut before = queues
            .iter()
            .filter(|other| other.track.rank() < track.rank());
        before.any(|other| other.waiting() > 0)
    }
}

impl Queue {
    /// A track of further pictures begins with one that can be decoded.
    fn new(track: Track, any_changed: Arc<Notify>) -> Self {
        Self {
            track,
            state: Mutex::new(State {
                wants_entry: track.has_groups() && track != Track::VIDEO,
                ..State::default()
            }),
            changed: Notify::new(),
            any_changed,
        }
    }

    /// Returns the number of the next frame; `None` if there are too many.
    pub(super) fn number(&self) -> Option<u32> {
        let mut state = lock(&self.state);
        let number = state.number;
        state.number = number.checked_add(1)?;
        Some(number)
    }

    /// Adds a frame; returns `false` if it is useless because its group was given up.
    pub(super) fn push(&self, frame: Frame) -> bool {
        let mut state = lock(&self.state);
        if state.wants_entry && frame.captured.entry.is_none() {
            return false;
        }
        state.wants_entry = false;
        state.frames.push_back(frame);
        drop(state);
        self.changed.notify_one();
        self.any_changed.notify_waiters();
        true
    }

    /// Ends the queue: no more frames will come.
    pub(super) fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_one();
    }

    /// Returns whether the encoder should begin a new group.
    pub(super) fn wants_entry(&self) -> bool {
        lock(&self.state).wants_entry
    }

    /// Returns whether decoding can begin with some frame that waits.
    pub(super) fn has_entry(&self) -> bool {
        let state = lock(&self.state);
        let mut waiting = state.frames.iter();
        waiting.any(|frame| frame.captured.entry.is_some())
    }

    /// Returns the bytes of frames not yet written.
    pub(super) fn waiting(&self) -> u64 {
        let state = lock(&self.state);
        let queued = state
            .frames
            .iter()
            .map(|frame| frame.captured.content.len());
        (state.writing + queued.sum::<usize>()) as u64
    }

    /// Waits for the next frame; returns `None` after the last.
    pub(super) async fn next(&self) -> Option<Frame> {
        lock(&self.state).writing = 0;
        self.any_changed.notify_waiters();
        loop {
            let changed = self.changed.notified();
            {
                let mut state = lock(&self.state);
                if let Some(frame) = state.frames.pop_front() {
                    state.writing = frame.captured.content.len();
                    return Some(frame);
                }
                if state.ended {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Gives up the rest of the group; returns how many frames that were.
    pub(super) fn give_up_group(&self) -> u64 {
        let mut state = lock(&self.state);
        let mut entries = state.frames.iter().map(|frame| frame.captured.entry);
        let next = entries.position(|entry| entry.is_some());
        let dropped = next.unwrap_or(state.frames.len());
        state.frames.drain(..dropped);
        state.wants_entry = next.is_none();
        state.given_up += 1;
        drop(state);
        self.any_changed.notify_waiters();
        dropped as u64
    }
}

#[cfg(test)]
mod tests;
