//! Propagation delay, and packets that do without it.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};

use super::{Fate, Impairment, NotAProbability};
use crate::packet::PacketMeta;

/// Every packet comes out a fixed time after it went in, but for those that jump.
///
/// A changed delay is that of the packets that go in from then on; those inside keep theirs. After
/// a shortening, packets wait for the last one with the longer delay.
///
/// With [`Delay::reorder`] each packet jumps the delay with the same probability, independently: it
/// comes out at the instant at which it went in, before all that are inside and not due by then.
/// That is netem's `reorder` without its correlation and gap. The others keep their order.
#[derive(Debug)]
pub struct Delay<R> {
    delay: Duration,
    /// The probability of a jump, and what draws it.
    jump: Option<(f64, R)>,
}

impl<R> Delay<R> {
    /// A delay that reorders nothing.
    pub fn new(delay: Duration) -> Self {
        Self { delay, jump: None }
    }

    /// Lets packets that go in from now on jump the delay with `probability`, 0 to 1.
    ///
    /// # Errors
    /// [`NotAProbability`] for anything else.
    pub fn reorder(&mut self, probability: f64, rng: R) -> Result<(), NotAProbability> {
        self.jump = Some((NotAProbability::check(probability)?, rng));
        Ok(())
    }

    /// Changes the delay of packets that go in from now on.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }
}

impl<R: Rng + Debug + Send> Impairment for Delay<R> {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        if let Some((probability, rng)) = &mut self.jump
            && rng.random_bool(*probability)
        {
            Fate::Jumps
        } else {
            Fate::Out(now + self.delay)
        }
    }

    fn least_delay(&self) -> Duration {
        match self.jump {
            Some(_) => Duration::ZERO,
            None => self.delay,
        }
    }

    fn hastens(&self) -> bool {
        self.jump.is_some()
    }
}

#[cfg(test)]
mod tests;
