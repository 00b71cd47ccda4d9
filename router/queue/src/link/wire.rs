//! What lies behind a link's port.

use std::fmt::Debug;
use std::ops::{Range, Sub};
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;

use serde::{Deserialize, Serialize};

use super::{Change, Generators, LinkConfig, LinkError};
use crate::impairment::{
    Aggregation, Blackout, BurstLoss, Corruption, Delay, Duplication, Impairment, Jitter, Loss,
    Marking, Mtu, Node, NotAProbability, Policer, Recoding, WifiJitter,
};
use crate::packet::{Amount, Packet};
use crate::stamp::Carrier;

/// The impairments of a link, in the order in which packets pass them. Those that would do nothing
/// during the whole run are not built; the delay always is: it is the wire.
#[derive(Debug)]
pub(super) struct Wire<P> {
    mtu: Option<Node<P, Mtu>>,
    policer: Option<Node<P, Policer>>,
    blackout: Option<Node<P, Blackout>>,
    loss: Option<Node<P, Loss<Xoshiro256PlusPlus>>>,
    burst_loss: Option<Node<P, BurstLoss<Xoshiro256PlusPlus>>>,
    recoding: Option<Node<P, Recoding>>,
    marking: Option<Node<P, Marking<Xoshiro256PlusPlus>>>,
    corruption: Option<Node<P, Corruption<Xoshiro256PlusPlus>>>,
    duplication: Option<Node<P, Duplication<Xoshiro256PlusPlus>>>,
    delay: Node<P, Delay<Xoshiro256PlusPlus>>,
    jitter: Option<Node<P, Jitter<Xoshiro256PlusPlus>>>,
    wifi_jitter: Option<Node<P, WifiJitter<Xoshiro256PlusPlus>>>,
    aggregation: Option<Node<P, Aggregation>>,
    /// There is nothing but the delay, as on most links.
    is_bare: bool,
}

/// What a wire has changed, and what was too large for it, since the link's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WireCounters {
    /// Marked with congestion experienced, besides what the port marked.
    pub marked_on_wire: Amount,
    /// Left with another ECN codepoint, for the link's `ecn`.
    pub ecn_changed: Amount,
    /// Delivered with a bit flipped.
    pub corrupted: Amount,
    /// Lost because they were larger than the MTU; they count among what is lost too.
    pub too_big: Amount,
}

impl Sub for WireCounters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            marked_on_wire: self.marked_on_wire - earlier.marked_on_wire,
            ecn_changed: self.ecn_changed - earlier.ecn_changed,
            corrupted: self.corrupted - earlier.corrupted,
            too_big: self.too_big - earlier.too_big,
        }
    }
}

impl<P: Carrier + Clone + Debug + Send> Wire<P> {
    pub(super) fn new(
        epoch: Instant,
        config: &LinkConfig,
        rngs: Generators,
    ) -> Result<Self, LinkError> {
        let blackouts = config
            .blackouts
            .iter()
            .map(|&(start, length)| interval(epoch, start, length))
            .collect::<Result<Vec<_>, _>>()?;
        let jitter = LinkError::check_time(config.jitter)?;
        let wifi_jitter = LinkError::check_time(config.wifi_jitter)?;
        if let Some(aggregation) = &config.aggregation {
            LinkError::check_time(aggregation.time())?;
        }
        let mut loses = config.loss != 0.0;
        let mut has_mtu = config.mtu.is_some();
        let mut has_wifi_jitter = !wifi_jitter.is_zero();
        for (_, change) in &config.changes {
            match *change {
                Change::Loss(probability) => loses |= NotAProbability::check(probability)? != 0.0,
                Change::Delay(delay) => {
                    LinkError::check_time(delay)?;
                }
                Change::WifiJitter(target) => {
                    has_wifi_jitter |= !LinkError::check_time(target)?.is_zero();
                }
                Change::Mtu(_) => has_mtu = true,
                Change::Rate(_) | Change::Suspend | Change::Limit(_) => {}
            }
        }
        let mut delay = Delay::new(LinkError::check_time(config.delay)?);
        if config.reorder != 0.0 {
            delay
                .reorder(config.reorder, rngs.reorder)
                .map_err(LinkError::Reorder)?;
        }
        let loss = || Loss::new(config.loss, rngs.loss);
        let burst_loss =
            |model| BurstLoss::new(model, rngs.burst_loss).map_err(LinkError::GilbertElliott);
        let mark = || Marking::new(config.mark, rngs.mark).map_err(LinkError::Mark);
        let corrupt = || Corruption::new(config.corrupt, rngs.corrupt).map_err(LinkError::Corrupt);
        let duplication =
            || Duplication::new(config.duplicate, rngs.duplicate).map_err(LinkError::Duplicate);
        let mut wire = Self {
            mtu: has_mtu.then(|| Node::new(Mtu { bytes: config.mtu })),
            policer: config.policer.clone().map(Node::new),
            blackout: (!blackouts.is_empty()).then(|| Node::new(Blackout::new(blackouts))),
            loss: loses.then(loss).transpose()?.map(Node::new),
            burst_loss: config
                .gilbert_elliott
                .map(burst_loss)
                .transpose()?
                .map(Node::new),
            recoding: config.recoding.map(Node::new),
            marking: (config.mark != 0.0).then(mark).transpose()?.map(Node::new),
            corruption: (config.corrupt != 0.0)
                .then(corrupt)
                .transpose()?
                .map(Node::new),
            duplication: (config.duplicate != 0.0)
                .then(duplication)
                .transpose()?
                .map(Node::new),
            delay: Node::new(delay),
            jitter: (!jitter.is_zero()).then(|| Node::new(Jitter::new(jitter, rngs.jitter))),
            wifi_jitter: has_wifi_jitter
                .then(|| Node::new(WifiJitter::new(wifi_jitter, rngs.wifi_jitter))),
            aggregation: config.aggregation.clone().map(Node::new),
            is_bare: false,
        };
        wire.is_bare = wire.nodes().count() == 1;
        Ok(wire)
    }

