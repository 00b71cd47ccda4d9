//! What the link algorithms of ACP, RCP and XCP have in common: bounds on the round trips that they
//! believe, the mean of those, control periods, and the queue that is there all the while.

use std::time::{Duration, Instant};

use evenkeel_spec::{Parameter, SpecError, Values};
use evenkeel_wire::{ECHO_LIFETIME, PathHeaderView};

use crate::PortView;

/// The mean round trip before any was heard of: d(0) of ACP, section II-D. XCP's paper is silent;
/// RCP's authors' router has 200 ms.
pub(super) const INITIAL_RTT: Duration = Duration::from_millis(50);

/// Shorter round trips are not believed: so short a period has few packets in it, and a timer that
/// fires more often is a burden.
const RTT_MIN_MS: f64 = 1.0;

/// Longer round trips are not believed: no sender has feedback of one (docs/path-header.md, section
/// 4.3).
pub(super) const RTT_MAX_MS: f64 = ECHO_LIFETIME.as_micros() as f64 / 1e3;

/// The least part of a period in which the queue is watched, however long the queue is.
const LEAST_WATCH: f64 = 0.25;

/// The parameter for the shortest round trip.
pub(super) const fn rtt_min(meaning: &'static str) -> Parameter {
    Parameter::number("rtt_min_ms", meaning, 0.1, 1000.0, Some(RTT_MIN_MS))
}

/// The parameter for the longest round trip.
pub(super) const fn rtt_max(meaning: &'static str) -> Parameter {
    Parameter::number("rtt_max_ms", meaning, 10.0, RTT_MAX_MS, Some(RTT_MAX_MS))
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
    pub(super) fn read(values: &Values) -> Result<Self, SpecError> {
        let (min, max) = (values.number("rtt_min_ms"), values.number("rtt_max_ms"));
        values.below(("rtt_min_ms", min), ("rtt_max_ms", max))?;
        Ok(Self {
            min: Duration::from_secs_f64(min / 1e3),
            max: Duration::from_secs_f64(max / 1e3),
        })
    }

    /// What `header` tells; outside the bounds, zero too, it does not count.
    pub(super) fn believed(&self, header: &PathHeaderView<'_>) -> Option<Duration> {
        let rtt = header.rtt().duration();
        (self.min..=self.max).contains(&rtt).then_some(rtt)
    }

    /// The nearest round trip that is believed.
    pub(super) fn clamp(&self, rtt: Duration) -> Duration {
        rtt.clamp(self.min, self.max)
    }
}

/// Octaves of round trips in microseconds: the last one begins at 2^23 us, the longest believed.
const OCTAVES: usize = 24;

/// The bulk of the traffic is all of it but the part, one in so many bytes, that tells the longest
/// round trips.
const BULK: u64 = 8;

/// So many octaves above the bulk's longest round trip others count as they are, and no further.
const OCTAVES_ABOVE: usize = 2;

/// A period is over if its own round trips show that it is so many times too long.
pub(super) const TOO_LONG: u32 = 8;

/// The first look at whether it is; the next ones when a quarter more has passed.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// The mean of the round trips that headers tell in a period, by the bytes of their packets.
///
/// Headers lie, and a long round trip is heard above many short ones. So the mean is winsorized
/// (W. J. Dixon, "Simplified Estimation from Censored Normal Samples", 1960): round trips far above
/// those of the bulk count as the longest that is not far above. The bulk is all but an eighth of
/// the bytes of this period and, by half as much for each period since, of those before. Round
/// trips are sorted by their octaves, and those more than two octaves above the bulk's highest
/// count as the end of the second.
///
/// So headers with a share p of the bytes, below an eighth, make the mean at most
///
/// (1 - p) mean + 8 p longest
///
/// of the others' mean and the longest round trip of their bulk, and not less than (1 - p) mean.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MeanRtt {
    octaves: [Octave; OCTAVES],
}

/// What was told in an octave of round trips.
#[derive(Debug, Clone, Copy, Default)]
struct Octave {
    /// Bytes of this period.
    bytes: u64,
    /// Bytes of those before, halved with each.
    before: u64,
    /// Bytes x microseconds of this period.
    weighted: u64,
}

impl MeanRtt {
    /// A packet of `bytes` tells `rtt`, at most [`RTT_MAX_MS`].
    pub(super) fn hear(&mut self, rtt: Duration, bytes: u32) {
        let us = rtt.as_micros() as u64;
        let number = us.max(1).ilog2() as usize;
        let octave = &mut self.octaves[number.min(OCTAVES - 1)];
        octave.bytes = octave.bytes.saturating_add(bytes.into());
        octave.weighted = octave
            .weighted
            .saturating_add(us.saturating_mul(bytes.into()));
    }

    /// `None` if nobody told one in this period.
    pub(super) fn get(&self) -> Option<Duration> {
        let most = self.most_octave();
        let (mut bytes, mut weighted) = (0u64, 0u64);
        for (number, octave) in self.octaves.iter().enumerate() {
            bytes = bytes.saturating_add(octave.bytes);
            weighted = weighted.saturating_add(if number <= most {
                octave.weighted
            } else {
                octave.bytes.saturating_mul(2 << most)
            });
        }
        let mean = weighted.checked_div(bytes)?;
        Some(Duration::from_micros(mean))
    }

    /// Begins another period.
    pub(super) fn restart(&mut self) {
        for octave in &mut self.octaves {
            *octave = Octave {
                before: octave.before.saturating_add(octave.bytes) / 2,
                ..Octave::default()
            };
        }
    }

    /// The highest octave in which round trips count as they are.
    fn most_octave(&self) -> usize {
        let heard = |octave: &Octave| u128::from(octave.bytes) + u128::from(octave.before);
        let total: u128 = self.octaves.iter().map(heard).sum();
        let mut above = 0;
        let octaves = self.octaves.iter().enumerate().rev();
        let bulk = octaves.map(|(number, octave)| {
            above += heard(octave);
            (number, above)
        });
        let mut bulk = bulk.skip_while(|(_, above)| above * u128::from(BULK) < total);
        let (highest, _) = bulk.next().expect("all of it is an eighth and more");
        (highest + OCTAVES_ABOVE).min(OCTAVES - 1)
    }
}

/// A control period: it lasts a mean round trip, as far as that is known when it begins.
///
/// The mean may have been that of others, who were alone on the link before. So a period also ends
/// when it has lasted eight mean round trips of those that were told in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Period {
    began: Instant,
    /// When it is over.
    ends: Instant,
    /// When to look whether it has lasted too long already.
    look: Instant,
}

impl Period {
    pub(super) fn new(now: Instant, length: Duration) -> Self {
        Self {
            began: now,
            ends: now + length,
            look: now + FIRST_LOOK,
        }
    }

    /// A packet arrives; `told` are the round trips of this period.
    pub(super) fn look(&mut self, now: Instant, told: &MeanRtt) {
        if now < self.look || now >= self.ends {
            return;
        }
        let passed = now - self.began;
        self.look = now + passed / 4;
        if told.get().is_some_and(|mean| mean * TOO_LONG <= passed) {
            self.ends = now;
        }
    }

    pub(super) fn ends(&self) -> Instant {
        self.ends
    }

    /// Seconds until `now`, above 0 as it ends.
    pub(super) fn seconds(&self, now: Instant) -> f64 {
        (now - self.began).as_secs_f64()
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

/// How long it takes to send what has queued, at `capacity` in bytes per second.
pub(super) fn queue_delay(port: &PortView, capacity: f64) -> Duration {
    let delay = Duration::try_from_secs_f64(port.queued.bytes as f64 / capacity);
    delay.unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
