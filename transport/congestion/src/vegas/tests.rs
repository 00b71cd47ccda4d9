//! Rounds worked by hand.

use super::*;
use crate::controller::Cause;
use crate::testing::{epoch, ms, round};

const MTU: u16 = 1000;

fn ack(bytes: u64) -> Ack {
    Ack {
        now: epoch(),
        sent: epoch(),
        rtt: Some(ms(100)),
        newest_bytes: bytes,
        packets: 1,
        bytes,
        bytes_after_recovery: bytes,
        in_flight: bytes,
        app_limited: false,
    }
}

fn loss() -> Congestion {
    Congestion {
        now: epoch(),
        cause: Cause::Loss,
        lost: 1000,
    }
}

/// In `phase` with a window of `window` bytes and a BaseRTT of 100 ms.
fn in_phase(config: Config, phase: Phase, window: u64) -> Vegas {
    Vegas {
        window,
        phase,
        base_rtt: Some(SizedRtt::large(ms(100))),
        ..Vegas::new(config, MTU)
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
    for (config, window, rtt, diff, after) in table {
        let by_rule = extra_packets(window * 1000, ms(100), ms(rtt), MTU);
        assert!(
            (by_rule - diff).abs() < 1e-12,
            "{window} packets, {rtt} ms: {by_rule}"
        );
        let mut vegas = in_phase(config, Phase::Avoidance, window * 1000);
        vegas.on_round(&round(rtt));
        assert_eq!(vegas.window, after * 1000, "{window} packets, {rtt} ms");
    }
}

#[test]
fn the_window_never_shrinks_below_two_packets() {
    let tight = Config {
        alpha: 0.5,
        beta: 0.5,
        ..Config::VEGAS_1
    };
    let mut vegas = in_phase(tight, Phase::Avoidance, 2500);
    vegas.on_round(&round(1000));
    assert_eq!(vegas.window, 2000);
    vegas.on_round(&round(1000));
    assert_eq!(vegas.window, 2000);
}

#[test]
fn a_round_trip_without_time_means_an_empty_queue() {
    assert_eq!(extra_packets(10_000, ms(0), ms(0), MTU), 0.0);
    assert_eq!(
        extra_packets(10_000, ms(50), ms(40), MTU),
        0.0,
        "BaseRTT above the sample"
    );
    let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
    vegas.on_round(&round(0));
    vegas.on_round(&round(0));
    assert_eq!(vegas.base_rtt, Some(SizedRtt::large(ms(0))));
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
        assert_eq!(vegas.measure(&round), ms(base_rtt), "{round:?}");
    }
}

#[test]
fn slow_start_doubles_every_other_round() {
    let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
    for (held, doubled) in [(10_000, 20_000), (20_000, 40_000), (40_000, 80_000)] {
        vegas.on_ack(&ack(vegas.window));
        assert_eq!(vegas.window, held, "one round holds");
        vegas.on_round(&round(100));
        vegas.on_ack(&ack(vegas.window));
        assert_eq!(vegas.window, doubled, "the next adds what is acknowledged");
        vegas.on_round(&round(100));
    }
}

#[test]
fn slow_start_ends_with_seven_eighths_when_more_than_gamma_is_queued() {
    // Diff = 16 x 7 / 107 = 1.05 > 1, against 16 x 6 / 106 = 0.91.
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
    vegas.on_round(&round(106));
    assert_eq!((vegas.window, vegas.phase), (16_000, Phase::SlowStart));
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
    vegas.on_round(&round(107));
    assert_eq!((vegas.window, vegas.phase), (14_000, Phase::Avoidance));
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
    assert_eq!(vegas.phase, Phase::Avoidance);
    let mut vegas = in_phase(Config::VEGAS_1, Phase::Avoidance, 16_000);
    vegas.on_round(&Round {
        rtt_min: ms(100),
        rtt_end: ms(150),
        ..round(100)
    });
    assert_eq!(
        vegas.window, 17_000,
        "congestion avoidance goes by the least sample"
    );
}

