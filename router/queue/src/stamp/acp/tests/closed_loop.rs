//! ACP's link and ideal senders in one loop: section II-B's senders with real-valued windows, in
//! packets.

use evenkeel_wire::{CompactRate, Feedback, PathHeaderKind, Signals};

use super::*;
use crate::stamp::tests::closed_loop::{
    Flow, Loop, PACKET, Sender, assert_a_trickle_does_little, assert_within,
};

/// A sender that paces a window of any size.
struct Window {
    /// Packets.
    window: f64,
    /// mrtt: without queueing.
    round_trip: Duration,
    /// rtt: the last one, with queueing.
    last_round_trip: Duration,
    /// What slow start allows, in packets: one more for each acknowledgement.
    bound: f64,
}

impl Sender for Window {
    fn kind(&self) -> PathHeaderKind {
        PathHeaderKind::Acp
    }

    fn asks(&self) -> Feedback {
        CompactRate::NO_LIMIT.into()
    }

    /// Section II-B, equations 1 to 3.
    fn on_feedback(&mut self, signals: Signals, round_trip: Duration) {
        let rate = signals.feedback.rate().bytes_per_second();
        let rate = rate.expect("the port has offered a rate") as f64;
        let window = self.window.min(self.bound);
        let excess = rate * self.round_trip.as_secs_f64() / PACKET as f64 - window;
        let gain = if excess > 0.0 && signals.flags.congested {
            0.1
        } else {
            1.0
        };
        self.window = (window + gain * excess / window).max(1.0);
        self.bound += 1.0;
        self.last_round_trip = round_trip;
    }

    fn gap(&self) -> Duration {
        self.last_round_trip.div_f64(self.window.min(self.bound))
    }
}

fn add(test: &mut Loop<Window>, starts: Instant, stops: Instant, round_trip: Duration) {
    let sender = Window {
        window: 1.0,
        round_trip,
        last_round_trip: round_trip,
        bound: f64::INFINITY,
    };
    test.add(sender, starts, stops, round_trip);
}

/// Means of figures over a stretch of time, and the share of the link that was used in it.
struct Stretch {
    users: f64,
    desired: f64,
    utilization: f64,
    queue_packets: f64,
}

/// Runs from second `from` to second `to` of the loop that began at `start`.
fn measure(test: &mut Loop<Window>, start: Instant, from: u64, to: u64) -> Stretch {
    test.run(start + Duration::from_secs(from));
    test.port.restart_measurement(test.now);
    let samples = (to - from) * 10;
    let (mut users, mut desired) = (0.0, 0.0);
    for sample in 1..=samples {
        test.run(start + Duration::from_secs(from) + ms(100 * sample));
        users += test.figure("users") / samples as f64;
        desired += test.figure("desired_bps") / 8.0 / samples as f64;
    }
    let stats = test.port.stats(test.now);
    Stretch {
        users,
        desired,
        utilization: stats.utilization().expect("time has passed"),
        queue_packets: stats.queue().mean().expect("time has passed"),
    }
}

/// Section III-D, figures 9 to 11, at an eighth of the capacity: 30 users, 10 from 30 s on, and 30 again from 45 s on.
#[test]
fn the_estimate_follows_30_users_then_10_then_30_and_all_share_99_percent_of_the_link() {
    let mut test = Loop::new("acp", 20_000_000, 200);
    let start = test.now;
    let round_trip = ms(80);
    let second = |second| start + Duration::from_secs(second);
    for number in 0..30 {
        let stops = if number < 10 { 75 } else { 30 };
        add(
            &mut test,
            start + round_trip * number,
            second(stops),
            round_trip,
        );
    }
    for number in 0..20 {
        add(
            &mut test,
            second(45) + round_trip * number,
            second(75),
            round_trip,
        );
    }
    for (from, to, users) in [(20, 30, 30.0), (38, 45, 10.0), (60, 75, 30.0)] {
        let stretch = measure(&mut test, start, from, to);
        // The windows of 30 users are 6.6 packets, so that the share of each is real-valued.
        assert_within(stretch.users, users, 0.01);
        assert_within(stretch.desired, 0.99 * 2.5e6 / users, 0.01);
        assert_within(stretch.utilization, 0.99, 0.002);
        // Far from the square root of the users that random phases would queue: the loop spaces them.
        assert!(stretch.queue_packets < 2.0, "{}", stretch.queue_packets);
    }
    // "No observable packet drops", also while users come and go.
    assert_eq!(test.drops(), 0);
}

#[test]
fn users_of_different_round_trips_get_the_same_rate() {
    let mut test = Loop::new("acp", 20_000_000, 500);
    let start = test.now;
    let round_trips = [20, 60, 100, 140, 180].map(ms);
    for number in 0..20usize {
        let starts = start + ms(80) * u32::try_from(number).expect("small");
        add(
            &mut test,
            starts,
            start + Duration::from_secs(60),
            round_trips[number % 5],
        );
    }
    let stretch = measure(&mut test, start, 30, 60);
    assert_within(stretch.utilization, 0.99, 0.002);
    assert_within(stretch.users, 20.0, 0.02);
    for Flow { sender, .. } in &test.flows {
        let rate = sender.window * PACKET as f64 / sender.round_trip.as_secs_f64();
        assert_within(rate, 0.99 * 2.5e6 / 20.0, 0.02);
    }
}

#[test]
fn users_whose_round_trips_do_not_count_share_the_link_at_the_pace_of_the_first_period() {
    let mut test = Loop::new("acp", 200_000_000, 200);
    let start = test.now;
    let round_trip = Duration::from_micros(900);
    for number in 0..5 {
        add(
            &mut test,
            start + ms(80) * number,
            start + Duration::from_secs(12),
            round_trip,
        );
    }
    let stretch = measure(&mut test, start, 8, 12);
    assert_within(test.figure("rtt_ms"), 50.0, 1e-9);
    assert_within(stretch.utilization, 0.99, 0.005);
    assert_within(stretch.users, 5.0, 0.05);
    assert_within(stretch.desired, 0.99 * 25e6 / 5.0, 0.05);
}

