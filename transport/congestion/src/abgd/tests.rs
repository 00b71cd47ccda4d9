//! Tests of `abgd.rs`.

use std::time::Duration;

use super::extremes::{REMEMBERED_LOSSES, Range};
use super::*;
use crate::testing::{ack, epoch, loss, ms, round};

const MTU: u16 = 1000;

/// Between 100 and 200 ms.
const KNOWN: Range = Range {
    least: SizedRtt::large(Duration::from_millis(100)),
    greatest: 0.2,
};

fn range(least: f64, greatest: f64) -> Range {
    Range {
        least: SizedRtt::large(Duration::from_secs_f64(least)),
        greatest,
    }
}

/// In congestion avoidance with a window of 30 packets on a path of 100 to 200 ms.
fn avoiding(config: Config) -> Abgd {
    let config = Config {
        initial_window: InitialWindow::Packets(60),
        ..config
    };
    let mut abgd = Abgd::new(config, MTU);
    abgd.on_congestion(&loss());
    assert_eq!(abgd.window(), 30_000);
    abgd.extremes.current = Some(KNOWN);
    abgd.excursion = Excursion::None;
    abgd
}

/// The smoothed round trip time, in whole microseconds.
fn smoothed(abgd: &Abgd) -> u64 {
    let seconds = abgd.smoothed_rtt.expect("a sample came");
    (seconds * 1e6).round() as u64
}

#[test]
fn equations_10_to_12_by_hand() {
    // k = 1, as in the paper's default topology, where gamma is "around 2/3".
    assert!((gamma(KNOWN, 0.5) - 2.0 / 3.0).abs() < 1e-12);
    // k = 0.36, the long round trip of section IV-C4: 0.85.
    assert!((gamma(range(0.22, 0.22 * 1.36), 0.5) - 1.0 / 1.18).abs() < 1e-12);
    assert!((gamma(range(0.1, 0.2), 1.0) - 0.5).abs() < 1e-12);
    assert_eq!(gamma(range(0.1, 0.1), 0.5), 1.0);
    assert_eq!(gamma(range(0.0, 0.0), 0.5), 1.0);
    for (rtt, expected) in [(0.1, 0.0), (0.11, 0.1), (0.15, 0.5), (0.2, 1.0)] {
        let by_rule = fill(rtt, KNOWN).expect("the queue is known");
        assert!((by_rule - expected).abs() < 1e-12, "{rtt}: {by_rule}");
    }
    assert_eq!(fill(0.1, range(0.1, 0.1)), None);
}

#[test]
fn a_half_full_queue_reduces_the_window_one_round_later_once_per_excursion() {
    let t0 = epoch();
    let mut abgd = avoiding(Config::PAPER);
    // (fill, now, sent in ms, window after, excursion after). Detected at 100 ms: not
    // answered by the ACK of a packet sent before, but by the first sent from then on.
    let steps = [
        (0.49, 50, 0, 30_000, Excursion::None),
        (0.5, 100, 0, 30_000, Excursion::Detected(t0 + ms(100))),
        (0.6, 150, 50, 30_000, Excursion::Detected(t0 + ms(100))),
        (0.6, 200, 99, 30_000, Excursion::Detected(t0 + ms(100))),
        (0.7, 201, 100, 20_000, Excursion::Answered),
        (0.8, 400, 250, 20_000, Excursion::Answered),
        (0.5, 600, 450, 20_000, Excursion::Answered),
        (0.49, 700, 600, 20_000, Excursion::None),
        (0.51, 800, 700, 20_000, Excursion::Detected(t0 + ms(800))),
        // The others' reductions have emptied the queue: it counts all the same.
        (0.05, 950, 850, 13_333, Excursion::Answered),
        (0.05, 1000, 900, 13_333, Excursion::None),
    ];
    for (fill, now, sent, window, excursion) in steps {
        abgd.react(fill, t0 + ms(now), t0 + ms(sent));
        assert_eq!(
            (abgd.window(), abgd.excursion),
            (window, excursion),
            "at {now} ms"
        );
    }
    assert_eq!(abgd.slow_start_threshold(), Some(13_333));
}

#[test]
fn delta_counts_while_the_queue_is_nearly_empty() {
    // (delta, fill, packets added by a window of ACKs)
    let table = [
        (2.0, 0.0, 2),
        (2.0, 0.1, 2),
        (2.0, 0.11, 1),
        (2.0, 0.4, 1),
        (1.0, 0.0, 1),
    ];
    for (delta, fill, packets) in table {
        let mut abgd = avoiding(Config {
            delta,
            ..Config::PAPER
        });
        abgd.react(fill, epoch(), epoch());
        abgd.aimd.on_ack(&ack(epoch(), 100, 30_000));
        assert_eq!(
            abgd.window(),
            30_000 + packets * 1000,
            "delta {delta}, fill {fill}"
        );
    }
}

#[test]
fn round_trips_are_smoothed_before_they_count() {
    let mut abgd = avoiding(Config::PAPER);
    // 100; 100 + 80 / 8 = 110; 110 + 70 / 8 = 118.75; 118.75 + 61.25 / 8 = 126.40625 ms.
    for (rtt, expected) in [
        (100, 100_000),
        (180, 110_000),
        (180, 118_750),
        (180, 126_406),
    ] {
        abgd.on_ack(&ack(epoch(), rtt, 1000));
        assert_eq!(smoothed(&abgd), expected);
        assert_eq!(abgd.excursion, Excursion::None);
    }
    // 3 more: 133.1, 139.0, 144.1, and the fourth is 148.6: not yet half. Then 152.5.
    for _ in 0..4 {
        abgd.on_ack(&ack(epoch(), 180, 1000));
    }
    assert_eq!(abgd.excursion, Excursion::None);
    abgd.on_ack(&ack(epoch(), 180, 1000));
    assert!(matches!(abgd.excursion, Excursion::Detected(_)));
}

