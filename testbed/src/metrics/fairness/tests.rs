use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[test]
fn equal_shares_are_fair_and_one_for_all_is_one_nth() {
    assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
    assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
    // (1 + 3)^2 / (2 (1 + 9)).
    assert_eq!(jain_index(&[1.0, 3.0]), Some(0.8));
}

#[test]
fn fairness_needs_two_flows_and_some_data() {
    assert_eq!(jain_index(&[1.0]), None);
    assert_eq!(jain_index(&[0.0, 0.0]), None);
    assert_eq!(worst_case_fairness(&[]), None);
    assert_eq!(worst_case_fairness(&[0.0, 0.0]), None);
}

#[test]
fn the_worst_case_is_the_smallest_over_the_greatest() {
    assert_eq!(worst_case_fairness(&[2.0, 8.0, 4.0]), Some(0.25));
    assert_eq!(worst_case_fairness(&[2.0, 0.0]), Some(0.0));
}

#[test]
fn short_term_fairness_averages_the_samples_in_which_two_flows_run() {
    let timing = Timing {
        interval: Duration::from_millis(500),
        warmup: Duration::from_millis(500),
        duration: Duration::from_millis(2500),
    };
    let flow = |start_ms, delivered: &[u64]| FlowObservation {
        start: Duration::from_millis(start_ms),
        stop: Duration::from_millis(2500),
        delivered: delivered.to_vec(),
        ..FlowObservation::default()
    };
    // Both run from 1 s on: (5, 5), (1, 3), (8, 0), of which the indices are 1, 0.8, 0.5.
    let flows = [flow(0, &[9, 9, 5, 1, 8]), flow(1000, &[0, 0, 5, 3, 0])];
    let flows = flows.each_ref();
    let fairness = short_term_fairness(&flows, &timing).unwrap();
    assert!((fairness - 2.3 / 3.0).abs() < 1e-12, "{fairness}");
    assert_eq!(short_term_fairness(&flows[..1], &timing), None);
    assert_eq!(short_term_fairness(&[], &timing), None);
}

proptest! {
    #[test]
    fn fairness_lies_between_one_nth_and_one(values in prop::collection::vec(0.0..1e9, 2..50)) {
        prop_assume!(values.iter().any(|x| *x > 1.0));
        let index = jain_index(&values).unwrap();
        prop_assert!(index <= 1.0 + 1e-9 && index >= 1.0 / values.len() as f64 - 1e-9);
        let worst = worst_case_fairness(&values).unwrap();
        prop_assert!((0.0..=1.0).contains(&worst));
    }

    #[test]
    fn fairness_does_not_depend_on_the_unit(values in prop::collection::vec(1.0..1e6, 2..20), unit in 1e-3..1e3) {
        let scaled: Vec<f64> = values.iter().map(|x| x * unit).collect();
        let difference = jain_index(&values).unwrap() - jain_index(&scaled).unwrap();
        prop_assert!(difference.abs() < 1e-9);
    }
}
