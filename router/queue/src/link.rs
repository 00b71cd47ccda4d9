//! One direction of a link: a port and what lies behind it.

mod wire;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

use crate::conservation::{ConservationError, NodeCounters};
use crate::discipline::{DisciplineConfig, DropTail, Verdict};
use crate::impairment::{Aggregation, GilbertElliott, NotAProbability, Policer, Recoding};
use crate::limit::Limit;
use crate::packet::{Amount, Packet};
use crate::port::{FixedService, FlowReport, Port, PortConfig};
use crate::rate::Rate;
use crate::server::Service;
use crate::stamp::{Carrier, StampConfig, StampFigures};
use crate::stats::{PortStats, QueueInterval};
use wire::Wire;

pub use wire::WireCounters;

/// What a link is made of. Times count from the link's epoch.
///
/// The default is a link that does nothing: unlimited, without delay, loss, jitter or change.
#[derive(Debug)]
pub struct LinkConfig {
    /// How fast the port transmits.
    pub service: Service,
    /// Bytes that the link layer adds to each packet: they take time, and count nowhere else.
    pub overhead_bytes: u32,
    /// Whether [`Link::flows`] has figures.
    pub watches_flows: bool,
    /// How much may wait at the port.
    pub limit: Limit,
    /// What the port admits, marks and drops.
    pub discipline: Box<dyn DisciplineConfig>,
    /// What the port writes into path headers, in this order; see [`stamp_set`](crate::stamp_set).
    pub stamps: Vec<Box<dyn StampConfig>>,
    /// With what stamps hash flows; `None` to draw it like everything random. On a real network it
    /// must be a secret: who knows it can make flows that look like one.
    pub flow_hash_key: Option<[u8; 16]>,
    /// Bytes of the largest packet that comes through behind the port; `None` for any size.
    pub mtu: Option<u32>,
    /// What a token bucket drops behind the port.
    pub policer: Option<Policer>,
    /// Propagation delay.
    pub delay: Duration,
    /// Extra delay drawn uniformly from zero to this.
    pub jitter: Duration,
    /// Target of the jitter of a busy Wi-Fi; see [`WifiJitter`](crate::impairment::WifiJitter).
    pub wifi_jitter: Duration,
    /// What holds packets and lets them out together, at the far end.
    pub aggregation: Option<Aggregation>,
    /// Probability with which each packet jumps the propagation delay, 0 to 1.
    pub reorder: f64,
    /// Probability of each packet's loss behind the port, 0 to 1.
    pub loss: f64,
    /// Loss in bursts, after the other.
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Other ECN codepoints, with which packets leave.
    pub recoding: Option<Recoding>,
    /// Probability with which each packet of an ECN-capable sender is marked behind the port, 0 to 1.
    pub mark: f64,
    /// Probability with which a bit of each packet's payload flips, 0 to 1.
    pub corrupt: f64,
    /// Probability with which each packet comes twice, 0 to 1.
    pub duplicate: f64,
    /// Interruptions: start and length.
    pub blackouts: Vec<(Duration, Duration)>,
    /// What changes when. Changes of the same instant happen in the order given.
    pub changes: Vec<(Duration, Change)>,
    /// After this time the changes begin again, and again; at least a millisecond, and beyond the
    /// time of each change.
    pub changes_period: Option<Duration>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            service: Service::Unlimited,
            overhead_bytes: 0,
            watches_flows: false,
            limit: Limit::NONE,
            discipline: Box::new(DropTail),
            stamps: Vec::new(),
            flow_hash_key: None,
            mtu: None,
            policer: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            wifi_jitter: Duration::ZERO,
            aggregation: None,
            reorder: 0.0,
            loss: 0.0,
            gilbert_elliott: None,
            recoding: None,
            mark: 0.0,
            corrupt: 0.0,
            duplicate: 0.0,
            blackouts: Vec::new(),
            changes: Vec::new(),
            changes_period: None,
        }
    }
}

/// A change of a link while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The port's rate, also after a suspension; see [`Port::set_rate`].
    Rate(Rate),
    /// Packets wait until there is a rate again; see [`Port::suspend`].
    Suspend,
    /// The propagation delay of packets that are sent from then on; none of them overtakes.
    Delay(Duration),
    /// The target of the Wi-Fi jitter.
    WifiJitter(Duration),
    /// The probability of loss.
    Loss(f64),
    /// The largest packet that comes through, in bytes.
    Mtu(u32),
    /// The port's limit; see [`Port::set_limit`].
    Limit(Limit),
}

/// A host that is an hour late has changes to catch up with: this bounds their number.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

