use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// After loss events this many packets apart, the oldest first, and `open` more packets.
fn history(discounting: bool, packets: &[f64], open: f64) -> LossIntervals {
    let mut intervals = LossIntervals::new(discounting);
    for packets in packets {
        intervals.count(*packets);
        intervals.loss_event();
    }
    intervals.count(open);
    intervals
}

fn mean_interval(intervals: &LossIntervals) -> f64 {
    1.0 / intervals.loss_event_rate().expect("something was lost")
}

#[test]
fn without_a_loss_there_is_no_rate() {
    let mut intervals = LossIntervals::new(true);
    intervals.count(1000.0);
    assert_eq!(intervals.loss_event_rate(), None);
    assert!(intervals.is_empty());
}

#[test]
fn the_mean_weighs_eight_intervals_and_the_open_one_if_it_makes_it_longer() {
    // (closed, the oldest first; open; mean interval)
    let table: [(&[f64], f64, f64); 7] = [
        (&[100.0], 0.0, 100.0),
        // One closed interval: either of the two.
        (&[100.0], 150.0, 150.0),
        (&[100.0, 200.0], 0.0, 150.0),
        (&[100.0, 200.0], 180.0, 190.0),
        // (10 + 20 + 30 + 40 + 0.8 x 50) / 4.8
        (&[50.0, 40.0, 30.0, 20.0, 10.0], 0.0, 140.0 / 4.8),
        // (4 x 100 + (0.8 + 0.6 + 0.4 + 0.2) x 50) / 6
        (
            &[50.0, 50.0, 50.0, 50.0, 100.0, 100.0, 100.0, 100.0],
            0.0,
            500.0 / 6.0,
        ),
        // The ninth is forgotten.
        (
            &[9e9, 50.0, 50.0, 50.0, 50.0, 100.0, 100.0, 100.0, 100.0],
            0.0,
            500.0 / 6.0,
        ),
    ];
    for discounting in [false, true] {
        for (closed, open, mean) in table {
            let by_rule = mean_interval(&history(discounting, closed, open));
            assert!(
                (by_rule - mean).abs() < 1e-9,
                "{closed:?}, {open}: {by_rule}"
            );
        }
    }
}

#[test]
fn a_long_open_interval_discounts_the_older_ones() {
    // Mean of the closed: 100. With 400 open: DF = 200 / 400 = 1/2.
    let closed = [100.0, 100.0, 100.0];
    // (400 + 2 x 100) / 3 against (400 + 2 x 100 / 2) / (1 + 2 x 1/2).
    assert!((mean_interval(&history(false, &closed, 400.0)) - 200.0).abs() < 1e-9);
    assert!((mean_interval(&history(true, &closed, 400.0)) - 250.0).abs() < 1e-9);
    // Twice the mean is not long yet: (200 + 200) / 3.
    assert!((mean_interval(&history(true, &closed, 200.0)) - 400.0 / 3.0).abs() < 1e-9);
    // 10,000 would give 1/50; no less than 1/4 is left: (10000 + 50) / 1.5.
    assert!((mean_interval(&history(true, &closed, 1e4)) - 6700.0).abs() < 1e-9);
}

#[test]
fn what_is_discounted_stays_discounted() {
    // As above, then the interval of 400 closes: (400 + 3 x 100 / 2) / (1 + 3/2).
    let mut intervals = history(true, &[100.0, 100.0, 100.0], 400.0);
    intervals.loss_event();
    assert!((mean_interval(&intervals) - 220.0).abs() < 1e-9);
    // 880 is four times that mean: DF = 1/2 once more. The oldest have a quarter left:
    // (880 + 400 / 2 + 2 x 100 / 4) / (1 + 1/2 + 2/4).
    intervals.count(880.0);
    assert!((mean_interval(&intervals) - 565.0).abs() < 1e-9);
}

#[test]
fn the_first_interval_is_what_it_is_said_to_be() {
    let mut intervals = LossIntervals::new(true);
    intervals.count(5000.0);
    intervals.first_loss_event(70.0);
    assert!((mean_interval(&intervals) - 70.0).abs() < 1e-9);
}

proptest! {
    #[test]
    fn the_rate_is_that_of_some_interval(
        discounting in any::<bool>(), closed in vec(0.0..1e9_f64, 1..20), open in 0.0..1e9_f64,
    ) {
        let intervals = history(discounting, &closed, open);
        let rate = intervals.loss_event_rate().expect("something was lost");
        let longest = closed.iter().copied().fold(open, f64::max).max(1.0);
        prop_assert!(rate <= 1.0 && rate * longest > 1.0 - 1e-9, "{rate}");
    }

    // While there are fewer, an open interval stands in for the oldest, which the next loss
    // event brings back.
    #[test]
    fn a_loss_never_lowers_the_rate_of_a_full_history(
        discounting in any::<bool>(), closed in vec(0.0..1e9_f64, 8..20), open in 0.0..1e9_f64,
    ) {
        let mut intervals = history(discounting, &closed, open);
        let before = intervals.loss_event_rate().expect("something was lost");
        intervals.loss_event();
        let after = intervals.loss_event_rate().expect("something was lost");
        prop_assert!(after > before * (1.0 - 1e-9), "{before} fell to {after}");
    }

    #[test]
    fn packets_that_arrive_never_raise_the_rate(
        discounting in any::<bool>(), closed in vec(0.0..1e6_f64, 1..20),
        open in 0.0..1e6_f64, more in 0.0..1e6_f64,
    ) {
        let mut intervals = history(discounting, &closed, open);
        let before = intervals.loss_event_rate().expect("something was lost");
        intervals.count(more);
        let after = intervals.loss_event_rate().expect("something was lost");
        prop_assert!(after <= before * (1.0 + 1e-9), "{before} rose to {after}");
    }
}
