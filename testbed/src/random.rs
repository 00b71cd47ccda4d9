//! Randomness of a run: one generator per purpose, all from the scenario's seed.

use std::time::Duration;

use rand_distr::{Distribution, Exp1, Pareto};
use rand_pcg::Pcg64;

use crate::scenario::{Begins, PeriodDistribution, Periods};

/// What a generator is for. Sources of one kind are told apart by their index, so adding a
/// flow does not change what an existing one draws.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Link = 1,
    Cross = 2,
    Flow = 3,
    Endpoint = 4,
    ConnectionId = 5,
}

/// The generator for one source of randomness.
pub(crate) fn generator(seed: u64, purpose: Purpose, index: usize) -> Pcg64 {
    let stream = (purpose as u128) << 64 | index as u128;
    Pcg64::new(u128::from(seed), stream)
}

/// A Pareto tail has no end: ten years outlast every scenario and still fit a `Duration`.
const LONGEST: f64 = 10.0 * 365.0 * 86400.0;

impl Periods {
    /// How long the next ON period lasts.
    pub(crate) fn sample_on(&self, rng: &mut Pcg64) -> Duration {
        self.distribution.sample(self.on, rng)
    }

    /// How long the next OFF period lasts.
    pub(crate) fn sample_off(&self, rng: &mut Pcg64) -> Duration {
        self.distribution.sample(self.off, rng)
    }

    /// How long a flow is silent before its first ON period.
    pub(crate) fn before_first(&self, begins: Begins, rng: &mut Pcg64) -> Duration {
        match begins {
            Begins::On => Duration::ZERO,
            Begins::Off => self.sample_off(rng),
        }
    }
}

impl PeriodDistribution {
    fn sample(self, mean: Duration, rng: &mut Pcg64) -> Duration {
        let seconds = match self {
            Self::Exponential => {
                let unit: f64 = Exp1.sample(rng);
                mean.as_secs_f64() * unit
            }
            Self::Pareto { shape } => pareto(rng, mean.as_secs_f64(), shape),
        };
        Duration::from_secs_f64(seconds.min(LONGEST))
    }
}

/// A Pareto value with the given mean: scale = mean x (shape - 1) / shape.
///
/// # Panics
/// If `mean` is not positive or `shape` not above 1, which the scenario excludes.
pub(crate) fn pareto(rng: &mut Pcg64, mean: f64, shape: f64) -> f64 {
    let scale = mean * (shape - 1.0) / shape;
    Pareto::new(scale, shape)
        .expect("the scenario checked mean and shape")
        .sample(rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_purpose_and_index_give_the_same_draws_and_others_do_not() {
        let draw = |seed, purpose, index| {
            let mean = Duration::from_secs(1);
            PeriodDistribution::Exponential.sample(mean, &mut generator(seed, purpose, index))
        };
        let first = draw(1, Purpose::Cross, 0);
        assert_eq!(first, draw(1, Purpose::Cross, 0));
        assert_ne!(first, draw(2, Purpose::Cross, 0));
        assert_ne!(first, draw(1, Purpose::Flow, 0));
        assert_ne!(first, draw(1, Purpose::Cross, 1));
    }

    #[test]
    fn means_are_as_asked_for() {
        // 200,000 draws: the mean of exponential(1 s) has a standard deviation of 2.2 ms,
        // that of Pareto(shape 2.5) one of 2 ms; the band is over ten of them.
        let mean = Duration::from_secs(1);
        for distribution in [
            PeriodDistribution::Exponential,
            PeriodDistribution::Pareto { shape: 2.5 },
        ] {
            let mut rng = generator(7, Purpose::Flow, 0);
            let draws = 200_000;
            let sum: f64 = (0..draws)
                .map(|_| distribution.sample(mean, &mut rng).as_secs_f64())
                .sum();
            let measured = sum / f64::from(draws);
            assert!(
                (measured - 1.0).abs() < 0.03,
                "{distribution:?}: {measured}"
            );
        }
    }
}