/// Why a link cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// A loss that is no probability.
    #[error("a loss of {0}")]
    Loss(#[from] NotAProbability),
    /// Loss in bursts with a number that is no probability.
    #[error("gilbert_elliott: {0}")]
    GilbertElliott(NotAProbability),
    /// A share of packets that are marked which is no probability.
    #[error("mark = {0}")]
    Mark(NotAProbability),
    /// A share of packets that are corrupted which is no probability.
    #[error("corrupt = {0}")]
    Corrupt(NotAProbability),
    /// A share of packets that jump which is no probability.
    #[error("reorder = {0}")]
    Reorder(NotAProbability),
    /// A share of packets that come twice which is no probability.
    #[error("duplicate = {0}")]
    Duplicate(NotAProbability),
    /// A change of the rate of a link whose rate is not for others to change.
    #[error(transparent)]
    FixedService(#[from] FixedService),
    /// A period that does not hold the changes that it repeats.
    #[error("the changes repeat after {0:?}; use a millisecond or more, after all of them")]
    Period(Duration),
    /// A delay, jitter, blackout or time of a change beyond any run.
    #[error("{0:?} is longer than a hundred years; use a shorter time")]
    TooLong(Duration),
}

impl LinkError {
    /// The time, if it is so short that no sum of a few such times leaves the range of [`Instant`].
    fn check_time(time: Duration) -> Result<Duration, Self> {
        const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 365 * 86_400);
        if time <= HUNDRED_YEARS {
            Ok(time)
        } else {
            Err(Self::TooLong(time))
        }
    }
}

/// One direction of a link: a [`Port`], then an MTU, a policer, blackouts, loss, loss in bursts,
/// recoding, marking, corruption, duplication, delay, jitter, Wi-Fi jitter and aggregation, in this
/// order.
///
/// Packets come out in the order in which they were pushed, but for those that jump the delay. As
/// with the port, no instant depends on how often or how late the host calls. At the instant of a
/// change, what leaves goes before it, and what is pushed comes after it.
#[derive(Debug)]
pub struct Link<P> {
    port: Port<P>,
    wire: Wire<P>,
    /// In order of time.
    changes: VecDeque<(Instant, Change)>,
    changes_period: Option<Duration>,
    pushed: Amount,
    popped: Amount,
}

/// What is on its way behind the port of a link that has ended.
#[derive(Debug)]
pub struct Remains<P> {
    wire: Wire<P>,
}

/// What draws for each part of a link. All are drawn for every link, in this order, so that none
/// depends on which parts a link has; new ones come last.
#[derive(Debug)]
struct Generators {
    loss: Xoshiro256PlusPlus,
    jitter: Xoshiro256PlusPlus,
    discipline: Xoshiro256PlusPlus,
    flow_hash_key: [u8; 16],
    reorder: Xoshiro256PlusPlus,
    duplicate: Xoshiro256PlusPlus,
    wifi_jitter: Xoshiro256PlusPlus,
    service_seed: u64,
    burst_loss: Xoshiro256PlusPlus,
    mark: Xoshiro256PlusPlus,
    corrupt: Xoshiro256PlusPlus,
}

impl Generators {
    fn draw(rng: &mut (dyn Rng + Send)) -> Self {
        Self {
            loss: Xoshiro256PlusPlus::from_rng(rng),
            jitter: Xoshiro256PlusPlus::from_rng(rng),
            discipline: Xoshiro256PlusPlus::from_rng(rng),
            flow_hash_key: rng.random(),
            reorder: Xoshiro256PlusPlus::from_rng(rng),
            duplicate: Xoshiro256PlusPlus::from_rng(rng),
            wifi_jitter: Xoshiro256PlusPlus::from_rng(rng),
            service_seed: rng.random(),
            burst_loss: Xoshiro256PlusPlus::from_rng(rng),
            mark: Xoshiro256PlusPlus::from_rng(rng),
            corrupt: Xoshiro256PlusPlus::from_rng(rng),
        }
    }
}

