//! TFRC against steps worked by hand, from the rules of RFC 5348.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{epoch, ms};

const MTU: u16 = 1000;

/// Ten packets in the first round trip.
const PLAIN: Config = Config {
    damping: false,
    ..Config::RFC_5348
};

/// An ACK at `now` milliseconds of `bytes` bytes, the newest sent `rtt` milliseconds before.
fn ack(t0: Instant, now: u64, rtt: u64, bytes: u64) -> Ack {
    crate::testing::ack(t0 + ms(now), rtt, bytes)
}

/// A round that ends at `now` milliseconds.
fn round(t0: Instant, now: u64, rtt: u64, bytes: u64) -> Round {
    Round {
        in_flight: 10_000,
        ..Round::new(t0 + ms(now), ms(rtt), bytes)
    }
}

fn loss(t0: Instant, now: u64) -> Congestion {
    Congestion::loss(t0 + ms(now), 1000)
}

/// One ACK that ends a round at `now` milliseconds, with all of its bytes.
fn arrive(tfrc: &mut Tfrc, t0: Instant, now: u64, rtt: u64, bytes: u64) {
    tfrc.on_ack(&ack(t0, now, rtt, bytes));
    tfrc.on_round(&round(t0, now, rtt, bytes));
}

/// After the first sample of 100 ms at 100 ms: 10 packets a round trip.
fn begun(config: Config, t0: Instant) -> Tfrc {
    let mut tfrc = Tfrc::new(config, t0, MTU);
    arrive(&mut tfrc, t0, 100, 100, 1000);
    tfrc
}

/// In a round trip of 100 ms, after a loss event for every `interval` packets, nine of them, and
/// with X_recv not limiting.
fn lossy(config: Config, t0: Instant, interval: f64) -> Tfrc {
    let mut tfrc = begun(config, t0);
    for _ in 0..9 {
        tfrc.intervals.count(interval);
        tfrc.intervals.loss_event();
    }
    tfrc.received.replace(t0 + ms(100), f64::INFINITY);
    tfrc.recompute(t0 + ms(100), f64::INFINITY);
    tfrc
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-3
}

#[test]
fn the_first_round_trip_sets_the_rate_of_the_initial_window() {
    let t0 = epoch();
    let mut tfrc = Tfrc::new(PLAIN, t0, MTU);
    assert_eq!((tfrc.window(), tfrc.pacing_rate()), (10_000, None));
    arrive(&mut tfrc, t0, 100, 100, 1000);
    // 10 packets in 100 ms.
    assert_eq!(tfrc.pacing_rate(), Some(100_000));
    assert_eq!(tfrc.slow_start_threshold(), None);
}

#[test]
fn before_a_loss_the_rate_doubles_once_a_round_trip_up_to_twice_what_arrives() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    // (now in ms, bytes since the round before, rate after)
    let table = [
        (150, 5_000, 100_000.0),  // not a round trip since the first
        (200, 5_000, 200_000.0),  // nothing limits for two round trips
        (300, 20_000, 400_000.0), // X_recv 200 kB/s
        (400, 15_000, 400_000.0), // 150 kB/s; the greatest of two round trips is 200
        (500, 15_000, 400_000.0),
        (600, 15_000, 300_000.0), // now it is 150
        (700, 1_000, 300_000.0),
        (800, 1_000, 300_000.0),
        (900, 1_000, 100_000.0), // 10 kB/s: no less than the initial rate
    ];
    for (now, bytes, rate) in table {
        arrive(&mut tfrc, t0, now, 100, bytes);
        assert!(near(tfrc.rate, rate), "at {now} ms: {}", tfrc.rate);
    }
}

#[test]
fn the_first_loss_takes_the_rate_to_the_most_that_arrived() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    arrive(&mut tfrc, t0, 200, 100, 10_000);
    arrive(&mut tfrc, t0, 300, 100, 20_000);
    assert!(near(tfrc.rate, 400_000.0));
    tfrc.on_congestion(&loss(t0, 310));
    assert!(near(tfrc.rate, 200_000.0), "{}", tfrc.rate);
    // The equation's p for 20 packets a round trip: 12.7 packets give sqrt(2p/3) = 0.0488 of 0.05.
    let p = tfrc.intervals.loss_event_rate().expect("a loss");
    assert!((0.0035..0.0036).contains(&p), "{p}");
}

#[test]
fn a_loss_before_anything_was_measured_halves_the_rate() {
    let t0 = epoch();
    let mut tfrc = Tfrc::new(PLAIN, t0, MTU);
    let rate = tfrc.rate;
    tfrc.on_congestion(&loss(t0, 50));
    assert!(near(tfrc.rate, rate / 2.0));
}

