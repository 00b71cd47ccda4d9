//! One direction of a link: a port and what lies behind it.

mod wire;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

use crate::impairment::{NodeCounters, NotAProbability};
use crate::{
    Amount, Carrier, ConservationError, DisciplineConfig, DropTail, Limit, Packet, Port,
    PortConfig, PortStats, QueueInterval, Rate, RateOfTrace, Service, StampConfig, StampFigures,
    Verdict,
};
use wire::Wire;

/// What a link is made of. Times count from the link's epoch.
///
/// The default is a link that does nothing: unlimited, without delay, loss, jitter or change.
#[derive(Debug)]
pub struct LinkConfig {
    /// How fast the port transmits.
    pub service: Service,
    /// How much may wait at the port.
    pub limit: Limit,
    /// What the port admits, marks and drops.
    pub discipline: Box<dyn DisciplineConfig>,
    /// What the port writes into path headers, in this order; see [`stamp_set`](crate::stamp_set).
    pub stamps: Vec<Box<dyn StampConfig>>,
    /// With what stamps hash flows; `None` to draw it like everything random. On a real network it
    /// must be a secret: who knows it can make flows that look like one.
    pub flow_hash_key: Option<[u8; 16]>,
    /// Propagation delay.
    pub delay: Duration,
    /// Extra delay drawn uniformly from zero to this.
    pub jitter: Duration,
    /// Probability with which each packet jumps the propagation delay, 0 to 1.
    pub reorder: f64,
    /// Probability of each packet's loss behind the port, 0 to 1.
    pub loss: f64,
    /// Interruptions: start and length.
    pub blackouts: Vec<(Duration, Duration)>,
    /// What changes when. Changes of the same instant happen in the order given.
    pub changes: Vec<(Duration, Change)>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            service: Service::Unlimited,
            limit: Limit::NONE,
            discipline: Box::new(DropTail),
            stamps: Vec::new(),
            flow_hash_key: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: 0.0,
            loss: 0.0,
            blackouts: Vec::new(),
            changes: Vec::new(),
        }
    }
}

/// A change of a link while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The port's rate; see [`Port::set_rate`].
    Rate(Rate),
    /// The propagation delay of packets that are sent from then on; none of them overtakes.
    Delay(Duration),
    /// The probability of loss.
    Loss(f64),
    /// The port's limit; see [`Port::set_limit`].
    Limit(Limit),
}

/// Why a link cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LinkError {
    /// A loss that is no probability.
    #[error("a loss of {0}")]
    Loss(#[from] NotAProbability),
    /// A share of packets that jump which is no probability.
    #[error("reorder = {0}")]
    Reorder(NotAProbability),
    /// A change of the rate of a link that follows a trace.
    #[error(transparent)]
    RateOfTrace(#[from] RateOfTrace),
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

/// One direction of a link: a [`Port`], then blackouts, loss, delay and jitter, in this order.
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
    pushed: Amount,
    popped: Amount,
}

impl<P: Carrier + Debug + Send> Link<P> {
    /// An empty link. All its randomness derives from `rng`: loss, jitter, reordering and discipline draw
    /// from separate generators, so that switching one on does not change what the others do.
    ///
    /// # Errors
    /// [`LinkError`] if `config` holds something that no link can do.
    pub fn new(
        epoch: Instant,
        config: LinkConfig,
        mut rng: Box<dyn Rng + Send>,
    ) -> Result<Self, LinkError> {
        let mut wire = Wire::new(epoch, &config, &mut *rng)?;
        let discipline_rng = Xoshiro256PlusPlus::from_rng(&mut *rng);
        let drawn_key = rng.random();
        let flow_hash_key = config.flow_hash_key.unwrap_or(drawn_key);
        wire.reorder(config.reorder, Xoshiro256PlusPlus::from_rng(&mut *rng))
            .map_err(LinkError::Reorder)?;
        let mut changes = Vec::with_capacity(config.changes.len());
        for (time, change) in config.changes {
            if matches!(
                (change, &config.service),
                (Change::Rate(_), Service::Trace(_))
            ) {
                return Err(RateOfTrace.into());
            }
            changes.push((epoch + LinkError::check_time(time)?, change));
        }
        changes.sort_by_key(|(at, _)| *at);
        let port = PortConfig {
            service: config.service,
            limit: config.limit,
            discipline: config.discipline.build(discipline_rng),
            stamps: config.stamps,
            flow_hash_key,
        };
        Ok(Self {
            port: Port::new(epoch, port),
            wire,
            changes: changes.into(),
            pushed: Amount::ZERO,
            popped: Amount::ZERO,
        })
    }

    /// A packet arrives at the port; see [`Port::enqueue`].
    pub fn push(&mut self, now: Instant, packet: Packet<P>) -> Verdict {
        self.advance(now);
        self.pushed += Amount::one(packet.meta.bytes);
        self.port.enqueue(now, packet)
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

    /// What was lost behind the port since the epoch, by loss or blackouts.
    pub fn lost(&self) -> Amount {
        self.impairments()
            .map(|(_, counters)| counters.dropped)
            .sum()
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
            self.transfer(at);
            self.change(at, change);
        }
        self.transfer(now);
    }

    fn transfer(&mut self, now: Instant) {
        while let Some((at, packet)) = self.port.dequeue(now) {
            self.wire.push(at, packet);
        }
    }

    fn change(&mut self, at: Instant, change: Change) {
        match change {
            Change::Rate(rate) => {
                let changed = self.port.set_rate(at, rate);
                changed.expect("Link::new refuses changes of a trace's rate");
            }
            Change::Limit(limit) => self.port.set_limit(at, limit),
            Change::Delay(delay) => self.wire.set_delay(at, delay),
            Change::Loss(probability) => self.wire.set_loss(at, probability),
        }
    }
}

#[cfg(test)]
mod tests;
