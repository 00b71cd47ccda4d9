//! A packet on its way through a port.

use std::time::Instant;

use super::watch::FlowHash;
use crate::packet::Packet;

/// A packet in a queue.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) arrived: Instant,
    /// By when it had certainly arrived.
    pub(super) seen: Instant,
    /// Whether a header is to be stamped.
    pub(super) has_header: bool,
    /// Of its flow, if that is watched.
    pub(super) flow: FlowHash,
    pub(super) packet: Packet<P>,
}

/// The packet whose turn it is.
#[derive(Debug)]
pub(super) struct Next<P> {
    pub(super) queue: usize,
    /// Since when something had been waiting without a break.
    pub(super) since: Instant,
    pub(super) waiting: Waiting<P>,
}

/// The packet that is being sent.
#[derive(Debug)]
pub(super) struct Transmission<P> {
    pub(super) began: Instant,
    /// `None` while the port is suspended.
    pub(super) ends: Option<Instant>,
    pub(super) seen: Instant,
    /// Whether another packet waited when it began, and had been seen.
    pub(super) waited: bool,
    pub(super) packet: Packet<P>,
}
