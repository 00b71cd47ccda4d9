//! Random loss.

use std::fmt::Debug;
use std::time::Instant;

use rand::{Rng, RngExt};

use super::{Fate, Impairment};
use crate::packet::PacketMeta;

/// Drops each packet with the same probability, independently.
#[derive(Debug)]
pub struct Loss<R> {
    probability: f64,
    rng: R,
}

/// A number that is no probability.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is no probability; give a number from 0 to 1")]
pub struct NotAProbability(pub f64);

impl NotAProbability {
    /// The number, if it is within 0 to 1.
    pub(crate) fn check(probability: f64) -> Result<f64, Self> {
        if (0.0..=1.0).contains(&probability) {
            Ok(probability)
        } else {
            Err(Self(probability))
        }
    }
}

impl<R> Loss<R> {
    /// An impairment that drops with `probability`, 0 to 1.
    ///
    /// # Errors
    /// [`NotAProbability`] for anything else.
    pub fn new(probability: f64, rng: R) -> Result<Self, NotAProbability> {
        Ok(Self {
            probability: NotAProbability::check(probability)?,
            rng,
        })
    }

    /// Changes the probability for packets that come from now on.
    ///
    /// # Errors
    /// [`NotAProbability`] if it is not within 0 to 1.
    pub fn set_probability(&mut self, probability: f64) -> Result<(), NotAProbability> {
        self.probability = NotAProbability::check(probability)?;
        Ok(())
    }
}

impl<R: Rng + Debug + Send> Impairment for Loss<R> {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        if self.rng.random_bool(self.probability) {
            Fate::Lost
        } else {
            Fate::Out(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;

    use super::*;
    use crate::impairment::Node;
    use crate::testing::{epoch, packet};

    fn lost(probability: f64, seed: u128) -> Vec<u64> {
        let start = epoch();
        let mut loss = Node::new(Loss::new(probability, Pcg64::new(seed, 0)).unwrap());
        let mut lost = Vec::new();
        for number in 0..10_000 {
            loss.push(start, packet(100, number));
            match loss.pop(start) {
                Some((at, packet)) => assert_eq!((at, packet.payload), (start, number)),
                None => lost.push(number),
            }
        }
        assert_eq!(loss.counters().dropped.packets, lost.len() as u64);
        assert_eq!(loss.counters().check("loss"), Ok(()));
        lost
    }

    #[test]
    fn one_in_a_hundred_is_lost_if_so_asked() {
        // Binomial(10000, 0.01): mean 100, standard deviation 10; four of them either way.
        let lost = lost(0.01, 1).len();
        assert!((60..=140).contains(&lost), "{lost}");
    }

    #[test]
    fn zero_loses_nothing_and_one_everything() {
        assert_eq!(lost(0.0, 1).len(), 0);
        assert_eq!(lost(1.0, 1).len(), 10_000);
    }

    #[test]
    fn the_seed_decides_which_packets_are_lost() {
        assert_eq!(lost(0.1, 1), lost(0.1, 1));
        assert_ne!(lost(0.1, 1), lost(0.1, 2));
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for value in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Loss::new(value, Pcg64::new(1, 0)).is_err());
        }
        let error = NotAProbability(1.5).to_string();
        assert_eq!(error, "1.5 is no probability; give a number from 0 to 1");
    }
}