    pub(super) fn push(&mut self, now: Instant, packet: Packet<P>) {
        if self.is_bare {
            return self.delay.push(now, packet);
        }
        let first = self.nodes_mut().next();
        first.expect("a wire has a delay").push(now, packet);
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        if self.is_bare {
            return self.delay.pop(now);
        }
        self.transfer(now)?.pop(now)
    }

    /// A lower bound of when the next packet comes out, if the next one goes in at `next_in`.
    pub(super) fn next_out(&self, next_in: Option<Instant>) -> Option<Instant> {
        if self.is_bare {
            return next_out(next_in, &self.delay);
        }
        self.nodes().fold(next_in, next_out)
    }

    pub(super) fn set_delay(&mut self, now: Instant, delay: Duration) {
        self.transfer(now);
        self.delay.impairment.set_delay(delay);
    }

    pub(super) fn set_loss(&mut self, now: Instant, probability: f64) {
        self.transfer(now);
        if let Some(loss) = &mut self.loss {
            let set = loss.impairment.set_probability(probability);
            set.expect("Wire::new has checked all changes of the loss");
        }
    }

    pub(super) fn set_wifi_jitter(&mut self, now: Instant, target: Duration) {
        self.transfer(now);
        if let Some(wifi_jitter) = &mut self.wifi_jitter {
            wifi_jitter.impairment.set_target(target);
        }
    }

    pub(super) fn set_mtu(&mut self, now: Instant, bytes: u32) {
        self.transfer(now);
        if let Some(mtu) = &mut self.mtu {
            mtu.impairment.bytes = Some(bytes);
        }
    }

    pub(super) fn counters(&self) -> WireCounters {
        fn altered<P, I>(node: Option<&Node<P, I>>) -> Amount {
            node.map_or(Amount::ZERO, |node| node.counters().altered)
        }
        let mtu = self.mtu.as_ref();
        WireCounters {
            marked_on_wire: altered(self.marking.as_ref()),
            ecn_changed: altered(self.recoding.as_ref()),
            corrupted: altered(self.corruption.as_ref()),
            too_big: mtu.map_or(Amount::ZERO, |mtu| mtu.counters().dropped),
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node<P, dyn Impairment>> {
        fn node<P, I: Impairment + 'static>(node: &Node<P, I>) -> &Node<P, dyn Impairment> {
            node
        }
        let mtu = self.mtu.iter().map(node);
        mtu.chain(self.policer.iter().map(node))
            .chain(self.blackout.iter().map(node))
            .chain(self.loss.iter().map(node))
            .chain(self.burst_loss.iter().map(node))
            .chain(self.recoding.iter().map(node))
            .chain(self.marking.iter().map(node))
            .chain(self.corruption.iter().map(node))
            .chain(self.duplication.iter().map(node))
            .chain([node(&self.delay)])
            .chain(self.jitter.iter().map(node))
            .chain(self.wifi_jitter.iter().map(node))
            .chain(self.aggregation.iter().map(node))
    }

    fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node<P, dyn Impairment>> {
        fn node<P, I: Impairment + 'static>(node: &mut Node<P, I>) -> &mut Node<P, dyn Impairment> {
            node
        }
        let mtu = self.mtu.iter_mut().map(node);
        mtu.chain(self.policer.iter_mut().map(node))
            .chain(self.blackout.iter_mut().map(node))
            .chain(self.loss.iter_mut().map(node))
            .chain(self.burst_loss.iter_mut().map(node))
            .chain(self.recoding.iter_mut().map(node))
            .chain(self.marking.iter_mut().map(node))
            .chain(self.corruption.iter_mut().map(node))
            .chain(self.duplication.iter_mut().map(node))
            .chain([node(&mut self.delay)])
            .chain(self.jitter.iter_mut().map(node))
            .chain(self.wifi_jitter.iter_mut().map(node))
            .chain(self.aggregation.iter_mut().map(node))
    }

    /// Moves every packet into the node where it is at `now`; returns the last node.
    fn transfer(&mut self, now: Instant) -> Option<&mut Node<P, dyn Impairment>> {
        self.nodes_mut().reduce(|upstream, node| {
            while let Some((at, packet)) = upstream.pop(now) {
                node.push(at, packet);
            }
            node
        })
    }
}

/// A lower bound of when the next packet comes out of a node, if the next one goes in at `arrival`.
fn next_out<P: Clone, I: Impairment + ?Sized>(
    arrival: Option<Instant>,
    node: &Node<P, I>,
) -> Option<Instant> {
    let inside = node.next_timeout();
    let through = || arrival.map(|arrival| arrival + node.impairment.least_delay());
    if node.impairment.hastens() {
        inside.into_iter().chain(through()).min()
    } else {
        // What is inside comes out before what is still in front of it.
        inside.or_else(through)
    }
}

fn interval(
    epoch: Instant,
    start: Duration,
    length: Duration,
) -> Result<Range<Instant>, LinkError> {
    let start = epoch + LinkError::check_time(start)?;
    Ok(start..start + LinkError::check_time(length)?)
}
