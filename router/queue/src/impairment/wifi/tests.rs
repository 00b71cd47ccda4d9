use proptest::collection::vec;
use proptest::prelude::*;
use rand_pcg::Pcg64;

use super::*;
use crate::impairment::Node;
use crate::testing::{epoch, ms, packet};

const SAMPLES: usize = 100_000;

/// Jitters of packets that are far apart, sorted, in milliseconds.
fn samples(target: Duration) -> Vec<f64> {
    let mut wifi = WifiJitter::new(target, Pcg64::new(1, 0));
    let mut samples: Vec<_> = (0..SAMPLES)
        .map(|_| wifi.draw().as_secs_f64() * 1e3)
        .collect();
    samples.sort_by(f64::total_cmp);
    samples
}

fn share(samples: &[f64], holds: impl Fn(f64) -> bool) -> f64 {
    let count = samples.iter().filter(|sample| holds(**sample)).count();
    count as f64 / samples.len() as f64
}

/// Whether a mean of samples with this standard deviation is within four standard errors.
fn is_near(found: f64, expected: f64, deviation: f64) -> bool {
    (found - expected).abs() < 4.0 * deviation / (SAMPLES as f64).sqrt()
}

#[test]
fn a_low_target_gives_the_short_intervals_alone() {
    for target in [Duration::from_micros(1), ms(1)] {
        let samples = samples(target);
        let mean = samples.iter().sum::<f64>() / SAMPLES as f64;
        // N1 is Poisson with mean 1, U uniform: E = 1 - (1 - 1/e) / 2, and N1 - U is uniform over
        // the N1-th millisecond.
        let none = (-1f64).exp();
        assert!(is_near(mean, 1.0 - (1.0 - none) / 2.0, 0.862), "{mean}");
        let deviation = |p: f64| (p * (1.0 - p)).sqrt();
        for (found, expected) in [
            (share(&samples, |jitter| jitter == 0.0), none),
            (share(&samples, |jitter| jitter <= 1.0), none * 2.0),
            (share(&samples, |jitter| jitter <= 2.0), none * 2.5),
            (share(&samples, |jitter| jitter <= 0.5), none * 1.5),
        ] {
            let deviation = deviation(expected);
            assert!(
                is_near(found, expected, deviation),
                "{found}, not {expected}"
            );
        }
    }
}

#[test]
fn the_mean_is_about_the_target_and_the_long_intervals_have_their_share() {
    for target in [ms(2), ms(7), ms(12), ms(50), ms(85), ms(500)] {
        let samples = samples(target);
        let target = target.as_secs_f64() * 1e3;
        let x = ((target - 1.0) / 84.0).min(1.0);
        let mean = samples.iter().sum::<f64>() / SAMPLES as f64;
        let long = 7.5 * (12.0 - (1.0 - 13.0 * (-12f64).exp()) / 2.0);
        assert!(is_near(mean, 0.684 + x * long, 47.0), "{mean} of {target}");
        assert!(
            (mean - target).abs() < 0.03 * target + 0.32 || target > 85.0,
            "{mean}"
        );
        // Three long intervals are rarely too few to be told from short ones: P(N2 < 4) = 0.002.
        let found = share(&samples, |jitter| jitter > 20.0);
        assert!(
            (0.995 * x - 0.006..=x + 0.006).contains(&found),
            "{found} of {x}"
        );
    }
}

/// Percentiles of 300,000 draws of picoquic's own arithmetic (2^-30 fixed point, its seed), in
/// milliseconds, for targets that its tests and ours use: median, 90th, 95th, 99th.
const PICOQUIC: [(f64, [f64; 4]); 5] = [
    (0.999, [0.358, 1.892, 2.487, 3.587]),
    (7.0, [0.465, 2.804, 72.286, 115.870]),
    (12.0, [0.560, 67.648, 93.663, 125.264]),
    (50.0, [59.265, 111.441, 123.545, 146.245]),
    (85.0, [85.754, 121.152, 132.089, 152.876]),
];

#[test]
fn percentiles_are_those_of_the_generator_of_picoquic() {
    for (target, percentiles) in PICOQUIC {
        let samples = samples(Duration::from_secs_f64(target / 1e3));
        for (p, expected) in [0.5, 0.9, 0.95, 0.99].into_iter().zip(percentiles) {
            // Compared as shares: how many of ours are below its percentile; both sides err by at
            // most 0.0016 (four standard errors) each at the median.
            let found = share(&samples, |jitter| jitter <= expected);
            assert!((found - p).abs() < 0.009, "{found} of {target} ms, not {p}");
        }
    }
}

#[test]
fn a_target_of_zero_delays_nothing_and_draws_nothing() {
    let start = epoch();
    let mut wifi = Node::new(WifiJitter::new(Duration::ZERO, Pcg64::new(1, 0)));
    wifi.push(start, packet(100, 0));
    assert_eq!(wifi.pop(start), Some((start, packet(100, 0))));
    let mut fresh = WifiJitter::new(ms(7), Pcg64::new(1, 0));
    wifi.impairment.set_target(ms(7));
    assert_eq!(wifi.impairment.draw(), fresh.draw());
}

proptest! {
    #[test]
    fn order_is_kept_and_nothing_is_lost(
        gaps in vec((0..3000u64).prop_map(Duration::from_micros), 1..100),
        target in 0..100u64,
        seed in any::<u64>(),
    ) {
        let start = epoch();
        let mut wifi = Node::new(WifiJitter::new(ms(target), Pcg64::new(seed.into(), 0)));
        let mut now = start;
        let mut sent = Vec::new();
        for (number, gap) in (0..).zip(&gaps) {
            now += *gap;
            sent.push(now);
            wifi.push(now, packet(100, number));
        }
        let mut last = start;
        for (number, sent) in (0..).zip(sent) {
            let next = wifi.next_timeout();
            let (at, packet) = wifi.pop(now + ms(10_000)).expect("none is lost");
            prop_assert_eq!(packet.payload, number);
            prop_assert!(next == Some(at) && at >= last.max(sent));
            last = at;
        }
        prop_assert_eq!(wifi.counters().check("wifi jitter"), Ok(()));
    }
}
