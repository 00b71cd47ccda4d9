//! Tests of `ro_vegas.rs`.

use proptest::prelude::*;

use super::*;
use crate::testing::{ack, epoch, loss, ms, path_sample, round};
use crate::vegas::Vegas;
use crate::window::InitialWindow;

const MTU: u16 = 1000;

/// A complete sample: round trip, queueing there and back, in milliseconds.
fn sample(rtt: u64, forward: u64, backward: u64) -> PathSample {
    PathSample {
        rtt: ms(rtt),
        forward_queueing: Some(ms(forward)),
        backward_queueing: Some(ms(backward)),
        ..path_sample()
    }
}

/// In congestion avoidance with a window of `packets` packets, a BaseRTT of 100 ms without
/// headers, and a bound that is twice as large.
fn avoiding(packets: u16) -> RoVegas {
    let vegas = vegas::Config {
        initial_window: InitialWindow::Packets(2 * packets),
        ..vegas::Config::VEGAS_1
    };
    let config = Config {
        vegas,
        ..Config::PAPER
    };
    let mut ro = RoVegas::new(config, MTU);
    ro.on_round(&round(100));
    ro.on_congestion(&loss());
    ro.bound.raise_to(2 * u64::from(packets) * 1000);
    assert_eq!(ro.window(), u64::from(packets) * 1000);
    ro
}

#[test]
fn congestion_avoidance_follows_equation_4_with_what_routers_told() {
    // (window in packets, sample, RTT of ACKs, window after in packets)
    let table = [
        // Nothing queues: Diff = 0.
        (20, sample(100, 0, 0), 100, 21),
        // 100 ms of queueing on the way back: Diff = 20 (1 - 100 / 100) = 0. Vegas: 10.
        (20, sample(200, 0, 100), 200, 21),
        // On the way there: Diff = 20 (1 - 100 / 200) = 10.
        (20, sample(200, 100, 0), 200, 19),
        // Both: Diff = 20 (1 - 100 / 110) = 1.8.
        (20, sample(310, 10, 200), 310, 20),
        // Diff = 20 (1 - 100 / 105) = 0.95 and = 20 (1 - 100 / 118) = 3.05.
        (20, sample(200, 5, 95), 200, 21),
        (20, sample(200, 18, 82), 200, 19),
        // Flows that were there before are told from the path: BaseRTT 50, Diff = 20 (1 - 50 / 60).
        (20, sample(100, 10, 40), 100, 19),
        // A longer path: BaseRTT 150, Diff = 20 (1 - 150 / 155) = 0.65. Vegas: 7.
        (20, sample(155, 5, 0), 155, 21),
        // Routers tell more than there was: nothing is left to divide by.
        (20, sample(100, 0, 100), 100, 21),
        (20, sample(100, 100, 0), 100, 19),
    ];
    for (window, sample, rtt, after) in table {
        let mut ro = avoiding(window);
        ro.on_path(&sample);
        ro.on_round(&round(rtt));
        assert_eq!(ro.window(), after * 1000, "{sample:?}");
    }
}

#[test]
fn a_round_is_judged_by_its_least_round_trip_without_the_way_back() {
    let mut ro = avoiding(20);
    for told in [
        sample(290, 90, 100),
        sample(155, 5, 50),
        sample(240, 90, 50),
    ] {
        ro.on_path(&told);
    }
    ro.on_round(&round(150));
    assert_eq!(ro.window(), 21_000, "Diff = 20 (1 - 100 / 105) = 0.95");
    // Without a new sample it is the least round trip, and BaseRTT is still known.
    ro.on_round(&round(150));
    assert_eq!(ro.window(), 20_000, "Diff = 21 (1 - 100 / 150) = 7");
}

#[test]
fn slow_start_ends_by_the_newest_sample_without_the_way_back() {
    for (newest, threshold) in [
        (sample(300, 0, 200), None),
        (sample(311, 11, 200), None), // Diff = 10 * 11 / 111 = 0.99
        (sample(312, 12, 200), Some(8_750)), // Diff = 10 * 12 / 112 = 1.07
    ] {
        let mut ro = RoVegas::new(Config::PAPER, MTU);
        ro.on_path(&sample(100, 0, 0));
        ro.on_path(&newest);
        ro.on_round(&round(300));
        assert_eq!(ro.slow_start_threshold(), threshold, "{newest:?}");
    }
}

/// A sample of a path on which some router does not stamp.
fn with_gap(rtt: u64, forward: u64, backward: u64) -> PathSample {
    PathSample {
        complete: false,
        ..sample(rtt, forward, backward)
    }
}

#[test]
fn a_path_with_gaps_only_lowers_base_rtt() {
    // (sample, window after): BaseRTT is at most the 100 ms that were measured.
    let table = [
        (with_gap(155, 5, 0), 19_000),   // Diff = 20 (1 - 100 / 155) = 7.1
        (with_gap(155, 5, 50), 21_000),  // Diff = 20 (1 - 100 / 105) = 0.95
        (with_gap(100, 10, 40), 19_000), // BaseRTT 50
    ];
    for (sample, after) in table {
        let mut ro = avoiding(20);
        for _ in 0..8 {
            ro.on_path(&with_gap(100, 0, 0));
            ro.on_round(&round(100));
        }
        ro.window.lower_to(20_000);
        ro.on_path(&sample);
        ro.on_round(&round(100));
        assert_eq!(ro.window(), after, "{sample:?}");
    }
}

