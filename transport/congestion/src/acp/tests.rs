use super::*;
use crate::controller::Ack;
use crate::guided::Rtts;
use crate::testing::{ack, epoch, ms, path_sample};

#[test]
fn each_ack_moves_the_window_by_its_share_of_it() {
    // (window, desired, congested, acknowledged, window after), in bytes
    let table = [
        (10_000.0, 20_000.0, false, 1000.0, 11_000.0), // Eq. (3): + 10000 / 10
        (10_000.0, 20_000.0, true, 1000.0, 10_100.0),  // Eq. (2): a tenth of that
        (20_000.0, 10_000.0, false, 1000.0, 19_500.0),
        (20_000.0, 10_000.0, true, 1000.0, 19_500.0), // downwards at once
        (10_000.0, 10_000.0, true, 1000.0, 10_000.0),
        (10_000.0, 20_000.0, false, 10_000.0, 20_000.0), // a whole window
        (10_000.0, 20_000.0, true, 10_000.0, 11_000.0),
        (1000.0, 90_000.0, false, 1000.0, 90_000.0), // the first packet
        (300.0, 600.0, false, 1000.0, 600.0),        // more than the window: not beyond
        (600.0, 400.0, false, 1000.0, 400.0),
        (600.0, 200.0, false, 1000.0, 300.0), // at most half is taken
        (600.0, 0.0, false, 1000.0, 300.0),
        (4000.0, 0.0, false, 2000.0, 2000.0),
        (10_000.0, 0.0, false, 0.0, 10_000.0),
    ];
    for (window, desired, congested, acked, after) in table {
        let by_rule = next_window(window, desired, congested, acked);
        assert!(
            (by_rule - after).abs() < 1e-9,
            "{window}, {desired}, {congested}, {acked}: {by_rule}"
        );
    }
}

/// An ACK of 2000 bytes on a path of 100 ms, where 1060 bytes of IP packet carry 1000.
fn next(rule: &mut AcpRule, window: f64, ack: &Ack) -> f64 {
    rule.next(
        window,
        &Facts {
            ack,
            rtts: Rtts {
                base: ms(100),
                latest: ms(120),
                smoothed: ms(150),
            },
            mtu: 1000,
            payload: 1000.0 / 1060.0,
        },
    )
}

#[test]
fn the_desired_window_is_the_payload_that_the_rate_carries_in_an_empty_round_trip() {
    // 212000 bytes of IP packets per second: 21200 in 100 ms, of which 20000 are payload.
    let mut rule = AcpRule::default();
    let granted = PathSample {
        grant: Some(Grant::Rate(212_000)),
        ..path_sample()
    };
    assert!(rule.on_path(&granted));
    let ack = ack(epoch(), 150, 2000);
    assert!((next(&mut rule, 10_000.0, &ack) - 12_000.0).abs() < 1e-9);
    assert!((next(&mut rule, 40_000.0, &ack) - 39_000.0).abs() < 1e-9);
    assert!(rule.on_path(&PathSample {
        congested: true,
        ..granted
    }));
    assert!((next(&mut rule, 10_000.0, &ack) - 10_200.0).abs() < 1e-9);
    assert!((next(&mut rule, 40_000.0, &ack) - 39_000.0).abs() < 1e-9);
}

#[test]
fn in_recovery_a_window_falls_and_does_not_grow() {
    let mut rule = AcpRule {
        rate: 212_000.0,
        congested: false,
    };
    let ack = Ack {
        bytes_after_recovery: 500,
        ..ack(epoch(), 150, 2000)
    };
    assert!((next(&mut rule, 10_000.0, &ack) - 10_500.0).abs() < 1e-9);
    assert!((next(&mut rule, 40_000.0, &ack) - 39_000.0).abs() < 1e-9);
}

#[test]
fn a_window_of_few_packets_heeds_little_of_a_queue_that_comes_and_goes() {
    for (packets, heeded) in [(0.0, 0.0), (1.0, 0.25), (4.0, 1.0), (1000.0, 1.0)] {
        assert_eq!(
            AcpRule::queueing_share(packets),
            heeded,
            "{packets} packets"
        );
    }
}

#[test]
fn what_is_no_rate_is_not_heard() {
    let mut rule = AcpRule::default();
    for grant in [None, Some(Grant::WindowChange(1000))] {
        assert!(!rule.on_path(&PathSample {
            grant,
            ..path_sample()
        }));
    }
    assert_eq!(rule.rate, 0.0);
}
