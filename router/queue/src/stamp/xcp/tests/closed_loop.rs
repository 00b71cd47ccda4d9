//! XCP's link and ideal senders in one loop: real-valued windows.

use evenkeel_wire::{CompactBytes, Feedback, Signals};

use super::*;
use crate::stamp::tests::closed_loop::{
    Loop, PACKET, Sender, assert_a_trickle_does_little, assert_within,
};

/// XCP's sender (section 3.3), as ours paced at 1.1 windows in a round trip.
struct Window {
    window: f64,
    last_round_trip: Duration,
}

impl Sender for Window {
    fn kind(&self) -> PathHeaderKind {
        let window = CompactBytes::from_bytes(self.window as u64);
        PathHeaderKind::Xcp { window }
    }

    fn asks(&self) -> Feedback {
        WindowChange::MAX.into()
    }

    fn on_feedback(&mut self, signals: Signals, round_trip: Duration) {
        let change = signals.feedback.window_change().in_256ths() as f64 / 256.0;
        self.window = (self.window + change).max(PACKET as f64);
        self.last_round_trip = round_trip;
    }

    fn may_send(&self, in_flight: usize) -> bool {
        (in_flight + PACKET) as f64 <= self.window
    }

    fn gap(&self) -> Duration {
        self.last_round_trip
            .div_f64(1.1 * self.window / PACKET as f64)
    }
}

fn add(test: &mut Loop<Window>, from_ms: u64, stops: Instant, round_trip: Duration) {
    let sender = Window {
        window: PACKET as f64,
        last_round_trip: round_trip,
    };
    test.add(sender, test.now + ms(from_ms), stops, round_trip);
}

#[test]
fn users_come_and_go_and_share_the_whole_link_evenly() {
    let mut test = Loop::new("xcp", 20_000_000, 200);
    let start = test.now;
    for number in 0..10 {
        let stops = start + Duration::from_secs(if number < 4 { 60 } else { 30 });
        add(&mut test, 80 * number, stops, ms(80));
    }
    for (from, to, users) in [(15, 30, 10), (45, 60, 4)] {
        let (utilization, queue, rates) = test.measure(start, from, to);
        assert!(utilization > 0.99, "{utilization}");
        assert!(queue < 10.0, "{queue}");
        for rate in &rates[..users] {
            assert_within(*rate, 2.5e6 / users as f64, 0.02);
        }
    }
    assert_eq!(test.drops(), 0);
}

#[test]
fn users_of_different_round_trips_share_the_link_evenly() {
    let mut test = Loop::new("xcp", 20_000_000, 500);
    let start = test.now;
    for number in 0..10 {
        add(
            &mut test,
            100 * number,
            start + Duration::from_secs(100),
            ms(40 + 30 * number),
        );
    }
    let (utilization, queue, rates) = test.measure(start, 40, 100);
    assert!(utilization > 0.99, "{utilization}");
    assert!(queue < 20.0, "{queue}");
    for rate in &rates {
        assert_within(*rate, 2.5e5, 0.1);
    }
    assert_within(test.figure("rtt_ms"), 175.0, 0.1);
}

/// 1.2 % of the bytes; a mean over flows counts up to twice that over bytes.
#[test]
fn a_trickle_of_false_round_trips_moves_neither_the_period_nor_the_queue_by_much() {
    let mut test = Loop::new("xcp", 20_000_000, 200);
    let start = test.now;
    let stops = start + Duration::from_secs(60);
    for number in 0..3 {
        add(&mut test, 11 * number, stops, ms(11));
    }
    // Who sends one packet in a round trip, as few as there can be.
    let window = CompactBytes::from_bytes(60);
    assert_a_trickle_does_little(&mut test, PathHeaderKind::Xcp { window }, 2.2);
}
