use super::*;
use crate::testing::{epoch, ms};

fn rate(bits_per_second: u64) -> Rate {
    Rate::new(bits_per_second).expect("not zero")
}

/// Between 2 and 30 Mb/s.
fn cellular(outage_every: Option<Duration>, seed: u64) -> Cellular {
    let bounds = (rate(2_000_000), rate(30_000_000));
    let cellular = Cellular::new(bounds, 0.2, outage_every, ms(1000));
    Cellular {
        seed,
        ..cellular.expect("values in range")
    }
}

/// The rates of the first `steps`, in Mb/s.
fn rates(cellular: &Cellular, steps: usize) -> Vec<f64> {
    let mut walk = Walk::new(epoch(), cellular);
    let mut rates = Vec::with_capacity(steps);
    for _ in 0..steps {
        rates.push(walk.rate() as f64 / 1e6);
        walk.step();
    }
    rates
}

#[test]
fn steps_have_the_volatility_and_no_correlation() {
    let rates = rates(&cellular(None, 1), 200_000);
    // Away from the bounds, where no step is reflected: a step is at most 1.5 Mb/s.
    let steps: Vec<_> = rates
        .windows(3)
        .filter(|window| window.iter().all(|rate| (4.0..28.0).contains(rate)))
        .map(|window| (window[1] - window[0], window[2] - window[1]))
        .collect();
    let count = steps.len() as f64;
    assert!(count > 100_000.0, "{count}");
    let variance = steps.iter().map(|(step, _)| step * step).sum::<f64>() / count;
    let covariance = steps.iter().map(|(step, next)| step * next).sum::<f64>() / count;
    // 0.2 x 30 Mb/s in a second, 50 steps of it: 0.72. Its standard error is 0.3 %.
    assert!((variance / 0.72 - 1.0).abs() < 0.015, "{variance}");
    assert!((covariance / 0.72).abs() < 0.015, "{covariance}");
    let largest = steps.iter().map(|(step, _)| step.abs()).fold(0.0, f64::max);
    assert!(largest < 0.72f64.sqrt() * 3f64.sqrt() + 1e-5, "{largest}");
}

#[test]
fn the_rate_is_uniform_between_its_bounds_in_the_long_run() {
    // The walk forgets where it was in (28 / 6)^2 x 2 / pi^2 = 4.4 s, so 40,000 s hold some 4,500
    // independent samples: shares of tenths have a standard error of 0.0045.
    let rates = rates(&cellular(None, 2), 2_000_000);
    for tenth in 0..10 {
        let from = 2.0 + 2.8 * f64::from(tenth);
        let within = rates
            .iter()
            .filter(|rate| (from..from + 2.8).contains(*rate));
        let share = within.count() as f64 / rates.len() as f64;
        assert!((share - 0.1).abs() < 0.018, "{share} in tenth {tenth}");
    }
    assert!(rates.iter().all(|rate| (2.0..=30.0).contains(rate)));
}

#[test]
fn the_first_rate_is_uniform_too() {
    let mut firsts: Vec<f64> = (0..1000)
        .map(|seed| rates(&cellular(None, seed), 1)[0])
        .collect();
    firsts.sort_by(f64::total_cmp);
    // Kolmogorov and Smirnov: 1.95 / sqrt(1000) is exceeded once in a thousand.
    for (index, first) in firsts.iter().enumerate() {
        let expected = (first - 2.0) / 28.0;
        assert!((index as f64 / 1000.0 - expected).abs() < 0.062);
    }
}