#[test]
fn packets_without_headers_are_left_the_room_they_take() {
    let mut test = Loop::new("acp", 20_000_000, 200);
    let start = test.now;
    for number in 0..10 {
        add(
            &mut test,
            start + ms(80) * number,
            start + Duration::from_secs(60),
            ms(80),
        );
    }
    // Half the link: 1250 packets of 1000 bytes a second, which heed nothing.
    let silent = IpPacket::v4((7, 7), &[0; 972]);
    for number in 0..60 * 1250u32 {
        let now = start + Duration::from_micros(800) * number;
        test.run(now);
        test.port.enqueue(now, silent.clone().queued());
        if number == 30 * 1250 {
            test.port.restart_measurement(now);
        }
    }
    assert_within(test.figure("desired_bps") / 8.0, 0.49 * 2.5e6 / 10.0, 0.02);
    // As many as would fill the link at that rate.
    assert_within(test.figure("users"), 0.99 / 0.049, 0.02);
    let utilization = test
        .port
        .stats(test.now)
        .utilization()
        .expect("time has passed");
    assert_within(utilization, 0.99, 0.002);
}

/// 155 Mb/s, and a buffer that holds everything.
fn fast_link() -> Loop<Window> {
    Loop::new("acp", 155_000_000, 100_000)
}

/// The longest queue in bandwidth-delay products while 25 users join, one per round trip, which
/// may have `bound` packets in flight at first.
fn overshoot(round_trip: Duration, bound: f64) -> f64 {
    let mut test = fast_link();
    let start = test.now;
    for number in 0..25 {
        let stops = start + Duration::from_secs(60);
        add(&mut test, start + round_trip * number, stops, round_trip);
    }
    for flow in &mut test.flows {
        flow.sender.bound = bound;
    }
    test.run(start + round_trip * 25);
    let most = test.port.take_interval(test.now).max as f64;
    most * PACKET as f64 * 8.0 / (155e6 * round_trip.as_secs_f64())
}

/// Section III-A has buffers of a bandwidth-delay product and no drops.
#[test]
fn users_that_join_one_per_round_trip_overflow_the_buffer_if_slow_start_holds_them_back() {
    // (round trip, longest queue of the paper's senders, and of bounded ones)
    for (round_trip, at_once, bounded) in [(120, 0.92, 0.77), (500, 0.97, 1.20)] {
        let queue = overshoot(ms(round_trip), f64::INFINITY);
        assert_within(queue, at_once, 0.05);
        assert_within(overshoot(ms(round_trip), 10.0), bounded, 0.05);
    }
}

/// Section III-C, at 40 s.
#[test]
fn three_users_that_join_a_link_a_third_full_need_more_than_the_papers_buffer() {
    let mut test = fast_link();
    let start = test.now;
    for _ in 0..3 {
        let stops = start + Duration::from_secs(60);
        add(&mut test, start + ms(2000), stops, ms(120));
    }
    let silent = IpPacket::v4((7, 7), &[0; 972]);
    for number in 0..25_000u32 {
        let now = start + Duration::from_nanos(154_839) * number;
        test.run(now);
        test.port.enqueue(now, silent.clone().queued());
    }
    let most = test.port.take_interval(test.now).max as f64;
    assert_within(most / 2325.0, 4.7, 0.05);
}

/// Some 2 % of the bytes of those that tell one.
#[test]
fn a_trickle_of_false_round_trips_moves_neither_the_period_nor_the_queue_by_much() {
    let mut test = Loop::new("acp", 20_000_000, 200);
    let start = test.now;
    let stops = start + Duration::from_secs(60);
    for number in 0..3 {
        add(&mut test, start + ms(11) * number, stops, ms(11));
    }
    assert_a_trickle_does_little(&mut test, PathHeaderKind::Acp, 1.2);
}

/// Before, the liars that came first made the first periods seconds long; those who came then began
/// at next to nothing, and with each period the lies were most of the bytes again.
#[test]
fn lies_of_a_tenth_to_a_sixth_of_the_packets_that_come_first_move_the_period_by_little() {
    for per_second in [250, 325, 400u32] {
        let mut test = Loop::new("acp", 20_000_000, 200);
        let start = test.now;
        for number in 0..5 {
            let starts = start + ms(1000) + ms(80) * number;
            add(&mut test, starts, start + Duration::from_secs(60), ms(20));
        }
        // Not as long as a sender's, so that they bring no feedback.
        let lie = IpPacket::headered(&header(PathHeaderKind::Acp, ms(8388)), PACKET - 1);
        let (mut longest, mut sum, mut samples) = (0.0f64, 0.0, 0.0);
        for number in 0..30 * per_second {
            test.run(start + Duration::from_secs(1) * number / per_second);
            test.port.enqueue(test.now, lie.clone().queued());
            if number >= 20 * per_second {
                let period = test.figure("rtt_ms");
                longest = longest.max(period);
                sum += period;
                samples += 1.0;
            }
        }
        let stats = test.port.stats(test.now);
        let queueing = stats
            .sojourn()
            .percentile(0.95)
            .expect("packets have passed");
        println!(
            "{per_second} lies a second: periods of {:.1} ms, at most {longest:.1}; \
             95 % queue for less than {queueing:.2?}",
            sum / samples
        );
        // Round trips are some 21 ms.
        assert!(longest < 50.0, "{longest} ms");
    }
}
