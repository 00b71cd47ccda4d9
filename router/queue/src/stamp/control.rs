//! What the link algorithms of ACP, RCP and XCP have in common: bounds on the round trips that they
//! believe, their mean, and the queue that is there all the while.

use std::time::{Duration, Instant};

use evenkeel_spec::{SpecError, SpecParameter, SpecValues};
use evenkeel_wire::{ECHO_LIFETIME, PathHeaderView};

use crate::discipline::PortView;

/// The mean round trip before any was heard of: d(0) of ACP, section II-D. XCP's paper is silent;
/// RCP's authors' router has 200 ms.
pub(super) const INITIAL_RTT: Duration = Duration::from_millis(50);

/// Shorter round trips are not believed: so short a period has few packets in it, and a timer that
/// fires more often is a burden.
const RTT_MIN_MS: f64 = 1.0;

/// Longer round trips are not believed: no sender has feedback of one (docs/path-header.md, section
/// 4.3).
pub(super) const RTT_MAX_MS: f64 = ECHO_LIFETIME.as_micros() as f64 / 1e3;

/// The mean becomes at most this many times as long from one period to the next, and a period that
/// has lasted this many of its own means is too long.
const MOST_MEANS: u32 = 4;

/// Octaves of round trips: the last one has all from 2^23 us, more than [`RTT_MAX_MS`].
const OCTAVES: usize = 24;

/// A round trip counts as at most this many times the end of the octave with the median: headers
/// with a share p of the bytes, below a half, make the mean at most 1 + 7 p times as long as the
/// others' longest one, for the median's octave ends below twice the median.
const MOST_MEDIANS: u64 = 4;

/// The share of what the link could carry from which on traffic is more than a trickle.
const TRICKLE: f64 = 0.125;

/// The least part of a period in which the queue is watched, however long the queue is.
const LEAST_WATCH: f64 = 0.25;

/// The parameter for the shortest round trip.
pub(super) const fn rtt_min(meaning: &'static str) -> SpecParameter {
    SpecParameter::number("rtt_min_ms", meaning, 0.1, 1000.0, Some(RTT_MIN_MS))
}

/// The parameter for the longest round trip.
pub(super) const fn rtt_max(meaning: &'static str) -> SpecParameter {
    SpecParameter::number("rtt_max_ms", meaning, 10.0, RTT_MAX_MS, Some(RTT_MAX_MS))
}

/// Between which round trips are believed; `min` is above zero and below `max`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RttBounds {
    pub(super) min: Duration,
    pub(super) max: Duration,
}

impl RttBounds {
    /// What [`rtt_min`] and [`rtt_max`] set.
    ///
    /// # Errors
    /// If they are out of order.
    pub(super) fn read(values: &SpecValues) -> Result<Self, SpecError> {
        let (min, max) = (values.number("rtt_min_ms"), values.number("rtt_max_ms"));
        values.below(("rtt_min_ms", min), ("rtt_max_ms", max))?;
        Ok(Self {
            min: Duration::from_secs_f64(min / 1e3),
            max: Duration::from_secs_f64(max / 1e3),
        })
    }

    /// The nearest round trip that is believed.
    pub(super) fn clamp(&self, rtt: Duration) -> Duration {
        rtt.clamp(self.min, self.max)
    }
}

/// The mean, by bytes, of the round trips that headers tell in a period.
///
/// Headers lie; those of less than half of the bytes move the mean by little, whatever it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct MeanRtt {
    /// A longer mean counts as this.
    longest: Duration,
    /// All bytes of `octaves`.
    bytes: u64,
    octaves: [Told; OCTAVES],
}

/// Round trips from a power of two, in microseconds, to the next.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Bytes times microseconds.
    sum: u64,
    bytes: u64,
}

impl MeanRtt {
    /// For a period before which the mean was `present`, above zero; `None` if nobody has told any.
    pub(super) fn new(present: Option<Duration>) -> Self {
        Self {
            longest: present.map_or(Duration::MAX, |mean| mean * MOST_MEANS),
            bytes: 0,
            octaves: [Told::default(); OCTAVES],
        }
    }

    /// A packet of `bytes` reports one; outside `bounds`, zero too, it does not count.
    pub(super) fn hear(&mut self, header: &PathHeaderView<'_>, bounds: RttBounds, bytes: u32) {
        let rtt = header.rtt().duration();
        if (bounds.min..=bounds.max).contains(&rtt) {
            self.count(rtt, bytes);
        }
    }

    /// A packet of `bytes` reports one that counts.
    pub(super) fn count(&mut self, rtt: Duration, bytes: u32) {
        let us = rtt.as_micros() as u64;
        let octave = us.checked_ilog2().unwrap_or(0) as usize;
        let told = &mut self.octaves[octave.min(OCTAVES - 1)];
        told.sum = told.sum.saturating_add(us * u64::from(bytes));
        told.bytes = told.bytes.saturating_add(bytes.into());
        self.bytes = self.bytes.saturating_add(bytes.into());
    }

