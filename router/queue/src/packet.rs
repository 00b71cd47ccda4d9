//! Packets as queues see them, and counts of them.

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use evenkeel_wire::Ecn;
use serde::{Deserialize, Serialize};

/// A packet: what queues look at, and what its host carries along in `P`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<P> {
    /// What ports and disciplines read and write.
    pub meta: PacketMeta,
    /// The host's own: a simulated datagram, or the bytes of an IP packet. Looked at as a
    /// [`Carrier`](crate::Carrier), by ports with stamps alone.
    pub payload: P,
}

impl<P> Packet<P> {
    /// A packet that is about to be queued.
    pub fn new(meta: PacketMeta, payload: P) -> Self {
        Self { meta, payload }
    }
}

/// What ports and disciplines know of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketMeta {
    /// Size of the IP packet, in bytes.
    pub bytes: u32,
    /// ECN codepoint; a router that signals congestion sets it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// Time from the arrival at the last port to the start of the transmission there; zero before.
    pub queued: Duration,
}

impl PacketMeta {
    /// A packet of `bytes` that has not been queued yet.
    pub fn new(bytes: u32, ecn: Ecn) -> Self {
        Self {
            bytes,
            ecn,
            queued: Duration::ZERO,
        }
    }
}

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Amount {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self {
        packets: 0,
        bytes: 0,
    };

    /// One packet of `bytes`.
    pub fn one(bytes: u32) -> Self {
        Self {
            packets: 1,
            bytes: bytes.into(),
        }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            packets: self.packets - other.packets,
            bytes: self.bytes - other.bytes,
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} packets ({} bytes)", self.packets, self.bytes)
    }
}
