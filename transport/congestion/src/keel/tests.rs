use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::controller::Delivery;
use crate::testing::{ack, epoch, loss, ms, path_sample};

const MTU: u16 = 1200;

/// A packet under way.
#[derive(Debug, Clone, Copy)]
struct Packet {
    sent: Instant,
    /// When its acknowledgement arrives.
    acked: Instant,
    is_lost: bool,
    /// Time in queues, there and back.
    queueing: (Duration, Duration),
    /// Bytes delivered when it left, and when that was.
    before: u64,
    before_at: Instant,
    first_sent: Instant,
}

type Tell = fn(Duration, Duration, Duration) -> (Duration, Duration);

/// A sender that always has data, and a link with a queue on its way.
struct Link {
    keel: Keel,
    now: Instant,
    /// Bytes per second.
    rate: f64,
    /// The empty round trip.
    rtt: Duration,
    /// Packets that may queue.
    room: f64,
    /// How long an acknowledgement that leaves at a time queues.
    back: fn(Duration) -> Duration,
    /// What routers make of queueing times there and back, and of the round trip.
    tell: Option<Tell>,
    /// Every so many packets one is lost at random.
    loses_every: Option<u64>,
    /// When the link has sent all that waits.
    free: Instant,
    next: Instant,
    packets: VecDeque<Packet>,
    sent: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    overflows: u64,
    longest_queue: Duration,
}

impl Link {
    fn new(rate: f64, rtt: Duration, room: f64) -> Self {
        let now = epoch();
        Self {
            keel: Keel::new(now, InitialWindow::Rfc9002, MTU),
            now,
            rate,
            rtt,
            room,
            back: |_| Duration::ZERO,
            tell: None,
            loses_every: None,
            free: now,
            next: now,
            packets: VecDeque::new(),
            sent: 0,
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            overflows: 0,
            longest_queue: Duration::ZERO,
        }
    }

    /// Lets `time` pass; returns the share of the link that was used.
    fn run(&mut self, time: Duration) -> f64 {
        let (end, delivered) = (self.now + time, self.delivered);
        self.longest_queue = Duration::ZERO;
        while self.now < end {
            let in_flight = self.packets.len() as u64 * u64::from(MTU);
            let may_send = in_flight + u64::from(MTU) <= self.keel.window();
            let ack_at = self.packets.front().map(|packet| packet.acked);
            let send_at = may_send.then(|| self.next.max(self.now));
            match (send_at, ack_at) {
                (Some(send), ack) if ack.is_none_or(|ack| send < ack) => self.send(send),
                (_, Some(at)) => self.hear(at),
                (_, None) => panic!("nothing is in flight, and nothing may be sent"),
            }
        }
        (self.delivered - delivered) as f64 / (self.rate * time.as_secs_f64())
    }

    fn send(&mut self, at: Instant) {
        self.now = at;
        self.sent += 1;
        let each = Duration::from_secs_f64(f64::from(MTU) / self.rate);
        let queue = self.free.saturating_duration_since(at);
        let overflows = queue > each.mul_f64(self.room);
        let at_random = self
            .loses_every
            .is_some_and(|every| self.sent.is_multiple_of(every));
        self.overflows += u64::from(overflows);
        self.longest_queue = self.longest_queue.max(queue);
        if !overflows {
            self.free = self.free.max(at) + each;
        }
        if self.packets.is_empty() {
            (self.first_sent, self.delivered_at) = (at, at);
        }
        let before = self.packets.back().map(|packet| packet.acked);
        let back = (self.back)(at - epoch());
        let arrives = self.free.max(at) + self.rtt + back;
        self.packets.push_back(Packet {
            sent: at,
            acked: before.map_or(arrives, |before| before.max(arrives)),
            is_lost: overflows || at_random,
            queueing: (queue, back),
            before: self.delivered,
            before_at: self.delivered_at,
            first_sent: self.first_sent,
        });
        let gap = self.keel.pacing_rate().map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(f64::from(MTU) / rate as f64)
        });
        self.next = at + gap;
    }

    fn hear(&mut self, at: Instant) {
        self.now = at;
        let in_flight = self.packets.len() as u64 * u64::from(MTU);
        let packet = self.packets.pop_front().expect("it was looked at");
        if packet.is_lost {
            self.keel.on_lost(at, u64::from(MTU));
            self.keel.on_congestion(&Congestion { now: at, ..loss() });
            return;
        }
        self.delivered += u64::from(MTU);
        self.delivered_at = at;
        self.first_sent = packet.sent;
        if let Some(tell) = self.tell {
            let rtt = at - packet.sent;
            let (there, back) = tell(packet.queueing.0, packet.queueing.1, rtt);
            self.keel.on_path(&PathSample {
                now: at,
                rtt,
                forward_queueing: Some(there.min(rtt)),
                backward_queueing: Some(back.min(rtt.saturating_sub(there))),
                ..path_sample()
            });
        }
        self.keel.on_ack(&Ack {
            now: at,
            sent: packet.sent,
            rtt: Some(at - packet.sent),
            newest_bytes: u64::from(MTU),
            packets: 1,
            bytes: u64::from(MTU),
            bytes_after_recovery: u64::from(MTU),
            in_flight,
            app_limited: false,
            delivery: Some(Delivery {
                total: self.delivered,
                before: packet.before,
                send_interval: packet.sent - packet.first_sent,
                ack_interval: at - packet.before_at,
                app_limited: false,
            }),
        });
    }
}

