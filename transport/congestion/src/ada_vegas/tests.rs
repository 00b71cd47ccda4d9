//! Tests of `ada_vegas.rs`.

use super::*;
use crate::testing::{loss, round};
use crate::vegas::Vegas;

const MTU: u16 = 1000;

/// The row stays in force until the next round with Diff < alpha.
const STAYS: Config = Config {
    relapse: false,
    ..Config::PAPER
};

/// The first row returns with every round without Diff < alpha.
const RELAPSES: Config = Config {
    relapse: true,
    ..Config::PAPER
};

/// In congestion avoidance with a window of 20 packets and a BaseRTT of 100 ms.
fn avoiding(config: Config) -> AdaVegas {
    let iw = InitialWindow::Packets(40);
    let config = Config {
        initial_window: iw,
        ..config
    };
    let mut ada = AdaVegas::new(config, MTU);
    ada.on_round(&round(100));
    ada.on_congestion(&loss());
    assert_eq!(ada.window(), 20_000);
    ada
}

/// After 16 rounds of growth: 71 packets, row 4, with BaseRTT 100 ms.
fn at_full_speed(config: Config) -> AdaVegas {
    let mut ada = avoiding(config);
    for _ in 0..16 {
        ada.on_round(&round(100));
    }
    assert_eq!(
        (ada.window(), ada.acceleration.last_increment),
        (71_000, 8.0)
    );
    ada
}

/// Rounds of (RTT in ms, window after in packets, succ after, lastInc after).
fn follow(mut ada: AdaVegas, rounds: &[(u64, u64, u32, f64)]) {
    for (number, &(rtt, window, successes, last_increment)) in rounds.iter().enumerate() {
        ada.on_round(&round(rtt));
        assert_eq!(
            (
                ada.window(),
                ada.acceleration.successes,
                ada.acceleration.last_increment
            ),
            (window * 1000, successes, last_increment),
            "round {number} of {rounds:?}"
        );
    }
}

#[test]
fn growth_gathers_speed_as_table_i_says() {
    for config in [STAYS, RELAPSES] {
        let mut expected = 20;
        let mut rounds = Vec::new();
        for successes in 1..=18 {
            let increment = match successes {
                1..=3 => 1,
                4..=7 => 2,
                8..=15 => 4,
                _ => 8,
            };
            expected += increment;
            rounds.push((100, expected, successes, increment as f64));
        }
        follow(avoiding(config), &rounds);
    }
}

#[test]
fn a_row_counts_from_the_round_after_the_one_that_reached_it() {
    // 3 rounds of growth to 23 packets. 106 ms: Diff = 23 * 6 / 106 = 1.30, from the first
    // row's alpha, 1, to its beta.
    let to_23 = [(100, 21, 1, 1.0), (100, 22, 2, 1.0), (100, 23, 3, 1.0)];
    follow(
        avoiding(STAYS),
        &[&to_23[..], &[(106, 23, 0, 1.0)]].concat(),
    );
    // One more, to 25 packets and row 2: Diff = 25 * 6 / 106 = 1.42 is below its alpha, 2.
    let to_row_2 = [(100, 25, 4, 2.0), (106, 27, 5, 2.0)];
    follow(avoiding(STAYS), &[&to_23[..], &to_row_2].concat());
    follow(avoiding(RELAPSES), &[&to_23[..], &to_row_2].concat());
}

#[test]
fn without_relapse_the_row_stays_until_the_next_growth() {
    follow(
        at_full_speed(STAYS),
        &[
            (109, 71, 0, 8.0), // Diff = 71 * 9 / 109 = 5.86: from 4 to 8
            (109, 71, 0, 1.0), // the second steady round forgets the increment
            (115, 70, 0, 1.0), // Diff = 71 * 15 / 115 = 9.26 > 8
            (105, 71, 1, 1.0), // Diff = 70 * 5 / 105 = 3.33 < 4: succ 1, so row 1
            (105, 70, 0, 1.0), // Diff = 71 * 5 / 105 = 3.38 > 3
        ],
    );
}

