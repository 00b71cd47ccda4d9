//! The adapter as quinn drives it: unit steps and random histories; a path in virtual time in `path`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use quinn_proto::congestion::Controller as _;

use super::*;
use crate::controller::{Feedback, Grant, PathSample, Round};
use crate::table::controller;
use crate::testing::{epoch, ms};
use crate::window::InitialWindow;

mod overflow;
mod paced;
mod path;

const MTU: u16 = 1200;
const PACKET: u64 = MTU as u64;

/// The rows that run a controller of ours.
const OURS: [&str; 21] = [
    "reno",
    "gaimd:alpha=2,beta=0.7",
    "smooth-aimd",
    "vegas",
    "vegas8:rtt=mean",
    "ada-vegas:relapse=false",
    "ada-vegas:relapse=true",
    "ro-vegas",
    "ro-vegas:probes=8,inc=8",
    "acp",
    "acp:fallback=reno,iw=10",
    "xcp",
    "rcp",
    "abgd",
    "a-aimd",
    "a-aimd:schedule=A",
    "tfrc",
    "tfrc:damping=false,discounting=false",
    "reno:timeout=tcp",
    "vegas:timeout=tcp",
    "abgd:timeout=tcp",
];

/// A packet or two: the least window that `spec` begins with.
fn least_packets(spec: &str) -> u64 {
    if ["acp", "xcp", "rcp"].contains(&spec) {
        1
    } else {
        2
    }
}

/// The controller that `spec` names, as quinn gets it.
fn built(spec: &str, now: Instant) -> Adapter {
    *controller(spec)
        .expect("a right spec")
        .build(now, MTU)
        .into_any()
        .downcast()
        .expect("rows of ours build adapters")
}

/// What a [`Recorder`] was told.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Path(PathSample),
    Ack(Ack),
    Round(Round),
    Congestion(Congestion),
    Persistent,
    Overhead(u16),
}

/// A controller that writes down what it is told, and grows as in slow start.
#[derive(Debug, Clone)]
struct Recorder {
    told: Arc<Mutex<Vec<Told>>>,
    window: u64,
}

impl Recorder {
    fn tell(&self, what: Told) {
        self.told.lock().expect("no test panics in here").push(what);
    }
}

impl Controller for Recorder {
    fn on_path(&mut self, sample: &PathSample) {
        self.tell(Told::Path(sample.clone()));
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.window.saturating_mul(25))
    }

    fn follows(&self) -> Option<Feedback> {
        Some(Feedback::Acp)
    }

    fn on_overhead(&mut self, bytes: u16) {
        self.tell(Told::Overhead(bytes));
    }

    fn header_interval(&self) -> u32 {
        3
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.tell(Told::Ack(ack.clone()));
        self.window += ack.bytes;
    }

    fn on_round(&mut self, round: &Round) {
        self.tell(Told::Round(round.clone()));
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.tell(Told::Congestion(event.clone()));
    }

    fn on_persistent_congestion(&mut self) {
        self.tell(Told::Persistent);
    }

    fn on_mtu(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// An adapter over a recorder with a window of `window` bytes.
fn recorded(now: Instant, window: u64) -> (Adapter, Arc<Mutex<Vec<Told>>>) {
    let told = Arc::default();
    let recorder = Recorder {
        told: Arc::clone(&told),
        window,
    };
    (Adapter::new(Box::new(recorder), now, MTU), told)
}

fn heard(told: &Mutex<Vec<Told>>) -> Vec<Told> {
    std::mem::take(&mut told.lock().expect("no test panics in here"))
}

#[test]
fn the_packets_of_one_ack_frame_become_one_event() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let now = t0 + ms(40);
    adapter.acked(now, t0 + ms(2), 1200);
    adapter.acked(now, t0, 1000);
    adapter.on_end_acks(now, 5000, false, Some(1));
    let ack = Ack {
        now,
        sent: t0 + ms(2),
        rtt: Some(ms(38)),
        newest_bytes: 1200,
        packets: 2,
        bytes: 2200,
        bytes_after_recovery: 2200,
        in_flight: 7200,
        app_limited: false,
    };
    let heard = heard(&told);
    assert_eq!(heard[0], Told::Ack(ack));
    let Told::Round(round) = &heard[1] else {
        panic!("a round ended")
    };
    assert_eq!(
        (round.bytes, round.unused, round.in_flight),
        (2200, 4800, 7200)
    );
}