#[test]
fn after_losses_the_rate_is_the_equations() {
    let t0 = epoch();
    // p = 1/100, s = 1000, R = 0.1: see `equation`.
    let mut tfrc = lossy(PLAIN, t0, 100.0);
    assert!(near(tfrc.rate, 112_332.0), "{}", tfrc.rate);
    // A longer round trip: R = 0.9 x 100 + 0.1 x 200 = 110 ms.
    arrive(&mut tfrc, t0, 300, 200, 30_000);
    assert!(near(tfrc.rate, 112_332.0 / 1.1), "{}", tfrc.rate);
    // Packets without a loss let it rise only when the open interval makes the mean longer.
    let before = tfrc.rate;
    tfrc.intervals.count(200.0);
    arrive(&mut tfrc, t0, 400, 110, 30_000);
    assert!(tfrc.rate > before);
}

#[test]
fn what_is_lost_in_a_loss_event_belongs_to_the_interval_that_it_begins() {
    let t0 = epoch();
    let mut tfrc = lossy(PLAIN, t0, 100.0);
    tfrc.on_congestion(&loss(t0, 150));
    tfrc.on_round(&Round {
        lost: 4000,
        ..round(t0, 200, 100, 10_000)
    });
    let mut expected = lossy(PLAIN, t0, 100.0).intervals;
    expected.loss_event();
    expected.count(4.0);
    assert_eq!(format!("{:?}", tfrc.intervals), format!("{expected:?}"));
}

#[test]
fn twice_what_arrives_limits_the_equation() {
    let t0 = epoch();
    let mut tfrc = lossy(PLAIN, t0, 100.0);
    tfrc.received.replace(t0 + ms(100), 0.0);
    // 3000 bytes in 100 ms.
    arrive(&mut tfrc, t0, 200, 100, 3_000);
    assert!(near(tfrc.rate, 60_000.0), "{}", tfrc.rate);
}

#[test]
fn data_that_ends_a_silence_counts_as_of_one_round_trip() {
    let t0 = epoch();
    // (first ACK, the one that ends the round, X_recv of 3000 bytes)
    let table = [
        (150, 200, 30_000.0), // from 100 on, when the round began
        (390, 400, 27_272.7), // from 290 on
    ];
    for (first, end, received) in table {
        let mut tfrc = begun(PLAIN, t0);
        tfrc.on_ack(&ack(t0, first, 100, 2_000));
        arrive(&mut tfrc, t0, end, 100, 3_000);
        assert!(near(tfrc.most_received, received), "{}", tfrc.most_received);
    }
}

#[test]
fn a_sender_with_little_to_send_keeps_its_rate_and_gains_none() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    arrive(&mut tfrc, t0, 200, 100, 10_000);
    arrive(&mut tfrc, t0, 300, 100, 20_000);
    let limited = |now, bytes| Round {
        app_limited: true,
        ..round(t0, now, 100, bytes)
    };
    // X_recv was 200 kB/s at most; ten round trips at 10 kB/s do not change that.
    for now in (400..1400).step_by(100) {
        tfrc.on_ack(&ack(t0, now, 100, 1_000));
        tfrc.on_round(&limited(now, 1_000));
        assert!(near(tfrc.rate, 400_000.0), "{}", tfrc.rate);
    }
    // A loss meanwhile: half of what was, no more than that. The equation gives 200 kB/s.
    tfrc.on_congestion(&loss(t0, 1_350));
    tfrc.on_ack(&ack(t0, 1_400, 100, 1_000));
    tfrc.on_round(&limited(1_400, 1_000));
    assert!(near(tfrc.received.max(), 100_000.0));
    assert!(near(tfrc.rate, 100_000.0), "{}", tfrc.rate);
}

#[test]
fn a_loss_of_a_limited_sender_leaves_85_percent_of_what_arrived() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    tfrc.received.replace(t0, 1_000.0);
    tfrc.lost = true;
    let limit = tfrc.limit(t0 + ms(200), 100_000.0, true);
    assert!(near(limit, 85_000.0), "{limit}");
}

#[test]
fn without_feedback_the_rate_halves_after_four_round_trips_and_again() {
    let t0 = epoch();
    // (the ACK's time in ms, how often the timer ended): begins at 100, R = 100.
    let table = [(499, 0), (500, 0), (501, 1), (901, 2), (1_301, 3)];
    for (now, ends) in table {
        let mut tfrc = begun(PLAIN, t0);
        tfrc.rate = 1_000_000.0;
        tfrc.miss_feedback(t0 + ms(now), false);
        let expected = 1_000_000.0 / 2.0_f64.powi(ends);
        assert!(near(tfrc.rate, expected), "{now} ms: {}", tfrc.rate);
        // The equation's rate, 112 kB/s, halves likewise.
        let mut tfrc = lossy(PLAIN, t0, 100.0);
        tfrc.miss_feedback(t0 + ms(now), false);
        let expected = 112_332.0 / 2.0_f64.powi(ends);
        assert!(near(tfrc.rate, expected), "{now} ms: {}", tfrc.rate);
    }
}