#[test]
fn with_relapse_the_first_row_is_in_force_after_any_round_without_growth() {
    follow(
        at_full_speed(RELAPSES),
        &[
            (109, 71, 0, 8.0), // Diff = 5.86 is judged by row 4 yet: keep
            (109, 67, 0, 4.0), // and now it is above 3
            (102, 67, 0, 4.0), // Diff = 67 * 2 / 102 = 1.31: from 1 to 3
            (101, 68, 1, 1.0), // Diff = 67 * 1 / 101 = 0.66 < 1
        ],
    );
}

#[test]
fn an_overshoot_gives_back_half_of_the_last_increment_then_half_of_that() {
    follow(
        at_full_speed(STAYS),
        &[
            (115, 67, 0, 4.0), // Diff = 9.26 > 8
            (115, 65, 0, 2.0), // 8.74
            (115, 64, 0, 1.0), // 8.48
            (115, 63, 0, 1.0), // 8.35, and never less than a packet
            (109, 63, 0, 1.0),
        ],
    );
    // A steady round between does not forget the increment, nor do two that are not in a row.
    follow(
        at_full_speed(STAYS),
        &[
            (109, 71, 0, 8.0),
            (115, 67, 0, 4.0),
            (109, 67, 0, 4.0), // Diff = 5.53
            (115, 65, 0, 2.0),
        ],
    );
}

#[test]
fn a_loss_halves_the_window_and_starts_the_table_again() {
    let mut ada = at_full_speed(STAYS);
    ada.on_congestion(&loss());
    assert_eq!(
        (ada.window(), ada.slow_start_threshold()),
        (35_500, Some(35_500))
    );
    // Diff = 35.5 * 5 / 105 = 1.69 is not below alpha = 1.
    ada.on_round(&round(105));
    assert_eq!(
        (ada.window(), ada.acceleration.last_increment),
        (35_500, 1.0)
    );
    ada.on_round(&round(100));
    assert_eq!((ada.window(), ada.acceleration.successes), (36_500, 1));
    ada.on_persistent_congestion();
    assert_eq!((ada.window(), ada.acceleration.successes), (2000, 0));
}

#[test]
fn a_round_that_leaves_the_window_unused_neither_grows_it_nor_counts() {
    let mut ada = at_full_speed(STAYS);
    ada.on_round(&Round {
        unused: 2001,
        ..round(100)
    });
    assert_eq!((ada.window(), ada.acceleration.successes), (71_000, 16));
}

#[test]
fn the_window_never_shrinks_below_two_packets() {
    static TIGHT: Row = row(0, 0.5, 0.5, 1.0);
    let mut ada = at_full_speed(STAYS);
    ada.on_persistent_congestion();
    ada.on_congestion(&loss());
    // A queue of 4 packets at the least window: Diff = 2 * 900 / 1000 = 1.8 keeps, and
    // a table that tolerates none shrinks.
    ada.acceleration.row = &TIGHT;
    ada.on_round(&round(1000));
    assert_eq!(ada.window(), 2000);
}

#[test]
fn slow_start_is_that_of_vegas() {
    let mut ada = AdaVegas::new(Config::PAPER, MTU);
    let mut vegas = Vegas::new(vegas::Config::VEGAS_1, MTU);
    for rtt in [100, 100, 100, 103, 130, 130] {
        let ack = crate::testing::ack(crate::testing::epoch(), rtt, 5000);
        ada.on_ack(&ack);
        vegas.on_ack(&ack);
        ada.on_round(&round(rtt));
        vegas.on_round(&round(rtt));
        assert_eq!(ada.window(), vegas.window());
    }
    assert!(ada.slow_start_threshold().is_some());
    assert_eq!(ada.slow_start_threshold(), vegas.slow_start_threshold());
}

#[test]
fn the_table_can_be_another() {
    const TABLE: [Row; 2] = [row(0, 1.0, 3.0, 0.5), row(2, 1.0, 3.0, 16.0)];
    let config = Config {
        table: &TABLE,
        ..STAYS
    };
    let mut ada = avoiding(config);
    for window in [20_500, 36_500, 52_500] {
        ada.on_round(&round(100));
        assert_eq!(ada.window(), window);
    }
}

#[test]
#[should_panic(expected = "a row from 0 successes")]
fn a_table_that_begins_late_is_refused() {
    const TABLE: [Row; 1] = [row(1, 1.0, 3.0, 1.0)];
    let config = Config {
        table: &TABLE,
        ..STAYS
    };
    AdaVegas::new(config, MTU);
}
