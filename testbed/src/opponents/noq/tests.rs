//! The bridge as quinn drives it.

use std::sync::Mutex;

use evenkeel_tests::time::{epoch, ms};
use quinn::congestion::Controller as _;

use super::*;

const MTU: u16 = 1200;

/// What a [`Recorder`] was told.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    /// Time in ms, bytes, number.
    PacketSent(u128, u16, u64),
    Sent(u64, u64),
    Limited,
    /// Sending time in ms, bytes, number, what the estimator says.
    Ack(u128, u64, u64, Duration),
    EndAcks(u64, bool, Option<u64>),
    Lost(u16, u64),
    /// Persistent, ECN, bytes, number.
    Congestion(bool, bool, u64, u64),
    Mtu(u16),
}

/// A controller of noq that writes down what it is told.
#[derive(Debug, Clone)]
struct Recorder {
    epoch: Instant,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Recorder {
    fn tell(&self, told: Told) {
        self.told.lock().expect("no test panics in here").push(told);
    }

    fn ms(&self, at: Instant) -> u128 {
        (at - self.epoch).as_millis()
    }
}

impl noq::Controller for Recorder {
    fn on_sent(&mut self, _now: Instant, bytes: u64, largest_pn: u64) {
        self.tell(Told::Sent(bytes, largest_pn));
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.tell(Told::PacketSent(self.ms(now), bytes, pn));
    }

    fn on_cwnd_limited(&mut self) {
        self.tell(Told::Limited);
    }

    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        rtt: &noq_proto::RttEstimator,
    ) {
        self.tell(Told::Ack(self.ms(sent), bytes, pn, rtt.get()));
    }

    fn on_end_acks(
        &mut self,
        _now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let largest = largest_packet_num_acked;
        self.tell(Told::EndAcks(in_flight, app_limited, largest));
    }

    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.tell(Told::Congestion(
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        ));
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, _now: Instant) {
        self.tell(Told::Lost(lost_bytes, pn));
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.tell(Told::Mtu(new_mtu));
    }

    fn window(&self) -> u64 {
        12_000
    }

    fn metrics(&self) -> noq::ControllerMetrics {
        let mut metrics = noq::ControllerMetrics::default();
        metrics.congestion_window = 12_000;
        metrics.pacing_rate = Some(1_250_000);
        metrics
    }

    fn clone_box(&self) -> Box<dyn noq::Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        12_000
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

const GUESS: Duration = Duration::from_millis(333);

/// A bridge, time, and what noq was told.
struct Run {
    epoch: Instant,
    bridge: Bridge,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Run {
    fn new() -> Self {
        let (epoch, told) = (epoch(), Arc::default());
        let recorder = Recorder {
            epoch,
            told: Arc::clone(&told),
        };
        let bridge = Bridge::new(Box::new(recorder), MTU, PathFeed::default());
        Self {
            epoch,
            bridge,
            told,
        }
    }

    /// A batch of data leaves.
    fn send(&mut self, at: u64, bytes: u64) {
        self.bridge.window();
        self.bridge.on_sent(self.epoch + ms(at), bytes, 99);
    }

    /// An ACK frame: when its packets were sent, and their bytes.
    fn ack(&mut self, at: u64, packets: &[(u64, u64)], in_flight: u64) {
        let now = self.epoch + ms(at);
        for (sent, bytes) in packets {
            let sent = self.epoch + ms(*sent);
            self.bridge.acked(now, sent, *bytes, false, GUESS);
        }
        self.bridge.on_end_acks(now, in_flight, false, Some(99));
    }

    fn lose(&mut self, at: u64, sent: u64, bytes: u64) {
        let (now, sent) = (self.epoch + ms(at), self.epoch + ms(sent));
        self.bridge.on_congestion_event(now, sent, false, bytes);
    }

    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().expect("no test panics in here"))
    }
}

#[test]
fn a_batch_is_told_packet_by_packet_then_as_a_whole() {
    let mut run = Run::new();
    run.send(0, 3000);
    run.send(1, 1200);
    let expected = [
        Told::PacketSent(0, 1200, 0),
        Told::PacketSent(0, 1200, 1),
        Told::PacketSent(0, 600, 2),
        Told::Sent(3000, 2),
        Told::PacketSent(1, 1200, 3),
        Told::Sent(1200, 3),
    ];
    assert_eq!(run.told(), expected);
}

#[test]
fn noq_does_not_hear_of_acks_alone_but_of_small_data_and_of_probes() {
    let mut run = Run::new();
    run.bridge.on_sent(run.epoch, 40, 0);
    assert_eq!(run.told(), []);
    run.send(1, 160);
    assert_eq!(run.told().len(), 2, "audio");
    run.bridge.on_sent(run.epoch + ms(2), 1200, 0);
    assert_eq!(run.told().len(), 2, "a probe, for which nobody asks");
    run.send(3, 10 * 1200);
    run.told();
    run.bridge.window();
    run.bridge.on_sent(run.epoch + ms(4), 40, 0);
    assert_eq!(run.told(), [Told::Limited], "the window was full");
}

