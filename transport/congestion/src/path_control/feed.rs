//! What a connection's endpoint and its controller exchange.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::ecn::{EcnFault, EcnState};
use super::observer::Observer;
use super::remembered::Remembered;
use crate::controller::{DEFAULT_OVERHEAD, EcnMode, Feedback, PathSample};

/// The longest delay of an ACK by a peer that announces none (RFC 9000, section 18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// Path samples on their way to the controller, and what the controller asks of the endpoint.
///
/// Plain data. An endpoint keeps it behind the lock of its connection ([`FeedHolder`]).
pub struct FeedState {
    waiting: VecDeque<PathSample>,
    newest: Option<PathSample>,
    observer: Option<Arc<dyn Observer>>,
    followed: Option<Feedback>,
    /// Bytes.
    overhead: u16,
    header_interval: u32,
    /// The largest packet number in the latest ACK frame that came late.
    repeated: Option<u64>,
    /// The ACK frame that the controller processed last waited while the process stood still.
    has_waited: bool,
    /// Its round trip is doubtful.
    is_doubtful: bool,
    max_ack_delay: Duration,
    /// Bytes.
    largest_burst: Option<u64>,
    /// Bytes.
    resume: Option<u64>,
    /// ECN on the present path.
    pub ecn: EcnState,
    remembered: Option<Remembered>,
}

impl FeedState {
    /// Samples that wait for a controller which sees no ACKs. An ACK for every second packet
    /// takes one or two; a peer that sends headers and never an ACK must not fill memory.
    pub const MOST_WAITING: usize = 64;

    /// Adds a sample; beyond [`MOST_WAITING`](Self::MOST_WAITING) the oldest is dropped. Returns
    /// the observer, if there is one. Unlock before you call its
    /// [`on_path`](Observer::on_path).
    pub fn push(&mut self, sample: PathSample) -> Option<Arc<dyn Observer>> {
        if self.waiting.len() == Self::MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(sample.clone());
        self.newest = Some(sample);
        self.observer.clone()
    }

    /// Returns the newest sample, whether or not a controller has heard of it.
    pub fn newest(&self) -> Option<&PathSample> {
        self.newest.as_ref()
    }

    /// Whose feedback the present controller follows.
    pub fn followed(&self) -> Option<Feedback> {
        self.followed
    }

    /// The interval, at least 1, in datagrams at which the present controller needs a path header. It
    /// changes with the path.
    pub fn header_interval(&self) -> u32 {
        self.header_interval
    }

    /// An ACK frame whose largest packet number is `largest` repeats one that was lost: since that
    /// packet arrived, the peer has had it for longer than it may delay an ACK. Call this before
    /// quinn processes the frame. It then gives no round-trip sample.
    pub fn set_repeated(&mut self, largest: u64) {
        self.repeated = Some(largest);
    }

    /// The peer delays ACKs by up to `delay` (RFC 9000, section 18.2); 25 ms until this is called.
    pub fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    /// Returns true if the ACK frame that the controller processed last waited for this process to
    /// go on, as far as [`PathControl`](super::PathControl) sees: it measures that, not the path.
    pub fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Returns false if the ACK frame that the controller processed last, with this largest packet
    /// number, measures no round trip: it [has waited](Self::has_waited), repeats one that was lost,
    /// or makes a round trip far shorter than all before and no other ACK has confirmed it.
    pub fn has_sample(&self, largest: Option<u64>) -> bool {
        !self.has_waited && !self.is_doubtful && (largest.is_none() || self.repeated != largest)
    }

    /// Lets the controller continue with this window, in bytes: one that is built, at once;
    /// another with the next ACK ([`Controller::resume`](crate::Controller::resume)). `None` takes
    /// that back.
    pub fn resume(&mut self, window: Option<u64>) {
        self.resume = window;
    }

    /// What the path carried before, for the next controller that is built: it begins with that, as
    /// RFC 9959 says, unless it follows routers. `None` takes that back.
    pub fn remember(&mut self, memory: Option<Remembered>) {
        self.remembered = memory;
    }

    /// Bytes of UDP payload that may leave at once where the present controller has a pacing rate;
    /// `None` leaves it to the endpoint.
    pub fn largest_burst(&self) -> Option<u64> {
        self.largest_burst
    }

    /// Each full-size packet adds `bytes` bytes to its UDP payload on the wire: IP and UDP
    /// headers, and the path header's share. [`DEFAULT_OVERHEAD`] until this is called.
    pub fn set_overhead(&mut self, bytes: u16) {
        self.overhead = bytes;
    }
}

impl Default for FeedState {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            newest: None,
            observer: None,
            followed: None,
            overhead: DEFAULT_OVERHEAD,
            header_interval: 1,
            repeated: None,
            has_waited: false,
            is_doubtful: false,
            max_ack_delay: MAX_ACK_DELAY,
            largest_burst: None,
            resume: None,
            ecn: EcnState::default(),
            remembered: None,
        }
    }
}

impl fmt::Debug for FeedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedState")
            .field("waiting", &self.waiting.len())
            .field("followed", &self.followed)
            .field("overhead", &self.overhead)
            .field("header_interval", &self.header_interval)
            .field("repeated", &self.repeated)
            .field("has_waited", &self.has_waited)
            .field("is_doubtful", &self.is_doubtful)
            .field("largest_burst", &self.largest_burst)
            .field("resume", &self.resume)
            .field("ecn", &self.ecn)
            .finish_non_exhaustive()
    }
}