#[test]
fn a_round_trip_comes_with_the_size_of_its_packet() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    // Packets of one ACK frame: when they were sent, in ms, and their bytes.
    for (now, packets, size) in [
        (40, &[(0, 1200), (1, 60)][..], 60),
        (50, &[(3, 1200), (2, 60)], 1200),
        (60, &[(5, 60), (5, 1200), (5, 70)], 1200),
    ] {
        for (sent, bytes) in packets {
            adapter.acked(t0 + ms(now), t0 + ms(*sent), *bytes);
        }
        adapter.on_end_acks(t0 + ms(now), 0, false, None);
        let Told::Ack(ack) = heard(&told).remove(0) else {
            panic!("an ACK comes first")
        };
        assert_eq!(ack.newest_bytes, size, "at {now} ms");
    }
}

#[test]
fn what_the_path_told_comes_before_the_ack_that_follows_it() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let feed = adapter.feed.clone();
    let sample = |rtt| PathSample {
        now: t0 + ms(40),
        rtt: ms(rtt),
        forward_queueing: Some(ms(1)),
        backward_queueing: Some(ms(2)),
        complete: true,
        grant: Some(Grant::Rate(1_000_000)),
        congested: false,
        flows: None,
    };
    feed.push(sample(30));
    feed.push(sample(31));
    adapter.on_end_acks(t0 + ms(40), 0, false, None);
    assert_eq!(heard(&told), [], "an ACK of nothing new tells nothing");
    adapter.acked(t0 + ms(41), t0, 1200);
    adapter.on_end_acks(t0 + ms(41), 0, false, Some(0));
    let first = heard(&told);
    assert_eq!(first[..2], [Told::Path(sample(30)), Told::Path(sample(31))]);
    assert!(matches!(first[2], Told::Ack(_)));

    for rtt in 0..100 {
        feed.push(sample(rtt));
    }
    adapter.acked(t0 + ms(42), t0 + ms(1), 1200);
    adapter.on_end_acks(t0 + ms(42), 0, false, Some(1));
    let paths = heard(&told);
    assert_eq!(paths[0], Told::Path(sample(36)), "the oldest are forgotten");
}

#[test]
fn the_endpoint_learns_whose_feedback_the_present_controller_follows() {
    let feed = Arc::<PathFeed>::default();
    let recorder = adapt(|_, _| {
        Box::new(Recorder {
            told: Arc::default(),
            window: 12_000,
        })
    });
    let build = |factory: SharedFactory| factory.build_fed(epoch(), MTU, feed.clone());
    assert_eq!(feed.followed(), None);
    build(recorder.clone());
    assert_eq!(feed.followed(), Some(Feedback::Acp));
    for other in ["vegas", "cubic"] {
        build(recorder.clone());
        build(controller(other).expect("a name of the table"));
        assert_eq!(feed.followed(), None, "{other}");
    }
}

#[test]
fn the_endpoint_learns_how_many_headers_the_controller_needs_and_tells_what_packets_add() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let feed = adapter.feed.clone();
    let mut acked = |now| {
        adapter.acked(t0 + ms(now), t0, PACKET);
        adapter.on_end_acks(t0 + ms(now), 0, false, None);
        let first = heard(&told).remove(0);
        (first, feed.header_interval())
    };
    assert!(matches!(acked(40), (Told::Ack(_), 3)));
    feed.set_overhead(80);
    assert_eq!(acked(41), (Told::Overhead(80), 3), "before the ACK");
    assert!(matches!(acked(42), (Told::Ack(_), 3)), "once");
    controller("vegas")
        .expect("a name of the table")
        .build_fed(t0, MTU, feed.clone());
    assert_eq!(feed.header_interval(), 1, "another controller begins");
}

#[test]
fn the_rate_reaches_quinn_in_bits_per_second() {
    let (adapter, _) = recorded(epoch(), 12_000);
    assert_eq!(adapter.metrics().pacing_rate, Some(12_000 * 25 * 8));
}

#[test]
fn a_reduction_makes_its_round_last_until_data_sent_after_it_is_acknowledged() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let mut round_of = |now, sent, lost: bool| {
        adapter.acked(t0 + ms(now), t0 + ms(sent), PACKET);
        adapter.on_end_acks(t0 + ms(now), 0, false, None);
        if lost {
            adapter.on_congestion_event(t0 + ms(now), t0 + ms(sent), false, PACKET);
        }
        heard(&told).into_iter().find_map(|told| match told {
            Told::Round(round) => Some((round.in_recovery, round.lost)),
            _ => None,
        })
    };
    assert_eq!(round_of(40, 0, false), Some((false, 0)));
    assert_eq!(round_of(60, 20, true), None);
    assert_eq!(
        round_of(80, 40, false),
        None,
        "without the loss the round would be over"
    );
    assert_eq!(round_of(101, 61, false), Some((true, PACKET)));
    assert_eq!(round_of(142, 102, false), Some((false, 0)));
}