#[test]
fn acknowledged_packets_are_found_by_when_they_were_sent_and_their_size() {
    let mut run = Run::new();
    run.send(0, 2400 + 600);
    run.send(1, 1200);
    run.told();
    run.ack(40, &[(0, 600), (0, 1200), (1, 1200)], 1200);
    let expected = [
        Told::Ack(0, 600, 2, GUESS),
        Told::Ack(0, 1200, 0, GUESS),
        Told::Ack(1, 1200, 3, GUESS),
        Told::EndAcks(1200, false, Some(3)),
    ];
    assert_eq!(run.told(), expected);
    // A probe of the packet size, of which quinn did not tell when it was sent.
    run.ack(50, &[(7, 1452)], 1200);
    assert_eq!(run.told()[0], Told::Ack(7, 1452, UNKNOWN, GUESS));
    run.ack(60, &[(0, 1200)], 0);
    assert_eq!(run.told()[0], Told::Ack(0, 1200, 1, GUESS));
}

#[test]
fn the_oldest_packets_up_to_the_newest_lost_one_are_told_lost_then_the_event() {
    let mut run = Run::new();
    for at in 0..8 {
        run.send(at, 1200);
    }
    run.ack(40, &[(1, 1200), (6, 1200)], 6 * 1200);
    run.told();
    run.lose(40, 3, 3 * 1200);
    let expected = [
        Told::Lost(1200, 0),
        Told::Lost(1200, 2),
        Told::Lost(1200, 3),
        Told::Congestion(false, false, 3600, 3),
    ];
    assert_eq!(run.told(), expected);
    run.ack(41, &[(4, 1200)], 2 * 1200);
    assert_eq!(run.told()[0], Told::Ack(4, 1200, 4, GUESS));
}

#[test]
fn what_quinn_forgets_with_the_handshake_is_not_told_lost_later() {
    let mut run = Run::new();
    run.send(0, 1200);
    for at in 1..6 {
        run.send(at, 1200);
    }
    // The first was dropped with its space: four are in flight.
    run.ack(40, &[(5, 1200)], 4 * 1200);
    run.told();
    run.lose(40, 2, 2 * 1200);
    let expected = [
        Told::Lost(1200, 1),
        Told::Lost(1200, 2),
        Told::Congestion(false, false, 2400, 2),
    ];
    assert_eq!(run.told(), expected);
}

#[test]
fn a_mark_is_told_with_the_newest_packet_acknowledged() {
    let mut run = Run::new();
    run.send(0, 2400);
    run.ack(40, &[(0, 1200), (0, 1200)], 0);
    run.told();
    run.lose(40, 0, 0);
    assert_eq!(run.told(), [Told::Congestion(false, true, 0, 1)]);
}

#[test]
fn a_full_window_is_told_once_before_what_comes_next() {
    let mut run = Run::new();
    run.send(0, 10 * 1200);
    run.told();
    assert_eq!(run.bridge.window(), 12_001, "noq uses a window up");
    run.bridge.window();
    run.ack(40, &[(0, 1200)], 9 * 1200);
    run.ack(41, &[(0, 1200)], 8 * 1200);
    // `acked` stands for `on_ack` without quinn's estimator: the question is told by the next
    // batch.
    run.send(42, 1200);
    let limited = run.told().into_iter().filter(|told| *told == Told::Limited);
    assert_eq!(limited.count(), 1);
}

#[test]
fn rate_and_bucket_reach_the_endpoint() {
    let mut run = Run::new();
    let metrics = run.bridge.metrics();
    assert_eq!(metrics.pacing_rate, Some(10_000_000), "bits per second");
    assert_eq!(metrics.congestion_window, 12_000);
    run.send(0, 1200);
    run.ack(40, &[(0, 1200)], 0);
    let feed = format!("{:?}", run.bridge.feed);
    assert!(feed.contains("largest_burst: Some(12000)"), "{feed}");
    run.bridge.on_mtu_update(1452);
    assert_eq!(run.told().last(), Some(&Told::Mtu(1452)));
}

#[test]
fn the_bucket_is_that_of_noqs_pacer() {
    // Bytes per second; ten packets, but what takes 10 ms at most, and a packet at least.
    for (rate, bytes) in [
        (12_500, 1200),
        (1_250_000, 12_000),
        (1_000_000, 10_000),
        (12_500_000, 25_000),
        (1_250_000_000, 256 * 1200),
    ] {
        assert_eq!(bucket(rate, MTU), bytes, "{rate}");
    }
}

#[test]
fn the_estimator_says_what_quinns_said() {
    for rtt in [GUESS, ms(40), Duration::from_micros(7)] {
        assert_eq!(estimator::that_says(rtt, epoch()).get(), rtt);
    }
}

#[test]
fn noqs_own_controller_grows_in_its_startup_and_paces() {
    let t0 = epoch();
    let mut controller = Arc::new(Factory).build(t0, MTU);
    let first = controller.window();
    assert_eq!(first, 12_001);
    let metrics = controller.metrics();
    assert!(metrics.pacing_rate.is_some_and(|rate| rate > 0));
    let mut copy = controller.clone_box();
    copy.on_sent(t0, 12_000, 9);
    controller.on_sent(t0, 12_000, 9);
    let mut bridge: Box<Bridge> = controller.into_any().downcast().expect("it is a bridge");
    for _ in 0..10 {
        bridge.acked(t0 + ms(40), t0, 1200, false, GUESS);
    }
    bridge.on_end_acks(t0 + ms(40), 0, false, Some(9));
    assert!(bridge.window() > first, "{}", bridge.window());
}
