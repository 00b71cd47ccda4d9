//! What happens to packets behind a port: delay, reordering, loss, jitter, blackouts.
//!
//! A node takes packets in order of time and gives them out in order of time, each with the exact
//! instant at which it came out. All but one that [reorders](Node::reorders) keep the packets' order. Nodes compose by moving what pops out of one into the next.

mod blackout;
mod delay;
mod jitter;
mod line;
mod loss;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::{Amount, ConservationError, Packet};

pub use blackout::Blackout;
pub use delay::Delay;
pub use jitter::Jitter;
pub use loss::{Loss, NotAProbability};

/// A place that packets pass.
pub trait Node<P>: Debug + Send {
    /// What it is, for error messages and tables.
    fn name(&self) -> &'static str;

    /// A packet comes in. Instants do not decrease from one call to the next.
    fn push(&mut self, now: Instant, packet: Packet<P>);

    /// The next packet that came out at or before `now`, and when it did.
    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)>;

    /// When the next packet comes out; `None` while nothing is inside.
    fn next_timeout(&self) -> Option<Instant>;

    /// No packet that is pushed from now on takes less time than this.
    fn least_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether a packet may come out before one that was pushed earlier.
    fn reorders(&self) -> bool {
        false
    }

    /// What came, left, was dropped, and is inside: counted anew, in time proportional to that.
    fn counters(&self) -> NodeCounters;
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
