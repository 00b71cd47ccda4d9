//! Output ports, queue disciplines and link impairments without I/O.
//!
//! A [`Port`] is the output of a router: the only FIFO, its transmitter and its counters. A
//! [`Discipline`] tells it what to admit, mark or drop. Behind the port come [`impairment`]s: nodes that
//! delay, lose or jitter packets. A [`Link`] is one direction of a link, made of both.
//!
//! The simulator and the router daemon host them alike: push a packet, ask when something will
//! happen, come back then (or later) and pop. Time is an argument. Being called late changes
//! nothing but when the host learns of it: what happened in between happens at its exact instant.

pub mod impairment;

mod conservation;
mod discipline;
mod limit;
mod link;
mod packet;
mod port;
mod rate;
mod server;
mod stats;
mod trace;

pub use conservation::ConservationError;
pub use discipline::{
    Discipline, DisciplineRow, DropReason, DropTail, PortView, UnknownDiscipline, Verdict,
    discipline, disciplines,
};
pub use limit::Limit;
pub use link::{Change, Link, LinkConfig, LinkError};
pub use packet::{Amount, Packet, PacketMeta};
pub use port::{Port, PortConfig, RateOfTrace};
pub use rate::Rate;
pub use server::Service;
pub use stats::{Counters, Drops, DurationHistogram, PortStats, QueueInterval, QueueLength};
pub use trace::{DeliveryTrace, OPPORTUNITY_BYTES, TraceError};

#[cfg(test)]
mod testing {
    use std::time::{Duration, Instant};

    use evenkeel_wire::Ecn;

    use crate::{Packet, PacketMeta};

    /// Where a test's time begins.
    #[expect(
        clippy::disallowed_methods,
        reason = "std offers no other Instant to count from"
    )]
    pub(crate) fn epoch() -> Instant {
        Instant::now()
    }

    pub(crate) fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A packet of `bytes` that carries its number.
    pub(crate) fn packet(bytes: u32, number: u64) -> Packet<u64> {
        Packet::new(PacketMeta::new(bytes, Ecn::NotEct), number)
    }
}
