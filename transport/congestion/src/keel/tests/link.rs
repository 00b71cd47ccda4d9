//! A sender under keel and a link with a queue, for tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::{Keel, Mode};
use super::MTU;
use crate::controller::{Ack, Congestion, Controller, Delivery, EcnMode, PathSample};
use crate::testing::{epoch, loss, path_sample};
use crate::window::InitialWindow;

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
    is_marked: bool,
    before: u64,
    before_at: Instant,
    first_sent: Instant,
}

pub(super) type Tell = fn(Duration, Duration, Duration) -> (Duration, Duration);

/// A sender that always has data, and a link with a queue on its way.
pub(super) struct Link {
    pub(super) keel: Keel,
    pub(super) now: Instant,
    /// Bytes per second.
    pub(super) rate: f64,
    /// The empty round trip.
    pub(super) rtt: Duration,
    /// Packets that may queue.
    pub(super) room: f64,
    /// How long an acknowledgement that leaves at a time queues.
    pub(super) back: fn(Duration) -> Duration,
    /// What routers make of queueing times there and back, and of the round trip.
    pub(super) tell: Option<Tell>,
    /// The packets of which one is lost at random.
    pub(super) loses_every: Option<u64>,
    /// Whether a packet that leaves as ECT(1) and queues for so long is marked, by its number;
    /// `None` leaves packets as ECT(0) and marks none.
    pub(super) marks: Option<fn(Duration, u64) -> bool>,
    /// When each packet of a neighbour's window leaves again.
    pub(super) neighbour: VecDeque<Instant>,
    /// Packets that it sent in this round trip.
    neighbour_round: usize,
    /// Packets by which its window still shrinks after a loss.
    neighbour_gives_up: usize,
    /// When the link has sent all that waits.
    free: Instant,
    next: Instant,
    packets: VecDeque<Packet>,
    pub(super) sent: u64,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// When the last recovery period began.
    recovery: Instant,
    pub(super) overflows: u64,
    /// Since the run began.
    pub(super) longest_queue: Duration,
    /// The most bytes that a round trip delivered since the path changed.
    pub(super) most_delivered: u64,
    /// Bytes by which the window exceeded twice that and 15 packets, out of START, since the run
    /// began.
    pub(super) excess: u64,
    /// What keel heard, a line of JSON for each event, and its window after it.
    pub(super) record: Vec<(String, u64)>,
}

impl Link {
    pub(super) fn new(rate: f64, rtt: Duration, room: f64) -> Self {
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
            marks: None,
            neighbour: VecDeque::new(),
            neighbour_round: 0,
            neighbour_gives_up: 0,
            free: now,
            next: now,
            packets: VecDeque::new(),
            sent: 0,
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            recovery: now,
            overflows: 0,
            longest_queue: Duration::ZERO,
            most_delivered: 0,
            excess: 0,
            record: Vec::new(),
        }
    }

    /// keel heard `event`: the name of an event and its fields in JSON.
    pub(super) fn note(&mut self, event: &str) {
        let now = (self.now - epoch()).as_secs_f64();
        let line = format!("{{\"e\":{event},\"now\":{now:?}}}");
        self.record.push((line, self.keel.window()));
    }

    /// A Reno flow joins with `packets` under way.
    pub(super) fn join(&mut self, packets: usize) {
        self.neighbour = VecDeque::from(vec![self.now; packets]);
    }

    /// The neighbour's packets that leave until `at` queue before those that leave then.
    fn let_neighbour_send(&mut self, at: Instant) {
        let each = Duration::from_secs_f64(f64::from(MTU) / self.rate);
        while let Some(next) = self.neighbour.pop_front_if(|next| *next <= at) {
            let window = self.neighbour.len() + 1;
            if self.neighbour_gives_up > 0 {
                self.neighbour_gives_up -= 1;
                continue;
            }
            if self.free.saturating_duration_since(next) > each.mul_f64(self.room) {
                self.neighbour_gives_up = window / 2;
            } else {
                self.free = self.free.max(next) + each;
            }
            let again = self.free + self.rtt;
            self.neighbour.push_back(again);
            self.neighbour_round += 1;
            if self.neighbour_round >= window {
                self.neighbour_round = 0;
                self.neighbour.push_back(again);
            }
        }
    }

    /// Lets `time` pass; returns the share of the link that keel used.
    pub(super) fn run(&mut self, time: Duration) -> f64 {
        let (end, delivered) = (self.now + time, self.delivered);
        (self.longest_queue, self.excess) = (Duration::ZERO, 0);
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

    /// Whether packets leave as ECT(1).
    fn is_scalable(&self) -> bool {
        self.marks.is_some() && self.keel.ecn() == EcnMode::Scalable
    }

    fn send(&mut self, at: Instant) {
        self.now = at;
        self.sent += 1;
        self.let_neighbour_send(at);
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
            is_marked: self.is_scalable()
                && self.marks.is_some_and(|marks| marks(queue, self.sent)),
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
        let mut packet = self.packets.pop_front().expect("it was looked at");
        if packet.is_lost {
            self.keel.on_lost(at, u64::from(MTU));
            self.note(&format!("\"lost\",\"bytes\":{MTU}"));
            if packet.sent > self.recovery {
                self.recovery = at;
                self.keel.on_congestion(&Congestion { now: at, ..loss() });
                self.note("\"congestion\",\"cause\":\"loss\"");
            }
            return;
        }
        // One ACK acknowledges two packets that arrive at once.
        let (mut packets, mut marked) = (1, u64::from(packet.is_marked));
        if let Some(next) = self
            .packets
            .pop_front_if(|next| next.acked == at && !next.is_lost)
        {
            packets += 1;
            marked += u64::from(next.is_marked);
            packet = next;
        }
        let bytes = packets * u64::from(MTU);
        self.delivered += bytes;
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
        let is_scalable = self.is_scalable();
        if self.marks.is_some() {
            let mode = if is_scalable {
                EcnMode::Scalable
            } else {
                EcnMode::Classic
            };
            self.keel.on_ecn(Some(mode));
        }
        self.keel.on_ack(&Ack {
            now: at,
            sent: packet.sent,
            rtt: Some(at - packet.sent),
            newest_bytes: u64::from(MTU),
            packets,
            bytes,
            bytes_after_recovery: bytes,
            marked,
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
        let delivered = self.delivered;
        let (sent, acked) = (packet.sent - packet.first_sent, at - packet.before_at);
        let rtt = (at - packet.sent).as_secs_f64();
        let (sent, acked) = (sent.as_secs_f64(), acked.as_secs_f64());
        let left = (packet.sent - epoch()).as_secs_f64();
        self.note(&format!(
            "\"ack\",\"rtt\":{rtt:?},\"bytes\":{bytes},\"after_recovery\":{bytes},\
             \"packets\":{packets},\
             \"in_flight\":{in_flight},\"app_limited\":false,\"total\":{delivered},\
             \"before\":{},\"send_interval\":{sent:?},\"ack_interval\":{acked:?},\
             \"was_limited\":false,\"sent\":{left:?},\"ect1\":{is_scalable},\"marked\":{marked}",
            packet.before,
        ));
        if !matches!(self.keel.mode, Mode::Start { .. }) {
            self.most_delivered = self.most_delivered.max(self.delivered - packet.before);
            let excess = self
                .keel
                .window()
                .saturating_sub(2 * self.most_delivered + 15 * u64::from(MTU));
            self.excess = self.excess.max(excess);
        }
    }
}