#[test]
fn an_ack_older_than_one_before_it_gives_no_sample() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    for (now, sent, rtt) in [
        (40, 5, Some(35)),
        (50, 4, None),
        (60, 5, Some(55)),
        (70, 6, Some(64)),
    ] {
        heard(&told);
        adapter.acked(t0 + ms(now), t0 + ms(sent), 1200);
        adapter.on_end_acks(t0 + ms(now), 0, false, None);
        let Told::Ack(ack) = heard(&told).remove(0) else {
            panic!("an ACK comes first")
        };
        assert_eq!(ack.rtt, rtt.map(ms), "sent at {sent}");
    }
}

#[test]
fn acks_that_a_retry_or_a_new_path_leave_incomplete_are_forgotten() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    adapter.on_end_acks(t0, 0, true, None);
    adapter.acked(t0 + ms(10), t0, 1200);
    adapter.on_end_acks(t0 + ms(20), 0, true, None);
    assert_eq!(heard(&told), []);
    adapter.acked(t0 + ms(30), t0, 1200);
    adapter.acked(t0 + ms(40), t0 + ms(1), 1000);
    adapter.on_end_acks(t0 + ms(40), 0, true, Some(1));
    let Told::Ack(ack) = heard(&told).remove(0) else {
        panic!("an ACK comes first")
    };
    assert_eq!((ack.packets, ack.bytes), (1, 1000));
}

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
        (55, 10, 2400, vec![]), // sent before 50
        (60, 50, 1200, vec![]), // sent at 50
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

#[test]
fn quinn_is_told_one_byte_more_and_never_less_than_a_packet() {
    let t0 = epoch();
    for (own, reported) in [
        (12_000, 12_001),
        (PACKET, PACKET + 1),
        (300, PACKET + 1),
        (u64::MAX, u64::MAX),
    ] {
        let (adapter, _) = recorded(t0, own);
        assert_eq!(adapter.window(), reported);
        assert_eq!(adapter.metrics().congestion_window, own);
    }
    let (mut adapter, _) = recorded(t0, 1200);
    adapter.on_mtu_update(1452);
    assert_eq!(
        adapter.window(),
        1453,
        "or the larger packet could never leave"
    );
}

#[test]
fn a_clone_goes_on_where_the_original_is() {
    let t0 = epoch();
    let mut adapter = built("vegas", t0);
    adapter.on_congestion_event(t0 + ms(50), t0, false, 1200);
    let copy: Box<Adapter> = adapter
        .clone_box()
        .into_any()
        .downcast()
        .expect("a clone is an adapter");
    assert_eq!(format!("{copy:?}"), format!("{adapter:?}"));
}

/// What may happen to a connection.
#[derive(Debug, Clone)]
enum Op {
    /// Time passes, in milliseconds.
    Wait(u64),
    /// Up to so many packets are sent, as the window lets quinn.
    Send(usize),
    /// An ACK frame for `count` packets after the `skip` oldest.
    Ack {
        skip: usize,
        count: usize,
        app_limited: bool,
    },
    /// The oldest packets are lost.
    Lose { count: usize, persistent: bool },
    /// The peer reports a mark; the newest packet it acknowledged was sent with the oldest in flight.
    Mark,
    /// The packet size changes.
    Mtu(u16),
    /// A Retry acknowledges a packet without ending the ACK.
    Retry,
    /// A path header tells something, however absurd.
    Tell(PathSample),
}

