//! Finds where controllers settle at a bottleneck in virtual time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Connection, Op, PACKET, built};
use crate::controller::{DEFAULT_OVERHEAD, Grant, PathSample};
use crate::testing::{epoch, ms, path_sample};

/// A bottleneck with a queue, a receiver that acknowledges like quinn's, and an application that
/// always has data.
struct Path {
    connection: Connection,
    /// Time to transmit a packet at the bottleneck.
    service: Duration,
    /// Propagation, there and back together.
    propagation: Duration,
    /// Time that ACKs queue on the way back.
    backward: Duration,
    /// Packets that the bottleneck holds at most, the one being transmitted included.
    limit: u32,
    stamps: Stamps,
    /// What they grant: a rate in bytes of IP packets per second, and whether the link claims to be
    /// congested.
    granted: Option<(u64, bool)>,
    /// The receiver acknowledges each packet at once. Packets then leave one by one, as with
    /// pacing; of a pair the second finds the first in the queue.
    one_by_one: bool,
    /// When the bottleneck will have sent all it has.
    idle_at: Instant,
    /// For each packet in flight, the oldest first: whether the bottleneck dropped it.
    dropped: VecDeque<bool>,
    /// Packets that will reach the receiver.
    arrivals: VecDeque<Packet>,
    /// ACKs that will reach the sender.
    acks: VecDeque<Answer>,
    /// The packet that waits for its ACK.
    unacknowledged: Option<Packet>,
    /// The largest window so far, in packets.
    largest_window: f64,
    /// Packets lost.
    lost: u32,
}

/// What path headers report about the way there. They report every queue on the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// There are none.
    None,
    /// Every queue.
    All,
    /// Empty queues: nobody stamps where packets really wait.
    Nothing,
    /// A lie: packets queued for the whole round trip on the way there.
    AllThere,
    /// A lie: packets queued for the whole round trip on the way back.
    AllBack,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    sent: Instant,
    arrives: Instant,
    /// Time in the bottleneck's queue.
    queued: Duration,
}

/// An ACK for `packets` packets. The receiver held the newest for `held`.
#[derive(Debug, Clone, Copy)]
struct Answer {
    arrives: Instant,
    packets: usize,
    newest: Packet,
    held: Duration,
}

impl Path {
    fn new(spec: &str, packets_per_second: u32, propagation: Duration) -> Self {
        let now = epoch();
        Self {
            connection: Connection::new(built(spec, now), now),
            service: Duration::from_secs(1) / packets_per_second,
            propagation,
            backward: Duration::ZERO,
            limit: u32::MAX,
            stamps: Stamps::None,
            granted: None,
            one_by_one: false,
            idle_at: now,
            dropped: VecDeque::new(),
            arrivals: VecDeque::new(),
            acks: VecDeque::new(),
            unacknowledged: None,
            largest_window: 0.0,
            lost: 0,
        }
    }

    /// Packets at the bottleneck, the one being transmitted included.
    fn queue(&self) -> u32 {
        let left = self.idle_at.saturating_duration_since(self.connection.now);
        left.as_nanos().div_ceil(self.service.as_nanos()) as u32
    }

    fn window(&self) -> f64 {
        self.connection.adapter.path.controller.window() as f64 / PACKET as f64
    }

    /// Runs for `time`; returns the queue's length in packets, averaged over the ACKs.
    fn run(&mut self, time: Duration) -> f64 {
        let end = self.connection.now + time;
        let (mut sum, mut count) = (0, 0_u32);
        self.send();
        while self.connection.now < end {
            self.receive();
            let ack = self.acks.pop_front().expect("whatever arrived gets an ACK");
            self.connection.now = ack.arrives;
            sum += self.queue();
            count += 1;
            self.process(&ack);
            self.send();
        }
        f64::from(sum) / f64::from(count)
    }

    /// Gives the sender an ACK and the echo of a path header.
    fn process(&mut self, ack: &Answer) {
        let rtt = ack.arrives - ack.newest.sent - ack.held;
        let told = match self.stamps {
            Stamps::None => None,
            Stamps::All => Some((ack.newest.queued, self.backward)),
            Stamps::Nothing => Some((Duration::ZERO, self.backward)),
            Stamps::AllThere => Some((rtt, Duration::ZERO)),
            Stamps::AllBack => Some((Duration::ZERO, rtt)),
        };
        if let Some((forward, backward)) = told {
            self.connection.adapter.path.feed.push(PathSample {
                now: ack.arrives,
                rtt,
                forward_queueing: Some(forward),
                backward_queueing: Some(backward),
                grant: self.granted.map(|(rate, _)| Grant::Rate(rate)),
                congested: self.granted.is_some_and(|(_, congested)| congested),
                ..path_sample()
            });
        }
        let mut lost = 0;
        let mut left = ack.packets;
        while left > 0 {
            match self.dropped.pop_front() {
                Some(true) => lost += 1,
                Some(false) => left -= 1,
                None => unreachable!("only what was sent is acknowledged"),
            }
        }
        self.connection.run(&Op::Ack {
            skip: lost,
            count: ack.packets,
            app_limited: false,
        });
        if lost > 0 {
            self.lost += lost as u32;
            self.connection.run(&Op::Lose {
                count: lost,
                persistent: false,
            });
        }
    }