#[test]
fn round_trips_of_packets_before_the_first_header_are_no_part_of_base_rtt() {
    // The handshake's small packets took 100 ms; with headers, both ways, it is 130 ms.
    let t0 = epoch();
    let mut ro = avoiding(20);
    let told = |now| PathSample {
        now,
        ..with_gap(130, 0, 0)
    };
    let at = |now, rtt| Round {
        now: t0 + ms(now),
        ..round(rtt)
    };
    ro.on_path(&told(t0));
    ro.on_round(&at(0, 130));
    assert_eq!(ro.window(), 21_000, "Diff = 0 and not 20 (1 - 100 / 130)");
    ro.on_round(&at(5000, 130));
    assert_eq!(ro.window(), 20_000, "without headers it is Vegas");
    ro.on_path(&told(t0 + ms(6000)));
    ro.on_round(&at(6000, 130));
    assert_eq!(ro.window(), 21_000);
}

#[test]
fn one_direction_that_stamps_is_better_than_none() {
    let backward_only = PathSample {
        forward_queueing: None,
        complete: false,
        ..sample(200, 0, 100)
    };
    let mut ro = avoiding(20);
    ro.on_path(&backward_only);
    ro.on_round(&round(200));
    assert_eq!(ro.window(), 21_000, "Diff = 0 without the way back");
}

#[test]
fn another_route_is_followed_to_longer_round_trips_within_eight_rounds() {
    let mut ro = avoiding(20);
    ro.on_path(&sample(100, 0, 0));
    ro.on_round(&round(100));
    assert_eq!(ro.window(), 21_000);
    for rounds in 1..=7 {
        ro.on_path(&sample(180, 0, 0));
        ro.on_round(&round(180));
        assert_eq!(
            ro.window(),
            21_000 - 1000 * rounds,
            "the old route's is remembered"
        );
    }
    ro.on_path(&sample(180, 0, 0));
    ro.on_round(&round(180));
    assert_eq!(ro.window(), 15_000, "BaseRTT is 180 ms");
}

/// Where 50 ms have come to a round trip of 100 ms that no router told of: BaseRTT is 150 ms
/// by now. The window is 15 packets.
fn misled() -> RoVegas {
    let mut ro = avoiding(20);
    ro.on_path(&sample(100, 0, 0));
    ro.on_round(&round(100));
    for _ in 0..8 {
        ro.on_path(&sample(150, 0, 0));
        ro.on_round(&round(150));
    }
    assert_eq!(ro.window(), 15_000);
    ro
}

#[test]
fn a_loss_where_only_trust_kept_the_window_makes_a_complete_path_an_incomplete_one_for_a_while() {
    let mut ro = misled();
    ro.on_congestion(&loss());
    assert_eq!(ro.window(), 7_500);
    let trusted = |ro: &mut RoVegas| {
        let before = ro.window();
        ro.on_path(&sample(200, 0, 0));
        ro.on_round(&round(200));
        // Diff = w (1 - 100 / 200) if it is not.
        ro.window() > before
    };
    for lasts in [FIRST_DISTRUST, 2 * FIRST_DISTRUST] {
        ro.window.avoid_congestion(500_000);
        ro.bound.raise_to(900_000);
        for round in 0..lasts {
            assert!(!trusted(&mut ro), "round {round} of {lasts}");
        }
        assert!(trusted(&mut ro), "after {lasts} rounds");
        ro.on_congestion(&loss());
    }
}

#[test]
fn losses_that_the_window_explains_leave_the_trust() {
    // Diff = 20 (1 - 100 / 200): the queue was told of.
    let mut ro = avoiding(20);
    ro.on_path(&sample(200, 100, 0));
    ro.on_round(&round(200));
    ro.on_congestion(&loss());
    assert!(ro.trust.holds());
    // Marks are a router's doing, whatever the queue.
    let mut ro = misled();
    ro.on_congestion(&Congestion::ecn(epoch()));
    assert!(ro.trust.holds());
    ro.on_congestion(&loss());
    assert!(!ro.trust.holds());
}

#[test]
fn a_loss_that_no_round_trip_shows_leaves_the_trust() {
    // A burst met a short queue on the way there, or the packet was lost by chance; the long
    // queue on the way back was told of.
    let mut ro = avoiding(20);
    for _ in 0..8 {
        ro.on_path(&sample(300, 0, 200));
        ro.on_round(&round(300));
    }
    ro.on_congestion(&loss());
    assert!(ro.trust.holds());
    // 50 ms might hide somewhere, but 60 ms were told of.
    for (told, trusted) in [(60, true), (40, false)] {
        let mut ro = misled();
        ro.on_path(&sample(150 + told, told, 0));
        ro.on_path(&sample(150, 0, 0));
        ro.on_round(&round(150));
        ro.on_congestion(&loss());
        assert_eq!(ro.trust.holds(), trusted, "{told} ms told");
    }
}

