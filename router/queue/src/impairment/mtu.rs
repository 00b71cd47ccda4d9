//! Packets that are too large for a path.

use std::time::Instant;

use super::{Fate, Impairment};
use crate::packet::PacketMeta;

/// Drops packets larger than the MTU without an ICMP message: a black hole, as where ICMP is
/// filtered and path MTU discovery breaks (RFC 2923, section 2.1).
#[derive(Debug, Clone, Copy)]
pub struct Mtu {
    /// Bytes of the largest IP packet that comes through; `None` for any size.
    pub bytes: Option<u32>,
}

impl Impairment for Mtu {
    fn name(&self) -> &'static str {
        "mtu"
    }

    fn decide(&mut self, now: Instant, packet: &PacketMeta) -> Fate {
        match self.bytes {
            Some(most) if packet.bytes > most => Fate::Lost,
            _ => Fate::Out(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::Node;
    use crate::testing::{epoch, packet};

    #[test]
    fn larger_packets_vanish_and_the_largest_comes_through() {
        let now = epoch();
        let mut node = Node::new(Mtu { bytes: Some(1300) });
        for (bytes, passes) in [(1299, true), (1300, true), (1301, false), (1500, false)] {
            node.push(now, packet(bytes, 0));
            assert_eq!(node.pop(now).is_some(), passes, "{bytes}");
        }
        assert_eq!(node.counters().dropped.packets, 2);
        node.impairment.bytes = None;
        node.push(now, packet(9000, 0));
        assert!(node.pop(now).is_some());
        assert_eq!(node.counters().check("mtu"), Ok(()));
    }
}
