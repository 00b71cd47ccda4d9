//! Timeouts as quinn's calls show them.

use evenkeel_tests::time::{epoch, ms};
use proptest::prelude::*;
use quinn::congestion::Controller as _;

use super::*;
use crate::controllers;

const MTU: u16 = 1200;
const PACKET: u64 = MTU as u64;

fn built(spec: &str, now: Instant) -> Box<dyn congestion::Controller> {
    let factory = controllers().factory(spec).expect("a right spec");
    factory.build(now, MTU)
}

/// Window and threshold in packets.
fn state(controller: &dyn congestion::Controller) -> (u64, Option<u64>) {
    let metrics = controller.metrics();
    (
        metrics.congestion_window / PACKET,
        metrics.ssthresh.map(|bytes| bytes / PACKET),
    )
}

fn gaimd(after_losses: bool, now: Instant, packets: u16) -> Timer {
    let timeouts = if after_losses {
        Timeouts::Reno
    } else {
        Timeouts::Tcp
    };
    let build = move |mtu| {
        let config = evenkeel_congestion::gaimd::Config {
            initial_window: evenkeel_congestion::InitialWindow::Packets(packets),
            ..evenkeel_congestion::gaimd::Config::RENO
        };
        Gaimd::new(config, mtu)
    };
    Timer::new(timeouts, now, MTU, build, |factory| factory.build(now, MTU))
}

/// In a round trip of 100 ms: a full window in flight and no ACK since `t0` + 100 ms.
fn silent(timer: &mut Timer, t0: Instant) {
    timer
        .silence
        .on_ack(t0 + ms(100), t0, timer.adapter.window() - 1);
}

#[test]
fn each_probe_timeout_collapses_the_window_and_halves_the_threshold() {
    let t0 = epoch();
    let mut timer = gaimd(false, t0, 20);
    silent(&mut timer, t0);
    timer.on_sent(t0 + ms(240), PACKET, 0);
    assert_eq!(state(&timer), (2, Some(10)));
    timer.on_sent(t0 + ms(240), PACKET, 0);
    assert_eq!(
        state(&timer),
        (2, Some(10)),
        "the second probe of a timeout"
    );
    timer.on_sent(t0 + ms(520), PACKET, 0);
    assert_eq!(state(&timer), (2, Some(2)));
    // What was in flight turns out to be lost: that is the same congestion.
    timer.on_congestion_event(t0 + ms(600), t0 + ms(520), false, 20 * PACKET);
    assert_eq!(state(&timer), (2, Some(2)));
}

#[test]
fn a_blackout_collapses_the_window_of_those_that_ask_for_tcps_timeouts() {
    // (spec, window and threshold in packets after one timeout); the first and the fifth have none.
    for (spec, after) in [
        ("ns2-reno", (10, None)),
        ("ns2-reno:timeout=tcp", (2, Some(5))),
        ("ns2-gaimd:beta=0.8,timeout=tcp", (2, Some(8))),
        ("ns2-abgd:timeout=tcp", (2, Some(5))),
        ("ns2-vegas", (10, None)),
        ("ns2-vegas:timeout=tcp", (2, Some(5))),
        ("ns2-vegas:decrease=0.75,timeout=tcp", (2, Some(5))),
        ("ns2-ada-vegas:timeout=reno", (2, Some(5))),
    ] {
        let t0 = epoch();
        let controller = built(spec, t0);
        if !spec.contains("timeout") {
            assert!(!controller.into_any().is::<Timer>(), "{spec}");
            continue;
        }
        let timer = controller.into_any().downcast::<Timer>();
        let mut timer = *timer.expect("a controller with timeouts has a timer");
        silent(&mut timer, t0);
        timer.on_sent(t0 + ms(240), PACKET, 0);
        assert_eq!(state(&timer), after, "{spec}");
    }
}

#[test]
fn the_third_packet_lost_of_a_window_is_a_timeout_once_per_recovery_period() {
    // (lost packets of each detection, all of the same period; after which of them it is found)
    let table: [(&[u64], Option<usize>); 5] = [
        (&[2], None),
        (&[1, 1], None),
        (&[3], Some(0)),
        (&[1, 1, 1], Some(2)),
        (&[2, 4, 9], Some(1)),
    ];
    for (detections, expected) in table {
        let t0 = epoch();
        let mut timer = gaimd(true, t0, 20);
        for period in 0..2 {
            let sent = t0 + ms(1000 * period);
            for (detection, packets) in detections.iter().enumerate() {
                let now = sent + ms(100 + detection as u64);
                let found = timer.lose(now, sent, packets * PACKET);
                assert_eq!(found, expected == Some(detection), "{detections:?}");
            }
        }
    }
}

#[test]
fn many_losses_of_a_window_collapse_it_without_sack_alone() {
    for (after_losses, expected) in [(false, (10, Some(10))), (true, (2, Some(5)))] {
        let t0 = epoch();
        let mut timer = gaimd(after_losses, t0, 20);
        timer.on_congestion_event(t0 + ms(100), t0, false, 3 * PACKET);
        assert_eq!(state(&timer), expected);
    }
}

#[test]
fn persistent_congestion_keeps_the_threshold() {
    let t0 = epoch();
    let mut timer = gaimd(false, t0, 20);
    timer.on_congestion_event(t0 + ms(100), t0, true, 3 * PACKET);
    assert_eq!(state(&timer), (2, Some(10)));
}

proptest! {
    #[test]
    fn senseless_times_break_nothing(
        spec in prop::sample::select(&[
            "ns2-reno:timeout=reno",
            "ns2-gaimd:timeout=tcp",
            "ns2-smooth-aimd:timeout=tcp",
            "ns2-abgd:timeout=tcp",
            "ns2-vegas:timeout=tcp,diff=sent,abc=1",
            "ns2-vegas8:rtt=mean,timeout=reno",
            "ns2-ada-vegas:rtt=mean,decrease=0.75,timeout=reno",
        ][..]),
        calls in prop::collection::vec((0_u8..4, 0_u64..100, 0_u64..100, 0_u64..100_000, any::<bool>()), 1..200),
    ) {
        let t0 = epoch();
        let mut controller = built(spec, t0);
        for (call, now, sent, bytes, flag) in calls {
            let (now, sent) = (t0 + ms(now), t0 + ms(sent));
            match call {
                0 => controller.on_sent(now, bytes, 0),
                1 => controller.on_end_acks(now, bytes, flag, None),
                2 => controller.on_congestion_event(now, sent, flag, bytes),
                _ => controller = controller.clone_box(),
            }
            prop_assert!(controller.window() > 2 * PACKET);
        }
    }
}