#[test]
fn by_the_mean_bursts_that_queue_for_a_moment_count() {
    let mean = Config {
        rtt: RoundRtt::Mean,
        ..Config::VEGAS_1
    };
    let bursts = Round {
        rtt_mean: ms(125),
        ..round(100)
    };
    // Diff = 20 x 25 / 125 = 4 by the mean, 0 by the least and by the last sample.
    for (config, phase, after) in [
        (mean, Phase::Avoidance, 19_000),
        (Config::VEGAS_1, Phase::Avoidance, 21_000),
        (mean, Phase::SlowStartHold, 17_500),
        (Config::VEGAS_1, Phase::SlowStartHold, 20_000),
    ] {
        let mut vegas = in_phase(config, phase, 20_000);
        vegas.on_round(&bursts);
        assert_eq!(vegas.window, after, "{phase:?}, {:?}", config.rtt);
        assert_eq!(vegas.base_rtt, Some(SizedRtt::large(ms(100))));
    }
}

/// A round of five ACKs for two packets each, with ten in flight before each, after another round
/// such as this; all samples are `rtt` milliseconds.
fn after_pairs(config: Config, phase: Phase, rtt: u64) -> Vegas {
    let mut vegas = in_phase(config, phase, 10_000);
    let pair = Ack {
        newest_bytes: 1000,
        in_flight: 10_000,
        ..ack(2000)
    };
    for rtt in [100, rtt] {
        for _ in 0..5 {
            vegas.sent.on_ack(&pair);
        }
        vegas.window = 10_000;
        vegas.phase = phase;
        vegas.on_round(&round(rtt));
    }
    vegas
}

#[test]
fn by_what_was_sent_an_ack_of_two_packets_hides_one_that_queues() {
    // 9 packets are left in flight with the newest acknowledged one, and 10 were sent:
    // Diff = 9 - 10 x 100 / RTT, where the window's is 10 - 10 x 100 / RTT.
    let sent = Config {
        diff: DiffOf::Sent,
        ..Config::VEGAS_1
    };
    for (rtt, diff) in [(100, -1.0), (125, 1.0), (200, 4.0)] {
        let by_rule = extra_packets_sent(9000, 10_000, ms(100), ms(rtt), MTU);
        assert!((by_rule - diff).abs() < 1e-12, "{rtt} ms: {by_rule}");
    }
    assert_eq!(extra_packets_sent(9000, 10_000, ms(0), ms(0), MTU), 0.0);
    for (config, rtt, window) in [
        (sent, 124, 11_000),
        (sent, 125, 10_000), // Diff = alpha keeps
        (sent, 166, 10_000),
        (sent, 167, 9000),
        (Config::VEGAS_1, 111, 11_000),
        (Config::VEGAS_1, 112, 10_000),
        (Config::VEGAS_1, 143, 9000),
    ] {
        let vegas = after_pairs(config, Phase::Avoidance, rtt);
        assert_eq!(vegas.window, window, "{:?}, {rtt} ms", config.diff);
    }
    let late = after_pairs(sent, Phase::SlowStartHold, 125);
    assert_eq!(late.phase, Phase::SlowStart);
    let late = after_pairs(sent, Phase::SlowStartHold, 126);
    assert_eq!((late.window, late.phase), (8750, Phase::Avoidance));
}

#[test]
fn what_was_sent_in_a_round_without_decision_is_of_no_other_round() {
    let sent = Config {
        diff: DiffOf::Sent,
        ..Config::VEGAS_1
    };
    let mut vegas = in_phase(sent, Phase::Avoidance, 10_000);
    for (acknowledged, app_limited) in [(2000, true), (10_000, false)] {
        for _ in 0..acknowledged / 2000 {
            vegas.on_ack(&Ack {
                newest_bytes: 1000,
                in_flight: 10_000,
                ..ack(2000)
            });
        }
        vegas.on_round(&Round {
            app_limited,
            ..round(125)
        });
    }
    assert_eq!(vegas.window, 10_000, "Diff = 9 - 10 x 100 / 125 = alpha");
}

