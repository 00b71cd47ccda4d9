//! Stamps: what a port writes into the path headers that pass it.
//!
//! A [`Stamp`] composes with any discipline: it hears of every packet that arrives, and writes into
//! the headers of those that leave, as docs/path-header.md, section 5, allows. It decides nothing and
//! drops nothing. Work per packet is constant, nothing is allocated, and nothing is kept for a flow.

mod acp;
mod aqt;
mod control;
mod flow_key;
mod flows;
mod rcp;
mod stamper;
mod table;
mod xcp;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecError, SpecValues};
use evenkeel_wire::{PathHeaderMut, PathHeaderView, Skipped};
use serde::{Deserialize, Serialize};

use crate::discipline::PortView;

pub use flow_key::FlowKey;
pub(crate) use stamper::Stamper;
pub use table::{stamp_set, stamps};

/// A stamp that scenarios and router configurations can name.
pub type StampRow = Row<fn(&SpecValues) -> Result<Box<dyn StampConfig>, SpecError>>;

/// What a link carries: a port with stamps looks for path headers in it, and the wire may corrupt it.
///
/// Without an answer of its own a payload has neither header nor flow, stamps pass it by, and no bit
/// of it flips.
pub trait Carrier {
    /// The header of this packet, and how the packet leaves this host. Asked on arrival, and
    /// again at departure if there was one.
    ///
    /// # Errors
    /// [`Skipped`]: there is none, or one that is left alone.
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        Err(Skipped::Foreign)
    }

    /// Whose packet this is; `None` if it cannot be told.
    fn flow(&self) -> Option<FlowKey> {
        None
    }

    /// Flips the bit of the UDP payload with this number, counted round and round, and keeps the
    /// checksum as right as it was. Returns `false`, and changes nothing, if there is none.
    fn flip_bit(&mut self, _bit: u64) -> bool {
        false
    }
}

/// A path header in its packet.
#[derive(Debug)]
pub struct CarriedHeader<'a> {
    /// The header.
    pub header: PathHeaderMut<'a>,
    /// The TTL or hop limit that the packet will have on the next link.
    pub leaving_ttl: u8,
}

/// A stamp before its port is there: its parameters, checked.
pub trait StampConfig: Debug + Send + Sync {
    /// The name of its row in [`stamps`].
    fn name(&self) -> &'static str;

    /// The stamp of a port that begins at `now`.
    fn build(&self, now: Instant) -> Box<dyn Stamp>;
}

/// Writes into path headers.
///
/// The [`Port`](crate::Port) calls in the order of time; each call's `now` is the exact instant of the event.
pub trait Stamp: Debug + Send {
    /// Whether [`Arrival::flow`] is made use of; it costs a hash of every packet.
    fn tells_flows_apart(&self) -> bool {
        false
    }

    /// A packet arrives, with a header or without one, and may yet be dropped. `port` does not count it.
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival<'_>, _port: &PortView) {}

    /// A packet with a header is about to be transmitted. `port` does not count it any more.
    fn on_departure(&mut self, now: Instant, departure: &mut Departure<'_>, port: &PortView);

    /// The instant that [`Stamp::next_timer`] named has come.
    fn on_timer(&mut self, _now: Instant, _port: &PortView) {}

    /// When [`Stamp::on_timer`] is due. After a call of it this must be a later instant.
    fn next_timer(&self) -> Option<Instant> {
        None
    }

    /// Where it stands, for people and reports: names with a unit (`_bps`: bits per second of IP
    /// packets) and values, always the same names in the same order.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A packet that arrives.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// Size of the IP packet, in bytes.
    pub bytes: u32,
    /// Its header, if it has one that may be changed.
    pub header: Option<PathHeaderView<'a>>,
    /// A keyed hash of the flow it belongs to, if any stamp [tells flows apart](Stamp::tells_flows_apart)
    /// and the packet can be told.
    pub flow: Option<u64>,
}

/// A packet that is about to be transmitted.
#[derive(Debug)]
pub struct Departure<'a> {
    /// Size of the IP packet, in bytes.
    pub bytes: u32,
    /// Its header.
    pub header: PathHeaderMut<'a>,
    /// Time from its arrival at this port to now.
    pub queued: Duration,
    /// The TTL or hop limit that it will have on the next link.
    pub leaving_ttl: u8,
}

/// What a port with stamps has seen, in packets. All but `stamped` are counted on arrival and add up
/// to the packets that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeaderCounts {
    /// With a header to be stamped.
    pub recognised: u64,
    /// Of those: stamped, as their transmission started.
    pub stamped: u64,
    /// [`Skipped::Foreign`].
    pub foreign: u64,
    /// [`Skipped::Truncated`].
    pub truncated: u64,
    /// [`Skipped::Version`].
    pub version: u64,
    /// [`Skipped::Kind`].
    pub kind: u64,
    /// [`Skipped::Untouchable`].
    pub untouchable: u64,
}

impl HeaderCounts {
    fn skipped(&mut self, reason: Skipped) {
        *match reason {
            Skipped::Foreign => &mut self.foreign,
            Skipped::Truncated => &mut self.truncated,
            Skipped::Version => &mut self.version,
            Skipped::Kind => &mut self.kind,
            Skipped::Untouchable => &mut self.untouchable,
        } += 1;
    }

    /// Packets that had the magic of a header and were left alone.
    pub fn refused(&self) -> u64 {
        self.truncated + self.version + self.kind + self.untouchable
    }
}

impl std::ops::Sub for HeaderCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            recognised: self.recognised - earlier.recognised,
            stamped: self.stamped - earlier.stamped,
            foreign: self.foreign - earlier.foreign,
            truncated: self.truncated - earlier.truncated,
            version: self.version - earlier.version,
            kind: self.kind - earlier.kind,
            untouchable: self.untouchable - earlier.untouchable,
        }
    }
}

/// Where one stamp of a port stands.
#[derive(Debug, Clone, PartialEq)]
pub struct StampFigures {
    /// The name of its row in [`stamps`].
    pub stamp: &'static str,
    /// See [`Stamp::figures`].
    pub figures: Vec<(&'static str, f64)>,
}

#[cfg(test)]
mod tests;
