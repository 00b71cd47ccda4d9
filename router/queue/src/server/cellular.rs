//! Rates of cellular links.

use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::NANOBITS_PER_BYTE;
use crate::rate::Rate;

/// How long a rate holds: the tick of Sprout's model.
const STEP: Duration = Duration::from_millis(20);

const STEP_NANOSECONDS: u128 = STEP.as_nanos();

/// A rate that walks at random between two bounds, with outages.
///
/// The model of cellular links that Sprout infers (K. Winstein, A. Sivaraman, H. Balakrishnan,
/// "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks", NSDI 2013,
/// section 3): the rate is a Brownian motion, in steps of 20 ms. Each step adds a uniform draw
/// whose standard deviation is `volatility` x `max` x sqrt(20 ms / 1 s), and the rate is reflected at
/// both bounds. So in the long run it is uniform between them, and so is the first one.
///
/// In an outage the rate is 0, and packets wait. Sprout's rate sticks at 0 for a second on average
/// whenever it comes there, which is a third of the time; here outages come by themselves. A step
/// without one begins one with probability 20 ms / `outage_every`, a step with one ends it with
/// probability 20 ms / `outage`. The walk goes on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cellular {
    min: Rate,
    max: Rate,
    volatility: f64,
    outage_every: Option<Duration>,
    outage: Duration,
    /// Of the walk and its outages; a link draws it like everything random.
    seed: u64,
}

/// Why values make no cellular rate.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NotCellular {
    /// The bounds are the wrong way round.
    #[error("the lowest rate is above the highest; exchange them")]
    Bounds,
    /// The volatility is negative, above 10 or not a number.
    #[error("a volatility of {0} is out of range; use 0 to 10")]
    Volatility(f64),
    /// Outages come, or end, more often than the rate changes.
    #[error("outages are {0:?} long or apart; use at least 20 ms")]
    Outages(Duration),
}

impl Cellular {
    /// A rate from `min` to `max`. `volatility` is the standard deviation of its change, per square
    /// root of a second, as a share of `max`: 0 to 10; Sprout's is 0.2. An outage begins
    /// `outage_every` after the end of the one before it, on average (`None`: never), and lasts
    /// `outage` on average; at least 20 ms each.
    ///
    /// # Errors
    /// [`NotCellular`] for other values.
    pub fn new(
        (min, max): (Rate, Rate),
        volatility: f64,
        outage_every: Option<Duration>,
        outage: Duration,
    ) -> Result<Self, NotCellular> {
        if min > max {
            return Err(NotCellular::Bounds);
        }
        if !(0.0..=10.0).contains(&volatility) {
            return Err(NotCellular::Volatility(volatility));
        }
        let times = outage_every.into_iter().chain([outage]);
        if let Some(short) = times.min().filter(|time| *time < STEP) {
            return Err(NotCellular::Outages(short));
        }
        Ok(Self {
            min,
            max,
            volatility,
            outage_every,
            outage,
            seed: 0,
        })
    }

    /// The same with this seed.
    pub(super) fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The mean of the rate in the long run, with its outages; at least one bit per second.
    pub fn mean_rate(&self) -> Rate {
        let walk = (self.min.bits_per_second() as f64 + self.max.bits_per_second() as f64) / 2.0;
        let on = self.outage_every.map_or(1.0, |every| {
            every.div_duration_f64(every.saturating_add(self.outage))
        });
        Rate::new((walk * on).round().max(1.0) as u64).expect("at least one")
    }
}

/// The rates of successive steps.
#[derive(Debug, Clone)]
struct Walk {
    cellular: Cellular,
    rng: Xoshiro256PlusPlus,
    /// Bits per second, between the bounds.
    rate: f64,
    in_outage: bool,
    /// When the present step ends.
    ends: Instant,
}

