//! What the endpoint knows of a path and quinn does not pass on, on its way to the controller;
//! and what the controller wants to know.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::controller::{Feedback, PathSample};

/// What one connection's endpoint and its controller tell each other.
///
/// The endpoint works where datagrams arrive, the controller where ACKs are processed: the two
/// may be different threads.
#[derive(Debug, Default)]
pub struct PathFeed {
    waiting: Mutex<VecDeque<PathSample>>,
    followed: Mutex<Option<Feedback>>,
}

impl PathFeed {
    /// Samples that are kept for a controller which sees no ACKs. An ACK for every second
    /// packet takes one or two; a peer that sends headers and never an ACK must not fill memory.
    pub const MOST_WAITING: usize = 64;

    /// Adds a sample; beyond [`MOST_WAITING`](Self::MOST_WAITING) the oldest is forgotten.
    pub fn push(&self, sample: PathSample) {
        let mut waiting = locked(&self.waiting);
        if waiting.len() == Self::MOST_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(sample);
    }

    /// Whose feedback the present controller follows.
    pub fn followed(&self) -> Option<Feedback> {
        *locked(&self.followed)
    }

    /// A controller has begun, which follows `feedback`.
    pub(super) fn follow(&self, feedback: Option<Feedback>) {
        *locked(&self.followed) = feedback;
    }

    /// All samples in the order of their arrival.
    pub(super) fn take(&self) -> VecDeque<PathSample> {
        std::mem::take(&mut locked(&self.waiting))
    }
}

/// Locks, whatever became of a thread that held the lock: nothing is ever left half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
