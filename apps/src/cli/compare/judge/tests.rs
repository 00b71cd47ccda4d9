use rand_distr::{Distribution, LogNormal, Normal};

use super::*;

/// Rate, three delays, losses and two times.
const METRICS: usize = 7;

const RATIO: Scale = Scale::Ratio(0.02);

#[test]
fn students_quantiles_are_those_of_tables() {
    for (share, freedom, quantile) in [
        (0.975, 7.0, 2.365),
        (0.95, 1.0, 6.314),
        (0.995, 9.0, 3.250),
        (0.975, 1e4, 1.960),
    ] {
        let found = student(share, freedom);
        assert!(
            (found - quantile).abs() < 0.001,
            "{share} {freedom}: {found}"
        );
    }
}

/// A report of `rounds` in which figure `m` of controller `c` is `draw(c, m)`: how many of its
/// figures name somebody, and whom.
fn report(
    controllers: usize,
    rounds: usize,
    rng: &mut Pcg64,
    mut draw: impl FnMut(usize, usize, &mut Pcg64) -> f64,
) -> Vec<Vec<usize>> {
    let comparisons = METRICS * controllers * (controllers - 1) / 2;
    let metric = |metric: usize| {
        let rows: Vec<Vec<f64>> = (0..rounds)
            .map(|_| (0..controllers).map(|c| draw(c, metric, rng)).collect())
            .collect();
        let mut pairs = Vec::new();
        for second in 1..controllers {
            for first in 0..second {
                let both: Vec<_> = rows.iter().map(|row| (row[first], row[second])).collect();
                pairs.push(pair((first, second), &both, RATIO, comparisons, rng));
            }
        }
        best(controllers, &pairs, RATIO, Better::Higher)
    };
    (0..METRICS).map(metric).collect()
}

fn is_no_difference(best: &[Vec<usize>], controllers: usize) -> bool {
    best.iter().all(|best| best.len() == controllers)
}

#[test]
fn a_report_on_the_same_controller_under_several_names_finds_a_difference_at_most_once_in_20() {
    let mut rng = Pcg64::new(1, 1);
    let normal = Normal::new(100.0, 15.0).unwrap();
    let skewed = LogNormal::new(4.0, 1.0).unwrap();
    type Draw<'a> = &'a dyn Fn(&mut Pcg64) -> f64;
    let kinds: [(&str, Draw<'_>); 4] = [
        ("normal", &|rng| normal.sample(rng)),
        ("skewed", &|rng| skewed.sample(rng)),
        // One run of eight meets another flow.
        ("disturbed", &|rng| match below(8, rng) {
            0 => 20.0,
            _ => normal.sample(rng),
        }),
        ("coarse", &|rng| 5.0 + below(3, rng) as f64),
    ];
    let (mut wrong, mut reports) = (Vec::new(), 0);
    for (name, draw) in kinds {
        for (controllers, rounds) in [(2, 8), (3, 6), (3, 12)] {
            for _ in 0..20 {
                let best = report(controllers, rounds, &mut rng, |_, _, rng| draw(rng));
                reports += 1;
                if !is_no_difference(&best, controllers) {
                    wrong.push((name, controllers, rounds));
                }
            }
        }
    }
    assert!(
        wrong.len() <= reports / 20,
        "of {reports} {}: {wrong:?}",
        wrong.len()
    );
}

#[test]
fn a_path_that_changes_from_round_to_round_hides_no_winner() {
    let mut rng = Pcg64::new(2, 1);
    let noise = Normal::<f64>::new(0.0, 0.08).unwrap();
    let reports = 8;
    let found: usize = (0..reports)
        .map(|_| {
            // The path carries 1 to 16 in one round and the next; the last controller a third more.
            let mut round = 0;
            let best = report(3, 8, &mut rng, |controller, _, rng| {
                round += usize::from(controller == 0);
                let path = f64::from(1u32 << (round % 5));
                let gain = if controller == 2 { 1.35 } else { 1.0 };
                path * gain * noise.sample(rng).exp()
            });
            best.iter().filter(|best| **best == [2]).count()
        })
        .sum();
    let figures = METRICS * reports;
    assert!(found * 10 >= figures * 9, "{found} of {figures}");
}

#[test]
fn few_rounds_and_little_differences_name_nobody() {
    let mut rng = Pcg64::new(3, 1);
    let of = |count: usize, ratio: f64, rng: &mut Pcg64| {
        let figures: Vec<_> = (0..count)
            .map(|at| (ratio, 1.0 + at as f64 * 1e-6))
            .collect();
        let pair = pair((0, 1), &figures, RATIO, 1, rng);
        best(2, &[pair], RATIO, Better::Higher)
    };
    assert_eq!(of(5, 2.0, &mut rng), [0, 1]);
    assert_eq!(of(6, 2.0, &mut rng), [0]);
    assert_eq!(of(6, 0.5, &mut rng), [1]);
    assert_eq!(of(6, 1.015, &mut rng), [0, 1], "1.5 % more is no matter");
}

#[test]
fn who_beats_one_and_not_the_other_shares_the_place_with_it() {
    let at = |first, second, low, high| Pair {
        first,
        second,
        rounds: 8,
        interval: Some(Interval {
            low,
            middle: f64::midpoint(low, high),
            high,
        }),
    };
    let (higher, lower, same) = ((1.1, 1.3), (0.5, 0.8), (0.9, 1.1));
    let of = |a: (f64, f64), b: (f64, f64), c: (f64, f64), better| {
        let pairs = [at(0, 1, a.0, a.1), at(0, 2, b.0, b.1), at(1, 2, c.0, c.1)];
        best(3, &pairs, RATIO, better)
    };
    assert_eq!(of(higher, higher, same, Better::Higher), [0]);
    assert_eq!(of(higher, higher, same, Better::Lower), [1, 2]);
    assert_eq!(of(higher, same, same, Better::Higher), [0, 2]);
    // Whom only the beaten one beats may be as good as the first.
    assert_eq!(of(higher, same, higher, Better::Higher), [0, 2]);
    assert_eq!(of(lower, same, same, Better::Higher), [1, 2]);
    assert_eq!(of(same, same, same, Better::Higher), [0, 1, 2]);
    // In a ring nobody is unbeaten.
    assert_eq!(of(higher, lower, higher, Better::Higher), [0, 1, 2]);
}

#[test]
fn differences_in_points_may_be_of_nothing() {
    let mut rng = Pcg64::new(4, 1);
    let scale = Scale::Difference(0.1);
    let zeros = [(0.0, 0.0); 8];
    let nothing = pair((0, 1), &zeros, scale, 10, &mut rng);
    assert_eq!(best(2, &[nothing], scale, Better::Lower), [0, 1]);
    let figures: Vec<_> = (0..8).map(|at| (0.0, 1.0 + f64::from(at) * 0.02)).collect();
    let less = pair((0, 1), &figures, scale, 10, &mut rng);
    assert_eq!(best(2, &[less], scale, Better::Lower), [0]);
}

#[test]
fn a_mean_lies_within_its_interval_and_one_round_has_none() {
    let mut rng = Pcg64::new(5, 1);
    let figures = mean(&[1.0, 2.0, 3.0, 4.0], &mut rng).unwrap();
    assert_eq!((figures.rounds, figures.mean), (4, 2.5));
    assert!(figures.low < 2.0 && figures.high > 3.0, "{figures:?}");
    let one = mean(&[7.0], &mut rng).unwrap();
    assert_eq!((one.low, one.mean, one.high), (7.0, 7.0, 7.0));
    assert_eq!(mean(&[], &mut rng), None);
}
