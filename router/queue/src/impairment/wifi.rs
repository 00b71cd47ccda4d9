//! Jitter of a busy Wi-Fi.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};
use rand_distr::{Distribution, Poisson};

use super::{Fate, Impairment};
use crate::packet::PacketMeta;

/// Mean number and length of the short intervals: the channel is busy, or frames collide.
const SHORT: (f64, Duration) = (1.0, Duration::from_millis(1));

/// Mean number and length of the long intervals: a frame is sent again and again.
const LONG: (f64, Duration) = (12.0, Duration::from_micros(7500));

/// The average jitter up to which no packet has long intervals, and that from which all have.
const ONSET: Duration = Duration::from_millis(1);
const FULL: Duration = Duration::from_millis(85);

/// Delays each packet like a Wi-Fi whose neighbours use the same channel, independently.
///
/// The generator of picoquic's tests of C4, with its constants (`picoquic/sim_link.c`, Wi-Fi jitter;
/// draft-huitema-ccwg-c4-test, "Handling of High Jitter Environments"), which C. Huitema fitted to
/// measurements:
///
/// ```text
/// jitter = 1 ms N1 - (0 to 1 ms if N1 > 0)                             N1 Poisson, mean 1
///        + with probability x: 7.5 ms N2 - (0 to 7.5 ms if N2 > 1)     N2 Poisson, mean 12
/// x = (target - 1 ms) / 84 ms, 0 to 1
/// ```
///
/// The mean is 0.684 ms + 86.25 ms x, about the target from 1 ms on. (The draft divides by 90 ms, and
/// subtracts nothing from the second part.) A target of 0 delays nothing.
///
/// Nothing is reordered, there and here: a packet that draws less than the one before it comes out
/// with it. So where packets follow each other closely, delays are longer, and packets come in
/// bunches.
#[derive(Debug)]
pub struct WifiJitter<R> {
    target: Duration,
    short: Poisson<f64>,
    long: Poisson<f64>,
    rng: R,
}

impl<R> WifiJitter<R> {
    /// A jitter with this target; above 85 ms it grows no more.
    pub fn new(target: Duration, rng: R) -> Self {
        let poisson = |mean| Poisson::new(mean).expect("a mean above 0");
        Self {
            target,
            short: poisson(SHORT.0),
            long: poisson(LONG.0),
            rng,
        }
    }

    /// Changes the target for packets that come from now on.
    pub fn set_target(&mut self, target: Duration) {
        self.target = target;
    }
}

impl<R: Rng> WifiJitter<R> {
    fn draw(&mut self) -> Duration {
        let intervals = self.short.sample(&mut self.rng);
        let mut jitter = self.intervals(intervals, SHORT.1, intervals > 0.0);
        if self.target > ONSET {
            let share = (self.target - ONSET).div_duration_f64(FULL - ONSET);
            if self.rng.random_bool(share.min(1.0)) {
                let intervals = self.long.sample(&mut self.rng);
                jitter += self.intervals(intervals, LONG.1, intervals > 1.0);
            }
        }
        jitter
    }

    /// `count` intervals, the last of which may be cut at random.
    fn intervals(&mut self, count: f64, length: Duration, cut: bool) -> Duration {
        let left = if cut { self.rng.random::<f64>() } else { 0.0 };
        length.mul_f64(count - left)
    }
}

impl<R: Rng + Debug + Send> Impairment for WifiJitter<R> {
    fn name(&self) -> &'static str {
        "wifi jitter"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        if self.target.is_zero() {
            return Fate::Out(now);
        }
        Fate::Out(now + self.draw())
    }
}

#[cfg(test)]
mod tests;
