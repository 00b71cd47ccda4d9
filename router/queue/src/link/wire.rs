//! What lies behind a link's port.

use std::fmt::Debug;
use std::ops::Range;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;

use super::{Change, Generators, LinkConfig, LinkError};
use crate::impairment::{
    Aggregation, Blackout, Delay, Duplication, Impairment, Jitter, Loss, Node, NotAProbability,
    Policer, WifiJitter,
};
use crate::packet::Packet;

/// The impairments of a link, in the order in which packets pass them. Those that would do nothing
/// during the whole run are not built; the delay always is: it is the wire.
#[derive(Debug)]
pub(super) struct Wire<P> {
    policer: Option<Node<P, Policer>>,
    blackout: Option<Node<P, Blackout>>,
    loss: Option<Node<P, Loss<Xoshiro256PlusPlus>>>,
    duplication: Option<Node<P, Duplication<Xoshiro256PlusPlus>>>,
    delay: Node<P, Delay<Xoshiro256PlusPlus>>,
    jitter: Option<Node<P, Jitter<Xoshiro256PlusPlus>>>,
    wifi_jitter: Option<Node<P, WifiJitter<Xoshiro256PlusPlus>>>,
    aggregation: Option<Node<P, Aggregation>>,
    /// There is nothing but the delay, as on most links.
    is_bare: bool,
}

impl<P: Clone + Debug + Send> Wire<P> {
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
        let duplication =
            || Duplication::new(config.duplicate, rngs.duplicate).map_err(LinkError::Duplicate);
        let mut wire = Self {
            policer: config.policer.clone().map(Node::new),
            blackout: (!blackouts.is_empty()).then(|| Node::new(Blackout::new(blackouts))),
            loss: loses.then(loss).transpose()?.map(Node::new),
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

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node<P, dyn Impairment>> {
        fn node<P, I: Impairment + 'static>(node: &Node<P, I>) -> &Node<P, dyn Impairment> {
            node
        }
        let policer = self.policer.iter().map(node);
        policer
            .chain(self.blackout.iter().map(node))
            .chain(self.loss.iter().map(node))
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
        let policer = self.policer.iter_mut().map(node);
        policer
            .chain(self.blackout.iter_mut().map(node))
            .chain(self.loss.iter_mut().map(node))
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
