use super::*;
use crate::controller::Ack;
use crate::testing::{ack, epoch, ms, path_sample};

fn tell(rule: &mut XcpRule, bytes: i64) -> bool {
    rule.on_path(&PathSample {
        grant: Some(Grant::WindowChange(256 * bytes)),
        ..path_sample()
    })
}

/// The window after one of 10000 bytes, where all of an IP packet but a tenth is payload.
fn next(rule: &mut XcpRule, ack: &Ack) -> f64 {
    rule.next(
        10_000.0,
        &Facts {
            ack,
            rtts: Rtts {
                base: ms(100),
                latest: ms(110),
                smoothed: ms(150),
            },
            mtu: 1000,
            payload: 0.9,
        },
    )
}

#[test]
fn every_packet_acknowledged_changes_the_window() {
    let two = ack(epoch(), 100, 2000);
    // (H_feedback of the headers heard, window after an ACK of two packets)
    let table = [
        (vec![100], 10_180.0),
        (vec![100, 200], 10_270.0),
        (vec![-100], 9820.0),
        (vec![-100, 100], 10_000.0),
        (vec![-1_000_000], 1000.0), // one packet
        (vec![], 10_000.0),
    ];
    for (told, after) in table {
        let mut rule = XcpRule::default();
        for bytes in &told {
            assert!(tell(&mut rule, *bytes));
        }
        assert_eq!(next(&mut rule, &two), after, "{told:?}");
    }
}

#[test]
fn packets_without_an_echo_wait_for_the_next_one() {
    let two = ack(epoch(), 100, 2000);
    let mut rule = XcpRule::default();
    assert_eq!(next(&mut rule, &two), 10_000.0);
    tell(&mut rule, 100);
    assert_eq!(next(&mut rule, &two), 10_360.0, "four packets");
    assert_eq!(next(&mut rule, &two), 10_000.0, "once");
    assert!(!rule.on_path(&PathSample {
        grant: Some(Grant::Rate(1)),
        ..path_sample()
    }));
}

#[test]
fn in_recovery_a_window_falls_and_does_not_grow() {
    let mut rule = XcpRule::default();
    for (bytes, may_grow, after) in [(100, 0, 10_000.0), (100, 500, 10_045.0), (-100, 0, 9820.0)] {
        tell(&mut rule, bytes);
        let ack = Ack {
            bytes_after_recovery: may_grow,
            ..ack(epoch(), 100, 2000)
        };
        assert_eq!(next(&mut rule, &ack), after);
    }
}

#[test]
fn the_window_limits_and_not_the_pace() {
    let rtts = Rtts {
        base: ms(100),
        latest: ms(110),
        smoothed: ms(150),
    };
    assert_eq!(XcpRule::period(&rtts), ms(100));
    assert_eq!(XcpRule::slack(10_000.0, 1000), 0.0);
}
