//! Output ports, queue disciplines and link impairments without I/O.
//!
//! Internal to evenkeel's router and testbed: no promise, the API may change with every version.
//!
//! A [`Port`] is the output of a router: its queues, its transmitter and its counters. A
//! [`Discipline`] tells it what to admit, mark or drop, and what is next. Behind the port come [`impairment`]s, which
//! delay, lose, double or jitter packets. [`Stamp`]s, if it has any, write into the path headers of the packets
//! that leave it. A [`Link`] is one direction of a link, made of both.
//!
//! The simulator and the router daemon host them alike: push a packet, ask when something will
//! happen, come back then (or later) and pop. Time is an argument. Being called late changes
//! nothing but when the host learns of it: what happened in between happens at its exact instant.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use evenkeel_queue::{
//!     Carrier, Limit, Link, LinkConfig, LinkError, Packet, PacketMeta, Rate, Service,
//! };
//! use evenkeel_wire::Ecn;
//!
//! /// What the host wants to have carried: here without a path header.
//! #[derive(Debug, Clone, PartialEq)]
//! struct Datagram(&'static str);
//!
//! impl Carrier for Datagram {}
//!
//! /// How long a packet of 1228 bytes takes over an empty link of 2 Mbit/s and 18 ms.
//! fn one_way_delay(epoch: Instant, rng: impl rand::Rng + Send + 'static) -> Result<Duration, LinkError> {
//!     let config = LinkConfig {
//!         service: Service::Rate(Rate::new(2_000_000).expect("not zero")),
//!         limit: Limit::packets(50),
//!         delay: Duration::from_millis(18),
//!         ..LinkConfig::default()
//!     };
//!     let mut link = Link::new(epoch, config, Box::new(rng))?;
//!     link.push(epoch, Packet::new(PacketMeta::new(1228, Ecn::Ect0), Datagram("hello")));
//!     let arrival = link.next_timeout().expect("a packet is on its way");
//!     assert_eq!(link.pop(arrival).expect("it has arrived").payload, Datagram("hello"));
//!     Ok(arrival - epoch)
//! }
//! ```

pub mod description;
pub mod impairment;

mod conservation;
mod discipline;
mod limit;
mod link;
mod packet;
mod port;
mod rate;
mod server;
mod stamp;
mod stats;
mod trace;

pub use conservation::{ConservationError, NodeCounters};
pub use discipline::{
    Discipline, DisciplineConfig, DisciplineRow, DropReason, DropTail, PortView, Sender, Verdict,
    discipline, disciplines,
};
pub use evenkeel_spec::{SpecError, SpecParameter};
pub use limit::Limit;
pub use link::{Change, Link, LinkConfig, LinkError, Remains, WireCounters};
pub use packet::{Amount, Packet, PacketMeta};
pub use port::{ClassFigures, FixedService, FlowFigures, FlowReport, Port, PortConfig};
pub use rate::Rate;
pub use server::{Cellular, NotCellular, Service};
pub use stamp::{
    Arrival, CarriedHeader, Carrier, Departure, FlowKey, HeaderCounts, Stamp, StampConfig,
    StampFigures, StampRow, stamp_set, stamps,
};
pub use stats::{Counters, Drops, DurationHistogram, PortStats, QueueInterval, QueueLength};
pub use trace::{DeliveryTrace, OPPORTUNITY_BYTES, TraceError};

#[cfg(test)]
mod testing {
    pub(crate) use evenkeel_tests::time::{epoch, ms};
    use evenkeel_wire::Ecn;
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    use crate::{Carrier, Limit, Packet, PacketMeta, PortConfig, Rate, Service, discipline};

    /// Tests that are not about stamps carry numbers.
    impl Carrier for u64 {}

    /// A packet of `bytes` that carries its number.
    pub(crate) fn packet(bytes: u32, number: u64) -> Packet<u64> {
        Packet::new(PacketMeta::new(bytes, Ecn::NotEct), number)
    }

    /// A port with this discipline, at which 1000 bytes take 1 ms.
    pub(crate) fn port_config(spec: &str, limit: Limit) -> PortConfig {
        PortConfig {
            service: Service::Rate(Rate::new(8_000_000).expect("not zero")),
            overhead_bytes: 0,
            watches_flows: false,
            limit,
            discipline: discipline(spec, limit)
                .expect("a discipline")
                .build(Xoshiro256PlusPlus::seed_from_u64(1)),
            stamps: Vec::new(),
            flow_hash_key: [7; 16],
        }
    }
}
