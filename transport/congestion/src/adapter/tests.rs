//! Drives the adapter as quinn does. This file has single steps, `recovery` losses, `pauses`
//! times in which nothing runs, `histories` random histories, and `path` a path in virtual time.

use std::sync::{Arc, Mutex};

use quinn_proto::congestion::Controller as _;

use super::*;
use crate::controller::{Ack, Congestion, Feedback, Grant, PathSample, Round};
use crate::table::controller;
use crate::testing::{epoch, ms, us};

mod connection;
mod histories;
mod overflow;
mod paced;
mod path;
mod pauses;
mod recovery;

use connection::{Connection, Op};

const MTU: u16 = 1200;
const PACKET: u64 = MTU as u64;

/// The controller that `spec` names, as quinn gets it.
fn built(spec: &str, now: Instant) -> Adapter {
    *controller(spec)
        .expect("a right spec")
        .build(now, MTU)
        .into_any()
        .downcast()
        .expect("rows of ours build adapters")
}

/// A call that a [`Recorder`] received.
#[derive(Debug, Clone, PartialEq)]
enum Told {
    Path(PathSample),
    Ack(Ack),
    Round(Round),
    Congestion(Congestion),
    Persistent,
    Overhead(u16),
}

/// A controller that records its calls, and grows as in slow start.
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
}

/// An adapter over a recorder with a window of `window` bytes.
fn recorded(now: Instant, window: u64) -> (Adapter, Arc<Mutex<Vec<Told>>>) {
    let told = Arc::default();
    let recorder = Recorder {
        told: Arc::clone(&told),
        window,
    };
    let path = PathControl::new(Box::new(recorder), PathFeed::default(), now, MTU);
    (Adapter { path }, told)
}

fn heard(told: &Mutex<Vec<Told>>) -> Vec<Told> {
    std::mem::take(&mut told.lock().expect("no test panics in here"))
}

#[test]
fn an_ack_that_repeats_a_lost_one_gives_no_sample_and_ends_no_round() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let feed = PathFeed::default();
    adapter.path.feed = feed.clone();
    let mut ack = |at_ms: u64, sent_ms: u64, largest: u64| {
        adapter
            .path
            .on_packet_acked(t0 + ms(at_ms), t0 + ms(sent_ms), 1200);
        adapter.on_end_acks(t0 + ms(at_ms), 0, false, Some(largest));
        heard(&told)
    };
    feed.set_repeated(7);
    let repeat = ack(8000, 100, 7);
    assert!(
        matches!(
            &repeat[..],
            [Told::Ack(Ack {
                rtt: None,
                bytes: 1200,
                ..
            })]
        ),
        "{repeat:?}"
    );
    // The round that the next ACK ends ignores the 8 s too.
    let next = ack(8140, 8100, 8);
    assert!(
        matches!(&next[..], [Told::Ack(_), Told::Round(round)] if round.rtt_min == ms(40)),
        "{next:?}"
    );
}

#[test]
fn the_packets_of_one_ack_frame_become_one_event() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let now = t0 + ms(40);
    adapter.path.on_packet_acked(now, t0 + ms(2), 1200);
    adapter.path.on_packet_acked(now, t0, 1000);
    adapter.on_end_acks(now, 5000, false, Some(1));
    let ack = Ack {
        now,
        sent: t0 + ms(2),
        rtt: Some(ms(38)),
        newest_bytes: 1200,
        packets: 2,
        bytes: 2200,
        bytes_after_recovery: 2200,
        marked: 0,
        in_flight: 7200,
        app_limited: false,
        delivery: None,
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
            adapter
                .path
                .on_packet_acked(t0 + ms(now), t0 + ms(*sent), *bytes);
        }
        adapter.on_end_acks(t0 + ms(now), 0, false, None);
        let Told::Ack(ack) = heard(&told).remove(0) else {
            panic!("an ACK comes first")
        };
        assert_eq!(ack.newest_bytes, size, "at {now} ms");
    }
}

#[test]
fn no_round_trip_seems_shorter_than_a_quarter_of_a_millisecond() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let mut now = t0;
    for (took, rtt) in [(50, 250), (249, 250), (251, 251)] {
        let sent = now;
        now += us(took);
        adapter.path.feed.push(PathSample::new(now, us(took)));
        adapter.path.on_packet_acked(now, sent, 1200);
        adapter.on_end_acks(now, 0, false, None);
        let heard = heard(&told);
        let [Told::Path(sample), Told::Ack(ack), ..] = &heard[..] else {
            panic!("what the path told, and the ACK")
        };
        assert_eq!((sample.rtt, ack.rtt), (us(rtt), Some(us(rtt))));
    }
}

#[test]
fn what_the_path_told_comes_before_the_ack_that_follows_it() {
    let t0 = epoch();
    let (mut adapter, told) = recorded(t0, 12_000);
    let feed = adapter.path.feed.clone();
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
    adapter.path.on_packet_acked(t0 + ms(41), t0, 1200);
    adapter.on_end_acks(t0 + ms(41), 0, false, Some(0));
    let first = heard(&told);
    assert_eq!(first[..2], [Told::Path(sample(30)), Told::Path(sample(31))]);
    assert!(matches!(first[2], Told::Ack(_)));

    for rtt in 0..100 {
        feed.push(sample(rtt));
    }
    adapter.path.on_packet_acked(t0 + ms(42), t0 + ms(1), 1200);
    adapter.on_end_acks(t0 + ms(42), 0, false, Some(1));
    let paths = heard(&told);
    assert_eq!(paths[0], Told::Path(sample(36)), "the oldest are forgotten");
}

#[test]
fn the_endpoint_learns_whose_feedback_the_present_controller_follows() {
    let feed = PathFeed::default();
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
    let feed = adapter.path.feed.clone();
    let mut acked = |now| {
        adapter.path.on_packet_acked(t0 + ms(now), t0, PACKET);
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
        adapter
            .path
            .on_packet_acked(t0 + ms(now), t0 + ms(sent), PACKET);
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
        adapter
            .path
            .on_packet_acked(t0 + ms(now), t0 + ms(sent), 1200);
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
    adapter.path.on_packet_acked(t0 + ms(10), t0, 1200);
    adapter.on_end_acks(t0 + ms(20), 0, true, None);
    assert_eq!(heard(&told), []);
    adapter.path.on_packet_acked(t0 + ms(30), t0, 1200);
    adapter.path.on_packet_acked(t0 + ms(40), t0 + ms(1), 1000);
    adapter.on_end_acks(t0 + ms(40), 0, true, Some(1));
    let Told::Ack(ack) = heard(&told).remove(0) else {
        panic!("an ACK comes first")
    };
    assert_eq!((ack.packets, ack.bytes), (1, 1000));
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
