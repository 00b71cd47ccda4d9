//! Rounds worked by hand.

use super::*;
use crate::diff::{Phase, diff};
use crate::sized_rtt::SizedRtt;
use crate::testing::{epoch, ms, round};

const MTU: u16 = 1000;

fn ack(bytes: u64) -> Ack {
    Ack::new(epoch() + ms(100), epoch(), bytes)
}

fn loss() -> Congestion {
    Congestion::loss(epoch(), 1000)
}

/// In `phase` with a window of `window` bytes and a BaseRTT of 100 ms.
fn in_phase(config: Config, phase: Phase, window: u64) -> Vegas {
    Vegas {
        window: DiffWindow::at(phase, window, MTU, ms(100)),
        config,
    }
}

fn avoiding(window: u64) -> Vegas {
    in_phase(Config::VEGAS_1, Phase::Avoidance, window)
}

#[test]
fn congestion_avoidance_follows_equation_4() {
    // (configuration, window in packets, RTT in ms, Diff by hand, window after in packets)
    let table = [
        (Config::VEGAS_1, 20, 100, 0.0, 21),
        (Config::VEGAS_1, 20, 105, 100.0 / 105.0, 21),
        (Config::VEGAS_1, 11, 110, 1.0, 11), // Diff = alpha keeps
        (Config::VEGAS_1, 20, 110, 200.0 / 110.0, 20),
        (Config::VEGAS_1, 18, 120, 3.0, 18), // Diff = beta keeps
        (Config::VEGAS_1, 20, 120, 400.0 / 120.0, 19),
        (Config::VEGAS_1, 2, 1000, 1.8, 2),
        (Config::VEGAS_8, 20, 120, 400.0 / 120.0, 28),
        (Config::VEGAS_8, 20, 150, 1000.0 / 150.0, 20),
        (Config::VEGAS_8, 40, 150, 2000.0 / 150.0, 39),
    ];
    for (config, window, rtt, expected, after) in table {
        let by_rule = diff(window * 1000, ms(100), ms(rtt), MTU);
        assert!(
            (by_rule - expected).abs() < 1e-12,
            "{window} packets, {rtt} ms: {by_rule}"
        );
        let mut vegas = in_phase(config, Phase::Avoidance, window * 1000);
        vegas.on_round(&round(rtt));
        assert_eq!(vegas.window(), after * 1000, "{window} packets, {rtt} ms");
    }
}

#[test]
fn the_window_never_shrinks_below_two_packets() {
    let tight = Config {
        thresholds: Thresholds {
            alpha: 0.5,
            beta: 0.5,
            gamma: 1.0,
        },
        ..Config::VEGAS_1
    };
    let mut vegas = in_phase(tight, Phase::Avoidance, 2500);
    vegas.on_round(&round(1000));
    assert_eq!(vegas.window(), 2000);
    vegas.on_round(&round(1000));
    assert_eq!(vegas.window(), 2000);
}

#[test]
fn a_round_trip_without_time_means_an_empty_queue() {
    assert_eq!(diff(10_000, ms(0), ms(0), MTU), 0.0);
    assert_eq!(
        diff(10_000, ms(50), ms(40), MTU),
        0.0,
        "BaseRTT above the sample"
    );
    let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
    vegas.on_round(&round(0));
    vegas.on_round(&round(0));
    assert_eq!(vegas.window.least_rtt(), Some(SizedRtt::large(ms(0))));
}

#[test]
fn base_rtt_is_of_small_packets_only_until_a_large_one_was_measured() {
    let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
    let small = |rtt| Round {
        small: true,
        ..round(rtt)
    };
    for (round, base_rtt) in [
        (small(85), 85),
        (small(80), 80),
        (round(100), 100),
        (small(70), 100),
        (round(95), 95),
    ] {
        assert_eq!(vegas.window.base_rtt(&round), ms(base_rtt), "{round:?}");
    }
}

#[test]
fn slow_start_doubles_every_other_round() {
    let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
    for (held, doubled) in [(10_000, 20_000), (20_000, 40_000), (40_000, 80_000)] {
        vegas.on_ack(&ack(vegas.window()));
        assert_eq!(vegas.window(), held, "one round holds");
        vegas.on_round(&round(100));
        vegas.on_ack(&ack(vegas.window()));
        assert_eq!(
            vegas.window(),
            doubled,
            "the next adds what is acknowledged"
        );
        vegas.on_round(&round(100));
    }
}

