//! Judges figures of controllers that took turns: intervals of their differences, and who wins.
//!
//! Rounds are pairs: in each, every controller met the path as it was then. So the difference of
//! two controllers is taken within each round, and its interval is the mean of the rounds'
//! differences, more or less Student's quantile times the bootstrap's standard error (Efron and
//! Tibshirani, An Introduction to the Bootstrap, 1993, section 12.4). Percentiles of the bootstrap
//! itself are too narrow for eight rounds. All comparisons of a report share one error: each
//! interval has the confidence `1 - 0.05 / comparisons` (Bonferroni).

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use serde::Serialize;

/// A report that compares controllers which are the same names a winner at most this often.
const ERROR: f64 = 0.05;

/// Fewer rounds say nothing: with five, five of five happen once in 16 times by chance.
pub(super) const LEAST_ROUNDS: usize = 6;

/// Samples that the bootstrap draws.
const RESAMPLES: usize = 1000;

/// What differences are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cli) enum Scale {
    /// Ratios; those within this share of 1 are none that matters.
    Ratio(f64),
    /// Differences; those up to this are none that matters.
    Difference(f64),
}

/// Which of two figures is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Better {
    Higher,
    Lower,
}

/// A mean over rounds with the bootstrap's 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Mean {
    pub(super) rounds: usize,
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// How a controller differs from another, by its number: `first / second`, or `first - second`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Pair {
    pub(super) first: usize,
    pub(super) second: usize,
    /// Rounds in which both have the figure.
    pub(super) rounds: usize,
    /// `None` with fewer than [`LEAST_ROUNDS`].
    pub(super) interval: Option<Interval>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) middle: f64,
    pub(super) high: f64,
}

/// Returns the mean of figures with its interval; `None` without any.
pub(super) fn mean(figures: &[f64], rng: &mut Pcg64) -> Option<Mean> {
    let mut means = resampled(figures, rng)?;
    means.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| means[((means.len() - 1) as f64 * share).round() as usize];
    Some(Mean {
        rounds: figures.len(),
        mean: average(figures),
        low: quantile(0.025),
        high: quantile(0.975),
    })
}

/// Compares two controllers by the figures that both have in a round, one of `comparisons` of the
/// report.
pub(super) fn pair(
    (first, second): (usize, usize),
    figures: &[(f64, f64)],
    scale: Scale,
    comparisons: usize,
    rng: &mut Pcg64,
) -> Pair {
    let differences: Option<Vec<f64>> = (figures.iter())
        .map(|(one, other)| match scale {
            // The logarithm of a ratio is as far from 0 for half as much as for twice as much.
            Scale::Ratio(_) => (*one > 0.0 && *other > 0.0).then(|| (one / other).ln()),
            Scale::Difference(_) => Some(one - other),
        })
        .collect();
    let interval = differences
        .filter(|differences| differences.len() >= LEAST_ROUNDS)
        .and_then(|differences| interval(&differences, comparisons, rng))
        .map(|Interval { low, middle, high }| match scale {
            Scale::Ratio(_) => Interval {
                low: low.exp(),
                middle: middle.exp(),
                high: high.exp(),
            },
            Scale::Difference(_) => Interval { low, middle, high },
        });
    Pair {
        first,
        second,
        rounds: figures.len(),
        interval,
    }
}

impl Pair {
    /// Returns which of the two is better beyond doubt and by what matters, if one is.
    fn winner(&self, scale: Scale, better: Better) -> Option<usize> {
        let Interval { low, high, .. } = self.interval?;
        let (least, most) = match scale {
            Scale::Ratio(margin) => (1.0 / (1.0 + margin), 1.0 + margin),
            Scale::Difference(margin) => (-margin, margin),
        };
        let higher = match (low > most, high < least) {
            (true, _) => self.first,
            (_, true) => self.second,
            _ => return None,
        };
        let lower = self.first + self.second - higher;
        Some(match better {
            Better::Higher => higher,
            Better::Lower => lower,
        })
    }
}

/// Returns the controllers, of `count`, of which none is beaten by one that nobody beats: one is
/// the winner, all are "no difference".
pub(super) fn best(count: usize, pairs: &[Pair], scale: Scale, better: Better) -> Vec<usize> {
    let beats = |one: usize, other: usize| {
        pairs.iter().any(|pair| {
            let both = [pair.first, pair.second];
            both.contains(&one) && both.contains(&other) && pair.winner(scale, better) == Some(one)
        })
    };
    let all = || 0..count;
    let unbeaten: Vec<_> = all()
        .filter(|one| all().all(|other| other == *one || !beats(other, *one)))
        .collect();
    all()
        .filter(|one| {
            unbeaten
                .iter()
                .all(|other| other == one || !beats(*other, *one))
        })
        .collect()
}

/// Returns the interval of the mean of differences.
fn interval(differences: &[f64], comparisons: usize, rng: &mut Pcg64) -> Option<Interval> {
    let means = resampled(differences, rng)?;
    let (count, middle) = (differences.len() as f64, average(differences));
    let around = average(&means);
    let squares: f64 = means.iter().map(|mean| (mean - around).powi(2)).sum();
    // The bootstrap's spread is that of a population of these values: the sample's is wider.
    let error = (squares / means.len() as f64).sqrt() * (count / (count - 1.0)).sqrt();
    let reach = error * student(1.0 - ERROR / comparisons.max(1) as f64 / 2.0, count - 1.0);
    Some(Interval {
        low: middle - reach,
        middle,
        high: middle + reach,
    })
}

/// Returns means of samples that are drawn from `figures`, with replacement.
fn resampled(figures: &[f64], rng: &mut Pcg64) -> Option<Vec<f64>> {
    let count = u64::try_from(figures.len())
        .ok()
        .filter(|count| *count > 0)?;
    let draw = |rng: &mut Pcg64| figures[below(count, rng) as usize];
    let mean = |rng: &mut Pcg64| (0..count).map(|_| draw(rng)).sum::<f64>() / count as f64;
    Some((0..RESAMPLES).map(|_| mean(rng)).collect())
}

/// Draws a number below `bound`, which is not 0. Its bias is below `bound / 2^64`.
pub(super) fn below(bound: u64, rng: &mut Pcg64) -> u64 {
    let product = u128::from(rng.next_u64()) * u128::from(bound);
    u64::try_from(product >> 64).expect("a product shifted by 64 bits has 64 left")
}

fn average(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// Returns the quantile `share`, above 0.5, of Student's distribution with `freedom` degrees.
fn student(share: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while distribution(high, freedom) < share && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        match distribution(middle, freedom) < share {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Student's distribution function at `t`, not below 0, by Simpson's rule over the angle
/// `atan(t / sqrt(freedom))`, in which the density is a power of a cosine.
fn distribution(t: f64, freedom: f64) -> f64 {
    const STEPS: u32 = 1000;
    let integral = |to: f64| {
        let step = to / f64::from(2 * STEPS);
        let at = |n: u32| (f64::from(n) * step).cos().powf(freedom - 1.0);
        let inner: f64 = (1..2 * STEPS)
            .map(|n| at(n) * if n % 2 == 1 { 4.0 } else { 2.0 })
            .sum();
        (at(0) + inner + at(2 * STEPS)) * step / 3.0
    };
    let whole = integral(std::f64::consts::FRAC_PI_2);
    0.5 + 0.5 * integral((t / freedom.sqrt()).atan()) / whole
}

#[cfg(test)]
mod tests;