#[test]
fn when_headers_stop_it_is_vegas_after_four_round_trips() {
    let t0 = epoch();
    let mut ro = avoiding(20);
    ro.on_ack(&ack(t0, 100, 1000));
    // A lie: all of the round trip was queueing on the way there.
    ro.on_path(&PathSample {
        now: t0,
        ..sample(100, 100, 0)
    });
    let at = |now, rtt| Round {
        now: t0 + ms(now),
        ..round(rtt)
    };
    ro.on_round(&at(0, 100));
    assert_eq!(ro.window(), 19_000);
    ro.on_round(&at(400, 100));
    assert_eq!(ro.window(), 18_000, "BaseRTT is 0 for four round trips");
    ro.on_round(&at(401, 100));
    assert_eq!(ro.window(), 19_000, "then 100 ms");
}

#[test]
fn routers_do_not_lift_the_window_above_what_losses_allow() {
    let mut ro = avoiding(20);
    ro.bound.on_congestion(&loss(), 20_000);
    let free = sample(200, 0, 100);
    for _ in 0..10 {
        ro.on_path(&free);
        ro.on_round(&round(200));
        assert_eq!(ro.window(), 20_000, "no growth, but nothing taken either");
    }
    ro.bound.raise_to(20_500);
    ro.on_path(&free);
    ro.on_round(&round(200));
    assert_eq!(ro.window(), 20_500);
}

#[test]
fn losses_are_answered_as_vegas_answers_them() {
    let mut ro = avoiding(20);
    ro.on_path(&sample(100, 0, 0));
    ro.on_congestion(&loss());
    assert_eq!((ro.window(), ro.bound.window()), (10_000, 10_000));
    ro.on_persistent_congestion();
    assert_eq!((ro.window(), ro.bound.window()), (2000, 2000));
    ro.on_mtu(1400);
    assert_eq!((ro.window(), ro.bound.window()), (2800, 2800));
}

#[test]
fn fewer_headers_are_asked_for_the_less_queues_on_the_way_back() {
    // (packets in the window, probes, backward share, one header in)
    let table = [
        (100.0, 8, 0.0, 12),
        (100.0, 8, 0.1, 5), // 8 + 9.2
        (100.0, 8, 0.5, 1), // 8 + 46
        (100.0, 8, 1.0, 1),
        (8.0, 8, 0.0, 1),
        (2.0, 8, 0.0, 1),
        (1000.0, 1, 0.0, 1000),
    ];
    for (packets, probes, share, expected) in table {
        assert_eq!(
            interval(packets, probes, share),
            expected,
            "{packets}, {share}"
        );
    }
    let mut ro = avoiding(100);
    assert_eq!(ro.header_interval(), 1, "the paper's: all");
    ro.config.probes = Some(10);
    assert_eq!(ro.header_interval(), 10);
    ro.on_path(&sample(200, 0, 20));
    assert_eq!(ro.header_interval(), 5, "10 + 90 / 10 = 19 of 100");
}

/// What a connection without path feedback is told, and headers that no router has stamped.
fn told() -> impl Strategy<Value = (u8, u64, u64, bool, bool)> {
    (
        0_u8..8,
        1_u64..400,
        0_u64..40_000,
        any::<bool>(),
        any::<bool>(),
    )
}

proptest! {
    #[test]
    fn without_routers_that_stamp_it_is_vegas(events in prop::collection::vec(told(), 1..200)) {
        let t0 = epoch();
        let mut ro = RoVegas::new(Config::PAPER, MTU);
        let mut vegas = Vegas::new(Config::PAPER.vegas, MTU);
        for (at, (event, rtt, bytes, one, other)) in events.into_iter().enumerate() {
            let now = t0 + ms(400 + at as u64 * 10);
            let both: [&mut dyn Controller; 2] = [&mut ro, &mut vegas];
            for controller in both {
                match event {
                    0..3 => controller.on_ack(&Ack {
                        app_limited: one && other,
                        bytes_after_recovery: if one { 0 } else { bytes },
                        ..ack(now, rtt, bytes)
                    }),
                    3..6 => controller.on_round(&Round {
                        now,
                        rtt_end: ms(rtt + bytes / 100),
                        unused: if one { 2001 } else { 0 },
                        in_recovery: one && other,
                        ..round(rtt)
                    }),
                    6 if one => controller.on_congestion(&loss()),
                    6 => controller.on_persistent_congestion(),
                    _ => controller.on_path(&PathSample {
                        now,
                        rtt: ms(rtt),
                        forward_queueing: None,
                        backward_queueing: None,
                        complete: false,
                        ..path_sample()
                    }),
                }
            }
            prop_assert_eq!(ro.window(), vegas.window());
            prop_assert_eq!(ro.slow_start_threshold(), vegas.slow_start_threshold());
        }
    }
}