#[test]
fn without_feedback_a_rate_above_twice_what_arrived_comes_down_to_it() {
    let t0 = epoch();
    let mut tfrc = lossy(PLAIN, t0, 100.0);
    tfrc.received.replace(t0 + ms(100), 20_000.0);
    tfrc.miss_feedback(t0 + ms(501), false);
    assert!(near(tfrc.rate, 20_000.0), "{}", tfrc.rate);
}

#[test]
fn an_idle_sender_keeps_the_rate_that_it_could_begin_with() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    tfrc.rate = 1_000_000.0;
    tfrc.miss_feedback(t0 + ms(3_600_000), true);
    // 1000, 500, 250, 125 kB/s: below twice the initial rate of 100 kB/s.
    assert!(near(tfrc.rate, 125_000.0), "{}", tfrc.rate);
    let mut tfrc = lossy(PLAIN, t0, 100.0);
    tfrc.received.replace(t0 + ms(100), 99_000.0);
    tfrc.miss_feedback(t0 + ms(3_600_000), true);
    assert!(near(tfrc.rate, 112_332.0), "{}", tfrc.rate);
    // Not idle, it would send a packet every 64 s.
    tfrc.heard = t0 + ms(100);
    tfrc.miss_feedback(t0 + ms(3_600_000), false);
    assert!(near(tfrc.rate, 1000.0 / 64.0), "{}", tfrc.rate);
}

#[test]
fn the_gap_before_an_ack_is_what_ends_the_timer() {
    let t0 = epoch();
    for (limited, rate) in [(false, 500_000.0), (true, 500_000.0)] {
        let mut tfrc = begun(PLAIN, t0);
        tfrc.rate = 1_000_000.0;
        tfrc.on_ack(&Ack {
            app_limited: limited,
            ..ack(t0, 600, 100, 1_000)
        });
        assert!(near(tfrc.rate, rate), "{}", tfrc.rate);
        tfrc.on_ack(&ack(t0, 999, 100, 1_000));
        assert!(near(tfrc.rate, rate), "it runs from ACK to ACK");
    }
}

#[test]
fn damping_sends_slower_while_the_round_trip_is_longer_than_usual() {
    let t0 = epoch();
    let mut tfrc = lossy(Config::RFC_5348, t0, 100.0);
    assert!(near(tfrc.sending_rate(), 112_332.0));
    tfrc.on_round(&round(t0, 300, 400, 100_000));
    // R = 130 ms; R_sqmean = 0.9 sqrt(0.1) + 0.1 sqrt(0.4) = 1.1 sqrt(0.1); against sqrt(0.4).
    let (rate, sent) = (tfrc.rate, tfrc.sending_rate());
    assert!(near(rate, 112_332.0 / 1.3), "{rate}");
    assert!(near(sent, rate * 0.55), "{sent}");
    assert_eq!(tfrc.pacing_rate(), Some(sent as u64));
    let mut plain = lossy(PLAIN, t0, 100.0);
    plain.on_round(&round(t0, 300, 400, 100_000));
    assert_eq!(plain.sending_rate(), plain.rate);
}

#[test]
fn the_window_is_a_cap_that_the_rate_does_not_reach() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    // 100 kB/s for 1.25 x 100 + 1 ms, and two packets: 14,600; 1000 acknowledged so far.
    assert_eq!((tfrc.cap(), tfrc.window), (14_600, 11_000));
    tfrc.on_ack(&ack(t0, 110, 100, 2_000));
    assert_eq!(tfrc.window, 13_000, "by what is acknowledged");
    tfrc.on_ack(&ack(t0, 120, 100, 2_000));
    assert_eq!(tfrc.window, 14_600, "up to the cap");
    tfrc.rate = 50_000.0;
    tfrc.on_ack(&ack(t0, 130, 100, 2_000));
    assert_eq!(tfrc.window, 8_300, "down to it at once");
    // The newest round trip counts if it is longer.
    tfrc.on_round(&round(t0, 140, 300, 1_000));
    assert!(tfrc.cap() > 50 * 375);
}

#[test]
fn data_of_the_recovery_period_does_not_grow_the_window() {
    let t0 = epoch();
    let mut tfrc = begun(PLAIN, t0);
    tfrc.on_ack(&Ack {
        bytes_after_recovery: 0,
        ..ack(t0, 110, 100, 2_000)
    });
    assert_eq!(tfrc.window, 11_000);
}

