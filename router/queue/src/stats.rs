//! What a port measures.

mod histogram;
mod queue_length;

use std::ops::Sub;
use std::time::{Duration, Instant};

use crate::discipline::DropReason;
use crate::packet::Amount;
use crate::stamp::HeaderCounts;

pub use histogram::DurationHistogram;
pub use queue_length::{QueueInterval, QueueLength};

/// What has happened at a port, in packets and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that came, whatever became of them.
    pub arrived: Amount,
    /// Packets whose transmission ended.
    pub forwarded: Amount,
    /// Packets that were dropped.
    pub dropped: Drops,
    /// Packets that were marked; they count as forwarded too, in their time.
    pub marked: Amount,
    /// What stamps have seen; nothing at a port without.
    pub headers: HeaderCounts,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            arrived: self.arrived - earlier.arrived,
            forwarded: self.forwarded - earlier.forwarded,
            dropped: Drops {
                full: self.dropped.full - earlier.dropped.full,
                early: self.dropped.early - earlier.dropped.early,
            },
            marked: self.marked - earlier.marked,
            headers: self.headers - earlier.headers,
        }
    }
}

/// Dropped packets by [`DropReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drops {
    /// [`DropReason::Full`].
    pub full: Amount,
    /// [`DropReason::Early`].
    pub early: Amount,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> Amount {
        self.full + self.early
    }
}

/// What a port has measured, up to the instant at which it was asked.
///
/// [`PortStats::total`] and [`PortStats::sojourn_total`] count from the port's creation. Everything
/// else is about the *measurement window*, from the last restart (or the creation) to that instant.
#[derive(Debug, Clone)]
pub struct PortStats {
    total: Counters,
    at_restart: Counters,
    queued: Amount,
    in_transmission: Amount,
    /// What the link layer adds to each packet.
    overhead_bytes: u32,
    queue: QueueLength,
    sojourn: DurationHistogram,
    sojourn_before: DurationHistogram,
    busy: Duration,
    window_start: Instant,
    /// Time-weighted figures are up to date until here.
    settled: Instant,
    /// With a trace or cellular rate: bytes it has offered since the creation, and until the restart.
    offered_bytes: Option<u64>,
    offered_at_restart: u64,
}

impl PortStats {
    pub(crate) fn new(now: Instant, overhead_bytes: u32) -> Self {
        Self {
            overhead_bytes,
            total: Counters::default(),
            at_restart: Counters::default(),
            queued: Amount::ZERO,
            in_transmission: Amount::ZERO,
            queue: QueueLength::default(),
            sojourn: DurationHistogram::default(),
            sojourn_before: DurationHistogram::default(),
            busy: Duration::ZERO,
            window_start: now,
            settled: now,
            offered_bytes: None,
            offered_at_restart: 0,
        }
    }

    /// Counters since the port's creation, for conservation.
    pub fn total(&self) -> Counters {
        self.total
    }

    /// Counters of the measurement window.
    pub fn window(&self) -> Counters {
        self.total - self.at_restart
    }

    /// Length of the measurement window.
    pub fn window_length(&self) -> Duration {
        self.settled - self.window_start
    }

    /// What waits now, without the packet in transmission.
    pub fn queued(&self) -> Amount {
        self.queued
    }

    /// The packet in transmission now, if there is one.
    pub fn in_transmission(&self) -> Amount {
        self.in_transmission
    }

    /// Queue length over the measurement window, without the packet in transmission.
    pub fn queue(&self) -> &QueueLength {
        &self.queue
    }

    /// Time from arrival to the start of transmission, of the packets that started in the window.
    pub fn sojourn(&self) -> &DurationHistogram {
        &self.sojourn
    }

    /// Time from arrival to the start of transmission, of all packets since the port's creation.
    pub fn sojourn_total(&self) -> DurationHistogram {
        let mut total = self.sojourn_before.clone();
        total.add(&self.sojourn);
        total
    }

    /// How long packets were being transmitted, within the window.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Bytes that a trace or cellular rate offered to let through in the window; `None` without one.
    pub fn offered_bytes(&self) -> Option<u64> {
        Some(self.offered_bytes? - self.offered_at_restart)
    }

