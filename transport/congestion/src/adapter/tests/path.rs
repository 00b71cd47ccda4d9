//! Controllers over a bottleneck in virtual time: where they settle.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Connection, Op, PACKET, built};
use crate::testing::{epoch, ms};

/// A bottleneck with an endless queue, a receiver that acknowledges like quinn's, and an
/// application that always has data.
struct Path {
    connection: Connection,
    /// Time to transmit a packet at the bottleneck.
    service: Duration,
    /// Propagation, there and back together.
    propagation: Duration,
    /// When the bottleneck will have sent all it has.
    idle_at: Instant,
    /// When packets will reach the receiver.
    arrivals: VecDeque<Instant>,
    /// When ACKs will reach the sender, and for how many packets.
    acks: VecDeque<(Instant, usize)>,
    /// When the packet arrived that waits for its ACK.
    unacknowledged: Option<Instant>,
    /// The largest window so far, in packets.
    largest_window: f64,
}

impl Path {
    fn new(spec: &str, packets_per_second: u32, propagation: Duration) -> Self {
        let now = epoch();
        Self {
            connection: Connection::new(built(spec, now), now),
            service: Duration::from_secs(1) / packets_per_second,
            propagation,
            idle_at: now,
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            unacknowledged: None,
            largest_window: 0.0,
        }
    }

    /// Packets at the bottleneck, the one being transmitted included.
    fn queue(&self) -> u32 {
        let left = self.idle_at.saturating_duration_since(self.connection.now);
        left.as_nanos().div_ceil(self.service.as_nanos()) as u32
    }

    fn window(&self) -> f64 {
        self.connection.adapter.controller.window() as f64 / PACKET as f64
    }

    /// Runs for `time`; returns the queue's length in packets, averaged over the ACKs.
    fn run(&mut self, time: Duration) -> f64 {
        let end = self.connection.now + time;
        let (mut sum, mut count) = (0, 0_u32);
        self.send();
        while self.connection.now < end {
            self.receive();
            let (now, packets) = self.acks.pop_front().expect("whatever arrived gets an ACK");
            self.connection.now = now;
            sum += self.queue();
            count += 1;
            self.connection.run(&Op::Ack {
                skip: 0,
                count: packets,
                app_limited: false,
            });
            self.send();
        }
        f64::from(sum) / f64::from(count)
    }

    /// Sends what the window allows.
    fn send(&mut self) {
        let before = self.connection.sent.len();
        self.connection.run(&Op::Send(usize::MAX));
        for _ in before..self.connection.sent.len() {
            self.idle_at = self.idle_at.max(self.connection.now) + self.service;
            self.arrivals.push_back(self.idle_at + self.propagation / 2);
        }
        self.largest_window = self.largest_window.max(self.window());
    }

    /// Lets the receiver work until an ACK is on its way: one for every second packet, or
    /// 25 ms after a packet that stays alone (RFC 9000, section 18.2, max_ack_delay).
    fn receive(&mut self) {
        while self.acks.is_empty() {
            let timer = self.unacknowledged.map(|arrival| arrival + ms(25));
            let (at, packets) = match (self.arrivals.front().copied(), timer) {
                (Some(arrival), None) => {
                    self.arrivals.pop_front();
                    self.unacknowledged = Some(arrival);
                    continue;
                }
                (Some(arrival), Some(timer)) if arrival <= timer => {
                    self.arrivals.pop_front();
                    (arrival, 2)
                }
                (_, Some(timer)) => (timer, 1),
                (None, None) => unreachable!("the sender always has a packet in flight"),
            };
            self.unacknowledged = None;
            self.acks.push_back((at + self.propagation / 2, packets));
        }
    }
}

/// Runs `spec` for a minute, then returns the path and the mean queue of 20 s more.
fn settled(spec: &str, packets_per_second: u32, propagation: u64) -> (Path, f64) {
    let mut path = Path::new(spec, packets_per_second, ms(propagation));
    path.run(Duration::from_secs(60));
    let queue = path.run(Duration::from_secs(20));
    (path, queue)
}

#[test]
fn vegas_settles_where_rovegas_figure_3_shows_it() {
    // 200 packets a second, 40 ms: a window of 13 packets, 3 of them queued.
    let (path, queue) = settled("vegas", 200, 40);
    assert_eq!(path.window().floor(), 13.0);
    assert!((2.5..=3.5).contains(&queue), "{queue} packets queued");
}

#[test]
fn vegas_keeps_between_alpha_and_beta_packets_queued() {
    // Packets a second, propagation in ms; less than one to 1000 packets fill the path.
    for (rate, propagation) in [
        (50, 5),
        (10, 300),
        (200, 25),
        (200, 40),
        (1000, 40),
        (1000, 100),
        (100, 300),
        (10_000, 100),
    ] {
        for (spec, alpha, beta) in [("vegas", 1.0, 3.0), ("vegas8", 4.0, 8.0)] {
            let (_, queue) = settled(spec, rate, propagation);
            // At most one more: BaseRTT was measured with the second packet of a burst.
            let expected = alpha..=beta + 1.0;
            assert!(
                expected.contains(&queue),
                "{spec}, {rate}/s, {propagation} ms: {queue} packets"
            );
        }
    }
}

#[test]
fn ada_vegas_settles_like_vegas_if_it_relapses_and_like_vegas8_at_most_if_not() {
    // Packets a second, propagation in ms, as above.
    for (rate, propagation) in [(50, 5), (200, 40), (1000, 100), (10_000, 100)] {
        for (spec, most) in [("ada-vegas", 3.0), ("ada-vegas:relapse=false", 8.0)] {
            let (_, queue) = settled(spec, rate, propagation);
            let expected = 1.0..=most + 1.0;
            assert!(
                expected.contains(&queue),
                "{spec}, {rate}/s, {propagation} ms: {queue} packets"
            );
        }
    }
}

#[test]
fn abgd_cycles_between_the_knee_and_half_of_the_queue_that_overflowed() {
    // 1000 packets a second, 100 ms: 100 packets fill the path. Slow start ends with a mark.
    let mut path = Path::new("abgd", 1000, ms(100));
    path.run(ms(500));
    let cliff = path.window();
    path.connection.run(&Op::Mark);
    path.run(Duration::from_secs(20));
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for _ in 0..200 {
        path.run(ms(100));
        least = least.min(path.window());
        most = most.max(path.window());
    }
    assert!(cliff > 150.0, "{cliff} packets hardly queue");
    assert!((95.0..=110.0).contains(&least), "least {least}");
    let half = (100.0 + cliff) / 2.0;
    assert!(
        (half - 20.0..=half + 10.0).contains(&most),
        "{most}, half is {half}"
    );
}

#[test]
fn vegas_leaves_slow_start_with_the_first_doubling_that_fills_the_queue() {
    // 100 packets fill the path: 10, 20, 40, 80, 160, and an eighth back.
    let mut path = Path::new("vegas", 1000, ms(100));
    path.run(Duration::from_secs(2));
    let threshold = path.connection.adapter.controller.slow_start_threshold();
    assert_eq!(
        (path.largest_window, threshold),
        (160.0, Some(140 * PACKET))
    );
}
