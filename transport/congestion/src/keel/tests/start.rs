//! How START ends.

use super::*;

#[test]
fn start_triples_the_window_each_round_trip_and_doubles_it_above_100_packets() {
    let mut keel = Keel::new(epoch(), InitialWindow::Rfc9002, MTU);
    let mut at = 0;
    let mut acked = |bytes: u64, in_flight: u64| {
        at += 40;
        keel.on_ack(&Ack {
            in_flight,
            delivery: None,
            ..ack(epoch() + ms(at), 40, bytes)
        });
        keel.window()
    };
    assert_eq!(acked(12_000, 12_000), 36_000);
    assert_eq!(acked(36_000, 36_000), 108_000);
    assert_eq!(acked(6_000, 108_000), 120_000);
    assert_eq!(acked(120_000, 120_000), 240_000);
    assert_eq!(
        acked(120_000, 119_999),
        240_000,
        "less than half was in use"
    );
}

#[test]
fn start_ends_with_a_queue_of_a_third_and_drain_with_what_the_empty_path_holds() {
    for (rtt, least) in [(10, 4), (40, 4), (200, 10), (600, 16)] {
        let mut link = Link::new(RATE, ms(rtt), 2000.0);
        run_until(&mut link, |mode| !matches!(mode, Mode::Start { .. }));
        let Mode::Drain { to } = link.keel.mode else {
            panic!("{:?}", link.keel.mode);
        };
        let recent = link.keel.delay.recent().expect("eight round trips");
        let queue = recent - ms(rtt);
        assert!(
            queue > ms(least) && queue < ms(least + 6 + rtt / 3),
            "{rtt} ms: {queue:?}"
        );
        let fits = link.keel.rates.bandwidth() * link.keel.delay.base().as_secs_f64();
        assert!((to / fits - 1.0).abs() < 0.05, "{rtt} ms: {to} of {fits}");
        let at = link.now;
        run_until(&mut link, |mode| matches!(mode, Mode::Track(None)));
        assert_eq!(link.keel.window(), to as u64, "{rtt} ms");
        let time = link.now - at;
        assert!(time < ms(30 + rtt), "{rtt} ms: {time:?}");
    }
}

#[test]
fn start_goes_on_through_jitter_that_the_round_before_showed() {
    let mut link = Link::new(6_250_000.0, ms(55), 300.0);
    link.back = jitter;
    run_until(&mut link, |mode| matches!(mode, Mode::Track(None)));
    let share = link.keel.rates.bandwidth() / link.rate;
    assert!(share > 0.75, "{share}");
}
