//! Tests of `gaimd.rs`.

use super::*;
use crate::testing::{epoch, ms};

const MTU: u16 = 1000;

fn ack(bytes: u64) -> Ack {
    Ack {
        packets: bytes.div_ceil(u64::from(MTU)),
        ..Ack::new(epoch() + ms(40), epoch(), bytes)
    }
}

fn loss() -> Congestion {
    Congestion::loss(epoch(), 1000)
}

/// In congestion avoidance with a window of `window` bytes.
fn avoiding(config: Config, window: u64) -> Gaimd {
    Gaimd {
        window,
        threshold: Some(window),
        ..Gaimd::new(config, MTU)
    }
}

#[test]
fn slow_start_adds_what_was_acknowledged() {
    let mut reno = Gaimd::new(Config::RENO, MTU);
    assert_eq!((reno.window(), reno.slow_start_threshold()), (10_000, None));
    reno.on_ack(&ack(2000));
    reno.on_ack(&ack(500));
    assert_eq!(reno.window(), 12_500);
}

#[test]
fn slow_start_that_hystart_ends_goes_on_in_congestion_avoidance() {
    let mut reno = Gaimd::new(
        Config {
            slow_start: SlowStart::HyStart,
            ..Config::RENO
        },
        MTU,
    );
    let mut now = epoch() + ms(1000);
    // Ten ACKs in each round; the second takes 10 ms longer, and slows slow start down with its
    // eighth sample.
    for round in 0..6u32 {
        let (sent, rtt) = (now, ms(40) + ms(10) * round.min(1));
        now += rtt;
        for _ in 0..10 {
            reno.on_ack(&Ack {
                now,
                sent,
                rtt: Some(rtt),
                ..ack(1000)
            });
        }
    }
    // 18 packets, then 2 + 40 quarters of one. The next round ends it.
    assert_eq!(
        (reno.window(), reno.slow_start_threshold()),
        (10_000 + 18_000 + 42 * 250, None)
    );
    reno.on_ack(&Ack {
        now: now + ms(50),
        sent: now,
        ..ack(1000)
    });
    assert_eq!(reno.window(), 38_750);
    assert_eq!(reno.slow_start_threshold(), Some(38_750));
}

#[test]
fn slow_start_ends_at_the_threshold_and_the_rest_counts_towards_the_increase() {
    let mut reno = Gaimd {
        window: 9000,
        threshold: Some(10_000),
        ..Gaimd::new(Config::RENO, MTU)
    };
    reno.on_ack(&ack(3000));
    assert_eq!((reno.window, reno.acked), (10_000, 2000));
    reno.on_ack(&ack(7999));
    assert_eq!((reno.window, reno.acked), (10_000, 9999));
    reno.on_ack(&ack(1));
    assert_eq!((reno.window, reno.acked), (11_000, 0));
}

#[test]
fn the_window_grows_by_alpha_packets_per_window_acknowledged() {
    // (alpha, window, acknowledged at once, window after, bytes left to count)
    let table = [
        (1.0, 10_000, 9_999, 10_000, 9_999),
        (1.0, 10_000, 10_000, 11_000, 0),
        (1.0, 10_000, 10_400, 11_000, 400),
        (0.31, 10_000, 10_000, 10_310, 0),
        (2.0, 10_000, 25_000, 14_000, 5_000),
    ];
    for (alpha, window, acked, after, left) in table {
        let mut gaimd = avoiding(
            Config {
                alpha,
                ..Config::default()
            },
            window,
        );
        gaimd.on_ack(&ack(acked));
        assert_eq!(
            (gaimd.window, gaimd.acked),
            (after, left),
            "alpha {alpha}, acked {acked}"
        );
    }
}

#[test]
fn congestion_reduces_the_window_to_beta_of_itself() {
    // (beta, window, window after): never below two packets.
    let table = [
        (0.5, 10_000, 5_000),
        (0.875, 10_000, 8_750),
        (0.5, 3_000, 2_000),
        (0.5, 2_000, 2_000),
    ];
    for (beta, window, after) in table {
        let mut gaimd = avoiding(
            Config {
                beta,
                ..Config::default()
            },
            window,
        );
        gaimd.acked = 700;
        gaimd.on_congestion(&loss());
        assert_eq!(
            (gaimd.window, gaimd.threshold, gaimd.acked),
            (after, Some(after), 0),
            "beta {beta}"
        );
    }
}

#[test]
fn after_persistent_congestion_slow_start_leads_back_to_the_threshold() {
    let mut reno = avoiding(Config::RENO, 10_000);
    reno.on_congestion(&loss());
    reno.on_persistent_congestion();
    assert_eq!((reno.window, reno.threshold), (2000, Some(5000)));
    reno.on_ack(&ack(2000));
    assert_eq!(reno.window, 4000);
    reno.on_ack(&ack(4000));
    assert_eq!((reno.window, reno.acked), (5000, 3000));
}

#[test]
fn data_of_the_recovery_period_and_an_idle_application_do_not_grow_the_window() {
    let mut reno = Gaimd::new(Config::RENO, MTU);
    reno.on_ack(&Ack {
        bytes_after_recovery: 0,
        ..ack(2000)
    });
    reno.on_ack(&Ack {
        app_limited: true,
        ..ack(2000)
    });
    assert_eq!((reno.window, reno.acked), (10_000, 0));
}

#[test]
fn a_larger_packet_raises_the_minimum_and_nothing_else() {
    let mut reno = avoiding(Config::RENO, 10_000);
    reno.on_mtu(1400);
    assert_eq!(reno.window, 10_000);
    let mut small = avoiding(Config::RENO, 2000);
    small.on_mtu(1400);
    assert_eq!(small.window, 2800);
}
