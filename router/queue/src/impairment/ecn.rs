//! What a path does to ECN behind its queues.

use std::fmt::Debug;
use std::time::Instant;

use evenkeel_wire::Ecn;
use rand::{Rng, RngExt};

use super::{Fate, Impairment, NotAProbability};
use crate::packet::PacketMeta;

/// Marks each packet of an ECN-capable sender with the same probability, independently, whatever the
/// queue: a queue elsewhere on the path does so, or a router that marks too much.
#[derive(Debug)]
pub struct Marking<R> {
    probability: f64,
    rng: R,
}

impl<R> Marking<R> {
    /// An impairment that marks with `probability`, 0 to 1.
    ///
    /// # Errors
    /// [`NotAProbability`] for anything else.
    pub fn new(probability: f64, rng: R) -> Result<Self, NotAProbability> {
        Ok(Self {
            probability: NotAProbability::check(probability)?,
            rng,
        })
    }
}

impl<R: Rng + Debug + Send> Impairment for Marking<R> {
    fn name(&self) -> &'static str {
        "marking"
    }

    fn decide(&mut self, now: Instant, packet: &PacketMeta) -> Fate {
        // Every packet draws, so that what others send does not decide which are marked.
        let is_drawn = self.rng.random_bool(self.probability);
        match packet.ecn {
            Ecn::Ect0 | Ecn::Ect1 if is_drawn => Fate::Ecn(Ecn::Ce),
            _ => Fate::Out(now),
        }
    }
}

/// Gives packets another ECN codepoint. RFC 9000, section 13.4.2, has endpoints find such paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recoding {
    /// Every packet comes out as if its sender did not understand ECN, marks of queues before
    /// included.
    Bleach,
    /// Packets with ECT(1) come out with ECT(0), as from routers older than L4S (RFC 9331).
    Remark,
}

impl Impairment for Recoding {
    fn name(&self) -> &'static str {
        "recoding"
    }

    fn decide(&mut self, now: Instant, packet: &PacketMeta) -> Fate {
        match (self, packet.ecn) {
            (Self::Bleach, Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce) => Fate::Ecn(Ecn::NotEct),
            (Self::Remark, Ecn::Ect1) => Fate::Ecn(Ecn::Ect0),
            _ => Fate::Out(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;

    use super::*;
    use crate::Packet;
    use crate::impairment::Node;
    use crate::testing::epoch;

    /// The codepoint with which a packet that goes in with `ecn` comes out.
    fn through<I: Impairment>(node: &mut Node<u64, I>, ecn: Ecn) -> Ecn {
        let now = epoch();
        node.push(now, Packet::new(PacketMeta::new(100, ecn), 0));
        let (at, packet) = node.pop(now).expect("nothing is lost");
        assert_eq!(at, now);
        packet.meta.ecn
    }

    #[test]
    fn only_packets_of_ecn_capable_senders_are_marked_and_counted() {
        let mut node = Node::new(Marking::new(1.0, Pcg64::new(1, 0)).unwrap());
        for (before, after) in [
            (Ecn::NotEct, Ecn::NotEct),
            (Ecn::Ect0, Ecn::Ce),
            (Ecn::Ect1, Ecn::Ce),
            (Ecn::Ce, Ecn::Ce),
        ] {
            assert_eq!(through(&mut node, before), after);
        }
        let counters = node.counters();
        assert_eq!((counters.altered.packets, counters.altered.bytes), (2, 200));
        assert_eq!(counters.check("marking"), Ok(()));
    }

    #[test]
    fn as_many_are_marked_as_asked() {
        let mut node = Node::new(Marking::new(0.1, Pcg64::new(1, 0)).unwrap());
        let marked = (0..10_000).filter(|_| through(&mut node, Ecn::Ect0) == Ecn::Ce);
        let marked = marked.count() as u64;
        // Binomial(10000, 0.1): standard deviation 30; four of them either way.
        assert!((880..=1120).contains(&marked), "{marked}");
        assert_eq!(node.counters().altered.packets, marked);
    }

    #[test]
    fn a_bleached_packet_shows_no_ecn() {
        let mut node = Node::new(Recoding::Bleach);
        for before in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(through(&mut node, before), Ecn::NotEct);
        }
        assert_eq!(node.counters().altered.packets, 3);
    }

    #[test]
    fn only_the_codepoint_of_l4s_is_remarked() {
        let mut node = Node::new(Recoding::Remark);
        for before in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce] {
            assert_eq!(through(&mut node, before), before);
        }
        assert_eq!(through(&mut node, Ecn::Ect1), Ecn::Ect0);
        assert_eq!(node.counters().altered.packets, 1);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for value in [-0.1, 1.1, f64::NAN] {
            assert!(Marking::new(value, Pcg64::new(1, 0)).is_err());
        }
    }
}
