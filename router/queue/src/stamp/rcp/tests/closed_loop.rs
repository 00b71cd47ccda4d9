//! RCP's link and ideal senders in one loop: they send at the newest rate, at once.

use evenkeel_wire::{Feedback, Signals};

use super::*;
use crate::stamp::tests::closed_loop::{
    Loop, PACKET, Sender, assert_a_trickle_does_little, assert_within,
};

/// RCP's sender (section 3): R, of which it knows nothing before the first packet is back.
struct Paced {
    rate: f64,
}

impl Sender for Paced {
    fn kind(&self) -> PathHeaderKind {
        PathHeaderKind::Rcp
    }

    fn asks(&self) -> Feedback {
        CompactRate::NO_LIMIT.into()
    }

    fn on_feedback(&mut self, signals: Signals, _round_trip: Duration) {
        let rate = signals.feedback.rate().bytes_per_second();
        self.rate = rate.expect("the port has offered a rate") as f64;
    }

    fn gap(&self) -> Duration {
        Duration::from_secs_f64(PACKET as f64 / self.rate)
    }
}

fn add(test: &mut Loop<Paced>, from_ms: u64, stops: Instant, round_trip: Duration) {
    let rate = PACKET as f64 / round_trip.as_secs_f64();
    test.add(Paced { rate }, test.now + ms(from_ms), stops, round_trip);
}

#[test]
fn users_come_and_go_and_share_the_whole_link_evenly() {
    let mut test = Loop::new("rcp", 20_000_000, 1000);
    let start = test.now;
    for number in 0..10 {
        let stops = start + Duration::from_secs(if number < 4 { 60 } else { 30 });
        add(&mut test, 80 * number, stops, ms(80));
    }
    for (from, to, users) in [(15, 30, 10), (45, 60, 4)] {
        let (utilization, queue, rates) = test.measure(start, from, to);
        // At rest alpha (C - y) = beta q / d: packets that wait for each other now and then cost 20 times as much.
        let rest = 1.0 - queue * PACKET as f64 / 0.08 / 0.1 / 2.5e6;
        assert_within(utilization, rest, 0.005);
        assert!(utilization > 0.96, "{utilization}");
        for rate in &rates[..users] {
            assert_within(*rate, utilization * 2.5e6 / users as f64, 0.005);
        }
    }
    assert_eq!(test.drops(), 0);
}

#[test]
fn users_of_different_round_trips_share_the_link_evenly() {
    let mut test = Loop::new("rcp", 20_000_000, 1000);
    let start = test.now;
    for number in 0..10 {
        let stops = start + Duration::from_secs(100);
        add(&mut test, 100 * number, stops, ms(40 + 30 * number));
    }
    let (utilization, queue, rates) = test.measure(start, 40, 100);
    assert!(utilization > 0.98, "{utilization}");
    assert!(queue < 20.0, "{queue}");
    for rate in &rates {
        assert_within(*rate, utilization * 2.5e5, 0.005);
    }
    // Of packets, and so of flows at the same rate.
    assert_within(test.figure("rtt_ms"), 175.0, 0.05);
}

#[test]
fn without_the_queues_gain_the_whole_link_is_used_and_the_queue_stays() {
    let mut test = Loop::new("rcp:beta=0", 20_000_000, 1000);
    let start = test.now;
    for number in 0..10 {
        add(
            &mut test,
            80 * number,
            start + Duration::from_secs(30),
            ms(80),
        );
    }
    let (utilization, queue, _) = test.measure(start, 15, 30);
    assert!(utilization > 0.999, "{utilization}");
    assert!(queue > 900.0, "what was queued at the start stays: {queue}");
}

/// Some 2 % of the bytes of those that tell one.
#[test]
fn a_trickle_of_false_round_trips_moves_neither_the_period_nor_the_queue_by_much() {
    let mut test = Loop::new("rcp", 20_000_000, 200);
    let start = test.now;
    let stops = start + Duration::from_secs(60);
    for number in 0..3 {
        add(&mut test, 11 * number, stops, ms(11));
    }
    assert_a_trickle_does_little(&mut test, PathHeaderKind::Rcp, 1.2);
}