#[test]
fn slow_start_adds_no_more_for_an_ack_than_its_limit() {
    // (limit in packets, bytes acknowledged at once, window after)
    for (limit, acknowledged, after) in [
        (None, 4000, 14_000),
        (Some(1), 4000, 11_000),
        (Some(1), 1000, 11_000),
        (Some(1), 400, 10_400),
        (Some(2), 4000, 12_000),
    ] {
        let config = Config {
            slow_start_limit: limit,
            ..Config::VEGAS_1
        };
        let mut vegas = in_phase(config, Phase::SlowStart, 10_000);
        vegas.on_ack(&ack(acknowledged));
        assert_eq!(vegas.window, after, "{limit:?}, {acknowledged} bytes");
    }
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
        assert_eq!(vegas.window, after, "{unused} bytes unused");
    }
    let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 10_000);
    vegas.on_round(&Round {
        unused: 2001,
        ..round(100)
    });
    assert_eq!(vegas.phase, Phase::SlowStartHold);
    let mut vegas = avoiding(20_000);
    vegas.on_round(&Round {
        unused: 9000,
        ..round(120)
    });
    assert_eq!(vegas.window, 19_000, "but it shrinks");
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
            assert_eq!((vegas.window, vegas.phase), (10_000, phase));
            assert_eq!(vegas.base_rtt, Some(SizedRtt::large(ms(90))));
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
    assert_eq!(vegas.window, 10_000);
}

#[test]
fn a_loss_halves_the_window_and_ends_slow_start() {
    for (window, after) in [(20_000, 10_000), (3000, 2000), (2000, 2000)] {
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStart, window);
        vegas.on_congestion(&loss());
        assert_eq!((vegas.window, vegas.phase), (after, Phase::Avoidance));
        assert_eq!(vegas.slow_start_threshold(), Some(after));
    }
}

#[test]
fn what_a_loss_leaves_can_be_set() {
    let gentle = Config {
        keep: 0.75,
        timeouts: Timeouts::Tcp,
        ..Config::VEGAS_1
    };
    for (window, after) in [(20_000, 15_000), (2500, 2000)] {
        let mut vegas = in_phase(gentle, Phase::Avoidance, window);
        vegas.on_congestion(&loss());
        assert_eq!(vegas.slow_start_threshold(), Some(after));
        assert_eq!(vegas.window, after);
    }
    // A timeout's threshold is half of the window all the same.
    let mut vegas = in_phase(gentle, Phase::Avoidance, 20_000);
    assert!(vegas.on_probe_timeout());
    assert_eq!(vegas.slow_start_threshold(), Some(10_000));
}

#[test]
fn many_losses_of_a_window_collapse_it_without_sack_alone() {
    let table = [
        (Timeouts::Quic, 10_000, Phase::Avoidance, 10_000),
        (Timeouts::Tcp, 10_000, Phase::Avoidance, 10_000),
        (Timeouts::Reno, 2000, Phase::SlowStartHold, 5000),
    ];
    for (timeouts, window, phase, threshold) in table {
        let config = Config {
            timeouts,
            ..Config::VEGAS_1
        };
        let mut vegas = in_phase(config, Phase::Avoidance, 20_000);
        vegas.on_congestion(&loss());
        vegas.on_heavy_loss();
        assert_eq!((vegas.window, vegas.phase), (window, phase), "{timeouts:?}");
        assert_eq!(vegas.slow_start_threshold(), Some(threshold));
    }
}

#[test]
fn after_persistent_congestion_slow_start_leads_back_to_the_threshold() {
    let mut vegas = avoiding(10_000);
    vegas.on_congestion(&loss());
    vegas.on_persistent_congestion();
    assert_eq!((vegas.window, vegas.phase), (2000, Phase::SlowStartHold));
    vegas.on_round(&round(100));
    vegas.on_ack(&ack(2000));
    vegas.on_round(&round(100));
    vegas.on_round(&round(100));
    assert_eq!((vegas.window, vegas.phase), (4000, Phase::SlowStart));
    vegas.on_ack(&ack(999));
    assert_eq!((vegas.window, vegas.phase), (4999, Phase::SlowStart));
    let mut exactly = vegas.clone();
    exactly.on_ack(&ack(1));
    assert_eq!((exactly.window, exactly.phase), (5000, Phase::Avoidance));
    vegas.on_ack(&ack(2));
    assert_eq!((vegas.window, vegas.phase), (5000, Phase::Avoidance));
}

#[test]
fn a_larger_packet_raises_the_minimum_and_nothing_else() {
    for (window, after) in [(10_000, 10_000), (2000, 2800)] {
        let mut vegas = avoiding(window);
        vegas.on_mtu(1400);
        assert_eq!(vegas.window, after);
    }
}
