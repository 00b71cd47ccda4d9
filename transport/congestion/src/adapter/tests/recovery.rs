//! Losses, marks and timeouts: what controllers hear of them, and how often.

use super::*;

#[test]
fn one_congestion_event_reaches_the_controller_per_recovery_period() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let loss = |now, lost| {
        Told::Congestion(Congestion {
            now: t0 + ms(now),
            cause: Cause::Loss,
            lost,
        })
    };
    // (now, sent, lost bytes, what the controller hears)
    let table = [
        (50, 5, 1200, vec![loss(50, 1200)]),
        (55, 10, 2400, vec![Told::HeavyLoss]), // sent before 50
        (60, 50, 1200, vec![]),                // sent at 50
        (90, 51, 1200, vec![loss(90, 1200)]),
        (
            130,
            100,
            0,
            vec![Told::Congestion(Congestion {
                now: t0 + ms(130),
                cause: Cause::Ecn,
                lost: 0,
            })],
        ),
    ];
    for (now, sent, lost, expected) in table {
        adapter.on_congestion_event(t0 + ms(now), t0 + ms(sent), false, lost);
        assert_eq!(heard(&told), expected, "sent at {sent}");
    }
}

#[test]
fn the_third_packet_lost_of_a_window_is_told_once_per_recovery_period() {
    let t0 = epoch();
    let full = u64::from(MTU);
    // (lost packets of each detection, all of the same period; after which of them it is told)
    let table: [(&[u64], Option<usize>); 5] = [
        (&[2], None),
        (&[1, 1], None),
        (&[3], Some(0)),
        (&[1, 1, 1], Some(2)),
        (&[2, 4, 9], Some(1)),
    ];
    for (detections, told_after) in table {
        let (mut adapter, told) = recorded(t0, 50_000);
        for period in 0..2 {
            let sent = t0 + ms(1000 * period);
            for (detection, packets) in detections.iter().enumerate() {
                let now = sent + ms(100 + detection as u64);
                adapter.on_congestion_event(now, sent, false, packets * full);
                let heavy = heard(&told).contains(&Told::HeavyLoss);
                assert_eq!(heavy, told_after == Some(detection), "{detections:?}");
            }
        }
    }
}

#[test]
fn a_blackout_collapses_the_window_of_those_that_ask_for_tcps_timeouts() {
    // (spec, window and threshold in packets after the first, the second timeout)
    for (spec, first, second) in [
        ("reno", (20, None), (20, None)),
        ("reno:timeout=tcp", (2, Some(10)), (2, Some(2))),
        ("gaimd:beta=0.8,timeout=tcp", (2, Some(16)), (2, Some(2))),
        ("abgd:timeout=tcp", (2, Some(10)), (2, Some(2))),
        ("vegas", (10, None), (10, None)),
        ("vegas:timeout=tcp", (2, Some(5)), (2, Some(2))),
    ] {
        let t0 = epoch();
        let mut connection = Connection::new(built(spec, t0), t0);
        let full = |connection: &mut Connection| {
            connection.run(&Op::Send(usize::MAX));
        };
        full(&mut connection);
        connection.run(&Op::Wait(100));
        connection.run(&Op::Ack {
            skip: 0,
            count: 10,
            app_limited: false,
        });
        full(&mut connection);
        let state = |connection: &Connection| {
            let controller = &connection.adapter.controller;
            let threshold = controller.slow_start_threshold();
            (
                controller.window() / PACKET,
                threshold.map(|bytes| bytes / PACKET),
            )
        };
        let before = connection.adapter.controller.window();
        connection.probe(140);
        assert_eq!(state(&connection), first, "{spec}");
        connection.probe(280);
        assert_eq!(state(&connection), second, "{spec}");
        // What was in flight turns out to be lost: that is the same congestion.
        let lost = connection.sent.len() - 1;
        let after = connection.adapter.controller.window();
        connection.run(&Op::Lose {
            count: lost,
            persistent: false,
        });
        let collapsed = after < before;
        let reduced = connection.adapter.controller.window() < after;
        assert!(collapsed != reduced, "{spec}");
    }
}

#[test]
fn persistent_congestion_is_told_even_within_a_recovery_period() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    adapter.on_congestion_event(t0 + ms(50), t0, true, 1200);
    assert_eq!(heard(&told).last(), Some(&Told::Persistent));
    adapter.on_congestion_event(t0 + ms(60), t0, true, 1200);
    assert_eq!(heard(&told), [Told::Persistent]);
}

#[test]
fn only_bytes_sent_after_the_recovery_period_began_may_grow_the_window() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    adapter.on_congestion_event(t0 + ms(50), t0, false, 1200);
    heard(&told);
    adapter.acked(t0 + ms(90), t0 + ms(50), 1200);
    adapter.acked(t0 + ms(90), t0 + ms(51), 1000);
    adapter.on_end_acks(t0 + ms(90), 0, false, None);
    let Told::Ack(ack) = heard(&told).remove(0) else {
        panic!("an ACK comes first")
    };
    assert_eq!((ack.bytes, ack.bytes_after_recovery), (2200, 1000));
}