/// 20 Mb/s in bytes per second, and a queue that holds 40 ms of it.
const RATE: f64 = 2_500_000.0;
const ROOM: f64 = 83.0;

#[test]
fn a_clean_link_is_full_with_a_queue_of_some_packets() {
    for (rate, rtt, room) in [
        (250_000.0, ms(30), 50.0),
        (RATE, ms(40), ROOM),
        (12_500_000.0, ms(100), 1000.0),
        (125_000_000.0, ms(1), 200.0),
    ] {
        let mut link = Link::new(rate, rtt, room);
        link.run(rtt * 100);
        let target = link.keel.target();
        let share = link.run(rtt * 200);
        assert!(share > 0.97, "{rate} {rtt:?}: {share}");
        let packet = Duration::from_secs_f64(f64::from(MTU) / rate);
        assert!(
            // After it made room it sends a tenth faster for a round trip.
            link.longest_queue <= target + rtt / 10 + packet * 4,
            "{rate} {rtt:?}: {:?} of {target:?}",
            link.longest_queue
        );
        assert_eq!(link.overflows, 0, "{rate} {rtt:?}");
    }
}

#[test]
fn random_losses_do_not_slow_it_down() {
    for (every, least) in [(1000, 0.97), (100, 0.96), (30, 0.9)] {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.loses_every = Some(every);
        link.run(ms(5000));
        let share = link.run(ms(20_000));
        assert!(share > least, "one of {every} is lost: {share}");
    }
}

#[test]
fn a_link_that_slows_down_is_left_by_the_queue_within_a_second() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.rate = RATE / 5.0;
    link.run(ms(1000));
    let share = link.run(ms(2000));
    assert!(share > 0.95, "{share}");
    assert!(link.longest_queue < ms(25), "{:?}", link.longest_queue);
}

#[test]
fn a_link_that_speeds_up_is_full_within_two_seconds() {
    let mut link = Link::new(RATE / 5.0, ms(40), ROOM);
    link.run(ms(5000));
    link.rate = RATE;
    link.run(ms(2000));
    let share = link.run(ms(2000));
    assert!(share > 0.95, "{share}");
}

#[test]
fn a_longer_route_is_not_taken_for_a_queue() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.rtt = ms(120);
    link.run(ms(3000));
    let share = link.run(ms(3000));
    assert!(share > 0.95, "{share}");
    assert_eq!(link.keel.delay.base() / 10_000_000, ms(120) / 10_000_000);
}

#[test]
fn a_small_queue_hardly_overflows() {
    let mut link = Link::new(RATE, ms(40), 8.0);
    link.run(ms(5000));
    let overflows = link.overflows;
    let share = link.run(ms(20_000));
    assert!(share > 0.95, "{share}");
    let lost = (link.overflows - overflows) as f64 / (RATE * 20.0 / f64::from(MTU));
    assert!(lost < 0.001, "{lost}");
}

#[test]
fn a_window_of_few_packets_answers_each_loss() {
    // 0.5 Mb/s and 40 ms hold two packets, and one may queue.
    let mut link = Link::new(60_000.0, ms(40), 1.0);
    link.run(ms(5000));
    let (overflows, sent) = (link.overflows, link.sent);
    let share = link.run(ms(60_000));
    assert!(share > 0.85, "{share}");
    let lost = (link.overflows - overflows) as f64 / (link.sent - sent) as f64;
    assert!(lost < 0.1, "{lost}");
}

/// Somebody else's upload: a queue on the way back that grows for a second and drains for one.
fn upload(time: Duration) -> Duration {
    let phase = time.as_millis() as u64 % 2000;
    ms(phase.min(2000 - phase) * 3 / 50)
}

#[test]
fn queueing_on_the_way_back_is_left_out_if_routers_tell_it() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = upload;
    link.run(ms(5000));
    let unaided = link.run(ms(20_000));
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = upload;
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    let aided = link.run(ms(20_000));
    assert!(unaided < aided && aided > 0.95, "{unaided}, {aided}");
    // Of 50,000 packets.
    assert!(link.overflows < 50, "{}", link.overflows);
}

/// The same, with an upload that backs off: its queue is gone in a tenth of a second.
fn upload_that_backs_off(time: Duration) -> Duration {
    let phase = time.as_millis() as u64 % 2000;
    ms(phase.min((2000 - phase) * 19) * 30 / 1900)
}

#[test]
fn a_queue_on_the_way_back_that_empties_does_not_move_to_the_way_there() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = upload_that_backs_off;
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    let share = link.run(ms(20_000));
    assert!(share > 0.96, "{share}");
    assert!(link.longest_queue < ms(15), "{:?}", link.longest_queue);
}