    /// `None` if none counted.
    pub(super) fn get(&self) -> Option<Duration> {
        let mut below: u64 = 0;
        let median = self.octaves.iter().position(|told| {
            below = below.saturating_add(told.bytes);
            below > 0 && below >= self.bytes.div_ceil(2)
        })?;
        let most = MOST_MEDIANS << (median + 1);
        let sums = self.octaves.iter();
        let sums = sums.map(|told| told.sum.min(told.bytes.saturating_mul(most)));
        let mean = sums.fold(0, u64::saturating_add) / self.bytes;
        Some(Duration::from_micros(mean).min(self.longest))
    }

    /// The longest sensible length of a period, as those say who have sent more than a trickle in the
    /// time that has `passed`, at a link of this `capacity` in bytes per second; `None` if there are none.
    pub(super) fn longest_period(&self, passed: Duration, capacity: f64) -> Option<Duration> {
        let is_trickle = (self.bytes as f64) < TRICKLE * capacity * passed.as_secs_f64();
        self.get()
            .filter(|_| !is_trickle)
            .map(|mean| mean * MOST_MEANS)
    }
}

/// The queue that a period's arrivals find all the while.
///
/// ACP's paper (section II-D), and XCP's likewise, takes "the minimum queue seen by the arriving
/// packets during the last propagation delay", which is the mean round trip less queue / capacity, the
/// queue being the "instantaneous" one. A period lasts one mean round trip; so its last propagation
/// delay begins when the queue found at its start has been sent, and arrivals before that are not
/// asked. If the queue takes longer than three quarters of the period, the last quarter is watched:
/// the queue is there all the while.
#[derive(Debug, Clone, Copy)]
pub(super) struct PersistentQueue {
    watch_from: Instant,
    /// Bytes; `None` before the first arrival.
    least: Option<u64>,
}

impl PersistentQueue {
    /// For a period of this `length` that begins at `now`, with a queue that takes `queue_delay` to
    /// send.
    pub(super) fn new(now: Instant, length: Duration, queue_delay: Duration) -> Self {
        Self {
            watch_from: now + queue_delay.min(length.mul_f64(1.0 - LEAST_WATCH)),
            least: None,
        }
    }

    /// A packet arrives.
    pub(super) fn see(&mut self, now: Instant, port: &PortView) {
        if now >= self.watch_from {
            let seen = port.queued.bytes;
            self.least = Some(self.least.map_or(seen, |least| least.min(seen)));
        }
    }

    /// The queue in bytes at the end of the period; without an arrival, what one would see now.
    pub(super) fn bytes(&self, port: &PortView) -> f64 {
        self.least.unwrap_or(port.queued.bytes) as f64
    }

    #[cfg(test)]
    pub(super) fn watch_from(&self) -> Instant {
        self.watch_from
    }
}

/// What is counted during a control period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    pub(super) began: Instant,
    /// When it is over.
    pub(super) ends: Instant,
    /// Bytes that arrived.
    pub(super) bytes: u64,
    pub(super) queue: PersistentQueue,
    pub(super) rtt: MeanRtt,
}

impl Period {
    /// Of this `length`, with a queue at its begin that takes `queue_delay` to send. `rtt` is the mean
    /// round trip that was told last.
    pub(super) fn new(
        now: Instant,
        length: Duration,
        rtt: Option<Duration>,
        queue_delay: Duration,
    ) -> Self {
        Self {
            began: now,
            ends: now + length,
            bytes: 0,
            queue: PersistentQueue::new(now, length, queue_delay),
            rtt: MeanRtt::new(rtt),
        }
    }

    /// A packet arrives.
    pub(super) fn see(&mut self, now: Instant, bytes: u32, port: &PortView) {
        self.bytes = self.bytes.saturating_add(bytes.into());
        self.queue.see(now, port);
    }

    /// Ends the period if it has lasted `times` the longest that the senders ask for, those of a
    /// trickle left out: its length may be that of a sender which has left. `capacity` is in bytes
    /// per second.
    pub(super) fn shorten(&mut self, now: Instant, capacity: f64, times: u32) {
        let passed = now - self.began;
        if let Some(longest) = self.rtt.longest_period(passed, capacity)
            && passed >= longest * times
        {
            self.ends = self.ends.min(now);
        }
    }
}

/// How long it takes to send what has queued, at `capacity` in bytes per second.
pub(super) fn queue_delay(port: &PortView, capacity: f64) -> Duration {
    let delay = Duration::try_from_secs_f64(port.queued.bytes as f64 / capacity);
    delay.unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
