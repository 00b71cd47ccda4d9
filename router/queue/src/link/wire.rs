//! What lies behind a link's port.

use std::fmt::Debug;
use std::ops::Range;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};

use super::{Change, LinkConfig, LinkError};
use crate::Packet;
use crate::impairment::{Blackout, Delay, Impairment, Jitter, Loss, Node, NotAProbability};

/// The impairments of a link, in the order in which packets pass them. Those that would do nothing
/// during the whole run are not built; the delay always is: it is the wire.
#[derive(Debug)]
pub(super) struct Wire<P> {
    blackout: Option<Node<P, Blackout>>,
    loss: Option<Node<P, Loss<Xoshiro256PlusPlus>>>,
    delay: Node<P, Delay<Xoshiro256PlusPlus>>,
    jitter: Option<Node<P, Jitter<Xoshiro256PlusPlus>>>,
}

impl<P: Debug + Send> Wire<P> {
    pub(super) fn new(
        epoch: Instant,
        config: &LinkConfig,
        rng: &mut (dyn Rng + Send),
    ) -> Result<Self, LinkError> {
        // Both are always drawn, so that neither depends on whether the other is used.
        let loss_rng = Xoshiro256PlusPlus::from_rng(rng);
        let jitter_rng = Xoshiro256PlusPlus::from_rng(rng);
        let blackouts = config
            .blackouts
            .iter()
            .map(|&(start, length)| interval(epoch, start, length))
            .collect::<Result<Vec<_>, _>>()?;
        let jitter = LinkError::check_time(config.jitter)?;
        let mut loses = config.loss != 0.0;
        for (_, change) in &config.changes {
            match *change {
                Change::Loss(probability) => loses |= NotAProbability::check(probability)? != 0.0,
                Change::Delay(delay) => {
                    LinkError::check_time(delay)?;
                }
                Change::Rate(_) | Change::Limit(_) => {}
            }
        }
        Ok(Self {
            blackout: (!blackouts.is_empty()).then(|| Node::new(Blackout::new(blackouts))),
            loss: match loses {
                true => Some(Node::new(Loss::new(config.loss, loss_rng)?)),
                false => None,
            },
            delay: Node::new(Delay::new(LinkError::check_time(config.delay)?)),
            jitter: (!jitter.is_zero()).then(|| Node::new(Jitter::new(jitter, jitter_rng))),
        })
    }

    pub(super) fn push(&mut self, now: Instant, packet: Packet<P>) {
        let first = self.nodes_mut().next();
        first.expect("a wire has a delay").push(now, packet);
    }

    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        self.transfer(now)?.pop(now)
    }

    /// A lower bound of when the next packet comes out, if the next one goes in at `next_in`.
    pub(super) fn next_out(&self, next_in: Option<Instant>) -> Option<Instant> {
        self.nodes().fold(next_in, |arrival, node| {
            let inside = node.next_timeout();
            let through = arrival.map(|arrival| arrival + node.impairment.least_delay());
            if node.impairment.reorders() {
                inside.into_iter().chain(through).min()
            } else {
                // What is inside comes out before what is still in front of it.
                inside.or(through)
            }
        })
    }

    /// Lets packets jump the delay; for the beginning.
    pub(super) fn reorder(
        &mut self,
        probability: f64,
        rng: Xoshiro256PlusPlus,
    ) -> Result<(), NotAProbability> {
        if probability == 0.0 {
            return Ok(());
        }
        self.delay.impairment.reorder(probability, rng)
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

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node<P, dyn Impairment>> {
        fn node<P, I: Impairment + 'static>(node: &Node<P, I>) -> &Node<P, dyn Impairment> {
            node
        }
        let blackout = self.blackout.iter().map(node);
        let loss = self.loss.iter().map(node);
        let jitter = self.jitter.iter().map(node);
        blackout
            .chain(loss)
            .chain([node(&self.delay)])
            .chain(jitter)
    }

    fn nodes_mut(&mut self) -> impl Iterator<Item = &mut Node<P, dyn Impairment>> {
        fn node<P, I: Impairment + 'static>(node: &mut Node<P, I>) -> &mut Node<P, dyn Impairment> {
            node
        }
        let blackout = self.blackout.iter_mut().map(node);
        let loss = self.loss.iter_mut().map(node);
        let jitter = self.jitter.iter_mut().map(node);
        blackout
            .chain(loss)
            .chain([node(&mut self.delay)])
            .chain(jitter)
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

fn interval(
    epoch: Instant,
    start: Duration,
    length: Duration,
) -> Result<Range<Instant>, LinkError> {
    let start = epoch + LinkError::check_time(start)?;
    Ok(start..start + LinkError::check_time(length)?)
}
