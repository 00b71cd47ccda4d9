//! What the endpoint knows of a path and quinn does not pass on, on its way to the controller.

use std::sync::{Mutex, PoisonError};

use crate::controller::PathSample;

/// Samples of one connection that wait for its controller's next ACK.
///
/// The endpoint fills it where datagrams arrive, the controller empties it where ACKs are
/// processed: the two may be different threads.
#[derive(Debug, Default)]
pub struct PathFeed {
    waiting: Mutex<Vec<PathSample>>,
}

impl PathFeed {
    /// Samples that are kept for a controller which sees no ACKs. An ACK for every second
    /// packet takes one or two; a peer that sends headers and never an ACK must not fill memory.
    pub const MOST_WAITING: usize = 64;

    /// Adds a sample; beyond [`MOST_WAITING`](Self::MOST_WAITING) the oldest is forgotten.
    pub fn push(&self, sample: PathSample) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == Self::MOST_WAITING {
            waiting.remove(0);
        }
        waiting.push(sample);
    }

    /// All samples in the order of their arrival.
    pub(super) fn take(&self) -> Vec<PathSample> {
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
