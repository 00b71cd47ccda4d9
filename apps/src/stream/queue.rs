//! Queues frames between the encoder and the connection.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::account::Entry;
use super::frame::Header;
use super::media::Captured;
use crate::lock::lock;

/// Frames that wait for the connection, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    /// Bytes of the frame that was taken and is not yet written.
    writing: usize,
    /// The group of the last frame was given up: only a frame with which decoding can begin is of
    /// use next.
    wants_entry: bool,
    ended: bool,
}

/// A frame with its header.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) header: Header,
    pub(super) account: Entry,
    pub(super) captured: Captured,
}

impl Queue {
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
        dropped as u64
    }
}

#[cfg(test)]
mod tests;