#[test]
fn honest_routers_are_believed_although_packets_are_lost() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.tell = Some(|there, back, _| (there, back));
    link.loses_every = Some(12);
    link.run(ms(10_000));
    assert!(link.keel.routers.are_heard(), "without a queue");
    let mut link = Link::new(RATE, ms(40), 4.0);
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(10_000));
    assert!(link.keel.routers.are_heard(), "with a short one");
    link.tell = Some(|_, _, rtt| (Duration::ZERO, rtt - ms(10)));
    link.room = ROOM;
    link.run(ms(10_000));
    assert!(!link.keel.routers.are_heard(), "with one that they hide");
}

/// 0 to 20 ms, another at each time.
fn jitter(time: Duration) -> Duration {
    let scattered = (time.as_micros() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Duration::from_micros((scattered >> 32) % 20_000)
}

#[test]
fn jitter_costs_nothing_while_routers_tell_the_queue() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = jitter;
    link.tell = Some(|there, _, _| (there, Duration::ZERO));
    link.run(ms(5000));
    let share = link.run(ms(20_000));
    assert!(share > 0.95, "{share}");
    assert!(link.longest_queue < ms(20), "{:?}", link.longest_queue);
}

#[test]
fn lying_routers_slow_it_down_at_most() {
    let lies: [Tell; 10] = [
        |_, _, _| (Duration::ZERO, Duration::ZERO),
        |_, _, rtt| (rtt, Duration::ZERO),
        |_, _, rtt| (Duration::ZERO, rtt),
        |_, _, rtt| (rtt / 2, rtt / 2),
        |there, back, _| (back, there),
        |there, _, _| (there * 2, Duration::ZERO),
        |there, _, rtt| (rtt - there, Duration::ZERO),
        |there, _, rtt| (Duration::ZERO, rtt - there),
        |_, _, rtt| (Duration::ZERO, rtt * (rtt.subsec_nanos() % 11) / 11),
        |_, _, rtt| (rtt * (rtt.subsec_nanos() % 7) / 7, Duration::ZERO),
    ];
    for (which, lie) in lies.into_iter().enumerate() {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.run(ms(5000));
        link.tell = Some(lie);
        // What fits, and as much until losses show.
        let fits = RATE * 0.04 + ROOM * f64::from(MTU);
        for _ in 0..100 {
            link.run(ms(100));
            let window = link.keel.window() as f64;
            assert!(window < 2.0 * fits, "lie {which}: {window} of {fits}");
        }
        link.tell = None;
        link.run(ms(35_000));
        let share = link.run(ms(5000));
        assert!(share > 0.9, "after lie {which}: {share}");
    }
}

#[test]
fn marks_lower_the_window() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    let window = link.keel.window();
    link.keel.on_congestion(&Congestion::ecn(epoch()));
    assert!(link.keel.window().abs_diff(window * 85 / 100) <= 1);
}

#[test]
fn persistent_congestion_begins_anew_with_two_packets() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.keel.on_persistent_congestion();
    assert_eq!(link.keel.window(), 2400);
    link.run(ms(1000));
    let share = link.run(ms(1000));
    assert!(share > 0.95, "{share}");
}

#[test]
fn persistent_congestion_leaves_nothing_for_the_way_back() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = |_| ms(30);
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    link.keel.on_persistent_congestion();
    assert_eq!(link.keel.window(), 2400);
}

#[test]
fn an_application_with_little_to_send_keeps_its_window() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    let window = link.keel.window();
    for turn in 0..1000 {
        let now = link.now + ms(100 * turn);
        link.keel.on_ack(&Ack {
            in_flight: 1200,
            app_limited: true,
            ..ack(now, 40, 1200)
        });
    }
    assert_eq!(link.keel.window(), window);
}

#[test]
fn sustained_losses_halve_the_window_within_a_second() {
    for every in [2, 3, 4] {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.run(ms(5000));
        let window = link.keel.window();
        link.loses_every = Some(every);
        link.run(ms(1000));
        assert!(link.keel.window() * 2 <= window, "one of {every} is lost");
    }
}

proptest! {
    #[test]
    fn windows_stay_in_bounds_and_the_same_history_gives_the_same_window(
        rate in 20_000.0..2_000_000.0_f64,
        rtt in 1_u64..500,
        room in 2.0..500.0_f64,
        every in prop::option::of(2_u64..200),
        changes in prop::collection::vec((0.2..5.0_f64, 1_u64..500), 0..5),
    ) {
        let run = || {
            let mut link = Link::new(rate, ms(rtt), room);
            link.loses_every = every;
            let mut windows = Vec::new();
            for (factor, rtt) in std::iter::once((1.0, rtt)).chain(changes.iter().copied()) {
                link.rate = rate * factor;
                link.rtt = ms(rtt);
                link.run(ms(400));
                windows.push(link.keel.window());
            }
            windows
        };
        let windows = run();
        // All that the fastest path holds, with its queue, ten times over.
        let most = 10.0 * (5.0 * rate * 0.5 + (room + 20.0) * f64::from(MTU));
        for window in &windows {
            prop_assert!((2400..=most as u64).contains(window), "{window} of {most}");
        }
        prop_assert_eq!(windows, run());
    }
}
