//! What the endpoint knows of a path and quinn does not pass on, on its way to the controller;
//! and what the controller wants to know.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Observer;
use crate::controller::{DEFAULT_OVERHEAD, Feedback, PathSample};

/// What one connection's endpoint and its controller tell each other.
///
/// The endpoint works where datagrams arrive, the controller where ACKs are processed: the two
/// may be different threads.
#[derive(Debug)]
pub struct PathFeed {
    waiting: Mutex<VecDeque<PathSample>>,
    followed: Mutex<Option<Feedback>>,
    observer: Mutex<Listener>,
    /// Bytes.
    overhead: AtomicU16,
    header_interval: AtomicU32,
}

/// Who hears of samples as they arrive, if anybody does.
#[derive(Default)]
struct Listener(Option<Arc<dyn Observer>>);

impl PathFeed {
    /// Samples that are kept for a controller which sees no ACKs. An ACK for every second
    /// packet takes one or two; a peer that sends headers and never an ACK must not fill memory.
    pub const MOST_WAITING: usize = 64;

    /// Adds a sample; beyond [`MOST_WAITING`](Self::MOST_WAITING) the oldest is forgotten.
    pub fn push(&self, sample: PathSample) {
        let listener = locked(&self.observer).0.clone();
        if let Some(observer) = listener {
            observer.on_path(&sample);
        }
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

    /// One datagram in so many, at least 1, needs to carry a path header for the present
    /// controller's sake. It changes with the path.
    pub fn header_interval(&self) -> u32 {
        self.header_interval.load(Ordering::Relaxed)
    }

    /// Each full-size packet adds `bytes` bytes to its UDP payload on the wire: IP and UDP
    /// headers, and the path header's share. [`DEFAULT_OVERHEAD`] until this is called.
    pub fn set_overhead(&self, bytes: u16) {
        self.overhead.store(bytes, Ordering::Relaxed);
    }

    /// A controller has begun, which follows `feedback`.
    pub(super) fn follow(&self, feedback: Option<Feedback>) {
        *locked(&self.followed) = feedback;
        self.ask_for_headers(1);
    }

    /// One datagram in `interval` needs to carry a path header.
    pub(super) fn ask_for_headers(&self, interval: u32) {
        self.header_interval
            .store(interval.max(1), Ordering::Relaxed);
    }

    /// Bytes that each full-size packet adds to its UDP payload.
    pub(super) fn overhead(&self) -> u16 {
        self.overhead.load(Ordering::Relaxed)
    }

    /// From now on `observer` hears of samples as they arrive.
    pub(super) fn tell(&self, observer: Arc<dyn Observer>) {
        locked(&self.observer).0 = Some(observer);
    }

    /// All samples in the order of their arrival.
    pub(super) fn take(&self) -> VecDeque<PathSample> {
        std::mem::take(&mut locked(&self.waiting))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}

impl Default for PathFeed {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            followed: Mutex::default(),
            observer: Mutex::default(),
            overhead: AtomicU16::new(DEFAULT_OVERHEAD),
            header_interval: AtomicU32::new(1),
        }
    }
}

/// Locks, whatever became of a thread that held the lock: nothing is ever left half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
