//! Measures what rate-based controllers send on a path that grants a rate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quinn_proto::congestion::Controller as _;

use super::{Connection, Op, PACKET, built};
use crate::controller::{DEFAULT_OVERHEAD, Grant, PathSample};
use crate::testing::{epoch, ms, path_sample};

/// A round trip of the path in milliseconds.
const RTT: u64 = 80;

/// A paced sender, a path without queues or losses, and a receiver that acknowledges every second
/// packet, or a single one after 25 ms.
struct Paced {
    connection: Connection,
    /// What each echo reports.
    told: PathSample,
    /// When the last packet left.
    sent: Instant,
    /// When packets without an ACK reach the receiver. At most the last one waits for another.
    arrivals: VecDeque<Instant>,
    /// When ACKs reach the sender, for how many packets, and how long the newest waited.
    acks: VecDeque<(Instant, usize, Duration)>,
    /// Packets that have left.
    packets: u64,
}

impl Paced {
    fn new(spec: &str) -> Self {
        let now = epoch();
        Self {
            connection: Connection::new(built(spec, now), now),
            told: path_sample(),
            sent: now,
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            packets: 0,
        }
    }

    fn grant(&mut self, rate: u64) {
        self.told.grant = Some(Grant::Rate(rate));
    }

    /// The rate in bytes of payload per second: the controller's, or two windows per round trip.
    fn rate(&self) -> u64 {
        let controller = &self.connection.adapter.path.controller;
        let derived = 2 * controller.window() * 1000 / RTT;
        controller.pacing_rate().unwrap_or(derived)
    }

    /// When the next packet may leave; `None` if the window is full.
    fn next(&self) -> Option<Instant> {
        let room = self.connection.in_flight() + PACKET < self.connection.adapter.window();
        let gap = Duration::from_secs_f64(PACKET as f64 / self.rate() as f64);
        room.then(|| (self.sent + gap).max(self.connection.now))
    }

    /// Runs for `time`; returns the rate of IP packets in bytes per second.
    fn run(&mut self, time: Duration) -> f64 {
        let end = self.connection.now + time;
        let before = self.packets;
        loop {
            self.receive();
            let timer = self.arrivals.front().map(|arrival| *arrival + ms(25));
            let ack = self.acks.front().map(|(at, ..)| *at);
            let events = [self.next(), ack, timer];
            let at = *events
                .iter()
                .flatten()
                .min()
                .expect("something is under way");
            if at > end {
                break;
            }
            self.connection.now = self.connection.now.max(at);
            if ack == Some(at) {
                self.process();
            } else if self.next() == Some(at) {
                self.sent = at;
                self.packets += 1;
                self.connection.run(&Op::Send(1));
                self.arrivals.push_back(at + ms(RTT / 2));
            }
        }
        self.connection.now = end;
        let bytes = (self.packets - before) * (PACKET + u64::from(DEFAULT_OVERHEAD));
        bytes as f64 / time.as_secs_f64()
    }

    /// Lets the receiver acknowledge what has arrived by now.
    fn receive(&mut self) {
        let now = self.connection.now;
        while let Some(first) = self.arrivals.front().copied() {
            let second = self.arrivals.get(1).copied();
            let (at, packets, held) = match second {
                Some(second) if second <= (first + ms(25)).min(now) => (second, 2, ms(0)),
                _ if first + ms(25) <= now => (first + ms(25), 1, ms(25)),
                _ => return,
            };
            self.arrivals.drain(..packets);
            self.acks.push_back((at + ms(RTT / 2), packets, held));
        }
    }

    fn process(&mut self) {
        let (now, packets, held) = self.acks.pop_front().expect("it is due");
        let sent = self.connection.sent[packets - 1].0;
        self.connection.adapter.path.feed.push(PathSample {
            now,
            rtt: now - sent - held,
            ..self.told.clone()
        });
        self.connection.run(&Op::Ack {
            skip: 0,
            count: packets,
            app_limited: false,
        });
    }
}

#[test]
fn an_acp_sender_sends_the_bytes_of_ip_packets_that_it_is_granted() {
    // A packet in twelve round trips, to a thousand packets in one.
    for rate in [
        1300, 5000, 15_000, 20_000, 50_000, 200_000, 2_000_000, 16_000_000,
    ] {
        let mut path = Paced::new("acp");
        path.grant(rate);
        path.run(Duration::from_secs(20));
        let measured = path.run(Duration::from_secs(60));
        assert!(
            (measured / rate as f64 - 1.0).abs() < 0.01,
            "{measured} of {rate}"
        );
    }
}

#[test]
fn an_rcp_sender_sends_what_it_is_granted_from_the_next_round_trip_on() {
    for rate in [5000, 50_000, 500_000] {
        let mut path = Paced::new("rcp:iw=10");
        path.grant(rate);
        path.run(5 * ms(RTT));
        for rate in [rate, rate / 3, rate / 2] {
            path.grant(rate);
            // The sender may notice it up to one packet interval later.
            path.run(3 * ms(RTT) + Duration::from_secs_f64(2.0 * 1260.0 * 3.0 / rate as f64));
            let measured = path.run(Duration::from_secs(30));
            let share = measured / rate as f64;
            assert!((0.95..=1.05).contains(&share), "{measured} of {rate}");
        }
    }
}