    /// The same since the port's creation.
    pub fn offered_total(&self) -> Option<u64> {
        self.offered_bytes
    }

    /// Share of the link that was used in the window, 0 to 1: of a link with a rate the share of
    /// time in which it transmitted, of one with a trace or a cellular rate the share of the offered
    /// bytes that were forwarded (an unlimited link is never busy). `None` while nothing was offered.
    pub fn utilization(&self) -> Option<f64> {
        let (used, offered) = match self.offered_bytes() {
            Some(offered) => (self.carried_bytes() as f64, offered as f64),
            None => (self.busy.as_secs_f64(), self.window_length().as_secs_f64()),
        };
        // A packet that straddles the restart of the window is counted whole in it.
        (offered > 0.0).then(|| (used / offered).min(1.0))
    }

    /// Bytes that the link layer has carried in the window.
    fn carried_bytes(&self) -> u64 {
        let forwarded = self.window().forwarded;
        forwarded.bytes + forwarded.packets * u64::from(self.overhead_bytes)
    }

    /// Dropped / arrived packets in the window; `None` if none arrived.
    pub fn loss_rate(&self) -> Option<f64> {
        let window = self.window();
        let arrived = window.arrived.packets;
        (arrived > 0).then(|| window.dropped.total().packets as f64 / arrived as f64)
    }

    /// Brings the time-weighted figures up to `now`; nothing has changed since the last call.
    pub(crate) fn settle(&mut self, now: Instant) {
        if now <= self.settled {
            return;
        }
        let elapsed = now - self.settled;
        self.queue.hold(self.queued.packets, elapsed);
        if self.in_transmission != Amount::ZERO {
            self.busy += elapsed;
        }
        self.settled = now;
    }

    /// Starts a new measurement window; `now` has been settled.
    pub(crate) fn restart_window(&mut self) {
        self.at_restart = self.total;
        self.queue.restart(self.queued.packets);
        self.sojourn_before.add(&self.sojourn);
        self.sojourn.clear();
        self.busy = Duration::ZERO;
        self.window_start = self.settled;
        self.offered_at_restart = self.offered_bytes.unwrap_or(0);
    }

    pub(crate) fn take_interval(&mut self) -> QueueInterval {
        self.queue.take_interval(self.queued.packets)
    }

    pub(crate) fn set_offered_bytes(&mut self, offered: Option<u64>) {
        self.offered_bytes = offered;
    }

    pub(crate) fn set_headers(&mut self, headers: HeaderCounts) {
        self.total.headers = headers;
    }

    pub(crate) fn arrived(&mut self, bytes: u32) {
        self.total.arrived += Amount::one(bytes);
    }

    pub(crate) fn marked(&mut self, bytes: u32) {
        self.total.marked += Amount::one(bytes);
    }

    pub(crate) fn dropped(&mut self, reason: DropReason, bytes: u32) {
        *match reason {
            DropReason::Full => &mut self.total.dropped.full,
            DropReason::Early => &mut self.total.dropped.early,
        } += Amount::one(bytes);
    }

    pub(crate) fn joined_queue(&mut self, bytes: u32) {
        self.queued += Amount::one(bytes);
        self.queue.reach(self.queued.packets);
    }

    pub(crate) fn left_queue(&mut self, bytes: u32) {
        self.queued -= Amount::one(bytes);
    }

    pub(crate) fn started(&mut self, bytes: u32, sojourn: Duration) {
        self.in_transmission = Amount::one(bytes);
        self.sojourn.record(sojourn);
    }

    pub(crate) fn ended(&mut self) {
        self.total.forwarded += self.in_transmission;
        self.in_transmission = Amount::ZERO;
    }
}

/// The first of these counts, which come to `total`, up to which there is at least the share `p` of
/// them; `None` if all are 0.
fn percentile(counts: &[u64], total: u64, p: f64) -> Option<usize> {
    assert!(
        (0.0..=1.0).contains(&p),
        "a percentile is a share of the whole"
    );
    let wanted = p * total as f64;
    let mut sum = 0;
    counts.iter().position(|count| {
        sum += count;
        sum > 0 && sum as f64 >= wanted
    })
}
