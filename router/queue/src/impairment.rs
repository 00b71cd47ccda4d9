//! What happens to packets behind a port: policers, blackouts, loss, ECN, corruption, duplication,
//! delay, reordering, jitter, aggregation.
//!
//! An [`Impairment`] decides what becomes of a packet; its [`Node`] holds the packets that are on
//! their way. A node takes packets in order of time and gives them out in order of time, each with
//! the exact instant at which it came out. Only a [`Delay`] that reorders lets packets overtake.
//! Nodes compose: what pops out of one is pushed into the next.

mod aggregation;
mod blackout;
mod burst_loss;
mod corruption;
mod delay;
mod duplication;
mod ecn;
mod jitter;
mod loss;
mod mtu;
mod policer;
mod wifi;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_wire::Ecn;

use crate::conservation::NodeCounters;
use crate::packet::{Amount, Packet, PacketMeta};
use crate::stamp::Carrier;

pub use aggregation::Aggregation;
pub use blackout::Blackout;
pub use burst_loss::{BurstLoss, GilbertElliott};
pub use corruption::Corruption;
pub use delay::Delay;
pub use duplication::Duplication;
pub use ecn::{Marking, Recoding};
pub use jitter::Jitter;
pub use loss::{Loss, NotAProbability};
pub use mtu::Mtu;
pub use policer::Policer;
pub use wifi::WifiJitter;

/// Decides what becomes of each packet that comes in.
pub trait Impairment: Debug + Send {
    /// What it is, for error messages and tables.
    fn name(&self) -> &'static str;

    /// What becomes of a packet that comes in at `now`. Instants do not decrease from one
    /// call to the next.
    fn decide(&mut self, now: Instant, packet: &PacketMeta) -> Fate;

    /// No packet that comes in from now on takes less time than this.
    fn least_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether a packet that comes in may come out, or bring others out, before what is inside is
    /// due.
    fn hastens(&self) -> bool {
        false
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It comes out at this instant, or with the packet before it if that comes out later.
    Out(Instant),
    /// It comes out at once, before all packets that come out later.
    Jumps,
    /// It comes out at once, and so do this many that came in last before it and are still inside.
    Releases(usize),
    /// It comes out at once, with another ECN codepoint.
    Ecn(Ecn),
    /// It comes out at once, with a bit of its payload flipped: the one with this number, counted
    /// round and round.
    Flips(u64),
    /// It comes out at once, and a copy behind it.
    Twice,
    /// It never comes out.
    Lost,
}

/// An impairment and the packets on their way through it.
#[derive(Debug)]
pub struct Node<P, I: ?Sized> {
    /// Packets with the instants at which they come out, which never decrease.
    packets: VecDeque<(Instant, Packet<P>)>,
    /// When the last packet that did not jump comes out.
    last: Option<Instant>,
    /// All but what is inside.
    counted: NodeCounters,
    /// What it does to packets.
    pub impairment: I,
}

impl<P, I> Node<P, I> {
    /// A node without packets.
    pub fn new(impairment: I) -> Self {
        Self {
            packets: VecDeque::new(),
            last: None,
            counted: NodeCounters::default(),
            impairment,
        }
    }
}

impl<P: Carrier + Clone, I: Impairment + ?Sized> Node<P, I> {
    /// A packet comes in. Instants do not decrease from one call to the next.
    pub fn push(&mut self, now: Instant, mut packet: Packet<P>) {
        let bytes = packet.meta.bytes;
        self.counted.arrived += Amount::one(bytes);
        match self.impairment.decide(now, &packet.meta) {
            Fate::Out(at) => self.append(at, packet),
            Fate::Jumps => {
                let due = self.packets.partition_point(|(at, _)| *at <= now);
                self.packets.insert(due, (now, packet));
            }
            Fate::Releases(others) => {
                let held = self.packets.iter_mut().rev().take(others);
                held.for_each(|(at, _)| *at = now);
                self.last = Some(now);
                self.append(now, packet);
            }
            Fate::Ecn(ecn) => {
                packet.meta.ecn = ecn;
                self.counted.altered += Amount::one(bytes);
                self.append(now, packet);
            }
            Fate::Flips(bit) => {
                if packet.payload.flip_bit(bit) {
                    self.counted.altered += Amount::one(bytes);
                }
                self.append(now, packet);
            }
            Fate::Twice => {
                self.counted.duplicated += Amount::one(bytes);
                self.append(now, packet.clone());
                self.append(now, packet);
            }
            Fate::Lost => {
                tracing::trace!(bytes, reason = "lost", "packet dropped");
                self.counted.dropped += Amount::one(bytes);
            }
        }
    }
}

impl<P, I: ?Sized> Node<P, I> {
    fn append(&mut self, at: Instant, packet: Packet<P>) {
        let at = self.last.map_or(at, |last| last.max(at));
        self.last = Some(at);
        self.packets.push_back((at, packet));
    }

    /// The next packet that came out at or before `now`, and when it did.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        if self.next_timeout()? > now {
            return None;
        }
        let (at, packet) = self.packets.pop_front()?;
        self.counted.forwarded += Amount::one(packet.meta.bytes);
        Some((at, packet))
    }

    /// When the next packet comes out; `None` while nothing is inside.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }

    /// What came, left, was dropped, and is inside: counted anew, in time proportional to that.
    pub fn counters(&self) -> NodeCounters {
        let held = self.packets.iter();
        NodeCounters {
            held: held.map(|(_, packet)| Amount::one(packet.meta.bytes)).sum(),
            ..self.counted
        }
    }
}
