//! A link algorithm and ideal senders in one loop, over a port with a true queue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel_wire::{Feedback, PathHeaderKind, PathHeaderView, Signals};

use super::testing::{IpPacket, header};
use crate::stamp::stamp_set;
use crate::testing::epoch;
use crate::{DropTail, Limit, Port, PortConfig, Rate, Service, Verdict};

/// As in the papers.
pub(in crate::stamp) const PACKET: usize = 1000;

/// What a sender makes of feedback.
pub(in crate::stamp) trait Sender {
    fn kind(&self) -> PathHeaderKind;

    /// What it asks for: the most.
    fn asks(&self) -> Feedback;

    fn on_feedback(&mut self, signals: Signals, round_trip: Duration);

    /// Whether another packet may be in flight, besides these bytes.
    fn may_send(&self, _in_flight: usize) -> bool {
        true
    }

    /// From one packet to the next.
    fn gap(&self) -> Duration;
}

pub(in crate::stamp) struct Flow<S> {
    pub(in crate::stamp) sender: S,
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
    Feedback(usize, Duration, Signals),
}

/// A bottleneck and its users.
pub(in crate::stamp) struct Loop<S> {
    pub(in crate::stamp) now: Instant,
    pub(in crate::stamp) port: Port<IpPacket>,
    pub(in crate::stamp) flows: Vec<Flow<S>>,
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
            overhead_bytes: 0,
            watches_flows: false,
            limit: Limit::packets(limit),
            discipline: Box::new(DropTail),
            stamps: stamp_set([stamp]).unwrap(),
            flow_hash_key: [7; 16],
        };
        Self {
            now,
            port: Port::new(now, config),
            flows: Vec::new(),
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
        self.schedule(starts, Event::Send(self.flows.len()));
        self.flows.push(Flow {
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
                Event::Send(flow) => self.send(flow),
                Event::Feedback(flow, round_trip, signals) => {
                    let of = &mut self.flows[flow];
                    of.last_round_trip = round_trip;
                    of.in_flight -= PACKET;
                    of.sender.on_feedback(signals, round_trip);
                    if std::mem::take(&mut of.blocked) {
                        let next = of.next.max(now);
                        self.schedule(next, Event::Send(flow));
                    }
                }
            }
        }
        self.now = until;
    }

    fn send(&mut self, flow: usize) {
        let now = self.now;
        let of = &mut self.flows[flow];
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
        packet.0[100..108].copy_from_slice(&(flow as u64).to_be_bytes());
        if let Verdict::Drop(_) = self.port.enqueue(now, packet.queued()) {
            self.flows[flow].in_flight -= PACKET;
        }
        self.schedule(next, Event::Send(flow));
    }

    /// What has crossed the link before the next event comes back after the rest of its round trip,
    /// but for a trickle's small packets.
    fn collect(&mut self, until: Instant) {
        let next = self.events.first_key_value();
        let next = next.map_or(until, |(key, _)| key.0.min(until));
        while let Some((at, packet)) = self.port.dequeue(next) {
            if packet.payload.0.len() < PACKET {
                continue;
            }
            let Ok(header) = PathHeaderView::find(&packet.payload.0) else {
                continue;
            };
            let flow = u64::from_be_bytes(packet.payload.0[100..108].try_into().expect("eight"));
            let flow = flow as usize;
            let of = &mut self.flows[flow];
            of.delivered += PACKET;
            let signals = header.signals();
            assert!(signals.flags.offered);
            let round_trip = packet.meta.queued + of.round_trip;
            let back = (at - packet.meta.queued + round_trip).max(self.now);
            self.schedule(back, Event::Feedback(flow, round_trip, signals));
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
        let before: Vec<_> = self.flows.iter().map(|flow| flow.delivered).collect();
        self.run(start + Duration::from_secs(to));
        let rates = self.flows.iter().zip(before);
        let rates =
            rates.map(|(flow, before)| (flow.delivered - before) as f64 / (to - from) as f64);
        let stats = self.port.stats(self.now);
        let utilization = stats.utilization().expect("time has passed");
        let queue = stats.queue().mean().expect("time has passed");
        (utilization, queue, rates.collect())
    }

    pub(in crate::stamp) fn drops(&mut self) -> u64 {
        self.port.stats(self.now).total().dropped.total().packets
    }
}

/// Checks that 500 packets of 60 bytes a second which tell a round trip of 8.388 s make the mean
/// control period of senders like `kind` at most `longer` times as long, and queueing half as long
/// again: from second 5 to 10 without them, and from 15 to 20 with them. Beside them other traffic of
/// 8 Mb/s comes and goes every quarter of a second.
pub(in crate::stamp) fn assert_a_trickle_does_little<S: Sender>(
    test: &mut Loop<S>,
    kind: PathHeaderKind,
    longer: f64,
) {
    let start = test.now;
    let lie = IpPacket::headered(&header(kind, Duration::from_millis(8388)), 60);
    let other = IpPacket::v4((7, 7), &[0; PACKET - 28]);
    let [without, with] = [5, 15].map(|from| {
        let (from, until) = (Duration::from_secs(from), Duration::from_secs(from + 5));
        let (mut periods, mut samples) = (0.0, 0.0);
        test.run(start + from - Duration::from_secs(5));
        while test.now < start + until {
            let now = test.now + Duration::from_millis(2);
            test.run(now);
            if ((now - start).as_millis() / 250).is_multiple_of(2) {
                test.port.enqueue(now, other.clone().queued());
                test.port.enqueue(now, other.clone().queued());
            }
            if from.as_secs() > 10 {
                test.port.enqueue(now, lie.clone().queued());
            }
            if now == start + from {
                test.port.restart_measurement(now);
            }
            if now >= start + from {
                periods += test.figure("rtt_ms");
                samples += 1.0;
            }
        }
        let stats = test.port.stats(test.now);
        (
            periods / samples,
            stats.sojourn().mean().expect("packets have passed"),
        )
    });
    println!(
        "{kind:?}: periods of {:.1} and {:.1} ms, queueing for {:.2?} and {:.2?}",
        without.0, with.0, without.1, with.1
    );
    assert!(with.0 < longer * without.0);
    assert!(with.1 < without.1.mul_f64(1.5) + Duration::from_millis(1));
}

/// To within the share `tolerance`.
#[track_caller]
pub(in crate::stamp) fn assert_within(value: f64, expected: f64, tolerance: f64) {
    let error = value / expected - 1.0;
    assert!(error.abs() < tolerance, "{value} is not {expected}");
}