#[test]
fn outages_have_their_mean_lengths_and_distances() {
    let rates = rates(&cellular(Some(ms(5000)), 3), 2_000_000);
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for run in rates.chunk_by(|a, b| (*a == 0.0) == (*b == 0.0)) {
        let seconds = run.len() as f64 * 0.02;
        if run[0] == 0.0 {
            off.push(seconds);
        } else {
            on.push(seconds);
        }
    }
    // Geometric: about exponential, the standard deviation is the mean.
    for (lengths, mean) in [(on, 5.0), (off, 1.0)] {
        let count = lengths.len() as f64;
        let found = lengths.iter().sum::<f64>() / count;
        assert!((found / mean - 1.0).abs() < 4.0 / count.sqrt(), "{found} s");
        let longer = lengths.iter().filter(|length| **length > mean).count() as f64 / count;
        let expected = (-1f64).exp();
        assert!(
            (longer - expected).abs() < 2.0 / count.sqrt() + 0.01,
            "{longer}"
        );
    }
}

#[test]
fn a_seed_gives_one_walk_and_another_one_another() {
    let of = |seed| rates(&cellular(Some(ms(2000)), seed), 1000);
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    // Outages do not change where the walk is.
    let with = rates(&cellular(Some(Duration::from_secs(1_000_000)), 7), 1);
    assert_eq!(with, rates(&cellular(None, 7), 1));
}

#[test]
fn a_rate_without_width_or_volatility_is_a_constant_rate() {
    let bounds = (rate(8_000_000), rate(8_000_000));
    let fixed = Cellular::new(bounds, 0.5, None, ms(1000)).unwrap();
    let start = epoch();
    let mut server = CellularServer::new(start, &fixed);
    let mut constant = super::super::RateServer::new(start, rate(8_000_000));
    let mut arrived = start;
    for bytes in 1..2000 {
        let end = server.transmit(arrived, bytes);
        assert_eq!(end, constant.transmit(arrived, bytes));
        arrived += Duration::from_micros(u64::from(bytes) * 7919 % 3000);
    }
    assert_eq!(server.offered_bytes(start + ms(1234)), 1_234_000);
    let still = Cellular::new((rate(1), rate(1_000_000)), 0.0, None, ms(1000)).unwrap();
    let rates = rates(&Cellular { seed: 5, ..still }, 100);
    assert!(rates.iter().all(|rate| *rate == rates[0]));
}

#[test]
fn a_busy_link_forwards_what_it_offers() {
    let start = epoch();
    for outage_every in [None, Some(ms(3000))] {
        let mut server = CellularServer::new(start, &cellular(outage_every, 11));
        let (mut sent, mut last) = (0, start);
        while last < start + ms(100_000) {
            let end = server.transmit(start, 1500);
            assert!(end >= last && end >= server.next_start(start));
            last = end;
            sent += 1500;
            // What is offered by the end of a transmission is what was sent, but for rounding.
            let offered = server.offered_bytes(last);
            assert!(
                (sent - 1..=sent + 1).contains(&offered),
                "{offered} of {sent}"
            );
        }
        let mean = cellular(outage_every, 11).mean_rate().bits_per_second() as f64;
        let found = sent as f64 * 8.0 / (last - start).as_secs_f64();
        assert!((found / mean - 1.0).abs() < 0.35, "{found} of {mean}");
    }
    assert_eq!(cellular(None, 1).mean_rate(), rate(16_000_000));
    assert_eq!(cellular(Some(ms(3000)), 1).mean_rate(), rate(12_000_000));
}

#[test]
fn what_no_cellular_link_does_is_refused() {
    let bounds = (rate(1), rate(2));
    let second = ms(1000);
    assert_eq!(
        Cellular::new((rate(2), rate(1)), 0.2, None, second),
        Err(NotCellular::Bounds)
    );
    for volatility in [-0.1, 10.1, f64::INFINITY] {
        assert_eq!(
            Cellular::new(bounds, volatility, None, second),
            Err(NotCellular::Volatility(volatility))
        );
    }
    assert!(Cellular::new(bounds, f64::NAN, None, second).is_err());
    for (every, outage) in [
        (Some(ms(19)), second),
        (None, ms(19)),
        (Some(second), ms(0)),
    ] {
        assert!(matches!(
            Cellular::new(bounds, 0.2, every, outage),
            Err(NotCellular::Outages(_))
        ));
    }
}