fn told() -> impl Strategy<Value = PathSample> {
    let grant = prop_oneof![
        Just(None),
        prop_oneof![Just(1), Just(u64::MAX), 1_u64..10_000_000]
            .prop_map(|rate| Some(Grant::Rate(rate))),
        prop_oneof![Just(i64::MIN), Just(i64::MAX), -1_000_000_i64..1_000_000]
            .prop_map(|change| Some(Grant::WindowChange(change))),
    ];
    let queueing = || prop::option::of(0_u64..600);
    (
        0_u64..600,
        queueing(),
        queueing(),
        any::<[bool; 2]>(),
        grant,
        prop::option::of(any::<u32>()),
    )
        .prop_map(
            |(rtt, forward, backward, [complete, congested], grant, flows)| PathSample {
                now: epoch(),
                rtt: ms(rtt),
                forward_queueing: forward.map(ms),
                backward_queueing: backward.map(ms),
                complete,
                grant,
                congested,
                flows,
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => prop_oneof![Just(0_u64), 1_u64..200].prop_map(Op::Wait),
        4 => (1_usize..40).prop_map(Op::Send),
        6 => (prop_oneof![4 => Just(0_usize), 1 => 1_usize..5], 1_usize..20, prop::bool::weighted(0.2))
            .prop_map(|(skip, count, app_limited)| Op::Ack { skip, count, app_limited }),
        1 => (1_usize..10, prop::bool::weighted(0.2)).prop_map(|(count, persistent)| Op::Lose { count, persistent }),
        1 => Just(Op::Mark),
        1 => (1200_u16..9000).prop_map(Op::Mtu),
        1 => Just(Op::Retry),
        4 => told().prop_map(Op::Tell),
    ]
}

/// A connection as quinn keeps it, just enough to call the adapter in quinn's order.
struct Connection {
    adapter: Adapter,
    now: Instant,
    mtu: u16,
    /// Sending time and bytes of what is in flight.
    sent: VecDeque<(Instant, u64)>,
    /// Bytes acknowledged in all.
    acked: u64,
}

impl Connection {
    fn new(adapter: Adapter, now: Instant) -> Self {
        Self {
            adapter,
            now,
            mtu: MTU,
            sent: VecDeque::new(),
            acked: 0,
        }
    }

    /// Waits for `time` milliseconds, then sends two packets however full the window is.
    fn probe(&mut self, time: u64) {
        self.run(&Op::Wait(time));
        for _ in 0..2 {
            self.adapter.on_sent(self.now, PACKET, 0);
            self.sent.push_back((self.now, PACKET));
        }
    }

    fn in_flight(&self) -> u64 {
        self.sent.iter().map(|(_, bytes)| bytes).sum()
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Wait(time) => self.now += ms(time),
            Op::Send(count) => {
                for _ in 0..count {
                    if self.in_flight() + u64::from(self.mtu) >= self.adapter.window() {
                        break;
                    }
                    self.adapter.on_sent(self.now, u64::from(self.mtu), 0);
                    self.sent.push_back((self.now, u64::from(self.mtu)));
                }
            }
            Op::Ack {
                skip,
                count,
                app_limited,
            } => {
                let from = skip.min(self.sent.len());
                let to = (from + count).min(self.sent.len());
                for (sent, bytes) in self.sent.drain(from..to).rev().collect::<Vec<_>>() {
                    self.acked += bytes;
                    self.adapter.acked(self.now, sent, bytes);
                }
                self.adapter
                    .on_end_acks(self.now, self.in_flight(), app_limited, None);
            }
            Op::Lose { count, persistent } => {
                let count = count.min(self.sent.len());
                let lost: Vec<_> = self.sent.drain(..count).collect();
                if let Some((sent, _)) = lost.last() {
                    let bytes = lost.iter().map(|(_, bytes)| bytes).sum();
                    self.adapter
                        .on_congestion_event(self.now, *sent, persistent, bytes);
                }
            }
            Op::Mark => {
                if let Some((sent, _)) = self.sent.front() {
                    self.adapter.on_congestion_event(self.now, *sent, false, 0);
                }
            }
            Op::Mtu(mtu) => {
                self.mtu = mtu;
                self.adapter.on_mtu_update(mtu);
            }
            Op::Tell(ref sample) => self.adapter.feed.push(PathSample {
                now: self.now,
                ..sample.clone()
            }),
            Op::Retry => {
                if let Some((sent, bytes)) = self.sent.pop_front() {
                    self.adapter.acked(self.now, sent, bytes);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn no_history_breaks_the_bounds_of_a_window(
        spec in prop::sample::select(&OURS[..]),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let t0 = epoch();
        let mut connection = Connection::new(built(spec, t0), t0);
        // Losses allow an initial window whatever the controller begins with.
        let mut most = connection.adapter.controller.window().max(InitialWindow::Rfc9002.bytes(MTU));
        let mut recovery_start = None;
        for op in &ops {
            let before = connection.adapter.controller.window();
            let acked = connection.acked;
            let oldest = connection.sent.front().map(|(sent, _)| *sent);
            let in_recovery = |sent: Option<Instant>| sent.is_some() && sent <= recovery_start;
            let newest_in_recovery = in_recovery(connection.sent.back().map(|(sent, _)| *sent));
            let last_lost = match op {
                Op::Lose { count, .. } => connection.sent.iter().take(*count).next_back().map(|(sent, _)| *sent),
                Op::Mark => oldest,
                _ => None,
            };
            connection.run(op);
            let after = connection.adapter.controller.window();
            let mtu = u64::from(connection.mtu);
            prop_assert!(after >= least_packets(spec) * mtu, "{after} is below its least");
            prop_assert_eq!(connection.adapter.window(), after + 1);
            // Slow start adds what was acknowledged, a round at most eight packets.
            most = (most + connection.acked - acked + 8 * mtu).max(2 * mtu);
            prop_assert!(after <= most, "{after} is more than {most}");
            // Vegas and Reno take over from a window of one packet with two.
            let allowed = before.max(2 * mtu);
            match op {
                Op::Lose { persistent, .. } => {
                    prop_assert!(after <= allowed, "{before} rose to {after} on a loss");
                    if *persistent && last_lost.is_some() {
                        prop_assert!(after <= 2 * mtu, "{after} is above the least window");
                    } else if in_recovery(last_lost) {
                        prop_assert_eq!(after, before, "a second reduction in one recovery period");
                    }
                }
                Op::Mark => {
                    prop_assert!(after <= allowed, "{before} rose to {after} on a mark");
                    if in_recovery(last_lost) {
                        prop_assert_eq!(after, before, "a second reduction in one recovery period");
                    }
                }
                Op::Ack { .. } if newest_in_recovery => {
                    prop_assert!(after <= allowed, "{before} rose to {after} in recovery");
                }
                Op::Ack { .. } | Op::Mtu(_) => {}
                // What leaves may tell of a probe timeout.
                Op::Send(_) if after < before => {
                    prop_assert!(spec.ends_with("timeout=tcp"), "{before} fell to {after}");
                }
                Op::Wait(_) | Op::Send(_) | Op::Retry | Op::Tell(_) => prop_assert_eq!(after, before),
            }
            if last_lost.is_some() && !in_recovery(last_lost) {
                recovery_start = Some(connection.now);
            }
            if matches!(op, Op::Send(_)) {
                recovery_start = connection.adapter.recovery_start;
            }
        }
    }

    #[test]
    fn rounds_hold_every_byte_once(ops in prop::collection::vec(op(), 1..300)) {
        let t0 = epoch();
        let (adapter, told) = recorded(t0, 40 * 9000);
        let mut connection = Connection::new(adapter, t0);
        for op in &ops {
            connection.run(op);
        }
        // One more round trip ends the last round.
        connection.run(&Op::Wait(1));
        connection.sent.clear();
        connection.run(&Op::Send(1));
        connection.run(&Op::Ack { skip: 0, count: 1, app_limited: false });
        let (mut acked, mut lost, mut in_rounds) = (0, 0, (0, 0));
        for told in heard(&told) {
            match told {
                Told::Ack(ack) => acked += ack.bytes,
                Told::Congestion(event) => lost += event.lost,
                Told::Round(round) => {
                    prop_assert!(round.rtt_min <= round.rtt_end);
                    in_rounds.0 += round.bytes;
                    in_rounds.1 += round.lost;
                }
                Told::Persistent | Told::Path(_) | Told::Overhead(_) => {}
            }
        }
        prop_assert_eq!(in_rounds.0, acked);
        prop_assert!(in_rounds.1 >= lost, "losses in recovery count too");
    }

    #[test]
    fn senseless_times_break_nothing(
        spec in prop::sample::select(&OURS[..]),
        calls in prop::collection::vec((0_u8..4, 0_u64..100, 0_u64..100, 0_u64..100_000, any::<bool>()), 1..200),
    ) {
        let t0 = epoch();
        let mut adapter = built(spec, t0);
        for (call, now, sent, bytes, flag) in calls {
            let (now, sent) = (t0 + ms(now), t0 + ms(sent));
            match call {
                0 => adapter.acked(now, sent, bytes),
                1 => adapter.on_end_acks(now, bytes, flag, None),
                2 => adapter.on_congestion_event(now, sent, flag, bytes),
                _ => adapter.on_sent(now, bytes, 0),
            }
            prop_assert!(adapter.window() > least_packets(spec) * PACKET);
        }
    }
}
