//! Runs a rate-based controller at a bottleneck whose queue overflows.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use quinn_proto::congestion::Controller as _;

use super::{Connection, Op, PACKET, built};
use crate::testing::{epoch, ms};

/// Propagation, there and back together, in milliseconds.
const PROPAGATION: u64 = 80;

/// Time to transmit a packet at the bottleneck: 80 of them fill the path.
const SERVICE: Duration = Duration::from_millis(1);

/// Packets that may wait at the bottleneck: once what fills the path.
const QUEUE: u32 = 80;

/// Later packets whose ACKs declare one lost (RFC 9002, section 6.1.1).
const REORDERING: u32 = 3;

/// A paced sender that always has data, a bottleneck that drops at the tail, and a receiver that
/// acknowledges every packet.
struct Bottleneck {
    connection: Connection,
    /// When the bottleneck will have sent all it has.
    idle_at: Instant,
    /// When the last packet left.
    sent: Instant,
    /// When the ACK of each packet in flight arrives, the oldest first; `None` for those dropped.
    acks: VecDeque<Option<Instant>>,
    /// ACKs that arrived since the oldest packet in flight is a dropped one.
    passed: u32,
    tally: Tally,
}

#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    sent: u32,
    dropped: u32,
    /// Packets that waited for the window when the rate allowed them.
    held: u32,
}

impl Bottleneck {
    fn new(spec: &str) -> Self {
        let now = epoch();
        Self {
            connection: Connection::new(built(spec, now), now),
            idle_at: now,
            sent: now,
            acks: VecDeque::new(),
            passed: 0,
            tally: Tally::default(),
        }
    }

    /// When the rate allows the next packet.
    fn due(&self) -> Instant {
        match self.connection.adapter.path.controller.pacing_rate() {
            Some(rate) => self.sent + Duration::from_secs_f64(PACKET as f64 / rate as f64),
            None => self.sent,
        }
    }

    fn run(&mut self, time: Duration) -> Tally {
        self.tally = Tally::default();
        let end = self.connection.now + time;
        let mut held = false;
        while self.connection.now < end {
            let ack = self.acks.iter().flatten().next().copied();
            let room = self.connection.in_flight() + PACKET < self.connection.adapter.window();
            let due = self.due().max(self.connection.now);
            if room && ack.is_none_or(|ack| due <= ack) {
                self.connection.now = due;
                self.send();
                self.tally.held += u32::from(held);
                held = false;
            } else {
                let ack = ack.expect("a full window is not all lost");
                held = held || (!room && due < ack);
                self.connection.now = ack;
                self.process();
            }
        }
        self.tally
    }

    fn send(&mut self) {
        let now = self.connection.now;
        self.connection.run(&Op::Send(1));
        self.sent = now;
        self.tally.sent += 1;
        let waits = self.idle_at.saturating_duration_since(now);
        if waits > SERVICE * QUEUE {
            self.tally.dropped += 1;
            self.acks.push_back(None);
        } else {
            self.idle_at = self.idle_at.max(now) + SERVICE;
            self.acks.push_back(Some(self.idle_at + ms(PROPAGATION)));
        }
    }

    /// Acknowledges the oldest packet that arrived. Packets dropped before it count as lost when
    /// enough others have overtaken them.
    fn process(&mut self) {
        let skip = self.acks.iter().take_while(|ack| ack.is_none()).count();
        self.acks.remove(skip);
        self.connection.run(&Op::Ack {
            skip,
            count: 1,
            app_limited: false,
        });
        self.passed = if skip > 0 { self.passed + 1 } else { 0 };
        if self.passed >= REORDERING {
            self.acks.drain(..skip);
            self.connection.run(&Op::Lose {
                count: skip,
                persistent: false,
            });
            self.passed = 0;
        }
    }
}

#[test]
fn tfrc_fills_a_bottleneck_with_few_losses_and_seldom_meets_its_window() {
    for spec in ["tfrc", "tfrc:damping=false", "tfrc:discounting=false"] {
        let mut path = Bottleneck::new(spec);
        path.run(Duration::from_secs(30));
        let Tally {
            sent,
            dropped,
            held,
        } = path.run(Duration::from_secs(120));
        // 120,000 packets are what the bottleneck sends.
        assert!(sent - dropped > 110_000, "{spec}: {sent} - {dropped}");
        assert!(
            dropped > 0 && dropped < sent / 100,
            "{spec}: {dropped} of {sent}"
        );
        assert!(held < sent / 100, "{spec}: {held} of {sent} held");
    }
}
