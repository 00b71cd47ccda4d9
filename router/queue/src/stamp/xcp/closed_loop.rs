//! Links and ideal senders in one loop: real-valued windows, in packets, over a port with a true queue.
//! RCP's senders use it too.

use std::collections::BTreeMap;

use evenkeel_wire::{CompactBytes, Feedback, PathHeaderKind, PathHeaderView};

use super::*;
use crate::stamp::stamp_set;
use crate::stamp::testing::{IpPacket, header};
use crate::testing::{epoch, ms};
use crate::{DropTail, Limit, Port, PortConfig, Rate, Service, Verdict};

/// As in the papers.
pub(in crate::stamp) const PACKET: usize = 1000;

/// What a sender makes of feedback.
pub(in crate::stamp) trait Sender {
    fn kind(&self) -> PathHeaderKind;

    /// What it asks for: the most.
    fn asks(&self) -> Feedback;

    fn on_feedback(&mut self, feedback: Feedback, round_trip: Duration);

    /// Whether another packet may be in flight, besides so many bytes.
    fn may_send(&self, in_flight: usize) -> bool;

    /// From one packet to the next.
    fn gap(&self) -> Duration;
}

struct Place<S> {
    sender: S,
    /// Without queueing.
    round_trip: Duration,
    last_round_trip: Duration,
    stops: Instant,
    in_flight: usize,
    /// Bytes that have crossed the link.
    delivered: usize,
    /// When its pace lets the next packet go.
    next: Instant,
    /// Its window, and not its pace, is what it waits for.
    blocked: bool,
}

#[derive(Debug)]
enum Event {
    Send(usize),
    Feedback(usize, Duration, Feedback),
}

/// A bottleneck and its users.
pub(in crate::stamp) struct Loop<S> {
    pub(in crate::stamp) now: Instant,
    pub(in crate::stamp) port: Port<IpPacket>,
    places: Vec<Place<S>>,
    /// In the order of their scheduling, where times are the same.
    events: BTreeMap<(Instant, u64), Event>,
    scheduled: u64,
}

impl<S: Sender> Loop<S> {
    /// A link with room for `limit` packets.
    pub(in crate::stamp) fn new(stamp: &str, bits_per_second: u64, limit: u64) -> Self {
        let now = epoch();
        let config = PortConfig {
            service: Service::Rate(Rate::new(bits_per_second).expect("not zero")),
            limit: Limit::packets(limit),
            discipline: Box::new(DropTail),
            stamps: stamp_set([stamp]).unwrap(),
            flow_hash_key: [7; 16],
        };
        Self {
            now,
            port: Port::new(now, config),
            places: Vec::new(),
            events: BTreeMap::new(),
            scheduled: 0,
        }
    }

    pub(in crate::stamp) fn add(
        &mut self,
        sender: S,
        starts: Instant,
        stops: Instant,
        round_trip: Duration,
    ) {
        self.schedule(starts, Event::Send(self.places.len()));
        self.places.push(Place {
            sender,
            round_trip,
            last_round_trip: round_trip,
            stops,
            in_flight: 0,
            delivered: 0,
            next: starts,
            blocked: false,
        });
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    pub(in crate::stamp) fn run(&mut self, until: Instant) {
        loop {
            self.collect(until);
            let Some(entry) = self
                .events
                .first_entry()
                .filter(|entry| entry.key().0 <= until)
            else {
                break;
            };
            let ((now, _), event) = entry.remove_entry();
            self.now = now;
            match event {
                Event::Send(place) => self.send(place),
                Event::Feedback(place, round_trip, feedback) => {
                    let of = &mut self.places[place];
                    of.last_round_trip = round_trip;
                    of.in_flight -= PACKET;
                    of.sender.on_feedback(feedback, round_trip);
                    if std::mem::take(&mut of.blocked) {
                        let next = of.next.max(now);
                        self.schedule(next, Event::Send(place));
                    }
                }
            }
        }
        self.now = until;
    }

    fn send(&mut self, place: usize) {
        let now = self.now;
        let of = &mut self.places[place];
        if now >= of.stops {
            return;
        }
        if !of.sender.may_send(of.in_flight) {
            of.blocked = true;
            return;
        }
        of.in_flight += PACKET;
        of.next = now + of.sender.gap();
        let next = of.next;
        let mut repr = header(of.sender.kind(), of.last_round_trip);
        repr.signals.feedback = of.sender.asks();
        let mut packet = IpPacket::headered(&repr, PACKET);
        // The payload says whose it is.
        packet.0[100..108].copy_from_slice(&(place as u64).to_be_bytes());
        if let Verdict::Drop(_) = self.port.enqueue(now, packet.queued()) {
            self.places[place].in_flight -= PACKET;
        }
        self.schedule(next, Event::Send(place));
    }

    /// What has crossed the link before the next event comes back after the rest of its round trip.
    fn collect(&mut self, until: Instant) {
        let next = self.events.first_key_value();
        let next = next.map_or(until, |(key, _)| key.0.min(until));
        while let Some((at, packet)) = self.port.dequeue(next) {
            let Ok(header) = PathHeaderView::find(&packet.payload.0) else {
                continue;
            };
            let place = u64::from_be_bytes(packet.payload.0[100..108].try_into().expect("eight"));
            let place = place as usize;
            let of = &mut self.places[place];
            of.delivered += PACKET;
            let feedback = header.signals().feedback;
            assert!(header.signals().flags.offered);
            let round_trip = packet.meta.queued + of.round_trip;
            let back = (at - packet.meta.queued + round_trip).max(self.now);
            self.schedule(back, Event::Feedback(place, round_trip, feedback));
        }
    }

    pub(in crate::stamp) fn figure(&mut self, name: &str) -> f64 {
        let figures = self.port.stamp_figures(self.now);
        let found = figures[0].figures.iter().find(|(other, _)| *other == name);
        found.expect("the stamp has such a figure").1
    }

    /// Utilisation, mean queue in packets, and the rate of each sender in bytes per second, from
    /// second `from` to second `to` of a loop that began at `start`.
    pub(in crate::stamp) fn measure(
        &mut self,
        start: Instant,
        from: u64,
        to: u64,
    ) -> (f64, f64, Vec<f64>) {
        self.run(start + Duration::from_secs(from));
        self.port.restart_measurement(self.now);
        let before: Vec<_> = self.places.iter().map(|place| place.delivered).collect();
        self.run(start + Duration::from_secs(to));
        let rates = self.places.iter().zip(before);
        let rates =
            rates.map(|(place, before)| (place.delivered - before) as f64 / (to - from) as f64);
        let stats = self.port.stats(self.now);
        let utilization = stats.utilization().expect("time has passed");
        let queue = stats.queue().mean().expect("time has passed");
        (utilization, queue, rates.collect())
    }

    pub(in crate::stamp) fn drops(&mut self) -> u64 {
        self.port.stats(self.now).total().dropped.total().packets
    }
}

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

    fn on_feedback(&mut self, feedback: Feedback, round_trip: Duration) {
        let change = feedback.window_change().in_256ths() as f64 / 256.0;
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

pub(in crate::stamp) fn assert_within(value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() < tolerance, "{value} is not {expected}");
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