#[test]
fn after_persistent_congestion_two_packets_a_round_trip_lead_back_to_the_equation() {
    let t0 = epoch();
    let mut tfrc = lossy(PLAIN, t0, 100.0);
    tfrc.on_congestion(&loss(t0, 150));
    let before = tfrc.rate;
    tfrc.on_persistent_congestion();
    assert_eq!(tfrc.window, 2_000);
    assert!(near(tfrc.rate, 20_000.0), "{}", tfrc.rate);
    // (bytes a round trip of 100 ms, rate after)
    let table = [(2_000, 40_000.0), (4_000, 80_000.0), (8_000, before)];
    for (now, (bytes, rate)) in (200..).step_by(100).zip(table) {
        arrive(&mut tfrc, t0, now, 100, bytes);
        assert!(near(tfrc.rate, rate), "{}, not {rate}", tfrc.rate);
    }
}

#[test]
fn a_larger_packet_raises_the_minimum_and_nothing_else() {
    let t0 = epoch();
    for (window, after) in [(10_000, 10_000), (2_000, 2_800)] {
        let mut tfrc = begun(PLAIN, t0);
        tfrc.window = window;
        tfrc.on_mtu(1400);
        assert_eq!(tfrc.window, after);
    }
}

/// Round trips of 100 ms over a path that loses every `interval`-th packet and nothing else, for
/// as long as it takes to lose 40; returns the mean rate while it lost the last 20.
fn periodic_losses(config: Config, interval: f64) -> f64 {
    let t0 = epoch();
    let mut tfrc = begun(config, t0);
    let (mut now, mut sent, mut losses) = (100, 0.0, 0.0);
    let (mut sum, mut rounds) = (0.0, 0.0);
    while losses < 40.0 {
        now += 100;
        let packets = tfrc.sending_rate() * 0.1 / 1000.0;
        sent += packets;
        tfrc.on_ack(&Ack {
            packets: packets.round() as u64,
            ..ack(t0, now, 100, (packets * 1000.0) as u64)
        });
        tfrc.on_round(&round(t0, now, 100, (packets * 1000.0) as u64));
        if sent >= interval * (losses + 1.0) {
            losses += 1.0;
            tfrc.on_congestion(&loss(t0, now));
        }
        if losses >= 20.0 {
            sum += tfrc.rate;
            rounds += 1.0;
        }
    }
    sum / rounds
}

#[test]
fn a_path_that_loses_every_nth_packet_gets_the_equations_rate() {
    for config in [
        PLAIN,
        Config::RFC_5348,
        Config {
            discounting: false,
            ..PLAIN
        },
    ] {
        for interval in [30.0, 100.0, 1000.0, 30_000.0] {
            let rate = periodic_losses(config, interval);
            let expected = throughput(1000.0, ms(100), 1.0 / interval);
            assert!(
                (rate / expected - 1.0).abs() < 0.1,
                "{config:?}, every {interval}: {rate}, not {expected}"
            );
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_rate_is_a_rate(
        damping in any::<bool>(), discounting in any::<bool>(),
        events in vec((0_u8..4, 0_u64..20_000, 0_u64..1_000, 0_u64..10_000_000, any::<bool>()), 1..200),
    ) {
        let t0 = epoch();
        let config = Config { damping, discounting, ..Config::RFC_5348 };
        let mut tfrc = Tfrc::new(config, t0, MTU);
        let mut now = 1_000;
        for (event, wait, rtt, bytes, flag) in events {
            now += wait;
            let before = tfrc.rate;
            match event {
                0 | 1 => {
                    tfrc.on_ack(&Ack { app_limited: flag, ..ack(t0, now, rtt, bytes) });
                    if event == 1 {
                        tfrc.on_round(&Round {
                            app_limited: flag,
                            lost: bytes / 3,
                            ..round(t0, now, rtt, bytes)
                        });
                        let most = (2.0 * tfrc.received.max()).max(tfrc.initial_rate()).max(before);
                        prop_assert!(tfrc.rate <= most, "{} of {most}", tfrc.rate);
                    }
                }
                2 => {
                    tfrc.on_congestion(&loss(t0, now));
                    prop_assert!(tfrc.rate <= before, "{before} rose to {} on a loss", tfrc.rate);
                }
                _ => tfrc.on_persistent_congestion(),
            }
            prop_assert!(tfrc.rate.is_finite() && tfrc.rate > 0.0, "{}", tfrc.rate);
            prop_assert!(tfrc.pacing_rate().is_none_or(|rate| rate > 0));
            prop_assert!(tfrc.window >= 2 * u64::from(MTU));
            let p = tfrc.intervals.loss_event_rate();
            prop_assert!(p.is_none_or(|p| p > 0.0 && p <= 1.0), "{p:?}");
        }
    }
}