#[test]
fn the_least_round_trip_is_a_sample_and_the_greatest_a_smoothed_one() {
    let mut abgd = Abgd::new(Config::PAPER, MTU);
    for rtt in [120, 100, 180] {
        abgd.on_ack(&ack(epoch(), rtt, 1000));
    }
    // 120; 117.5; 125.3 ms.
    let range = abgd.extremes.range().expect("samples came");
    assert_eq!(range.least, KNOWN.least);
    assert!((range.greatest - 0.1253125).abs() < 1e-12, "{range:?}");
}

#[test]
fn a_small_packet_does_not_know_how_long_the_empty_path_is_for_large_ones() {
    let mut abgd = Abgd::new(Config::PAPER, MTU);
    let small = Ack {
        newest_bytes: 60,
        ..ack(epoch(), 80, 60)
    };
    let least = |abgd: &Abgd| abgd.extremes.range().expect("samples came").least.rtt();
    abgd.on_ack(&small);
    assert_eq!(least(&abgd), ms(80));
    abgd.on_ack(&ack(epoch(), 100, 1000));
    abgd.on_ack(&small);
    assert_eq!(least(&abgd), ms(100));
}

#[test]
fn an_ack_that_the_receivers_timer_held_back_is_no_sample() {
    let mut abgd = Abgd::new(Config::PAPER, MTU);
    let alone = Ack {
        packets: 1,
        ..ack(epoch(), 125, 500)
    };
    abgd.on_ack(&ack(epoch(), 100, 1000));
    abgd.on_ack(&ack(epoch(), 100, 1000));
    abgd.on_round(&round(100));
    abgd.on_ack(&alone);
    assert_eq!(smoothed(&abgd), 100_000);
    // Where every packet is acknowledged alone, none is held back: 103.125, then 105.859 ms.
    for _ in 0..2 {
        abgd.on_round(&round(100));
        abgd.on_ack(&alone);
    }
    assert_eq!(smoothed(&abgd), 105_859);
    // An ACK that tells of reordering has no sample.
    abgd.on_ack(&Ack {
        rtt: None,
        ..alone.clone()
    });
    assert_eq!(smoothed(&abgd), 105_859);
}

#[test]
fn slow_start_overflows_the_queue_and_learns_the_greatest_round_trip() {
    let mut abgd = Abgd::new(Config::PAPER, MTU);
    let mut acked = 0;
    for rtt in 100..200 {
        abgd.on_ack(&ack(epoch(), rtt, 1000));
        acked += 1000;
    }
    assert_eq!(
        (abgd.window(), abgd.excursion),
        (10_000 + acked, Excursion::None)
    );
    assert!(abgd.extremes.range().expect("samples came").greatest > 0.19);
}

#[test]
fn a_loss_halves_the_window_and_takes_the_place_of_the_reduction_due() {
    let t0 = epoch();
    let mut abgd = avoiding(Config::PAPER);
    abgd.react(0.6, t0, t0);
    abgd.on_congestion(&loss());
    assert_eq!(
        (abgd.window(), abgd.excursion),
        (15_000, Excursion::Answered)
    );
    abgd.react(0.6, t0 + ms(200), t0 + ms(100));
    assert_eq!(abgd.window(), 15_000);
    // Packets of the recovery period measure the path and decide nothing.
    abgd.excursion = Excursion::Detected(t0);
    abgd.on_ack(&Ack {
        bytes_after_recovery: 0,
        ..ack(t0 + ms(300), 160, 2000)
    });
    assert_eq!(abgd.window(), 15_000);
    abgd.on_persistent_congestion();
    assert_eq!(abgd.window(), 2000);
}

#[test]
fn extremes_are_forgotten_after_eight_losses() {
    let mut extremes = Extremes::default();
    extremes.include(SizedRtt::large(ms(100)), 0.2);
    extremes.end_epoch();
    // A loss without a sample since the last one is no epoch.
    extremes.end_epoch();
    for _ in 0..REMEMBERED_LOSSES {
        assert_eq!(extremes.range(), Some(KNOWN));
        extremes.include(SizedRtt::large(ms(130)), 0.14);
        extremes.end_epoch();
    }
    assert_eq!(extremes.range(), Some(range(0.13, 0.14)));
    // What is measured now counts at once.
    extremes.include(SizedRtt::large(ms(120)), 0.15);
    assert_eq!(extremes.range(), Some(range(0.12, 0.15)));
}

#[test]
fn without_losses_nothing_is_forgotten() {
    let t0 = epoch();
    let mut abgd = avoiding(Config::PAPER);
    for excursion in 0..100 {
        let at = t0 + ms(1000 * excursion);
        abgd.react(0.6, at, at);
        abgd.react(0.6, at + ms(150), at);
        abgd.react(0.0, at + ms(300), at);
    }
    assert_eq!(abgd.extremes.range(), Some(KNOWN));
    assert_eq!(abgd.window(), 2000);
}
