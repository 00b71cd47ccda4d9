//! What happens to packets behind a port: delay, reordering, loss, jitter, blackouts.
//!
//! An [`Impairment`] decides what becomes of a packet; its [`Node`] holds the packets that are on
//! their way. A node takes packets in order of time and gives them out in order of time, each with
//! the exact instant at which it came out. Only a node that [reorders](Impairment::reorders) lets
//! packets overtake. Nodes compose: what pops out of one is pushed into the next.

mod blackout;
mod delay;
mod jitter;
mod loss;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::{Amount, ConservationError, Packet};

pub use blackout::Blackout;
pub use delay::Delay;
pub use jitter::Jitter;
pub use loss::{Loss, NotAProbability};

/// Decides what becomes of each packet that comes in.
pub trait Impairment: Debug + Send {
    /// What it is, for error messages and tables.
    fn name(&self) -> &'static str;

    /// What becomes of a packet that comes in at `now`. Instants do not decrease from one call to
    /// the next.
    fn decide(&mut self, now: Instant) -> Fate;

    /// No packet that comes in from now on takes less time than this.
    fn least_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether a packet may come out before one that came in earlier.
    fn reorders(&self) -> bool {
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
    arrived: Amount,
    forwarded: Amount,
    dropped: Amount,
    /// What it does to packets.
    pub impairment: I,
}

impl<P, I> Node<P, I> {
    /// A node without packets.
    pub fn new(impairment: I) -> Self {
        Self {
            packets: VecDeque::new(),
            last: None,
            arrived: Amount::ZERO,
            forwarded: Amount::ZERO,
            dropped: Amount::ZERO,
            impairment,
        }
    }
}

impl<P, I: Impairment + ?Sized> Node<P, I> {
    /// A packet comes in. Instants do not decrease from one call to the next.
    pub fn push(&mut self, now: Instant, packet: Packet<P>) {
        let bytes = packet.meta.bytes;
        self.arrived += Amount::one(bytes);
        match self.impairment.decide(now) {
            Fate::Out(at) => {
                let at = self.last.map_or(at, |last| last.max(at));
                self.last = Some(at);
                self.packets.push_back((at, packet));
            }
            Fate::Jumps => {
                let due = self.packets.partition_point(|(at, _)| *at <= now);
                self.packets.insert(due, (now, packet));
            }
            Fate::Lost => {
                tracing::trace!(bytes, reason = "lost", "packet dropped");
                self.dropped += Amount::one(bytes);
            }
        }
    }

    /// The next packet that came out at or before `now`, and when it did.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        if self.next_timeout()? > now {
            return None;
        }
        let (at, packet) = self.packets.pop_front()?;
        self.forwarded += Amount::one(packet.meta.bytes);
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
            arrived: self.arrived,
            forwarded: self.forwarded,
            dropped: self.dropped,
            held: held.map(|(_, packet)| Amount::one(packet.meta.bytes)).sum(),
        }
    }
}

/// What a node has done since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounters {
    /// What was pushed.
    pub arrived: Amount,
    /// What was popped.
    pub forwarded: Amount,
    /// What never comes out.
    pub dropped: Amount,
    /// What is inside.
    pub held: Amount,
}

impl NodeCounters {
    /// Checks arrived = forwarded + dropped + held, in packets and bytes.
    ///
    /// # Errors
    /// [`ConservationError`] with the figures and `place`.
    pub fn check(&self, place: &'static str) -> Result<(), ConservationError> {
        let Self {
            arrived,
            forwarded,
            dropped,
            held,
        } = *self;
        if arrived == forwarded + dropped + held {
            return Ok(());
        }
        Err(ConservationError {
            place,
            arrived,
            forwarded,
            dropped,
            held,
        })
    }
}
