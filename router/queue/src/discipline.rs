//! Queue disciplines: what to admit, mark or drop, and whose turn it is.

mod codel;
mod drop_tail;
mod dualpi2;
mod fq_codel;
mod guided;
mod red;
mod table;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecError, SpecValues};
use rand::rngs::Xoshiro256PlusPlus;

use crate::limit::Limit;
use crate::packet::{Amount, PacketMeta};
use crate::rate::Rate;

pub use drop_tail::DropTail;
pub use table::{discipline, disciplines};

/// A discipline that scenarios and router configurations can name. It is built from its parameters
/// and the port's limit.
pub type DisciplineRow =
    Row<fn(&SpecValues, Limit) -> Result<Box<dyn DisciplineConfig>, SpecError>>;

/// A discipline before its port is there: its parameters, checked.
pub trait DisciplineConfig: Debug + Send + Sync {
    /// The discipline of a new port. All its randomness comes from `rng`, which is its own.
    fn build(&self, rng: Xoshiro256PlusPlus) -> Box<dyn Discipline>;
}

/// A discipline that can be copied, and draws nothing, is its own configuration.
impl<D: Discipline + Clone + Sync + 'static> DisciplineConfig for D {
    fn build(&self, _rng: Xoshiro256PlusPlus) -> Box<dyn Discipline> {
        Box::new(self.clone())
    }
}

/// Decides what happens to packets; never holds one.
///
/// The [`Port`](crate::Port) owns the queues, the limit and the counters, and calls in the order
/// of time: each call's `now` is the exact instant of the event, however late the host is.
///
/// Only `ecn` may be changed in a packet's `meta`.
pub trait Discipline: Debug + Send {
    /// How many queues the port keeps for it, at least one; always the same.
    fn queues(&self) -> usize {
        1
    }

    /// The names of the classes into which it puts packets; none for most.
    fn classes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The class of what the queue with this number holds now: a position in
    /// [`Discipline::classes`].
    fn class_of(&self, _queue: usize) -> usize {
        0
    }

    /// Whether it has a say in what becomes of packets, or timers. One that has none admits all, and
    /// is asked for nothing but a queue.
    fn judges(&self) -> bool {
        true
    }

    /// Whether [`Sender::host`] and [`Sender::has_header`] are made use of: the port then looks for path
    /// headers.
    fn reads_headers(&self) -> bool {
        false
    }

    /// Whether [`Sender::ends`] is made use of: it costs two more hashes of every packet.
    fn tells_hosts_apart(&self) -> bool {
        false
    }

    /// The queue that an arriving packet is for, below [`Discipline::queues`].
    fn classify(&mut self, _meta: &PacketMeta, _sender: Sender) -> usize {
        0
    }

    /// A packet arrives. Called for every packet, also for those that the limit will refuse:
    /// the limit has the last word. `port` does not count this packet.
    fn on_arrival(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict;

    /// A packet is about to be transmitted; `meta.queued` says how long it has waited. `port` does
    /// not count it any more. After [`Verdict::Drop`] the next one follows at the same instant.
    fn on_departure(&mut self, _now: Instant, _meta: &mut PacketMeta, _port: &PortView) -> Verdict {
        Verdict::Admit
    }

    /// The queue whose first packet leaves next: one of those that hold something. Asked for each
    /// packet if there are several queues; `queues` is what they hold, by number, and `packets` how
    /// many that are.
    fn select(&mut self, _queues: &[Amount], _packets: u64) -> usize {
        0
    }

    /// A packet arrives for which the limit has no room; `queues` is what they hold, by number.
    /// Returns the queue of which the first packets are dropped instead, and how many of them;
    /// `None` to drop the one that arrives.
    fn make_room(&mut self, _queues: &[Amount]) -> Option<(usize, u64)> {
        None
    }

    /// What stamps see of the port when a packet of `port.queue` comes or goes; `None` if they leave
    /// it alone. `queues` is what queues hold, by number. At stamps' timers `port.queue` is 0.
    fn seen_by_stamps(&self, port: PortView, _queues: &[Amount]) -> Option<PortView> {
        Some(port)
    }

    /// The instant that [`Discipline::next_timer`] named has come. Of a transmission that ends or
    /// starts at the same instant the discipline has heard before. `waited` tells how long the first
    /// packet of a queue has waited, zero if there is none.
    fn on_timer(&mut self, _now: Instant, _port: &PortView, _waited: &dyn Fn(usize) -> Duration) {}

    /// When [`Discipline::on_timer`] is due. After a call of it this must be a later instant.
    fn next_timer(&self) -> Option<Instant> {
        None
    }
}

/// What the header of a packet says about its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// A keyed hash of its flow; `None` if the port has one queue alone, or the flow cannot be told.
    pub flow: Option<u64>,
    /// A keyed hash of its host, by its source address (of IPv6 the first 64 bits); `None` if the
    /// discipline [reads no headers](Discipline::reads_headers).
    pub host: Option<u64>,
    /// The packet has a path header that may be stamped.
    pub has_header: bool,
    /// Keyed hashes of the hosts that it comes from and goes to; `None` if the discipline does not
    /// [tell hosts apart](Discipline::tells_hosts_apart).
    pub ends: Option<[u64; 2]>,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Admit,
    /// It goes on and tells its receiver of congestion. If its sender does not understand ECN it
    /// is dropped instead ([`DropReason::Early`]; RFC 3168, section 5).
    Mark,
    /// It is gone.
    Drop(DropReason),
}

/// Why a port dropped a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The queue's limit was reached.
    Full,
    /// The discipline signalled congestion before that.
    Early,
}

/// What a discipline sees of its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortView {
    /// What waits in all queues, without the packet in transmission.
    pub queued: Amount,
    /// The number of the queue of the packet in question; 0 if there is none.
    pub queue: usize,
    /// What waits in that queue.
    pub own: Amount,
    /// Whether a packet is being transmitted.
    pub transmitting: bool,
    /// How much may wait.
    pub limit: Limit,
    /// The link's rate, or the mean one of the trace that it follows; `None` if it is unlimited.
    pub rate: Option<Rate>,
}