impl Walk {
    fn new(epoch: Instant, cellular: &Cellular) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(cellular.seed);
        let (min, max) = bounds(cellular);
        Self {
            cellular: *cellular,
            rate: min + (max - min) * rng.random::<f64>(),
            rng,
            in_outage: false,
            ends: epoch + STEP,
        }
    }

    /// Bits per second of the present step.
    fn rate(&self) -> u64 {
        if self.in_outage {
            return 0;
        }
        let (min, max) = (self.cellular.min, self.cellular.max);
        (self.rate.round() as u64).clamp(min.bits_per_second(), max.bits_per_second())
    }

    fn step(&mut self) {
        let (min, max) = bounds(&self.cellular);
        let deviation = self.cellular.volatility * max * STEP.as_secs_f64().sqrt();
        // A uniform draw from -1 to 1 has the variance 1/3.
        let change = deviation * 3f64.sqrt() * (2.0 * self.rng.random::<f64>() - 1.0);
        self.rate = reflected(self.rate + change, min, max);
        if let Some(every) = self.cellular.outage_every {
            let mean = if self.in_outage {
                self.cellular.outage
            } else {
                every
            };
            self.in_outage ^= self.rng.random_bool(STEP.div_duration_f64(mean));
        }
        self.ends += STEP;
    }
}

fn bounds(cellular: &Cellular) -> (f64, f64) {
    let [min, max] = [cellular.min, cellular.max].map(|rate| rate.bits_per_second() as f64);
    (min, max)
}

/// A value between two mirrors.
fn reflected(value: f64, min: f64, max: f64) -> f64 {
    let width = max - min;
    if width <= 0.0 {
        return min;
    }
    let around = (value - min).rem_euclid(2.0 * width);
    min + around.min(2.0 * width - around)
}

/// A transmitter whose rate is a [`Cellular`]. A packet in transmission as an outage begins is sent
/// on behind it.
#[derive(Debug)]
pub(crate) struct CellularServer {
    /// Where the last transmission ended.
    walk: Walk,
    /// End of the last transmission, rounded down.
    free_at: Instant,
    /// What the last transmission still had to send at `free_at`: less than a nanosecond's worth.
    leftover_nanobits: u128,
    /// The same walk, as far as somebody asked for what was offered.
    offering: Walk,
    /// What was offered before its present step.
    offered_nanobits: u128,
}

impl CellularServer {
    pub(super) fn new(now: Instant, cellular: &Cellular) -> Self {
        let walk = Walk::new(now, cellular);
        Self {
            offering: walk.clone(),
            walk,
            free_at: now,
            leftover_nanobits: 0,
            offered_nanobits: 0,
        }
    }

    pub(super) fn mean_rate(&self) -> Rate {
        self.walk.cellular.mean_rate()
    }

    pub(super) fn next_start(&self, arrived: Instant) -> Instant {
        self.free_at.max(arrived)
    }

    pub(super) fn transmit(&mut self, arrived: Instant, bytes: u32) -> Instant {
        let start = self.next_start(arrived);
        let mut unsent = u128::from(bytes) * NANOBITS_PER_BYTE;
        if start == self.free_at {
            unsent += self.leftover_nanobits;
        }
        while self.walk.ends <= start {
            self.walk.step();
        }
        let mut at = start;
        loop {
            let rate = u128::from(self.walk.rate());
            let left = (self.walk.ends - at).as_nanos();
            if unsent < rate * left {
                let nanoseconds = unsent / rate;
                self.leftover_nanobits = unsent - nanoseconds * rate;
                self.free_at = at + super::from_nanoseconds(nanoseconds);
                return self.free_at;
            }
            unsent -= rate * left;
            at = self.walk.ends;
            self.walk.step();
            if unsent == 0 {
                self.leftover_nanobits = 0;
                self.free_at = at;
                return at;
            }
        }
    }

    pub(super) fn offered_bytes(&mut self, now: Instant) -> u64 {
        while self.offering.ends <= now {
            self.offered_nanobits += u128::from(self.offering.rate()) * STEP_NANOSECONDS;
            self.offering.step();
        }
        let left = (self.offering.ends - now).as_nanos();
        let elapsed = STEP_NANOSECONDS.saturating_sub(left);
        let offered = self.offered_nanobits + u128::from(self.offering.rate()) * elapsed;
        u64::try_from(offered / NANOBITS_PER_BYTE).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