    /// Sends what the window allows.
    fn send(&mut self) {
        let before = self.connection.sent.len();
        self.connection.run(&Op::Send(usize::MAX));
        for _ in before..self.connection.sent.len() {
            let sent = self.connection.now;
            let dropped = self.queue() >= self.limit;
            self.dropped.push_back(dropped);
            if dropped {
                continue;
            }
            let starts = self.idle_at.max(sent);
            self.idle_at = starts + self.service;
            self.arrivals.push_back(Packet {
                sent,
                arrives: self.idle_at + self.propagation / 2,
                queued: starts - sent,
            });
        }
        self.largest_window = self.largest_window.max(self.window());
    }

    /// Lets the receiver work until an ACK is on its way: one for every second packet, or
    /// 25 ms after a packet that stays alone (RFC 9000, section 18.2, max_ack_delay).
    fn receive(&mut self) {
        while self.acks.is_empty() {
            let alone = self.unacknowledged;
            let timer = alone.map(|packet| packet.arrives + ms(25));
            let (at, packets, newest) = match (self.arrivals.front().copied(), alone) {
                (Some(packet), None) if self.one_by_one => {
                    self.arrivals.pop_front();
                    (packet.arrives, 1, packet)
                }
                (Some(packet), None) => {
                    self.arrivals.pop_front();
                    self.unacknowledged = Some(packet);
                    continue;
                }
                (Some(packet), Some(_)) if Some(packet.arrives) <= timer => {
                    self.arrivals.pop_front();
                    (packet.arrives, 2, packet)
                }
                (_, Some(alone)) => (alone.arrives + ms(25), 1, alone),
                (None, None) => unreachable!("the sender always has a packet in flight"),
            };
            self.unacknowledged = None;
            self.acks.push_back(Answer {
                arrives: at + self.propagation / 2 + self.backward,
                packets,
                newest,
                held: at - newest.arrives,
            });
        }
    }
}

/// Runs `spec` for a minute, then returns the path and the mean queue of 20 s more.
fn settled(spec: &str, packets_per_second: u32, propagation: u64) -> (Path, f64) {
    settle(Path::new(spec, packets_per_second, ms(propagation)))
}