#[test]
fn slow_start_ends_with_seven_eighths_when_more_than_gamma_is_queued() {
    // Diff = 16 x 7 / 107 = 1.05 > 1, against 16 x 6 / 106 = 0.91.
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
    vegas.on_round(&round(106));
    assert_eq!(
        (vegas.window(), vegas.window.phase()),
        (16_000, Phase::SlowStart)
    );
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
    vegas.on_round(&round(107));
    assert_eq!(
        (vegas.window(), vegas.window.phase()),
        (14_000, Phase::Avoidance)
    );
    assert_eq!(vegas.slow_start_threshold(), Some(14_000));
}

#[test]
fn slow_start_is_judged_by_a_packet_sent_at_the_doubled_window() {
    // The round's least sample is of a packet sent while the window still grew.
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
    vegas.on_round(&Round {
        rtt_min: ms(100),
        rtt_end: ms(120),
        ..round(100)
    });
    assert_eq!(vegas.window.phase(), Phase::Avoidance);
    let mut vegas = in_phase(Config::VEGAS_1, Phase::Avoidance, 16_000);
    vegas.on_round(&Round {
        rtt_min: ms(100),
        rtt_end: ms(150),
        ..round(100)
    });
    assert_eq!(
        vegas.window(),
        17_000,
        "congestion avoidance goes by the least sample"
    );
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // (unused bytes, window after a round without queueing)
    for (unused, after) in [(0, 11_000), (2000, 11_000), (2001, 10_000)] {
        let mut vegas = avoiding(10_000);
        vegas.on_round(&Round {
            unused,
            ..round(100)
        });
        assert_eq!(vegas.window(), after, "{unused} bytes unused");
    }
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 10_000);
    vegas.on_round(&Round {
        unused: 2001,
        ..round(100)
    });
    assert_eq!(vegas.window.phase(), Phase::SlowStartHold);
    let mut vegas = avoiding(20_000);
    vegas.on_round(&Round {
        unused: 9000,
        ..round(120)
    });
    assert_eq!(vegas.window(), 19_000, "but it shrinks");
}

#[test]
fn rounds_in_recovery_or_limited_by_the_application_teach_the_base_rtt_alone() {
    for deaf in [
        Round {
            app_limited: true,
            ..round(90)
        },
        Round {
            in_recovery: true,
            ..round(90)
        },
    ] {
        for phase in [Phase::SlowStart, Phase::SlowStartHold, Phase::Avoidance] {
            let mut vegas = in_phase(Config::VEGAS_1, phase, 10_000);
            vegas.on_round(&deaf);
            assert_eq!((vegas.window(), vegas.window.phase()), (10_000, phase));
            assert_eq!(vegas.window.least_rtt(), Some(SizedRtt::large(ms(90))));
        }
    }
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStart, 10_000);
    vegas.on_ack(&Ack {
        app_limited: true,
        ..ack(1000)
    });
    vegas.on_ack(&Ack {
        bytes_after_recovery: 0,
        ..ack(1000)
    });
    assert_eq!(vegas.window(), 10_000);
}

#[test]
fn a_loss_halves_the_window_and_ends_slow_start() {
    for (window, after) in [(20_000, 10_000), (3000, 2000), (2000, 2000)] {
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStart, window);
        vegas.on_congestion(&loss());
        assert_eq!(
            (vegas.window(), vegas.window.phase()),
            (after, Phase::Avoidance)
        );
        assert_eq!(vegas.slow_start_threshold(), Some(after));
    }
}

#[test]
fn after_persistent_congestion_slow_start_leads_back_to_the_threshold() {
    let mut vegas = avoiding(10_000);
    vegas.on_congestion(&loss());
    vegas.on_persistent_congestion();
    assert_eq!(
        (vegas.window(), vegas.window.phase()),
        (2000, Phase::SlowStartHold)
    );
    vegas.on_round(&round(100));
    vegas.on_ack(&ack(2000));
    vegas.on_round(&round(100));
    vegas.on_round(&round(100));
    assert_eq!(
        (vegas.window(), vegas.window.phase()),
        (4000, Phase::SlowStart)
    );
    vegas.on_ack(&ack(999));
    assert_eq!(
        (vegas.window(), vegas.window.phase()),
        (4999, Phase::SlowStart)
    );
    let mut exactly = vegas.clone();
    exactly.on_ack(&ack(1));
    assert_eq!(
        (exactly.window(), exactly.window.phase()),
        (5000, Phase::Avoidance)
    );
    vegas.on_ack(&ack(2));
    assert_eq!(
        (vegas.window(), vegas.window.phase()),
        (5000, Phase::Avoidance)
    );
}

#[test]
fn a_larger_packet_raises_the_minimum_and_nothing_else() {
    for (window, after) in [(10_000, 10_000), (2000, 2800)] {
        let mut vegas = avoiding(window);
        vegas.on_mtu(1400);
        assert_eq!(vegas.window(), after);
    }
}