impl<P: Carrier + Clone + Debug + Send> Link<P> {
    /// An empty link. All its randomness derives from `rng`: each impairment, the discipline and a
    /// cellular rate draw from separate generators, so that switching one on does not change what
    /// the others do.
    ///
    /// # Errors
    /// [`LinkError`] if `config` holds something that no link can do.
    pub fn new(
        epoch: Instant,
        config: LinkConfig,
        mut rng: Box<dyn Rng + Send>,
    ) -> Result<Self, LinkError> {
        let rngs = Generators::draw(&mut *rng);
        let service = config.service.clone().seeded(rngs.service_seed);
        let discipline = config.discipline.build(rngs.discipline.clone());
        let flow_hash_key = config.flow_hash_key.unwrap_or(rngs.flow_hash_key);
        let wire = Wire::new(epoch, &config, rngs)?;
        let changes = schedule(epoch, &config)?;
        let port = PortConfig {
            service,
            overhead_bytes: config.overhead_bytes,
            watches_flows: config.watches_flows,
            limit: config.limit,
            discipline,
            stamps: config.stamps,
            flow_hash_key,
        };
        Ok(Self {
            port: Port::new(epoch, port),
            wire,
            changes,
            changes_period: config.changes_period,
            pushed: Amount::ZERO,
            popped: Amount::ZERO,
        })
    }

    /// A packet arrives at the port; see [`Port::enqueue`].
    pub fn push(&mut self, now: Instant, packet: Packet<P>) -> Verdict {
        self.push_seen(now, now, packet)
    }

    /// A packet arrives that has been found at `seen`, and is reckoned to have come at `now`, which
    /// is not later: a host that looks at intervals does not know when. The queue, and what measures
    /// it, takes the packet as coming at `now`. It leaves no earlier than one that comes at `seen`
    /// would from a link whose packets all come when they are seen.
    pub fn push_seen(&mut self, now: Instant, seen: Instant, packet: Packet<P>) -> Verdict {
        self.advance(now);
        self.pushed += Amount::one(packet.meta.bytes);
        self.port.enqueue_seen(now, seen, packet)
    }