/// Owns a [`FeedState`] and its lock.
pub trait FeedHolder: Send + Sync {
    /// Calls `access` with the lock held. `access` calls nothing that could lock again.
    fn with_feed(&self, access: &mut dyn FnMut(&mut FeedState));
}

impl FeedHolder for Mutex<FeedState> {
    fn with_feed(&self, access: &mut dyn FnMut(&mut FeedState)) {
        // No state is left half changed, so the panic of another thread does no harm.
        access(&mut self.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A controller's access to what it exchanges with the endpoint. Clones share it.
#[derive(Clone)]
pub struct PathFeed(Arc<dyn FeedHolder>);

impl PathFeed {
    /// The feed that `holder` owns.
    pub fn new(holder: Arc<dyn FeedHolder>) -> Self {
        Self(holder)
    }

    /// A controller has begun, which follows `feedback`. What the one before asked for is over.
    pub fn follow(&self, feedback: Option<Feedback>) {
        self.with(|feed| {
            feed.followed = feedback;
            feed.header_interval = 1;
            (feed.has_waited, feed.is_doubtful) = (false, false);
            feed.largest_burst = None;
            feed.resume = None;
            feed.ecn.wish(EcnMode::Classic);
        });
    }

    /// From the next ACK on, bursts at the controller's own pacing rate have at most `bytes` bytes
    /// of UDP payload, or one packet if that is more: the send quantum of BBR
    /// (draft-ietf-ccwg-bbr, section 5.6.3).
    pub fn limit_bursts(&self, bytes: u64) {
        self.with(|feed| feed.largest_burst = Some(bytes));
    }

    /// One datagram in `interval` needs to carry a path header.
    pub(crate) fn ask_for_headers(&self, interval: u32) {
        self.with(|feed| feed.header_interval = interval.max(1));
    }

    /// From now on `observer` gets samples as they arrive.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.with(|feed| feed.observer = Some(observer));
    }

    /// As [`FeedState::has_sample`].
    pub fn has_sample(&self, largest: Option<u64>) -> bool {
        self.with(|feed| feed.has_sample(largest))
    }

    /// The longest for which the peer delays ACKs.
    pub(crate) fn max_ack_delay(&self) -> Duration {
        self.with(|feed| feed.max_ack_delay)
    }

    /// The controller processes an ACK frame with this largest packet number, which waited or not.
    /// Returns whether it measures a round trip, and how many packets it reports as marked.
    pub(crate) fn begin_ack(&self, largest: Option<u64>, has_waited: bool) -> (bool, u64) {
        self.with(|feed| {
            (feed.has_waited, feed.is_doubtful) = (has_waited, false);
            (feed.has_sample(largest), feed.ecn.take_marked())
        })
    }

    /// The controller wants this of ECN; returns as what packets leave.
    pub(crate) fn wish_ecn(&self, wish: EcnMode) -> Option<EcnMode> {
        self.with(|feed| feed.ecn.wish(wish))
    }

    /// The path's marks have this fault.
    pub(crate) fn set_ecn_fault(&self, fault: EcnFault) {
        self.with(|feed| feed.ecn.set_fault(fault));
    }

    /// The round trip of the ACK frame that the controller processes is doubtful.
    pub(crate) fn doubt(&self) {
        self.with(|feed| feed.is_doubtful = true);
    }

    /// Bytes with which the controller shall continue, if the endpoint asks for it.
    pub(super) fn take_resume(&self) -> Option<u64> {
        self.with(|feed| feed.resume.take())
    }

    /// What the path carried before, if the endpoint knows.
    pub(super) fn take_remembered(&self) -> Option<Remembered> {
        self.with(|feed| feed.remembered.take())
    }

    /// Bytes that each full-size packet adds to its UDP payload, and all samples in the order of
    /// their arrival.
    pub(crate) fn take(&self) -> (u16, VecDeque<PathSample>) {
        self.with(|feed| (feed.overhead, std::mem::take(&mut feed.waiting)))
    }

    fn with<T>(&self, access: impl FnOnce(&mut FeedState) -> T) -> T {
        let (mut access, mut result) = (Some(access), None);
        self.0.with_feed(&mut |feed| {
            result = access.take().map(|access| access(feed));
        });
        result.expect("a holder calls what it is given")
    }
}

impl Default for PathFeed {
    /// A feed without an endpoint.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(FeedState::default())))
    }
}

impl fmt::Debug for PathFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|feed| f.debug_tuple("PathFeed").field(feed).finish())
    }
}

#[cfg(test)]
impl PathFeed {
    /// A sample arrives.
    pub(crate) fn push(&self, sample: PathSample) {
        let observer = self.with(|feed| feed.push(sample.clone()));
        if let Some(observer) = observer {
            observer.on_path(&sample);
        }
    }

    pub(crate) fn followed(&self) -> Option<Feedback> {
        self.with(|feed| feed.followed())
    }

    pub(crate) fn header_interval(&self) -> u32 {
        self.with(|feed| feed.header_interval())
    }

    pub(crate) fn set_overhead(&self, bytes: u16) {
        self.with(|feed| feed.set_overhead(bytes));
    }

    pub(crate) fn resume(&self, window: u64) {
        self.with(|feed| feed.resume(Some(window)));
    }

    pub(crate) fn set_max_ack_delay(&self, delay: Duration) {
        self.with(|feed| feed.set_max_ack_delay(delay));
    }

    pub(crate) fn set_repeated(&self, largest: u64) {
        self.with(|feed| feed.set_repeated(largest));
    }
}
