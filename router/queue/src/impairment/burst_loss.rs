//! Loss in bursts.

use std::fmt::Debug;
use std::time::Instant;

use rand::{Rng, RngExt};

use super::{Fate, Impairment, NotAProbability};
use crate::packet::PacketMeta;

/// The model of E. N. Gilbert ("Capacity of a Burst-Noise Channel", BSTJ 39(5), 1960) and E. O.
/// Elliott ("Estimates of Error Rates for Codes on Burst-Noise Channels", BSTJ 42(5), 1963): the
/// path is good or bad, and loses with the probability of its state. All numbers are probabilities,
/// 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// With which each packet that finds the path good leaves it bad.
    pub p: f64,
    /// With which each packet that finds the path bad leaves it good. Bad times last 1 / r packets
    /// on average.
    pub r: f64,
    /// Of the loss of a packet that finds the path bad.
    pub bad: f64,
    /// Of the loss of a packet that finds the path good.
    pub good: f64,
}

/// Drops packets as [`GilbertElliott`] says. The path is good at first.
///
/// netem's `loss gemodel p r 1-h 1-k` does the same, with bad = 1 - h and good = 1 - k.
#[derive(Debug)]
pub struct BurstLoss<R> {
    model: GilbertElliott,
    is_bad: bool,
    rng: R,
}

impl<R> BurstLoss<R> {
    /// An impairment that drops as `model` says.
    ///
    /// # Errors
    /// [`NotAProbability`] for the first of its numbers that is none.
    pub fn new(model: GilbertElliott, rng: R) -> Result<Self, NotAProbability> {
        for probability in [model.p, model.r, model.bad, model.good] {
            NotAProbability::check(probability)?;
        }
        Ok(Self {
            model,
            is_bad: false,
            rng,
        })
    }
}

impl<R: Rng + Debug + Send> Impairment for BurstLoss<R> {
    fn name(&self) -> &'static str {
        "burst loss"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        let GilbertElliott { p, r, bad, good } = self.model;
        let (loss, change) = if self.is_bad { (bad, r) } else { (good, p) };
        let is_lost = self.rng.random_bool(loss);
        self.is_bad ^= self.rng.random_bool(change);
        if is_lost { Fate::Lost } else { Fate::Out(now) }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;

    use super::*;
    use crate::impairment::Node;
    use crate::testing::{epoch, packet};

    /// Which of `packets` packets are lost.
    fn losses(model: GilbertElliott, packets: u64) -> Vec<bool> {
        let start = epoch();
        let mut node = Node::new(BurstLoss::new(model, Pcg64::new(1, 0)).unwrap());
        let lost = (0..packets).map(|number| {
            node.push(start, packet(100, number));
            node.pop(start).is_none()
        });
        let lost: Vec<bool> = lost.collect();
        let dropped = lost.iter().filter(|lost| **lost).count() as u64;
        assert_eq!(node.counters().dropped.packets, dropped);
        assert_eq!(node.counters().check("burst loss"), Ok(()));
        lost
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_the_two_states() {
        let model = GilbertElliott {
            p: 0.01,
            r: 0.25,
            bad: 1.0,
            good: 0.0,
        };
        let lost = losses(model, 200_000);
        let bursts: Vec<usize> = lost
            .chunk_by(|a, b| a == b)
            .filter_map(|run| run[0].then_some(run.len()))
            .collect();
        // Bad for p / (p + r) of the packets, 1 / r packets at a time.
        assert!(
            (share(&lost) - 0.01 / 0.26).abs() < 0.002,
            "{}",
            share(&lost)
        );
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        assert!((mean - 4.0).abs() < 0.2, "{mean}");
        // Geometric: the longest of 7,700 bursts is beyond 10 / r.
        assert!(bursts.iter().max() > Some(&25));
    }

    #[test]
    fn each_state_loses_with_its_own_probability() {
        let model = GilbertElliott {
            p: 0.1,
            r: 0.3,
            bad: 0.4,
            good: 0.02,
        };
        // A quarter of the packets find the path bad.
        let share = share(&losses(model, 200_000));
        assert!(
            (share - (0.25 * 0.4 + 0.75 * 0.02)).abs() < 0.005,
            "{share}"
        );
    }

    #[test]
    fn a_path_that_alternates_loses_every_second_packet() {
        let model = GilbertElliott {
            p: 1.0,
            r: 1.0,
            bad: 1.0,
            good: 0.0,
        };
        assert_eq!(losses(model, 5), [false, true, false, true, false]);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        let model = GilbertElliott {
            p: 0.5,
            r: 0.5,
            bad: 0.5,
            good: 0.5,
        };
        for (wrong, value) in [
            (GilbertElliott { p: 1.5, ..model }, 1.5),
            (GilbertElliott { r: -1.0, ..model }, -1.0),
            (GilbertElliott { bad: 2.0, ..model }, 2.0),
            (
                GilbertElliott {
                    good: -0.5,
                    ..model
                },
                -0.5,
            ),
        ] {
            let error = BurstLoss::new(wrong, Pcg64::new(1, 0)).unwrap_err();
            assert_eq!(error, NotAProbability(value));
        }
    }
}
