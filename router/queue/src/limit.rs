//! How long a queue may grow.

use crate::packet::Amount;

/// The most that may wait at a port, not counting the packet in transmission.
///
/// A packet that would exceed either bound is dropped on arrival. `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes of IP packets.
    pub bytes: Option<u64>,
}

impl Limit {
    /// No bound at all: for access links that must not lose anything.
    pub const NONE: Self = Self {
        packets: None,
        bytes: None,
    };

    /// At most this many packets.
    pub const fn packets(packets: u64) -> Self {
        Self {
            packets: Some(packets),
            bytes: None,
        }
    }

    /// At most this many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            packets: None,
            bytes: Some(bytes),
        }
    }

    /// Whether a packet of `bytes` may join what is `queued`.
    pub fn admits(&self, queued: Amount, bytes: u32) -> bool {
        let after = queued + Amount::one(bytes);
        self.packets.is_none_or(|limit| after.packets <= limit)
            && self.bytes.is_none_or(|limit| after.bytes <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_bounds_hold_and_are_inclusive() {
        let limit = Limit {
            packets: Some(2),
            bytes: Some(1000),
        };
        let queued = |packets, bytes| Amount { packets, bytes };
        assert!(limit.admits(queued(1, 400), 600));
        assert!(!limit.admits(queued(1, 400), 601));
        assert!(!limit.admits(queued(2, 400), 1));
        assert!(Limit::NONE.admits(queued(1 << 40, 1 << 50), u32::MAX));
    }
}