#[test]
fn an_xcp_sender_follows_each_packet_s_change() {
    let mut path = Paced::new("xcp:iw=10");
    let window = |path: &Paced| path.connection.adapter.path.controller.window() as f64;
    path.told.grant = Some(Grant::WindowChange(0));
    path.run(5 * ms(RTT));
    let still = window(&path);
    path.run(5 * ms(RTT));
    assert_eq!(window(&path), still);
    // A tenth of a packet more for each packet: a tenth of the window in a round trip.
    for (change, factor) in [(0.1, 1.1_f64), (-0.1, 0.9)] {
        path.told.grant = Some(Grant::WindowChange(
            (change * (PACKET + u64::from(DEFAULT_OVERHEAD)) as f64 * 256.0) as i64,
        ));
        path.run(ms(RTT));
        let before = window(&path);
        path.run(10 * ms(RTT));
        let measured = (window(&path) / before).powf(0.1);
        assert!(
            (factor - 0.025..=factor + 0.025).contains(&measured),
            "{measured} for {factor}"
        );
    }
}

#[test]
fn an_xcp_sender_that_was_given_too_much_takes_what_is_taken_back_from_the_first_packet_on() {
    let mut path = Paced::new("xcp:iw=10");
    path.told.grant = Some(Grant::WindowChange(i64::MAX));
    path.run(5 * ms(RTT));
    let before = path.connection.adapter.path.controller.window() as f64;
    let tenth = (PACKET + u64::from(DEFAULT_OVERHEAD)) as i64 * 256 / 10;
    path.told.grant = Some(Grant::WindowChange(-tenth));
    path.run(10 * ms(RTT));
    let after = path.connection.adapter.path.controller.window() as f64;
    assert!(after < 0.5 * before, "{after} after {before}");
}

#[test]
fn an_acp_sender_takes_a_new_rate_within_a_few_round_trips() {
    let mut path = Paced::new("acp");
    for (congested, round_trips, rate) in [
        (false, 6, 400_000),
        (false, 3, 100_000),
        (true, 3, 20_000),
        (true, 30, 300_000),
        (false, 4, 15_000),
        (false, 4, 40_000),
    ] {
        path.grant(rate);
        path.told.congested = congested;
        path.run(round_trips * ms(RTT));
        let payload = rate * PACKET / (PACKET + u64::from(DEFAULT_OVERHEAD));
        let share = path.rate() as f64 / payload as f64;
        assert!((0.9..=1.1).contains(&share), "{share} of {rate}");
    }
}

#[test]
fn a_lie_stops_an_acp_sender_for_a_second_at_most() {
    let honest = PathSample {
        grant: Some(Grant::Rate(500_000)),
        ..path_sample()
    };
    let lies = [
        PathSample {
            grant: Some(Grant::Rate(1)),
            ..honest.clone()
        },
        PathSample {
            grant: Some(Grant::Rate(1)),
            congested: true,
            forward_queueing: Some(ms(RTT)),
            ..honest.clone()
        },
        PathSample {
            forward_queueing: Some(ms(RTT)),
            ..honest.clone()
        },
        PathSample {
            backward_queueing: Some(ms(RTT)),
            ..honest.clone()
        },
        PathSample {
            congested: true,
            ..honest.clone()
        },
    ];
    for lie in lies {
        let mut path = Paced::new("acp");
        path.told = honest.clone();
        path.run(Duration::from_secs(5));
        path.told = lie.clone();
        let lied_to = path.run(Duration::from_secs(20));
        assert!(lied_to > 1000.0, "{lied_to} bytes/s left: {lie:?}");
        assert!(
            lied_to < 510_000.0,
            "{lied_to} is more than granted: {lie:?}"
        );
        path.told = honest.clone();
        path.run(Duration::from_secs(1) + 10 * ms(RTT));
        let after = path.run(Duration::from_secs(5));
        assert!(after > 495_000.0, "{after} bytes/s after {lie:?}");
    }
}

#[test]
fn a_router_that_allows_anything_is_believed_as_far_as_losses_allow() {
    let mut path = Paced::new("acp");
    path.grant(1_000_000);
    path.run(Duration::from_secs(5));
    path.connection.run(&Op::Mark);
    // 64 packets fill the path; half of that is left, and a packet more per round trip.
    path.grant(u64::MAX);
    let mut before = path.connection.adapter.path.controller.window();
    assert!(before < 35 * PACKET, "{before}");
    for _ in 0..30 {
        path.run(ms(RTT));
        let after = path.connection.adapter.path.controller.window();
        assert!(after <= before + 2 * PACKET, "{after} after {before}");
        before = after;
    }
    assert!(before > 50 * PACKET, "{before}: it does recover");
}

#[test]
fn without_its_routers_an_acp_sender_grows_like_vegas_and_takes_a_rate_without_a_jump() {
    let mut path = Paced::new("acp");
    path.run(Duration::from_secs(2));
    let alone = path.connection.adapter.path.controller.window();
    assert!(alone > 64 * PACKET, "{alone}");
    // As much as it has at present: 1 / 80 ms.
    path.grant(alone * 1000 / RTT * (PACKET + u64::from(DEFAULT_OVERHEAD)) / PACKET);
    path.run(ms(RTT + 5));
    let guided = path
        .connection
        .adapter
        .path
        .controller
        .pacing_rate()
        .expect("a rate");
    let share = guided as f64 * RTT as f64 / 1000.0 / alone as f64;
    assert!((0.98..=1.1).contains(&share), "{share}");
    path.told.grant = None;
    path.run(4 * ms(RTT) + ms(200));
    let after = path.connection.adapter.path.controller.window();
    assert_eq!(path.connection.adapter.path.controller.pacing_rate(), None);
    let share = after as f64 / alone as f64;
    assert!((0.9..=1.1).contains(&share), "{share}");
}