/// Likewise, on a path that is given.
fn settle(mut path: Path) -> (Path, f64) {
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
fn small_packets_of_the_handshake_leave_no_link_idle() {
    // 200 packets a second, 100 ms for full-size packets: four links of this rate take 20 ms of it.
    // A small packet is back after 81 ms. With 81 ms as BaseRTT, 3 of 16 packets would seem to
    // queue on a path that holds 21.
    for (spec, most) in [
        ("vegas", 3.0),
        ("vegas8", 8.0),
        ("ada-vegas", 3.0),
        ("ro-vegas", 3.0),
    ] {
        let mut path = Path::new(spec, 200, ms(100));
        let sent = path.connection.now;
        path.connection.run(&Op::Wait(81));
        path.connection.sent.push_back((sent, 60));
        path.connection.run(&Op::Ack {
            skip: 0,
            count: 1,
            app_limited: false,
        });
        let (_, queue) = settle(path);
        let expected = 1.0..=most + 1.0;
        assert!(expected.contains(&queue), "{spec}: {queue} packets queued");
    }
}

#[test]
fn vegas_leaves_slow_start_with_the_first_doubling_that_fills_the_queue() {
    // 100 packets fill the path: the window is 10, 20, 40, 80, 160, then an eighth less.
    let mut path = Path::new("vegas", 1000, ms(100));
    path.run(Duration::from_secs(2));
    let threshold = path
        .connection
        .adapter
        .path
        .controller
        .slow_start_threshold();
    assert_eq!(
        (path.largest_window, threshold),
        (160.0, Some(140 * PACKET))
    );
}

#[test]
fn ro_vegas_keeps_the_way_there_busy_whatever_queues_on_the_way_back() {
    for (rate, propagation, backward) in [(200, 40, 0), (200, 40, 200), (1000, 40, 100)] {
        for (spec, busy) in [("ro-vegas", true), ("vegas", backward == 0)] {
            let mut path = Path::new(spec, rate, ms(propagation));
            (path.stamps, path.one_by_one) = (Stamps::All, true);
            // The way back fills up after both have measured the empty path.
            path.run(Duration::from_secs(5));
            path.backward = ms(backward);
            let (_, queue) = settle(path);
            assert_eq!(
                (1.0..=4.0).contains(&queue),
                busy,
                "{spec}, {rate}/s, {propagation} ms + {backward} ms: {queue} packets"
            );
        }
    }
}

#[test]
fn ro_vegas_follows_a_longer_route_where_vegas_gives_way() {
    for (spec, busy) in [("ro-vegas", true), ("vegas", false)] {
        let mut path = Path::new(spec, 1000, ms(40));
        (path.stamps, path.one_by_one) = (Stamps::All, true);
        path.run(Duration::from_secs(5));
        path.propagation = ms(160);
        let (path, queue) = settle(path);
        assert_eq!(queue >= 1.0, busy, "{spec}: {queue} packets queued");
        assert_eq!(path.window() > 160.0, busy, "{spec}: {}", path.window());
    }
}

#[test]
fn a_queue_that_nobody_stamps_does_not_make_ro_vegas_a_reno() {
    // 20 packets fill the path, 30 the queue. If coverage were proof, the queue would enter BaseRTT
    // and overflow again and again.
    let mut path = Path::new("ro-vegas", 200, ms(100));
    (path.stamps, path.one_by_one) = (Stamps::Nothing, true);
    path.limit = 30;
    path.run(Duration::from_secs(1000));
    let before = path.lost;
    let queue = path.run(Duration::from_secs(500));
    let lost = path.lost - before;
    assert!(queue < 10.0, "{queue} packets queued");
    assert!(lost <= 3, "{lost} packets lost");
}

#[test]
fn whatever_routers_claim_the_window_stays_below_renos_and_comes_back_when_they_stop() {
    // 20 packets fill the path, 30 the queue.
    let path = |spec, stamps| {
        let mut path = Path::new(spec, 200, ms(100));
        (path.stamps, path.one_by_one, path.limit) = (stamps, true, 30);
        path.run(Duration::from_secs(200));
        path
    };
    let reno = path("reno:hystart=false", Stamps::None).largest_window;
    for lie in [Stamps::AllBack, Stamps::AllThere] {
        for after in [Stamps::All, Stamps::None] {
            let mut path = path("ro-vegas", lie);
            let largest = path.largest_window;
            assert!(
                largest <= reno,
                "{lie:?}: {largest} packets, {reno} of Reno"
            );
            if lie == Stamps::AllThere {
                assert!(path.window() <= 10.0, "{} packets", path.window());
            }
            path.stamps = after;
            let (path, queue) = settle(path);
            let window = path.window();
            assert!(
                (1.0..=4.0).contains(&queue),
                "{lie:?}, then {after:?}: {queue}"
            );
            assert!(
                (21.0..=24.0).contains(&window),
                "{lie:?}, then {after:?}: {window}"
            );
        }
    }
}

#[test]
fn whatever_a_router_grants_the_window_stays_below_renos_and_comes_back_when_the_lie_stops() {
    // 20 packets fill the path, 30 the queue. An honest router grants the rate of the path:
    let honest = 200 * (PACKET + u64::from(DEFAULT_OVERHEAD));
    let path = |spec, stamps, granted| {
        let mut path = Path::new(spec, 200, ms(100));
        (path.stamps, path.one_by_one, path.limit) = (stamps, true, 30);
        path.granted = granted;
        path
    };
    let mut reno = path("reno:hystart=false", Stamps::None, None);
    reno.run(Duration::from_secs(200));
    let reno = reno.largest_window;
    for (lie, stamps) in [
        ((0, false), Stamps::All),
        ((0, true), Stamps::All),
        ((1, false), Stamps::All),
        ((u64::MAX, false), Stamps::All),
        ((u64::MAX, true), Stamps::All),
        ((honest, true), Stamps::All),
        ((honest, false), Stamps::AllThere),
        ((honest, false), Stamps::AllBack),
        ((u64::MAX, true), Stamps::AllThere),
        ((u64::MAX, true), Stamps::AllBack),
    ] {
        // From the beginning, and after the truth.
        for before in [Duration::ZERO, Duration::from_secs(20)] {
            let what = format!("{lie:?}, {stamps:?}, after {before:?}");
            let mut path = path("acp", Stamps::All, Some((honest, false)));
            path.run(before);
            (path.granted, path.stamps) = (Some(lie), stamps);
            path.run(Duration::from_secs(200));
            let largest = path.largest_window;
            assert!(largest <= reno, "{what}: {largest} packets, {reno} of Reno");
            (path.granted, path.stamps) = (Some((honest, false)), Stamps::All);
            let (path, queue) = settle(path);
            let window = path.window();
            assert!((20.0..=23.0).contains(&window), "{what}: {window} packets");
            assert!(queue <= 4.0, "{what}: {queue} packets queued");
        }
    }
}
