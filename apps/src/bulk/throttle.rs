//! Sends less than the controller allows: at a fixed rate, or only in ON periods.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quinn::Runtime;
use serde::{Deserialize, Serialize};

use crate::time::{micros, sleep_until};

/// At a fixed rate, the most written at once is what 10 ms carry.
const SLICE: Duration = Duration::from_millis(10);

/// The least written at once, in bytes: about a packet.
const MIN_CHUNK: u64 = 1200;

/// The longest ON or OFF period, 20 s: a transfer in which nothing moves for longer may count as
/// stalled.
const MAX_PERIOD: Duration = Duration::from_secs(20);

/// The shortest ON or OFF period, a millisecond.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// The lowest rate, about a packet in ten seconds, for the same reason as `MAX_PERIOD`.
const MIN_RATE_BPS: u64 = 1000;

/// The length of ON periods, and that of the OFF periods between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnOff(
    #[serde(with = "micros")] pub Duration,
    #[serde(with = "micros")] pub Duration,
);

/// Says what is out of range in a job's rate and periods, if anything.
pub(super) fn throttle_complaint(rate_bps: Option<u64>, on_off: Option<OnOff>) -> Option<String> {
    if rate_bps.is_some_and(|rate| rate < MIN_RATE_BPS) {
        return Some(format!("the rate is below {MIN_RATE_BPS} bits per second"));
    }
    let OnOff(on, off) = on_off?;
    for (name, period) in [("ON", on), ("OFF", off)] {
        if !(MIN_PERIOD..=MAX_PERIOD).contains(&period) {
            return Some(format!(
                "the {name} period is not between {} and {} s",
                MIN_PERIOD.as_secs_f64(),
                MAX_PERIOD.as_secs_f64()
            ));
        }
    }
    let bits = u128::from(rate_bps?) * on.as_nanos() / 1_000_000_000;
    (bits < u128::from(MIN_CHUNK) * 8)
        .then(|| format!("an ON period at that rate has no room for {MIN_CHUNK} bytes"))
}

/// Limits the rate and the sending times of all streams of a transfer.
#[derive(Debug)]
pub(super) struct Throttle {
    rate_bps: Option<u64>,
    on_off: Option<OnOff>,
    start: Instant,
    bytes: AtomicU64,
}

impl Throttle {
    pub(super) fn new(rate_bps: Option<u64>, on_off: Option<OnOff>, start: Instant) -> Self {
        Self {
            rate_bps,
            on_off,
            start,
            bytes: AtomicU64::new(0),
        }
    }

    /// Returns the most to write at once, in bytes.
    pub(super) fn chunk(&self) -> u64 {
        self.rate_bps.map_or(u64::MAX, |rate_bps| {
            let slice = u128::from(rate_bps) * SLICE.as_millis() / 8000;
            u64::try_from(slice).unwrap_or(u64::MAX).max(MIN_CHUNK)
        })
    }

    /// Waits until more may be written.
    pub(super) async fn wait(&self, runtime: &dyn Runtime) {
        if self.rate_bps.is_none() && self.on_off.is_none() {
            return;
        }
        let now = runtime.now();
        let at = self.start + self.next(now.saturating_duration_since(self.start));
        if at > now {
            sleep_until(runtime, at).await;
        }
    }

    pub(super) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns when more may be written, not before `elapsed`; both since the start.
    fn next(&self, elapsed: Duration) -> Duration {
        let due = self.rate_bps.map_or(0, |rate_bps| {
            let bits = u128::from(self.bytes.load(Ordering::Relaxed)) * 8;
            bits * 1_000_000_000 / u128::from(rate_bps.max(1))
        });
        let at = match self.on_off {
            None => due.max(elapsed.as_nanos()),
            Some(OnOff(on, off)) => {
                // The rate applies to ON periods: `due` is time spent in them.
                let (on, cycle) = (on.as_nanos().max(1), (on + off).as_nanos().max(1));
                let at = (due / on * cycle + due % on).max(elapsed.as_nanos());
                let within = at % cycle;
                if within < on { at } else { at + cycle - within }
            }
        };
        Duration::from_nanos(u64::try_from(at).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_tests::time::{epoch, ms};

    fn throttle(rate_bps: Option<u64>, on_off_ms: Option<(u64, u64)>) -> Throttle {
        let on_off = on_off_ms.map(|(on, off)| OnOff(ms(on), ms(off)));
        Throttle::new(rate_bps, on_off, epoch())
    }

    fn next(throttle: &Throttle, elapsed_ms: u64) -> u64 {
        throttle.next(ms(elapsed_ms)).as_millis() as u64
    }

    #[test]
    fn a_rate_says_when_the_next_bytes_are_due() {
        let throttle = throttle(Some(8_000), None);
        assert_eq!((next(&throttle, 0), throttle.chunk()), (0, 1200));
        throttle.add(1500);
        assert_eq!((next(&throttle, 100), next(&throttle, 2000)), (1500, 2000));
    }

    #[test]
    fn nothing_is_sent_in_off_periods() {
        let throttle = throttle(None, Some((100, 300)));
        assert_eq!(throttle.chunk(), u64::MAX);
        for (elapsed, at) in [
            (0, 0),
            (99, 99),
            (100, 400),
            (399, 400),
            (450, 450),
            (500, 800),
        ] {
            assert_eq!(next(&throttle, elapsed), at, "at {elapsed}");
        }
    }

    #[test]
    fn a_rate_with_on_periods_is_the_rate_in_them() {
        let throttle = throttle(Some(8_000_000), Some((100, 300)));
        // 150 ms of it: one whole ON period, and half of the next.
        throttle.add(150_000);
        assert_eq!(next(&throttle, 0), 450);
        throttle.add(50_000);
        assert_eq!(next(&throttle, 450), 800);
    }
}