    /// The next packet that has come out at the far end by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Packet<P>> {
        self.pop_exact(now).map(|(_, packet)| packet)
    }

    /// When [`Link::pop`] should be called next: when a packet may come out, or something changes.
    ///
    /// It never comes too late, but a call at that instant may yield nothing (the packet was lost
    /// on the way, or draws jitter): then ask again. A push or pop may make it earlier or later.
    /// Ends of transmissions and timers of the discipline need no call of their own.
    pub fn next_timeout(&self) -> Option<Instant> {
        let change = self.changes.front().map(|(at, _)| *at);
        let packet = self.wire.next_out(self.port.next_departure());
        change.into_iter().chain(packet).min()
    }

    /// Changes the link at `now`, as a change of [`LinkConfig::changes`] would. What waits, what
    /// the discipline and the stamps have learnt, and all figures stay.
    ///
    /// # Errors
    /// [`LinkError`] if this link cannot change so.
    pub fn alter(&mut self, now: Instant, change: Change) -> Result<(), LinkError> {
        if let Change::Delay(time) | Change::WifiJitter(time) = change {
            LinkError::check_time(time)?;
        }
        self.advance(now);
        Ok(self.change(now, change)?)
    }

    /// The port.
    pub fn port(&self) -> &Port<P> {
        &self.port
    }

    /// What the port has measured up to `now`.
    pub fn stats(&mut self, now: Instant) -> &PortStats {
        self.advance(now);
        self.port.stats(now)
    }

    /// Where the port's stamps stand at `now`.
    pub fn stamp_figures(&mut self, now: Instant) -> Vec<StampFigures> {
        self.advance(now);
        self.port.stamp_figures(now)
    }

    /// Where the port's flows and classes stand at `now`; see [`Port::flows`].
    pub fn flows(&mut self, now: Instant) -> FlowReport {
        self.advance(now);
        self.port.flows(now)
    }

    /// Starts a new measurement window of the port: the warm-up is over.
    pub fn restart_measurement(&mut self, now: Instant) {
        self.advance(now);
        self.port.restart_measurement(now);
    }

    /// The port's queue since the last call; see [`Port::take_interval`].
    pub fn take_interval(&mut self, now: Instant) -> QueueInterval {
        self.advance(now);
        self.port.take_interval(now)
    }

    /// What each node behind the port has done since the epoch, by name.
    pub fn impairments(&self) -> impl Iterator<Item = (&'static str, NodeCounters)> {
        self.wire
            .nodes()
            .map(|node| (node.impairment.name(), node.counters()))
    }

    /// Copies that were made of packets since the epoch.
    pub fn duplicated(&self) -> Amount {
        self.impairments()
            .map(|(_, counters)| counters.duplicated)
            .sum()
    }

    /// What was changed or too large behind the port since the epoch.
    pub fn wire_counters(&self) -> WireCounters {
        self.wire.counters()
    }

    /// What was lost behind the port since the epoch: too large, or by policers, loss or blackouts.
    pub fn lost(&self) -> Amount {
        self.impairments()
            .map(|(_, counters)| counters.dropped)
            .sum()
    }

    /// Ends the link: what waits at its port or is being transmitted, in the order of arrival, for
    /// another link, and what is on its way behind the port.
    pub fn split(mut self, now: Instant) -> (Vec<Packet<P>>, Remains<P>) {
        self.advance(now);
        for (at, packet) in self.port.take_departed() {
            self.wire.push(at, packet);
        }
        (self.port.into_waiting(), Remains { wire: self.wire })
    }

    /// Packets that waited in a link that has been [split](Link::split) arrive at once. The limit
    /// counts for those that come later.
    pub fn refill(&mut self, now: Instant, packets: Vec<Packet<P>>) {
        self.advance(now);
        self.pushed += packets.iter().map(|p| Amount::one(p.meta.bytes)).sum();
        self.port.refill(now, packets);
    }

    /// Checks that no packet and no byte has appeared or disappeared: in the port, in every node,
    /// between them, and from end to end. For the end of a run: it visits every packet inside.
    ///
    /// # Errors
    /// [`ConservationError`] with the figures: a bug in this crate.
    pub fn check_conservation(&self) -> Result<(), ConservationError> {
        self.port.check_conservation()?;
        let mut upstream = self.port.counters();
        let mut whole = NodeCounters {
            arrived: self.pushed,
            forwarded: self.popped,
            ..upstream
        };
        for (name, counters) in self.impairments() {
            counters.check(name)?;
            let between = NodeCounters {
                arrived: upstream.forwarded,
                forwarded: counters.arrived,
                ..NodeCounters::default()
            };
            between.check("between two nodes of a link")?;
            whole.duplicated += counters.duplicated;
            whole.dropped += counters.dropped;
            whole.held += counters.held;
            upstream = counters;
        }
        whole.check("link")
    }

    fn pop_exact(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        self.advance(now);
        let (at, packet) = self.wire.pop(now)?;
        self.popped += Amount::one(packet.meta.bytes);
        Some((at, packet))
    }

    /// Makes the changes that are due, and moves every packet to where it is at `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(&(at, change)) = self.changes.front()
            && at <= now
        {
            self.changes.pop_front();
            if let Some(period) = self.changes_period {
                self.changes.push_back((at + period, change));
            }
            self.transfer(at);
            let changed = self.change(at, change);
            changed.expect("Link::new refuses changes of a rate that is fixed");
        }
        self.transfer(now);
    }

    fn transfer(&mut self, now: Instant) {
        while let Some((at, packet)) = self.port.dequeue(now) {
            self.wire.push(at, packet);
        }
    }

    fn change(&mut self, at: Instant, change: Change) -> Result<(), FixedService> {
        match change {
            Change::Rate(rate) => {
                self.port.set_rate(at, rate)?;
            }
            Change::Suspend => {
                self.port.suspend(at)?;
            }
            Change::Limit(limit) => self.port.set_limit(at, limit),
            Change::Delay(delay) => self.wire.set_delay(at, delay),
            Change::WifiJitter(target) => self.wire.set_wifi_jitter(at, target),
            Change::Loss(probability) => self.wire.set_loss(at, probability),
            Change::Mtu(bytes) => self.wire.set_mtu(at, bytes),
        }
        Ok(())
    }
}

impl<P: Carrier + Clone + Debug + Send> Remains<P> {
    /// The next packet that has come out by `now`; see [`Link::pop`].
    pub fn pop(&mut self, now: Instant) -> Option<Packet<P>> {
        self.wire.pop(now).map(|(_, packet)| packet)
    }

    /// When [`Remains::pop`] should be called next; `None` once nothing is left.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.wire.next_out(None)
    }
}

/// The changes of a link, in order of time.
fn schedule(epoch: Instant, config: &LinkConfig) -> Result<VecDeque<(Instant, Change)>, LinkError> {
    let mut changes = Vec::with_capacity(config.changes.len());
    for &(time, change) in &config.changes {
        match (change, &config.service) {
            (Change::Rate(_), Service::Trace(_) | Service::Cellular(_))
            | (Change::Suspend, Service::Unlimited | Service::Trace(_) | Service::Cellular(_)) => {
                return Err(FixedService.into());
            }
            _ => {}
        }
        changes.push((epoch + LinkError::check_time(time)?, change));
    }
    changes.sort_by_key(|(at, _)| *at);
    if let Some(period) = config.changes_period {
        LinkError::check_time(period)?;
        let last = changes.last().map_or(epoch, |(at, _)| *at);
        if period < SHORTEST_PERIOD || epoch + period <= last {
            return Err(LinkError::Period(period));
        }
    }
    Ok(changes.into())
}

#[cfg(test)]
mod tests;
