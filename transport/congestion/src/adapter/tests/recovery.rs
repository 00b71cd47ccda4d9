//! Checks which losses and marks reach controllers, and how often.

use super::*;

#[test]
fn one_congestion_event_reaches_the_controller_per_recovery_period() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let loss = |now, lost| Told::Congestion(Congestion::loss(t0 + ms(now), lost));
    // (now, sent, lost bytes, what the controller hears)
    let table = [
        (50, 5, 1200, vec![loss(50, 1200)]),
        (55, 10, 2400, vec![]), // sent before 50
        (60, 50, 1200, vec![]), // sent at 50
        (90, 51, 1200, vec![loss(90, 1200)]),
        (
            130,
            100,
            0,
            vec![Told::Congestion(Congestion::ecn(t0 + ms(130)))],
        ),
    ];
    for (now, sent, lost, expected) in table {
        adapter.on_congestion_event(t0 + ms(now), t0 + ms(sent), false, lost);
        assert_eq!(heard(&told), expected, "sent at {sent}");
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
    adapter.path.on_packet_acked(t0 + ms(90), t0 + ms(50), 1200);
    adapter.path.on_packet_acked(t0 + ms(90), t0 + ms(51), 1000);
    adapter.on_end_acks(t0 + ms(90), 0, false, None);
    let Told::Ack(ack) = heard(&told).remove(0) else {
        panic!("an ACK comes first")
    };
    assert_eq!((ack.bytes, ack.bytes_after_recovery), (2200, 1000));
}
