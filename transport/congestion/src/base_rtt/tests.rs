use super::*;
use crate::testing::{ms, path_sample};

/// A complete sample: round trip, queueing there and back, in milliseconds.
fn sample(rtt: u64, forward: u64, backward: u64) -> PathSample {
    PathSample {
        rtt: ms(rtt),
        forward_queueing: Some(ms(forward)),
        backward_queueing: Some(ms(backward)),
        ..path_sample()
    }
}

#[test]
fn what_routers_told_is_taken_off() {
    for (sample, expected) in [
        (sample(100, 20, 30), 50),
        (sample(100, 80, 30), 0),
        (
            PathSample {
                backward_queueing: None,
                ..sample(100, 20, 0)
            },
            80,
        ),
        (
            PathSample {
                forward_queueing: None,
                ..sample(100, 0, 30)
            },
            70,
        ),
    ] {
        assert_eq!(corrected(&sample), ms(expected), "{sample:?}");
    }
}

#[test]
fn a_complete_path_is_followed_both_ways_within_eight_rounds() {
    let mut rtts = CorrectedRtt::default();
    assert_eq!(rtts.base_rtt(ms(70), true), ms(70), "nothing was told");
    rtts.on_path(&sample(100, 10, 10));
    rtts.on_path(&sample(100, 10, 20));
    rtts.on_path(&sample(100, 10, 0));
    rtts.end_round();
    assert_eq!(
        rtts.base_rtt(ms(60), true),
        ms(70),
        "plain round trips do not count"
    );
    for round in 1..=7 {
        assert_eq!(rtts.base_rtt(ms(60), true), ms(70), "round {round}");
        rtts.on_path(&sample(200, 10, 10));
        rtts.end_round();
    }
    assert_eq!(rtts.base_rtt(ms(60), true), ms(180));
    rtts.end_round();
    assert_eq!(
        rtts.base_rtt(ms(60), true),
        ms(180),
        "a round without samples"
    );
    rtts.on_path(&sample(50, 10, 10));
    assert_eq!(
        rtts.base_rtt(ms(60), true),
        ms(30),
        "the present round counts"
    );
}

#[test]
fn an_incomplete_path_only_lowers_it() {
    let mut rtts = CorrectedRtt::default();
    rtts.on_path(&sample(100, 10, 10));
    assert_eq!(rtts.base_rtt(ms(60), false), ms(60));
    assert_eq!(rtts.base_rtt(ms(90), false), ms(80));
}

#[test]
fn a_round_is_complete_if_all_its_samples_are() {
    let incomplete = PathSample {
        complete: false,
        ..sample(100, 0, 0)
    };
    let mut rtts = CorrectedRtt::default();
    assert!(!rtts.is_complete());
    for (samples, complete) in [
        (vec![&incomplete], false),
        (vec![&incomplete, &sample(100, 0, 0)], false),
        (vec![&sample(100, 0, 0), &incomplete], false),
        (vec![&sample(100, 0, 0), &sample(100, 0, 0)], true),
        (vec![], true),
    ] {
        for sample in samples {
            rtts.on_path(sample);
        }
        rtts.end_round();
        assert_eq!(rtts.is_complete(), complete);
    }
}
