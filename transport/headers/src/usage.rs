//! How an endpoint uses headers.

use std::fmt;
use std::sync::Arc;

use evenkeel_wire::PATH_HEADER_LEN;

use crate::connections::Connections;

/// How an endpoint uses headers.
pub struct Usage<C> {
    /// The endpoint's connections.
    pub connections: Arc<Connections<C>>,
    /// One datagram in this many carries a header, once the peer echoes them.
    pub every: u32,
    /// The TTL or hop limit of packets sent, if known.
    pub hop_limit: Option<u8>,
}

/// The largest UDP payload (RFC 9000, section 18.2, max_udp_payload_size).
const LARGEST_PAYLOAD: u16 = 65_527;

/// Returns how many bytes of UDP payload an endpoint must take so that a header fits before a
/// packet of `packet` bytes.
pub fn with_room_for_header(packet: u64) -> u16 {
    u16::try_from(packet + PATH_HEADER_LEN as u64)
        .unwrap_or(u16::MAX)
        .min(LARGEST_PAYLOAD)
}

impl<C> Clone for Usage<C> {
    fn clone(&self) -> Self {
        Self {
            connections: self.connections.clone(),
            ..*self
        }
    }
}

impl<C> fmt::Debug for Usage<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage")
            .field("connections", &self.connections)
            .field("every", &self.every)
            .field("hop_limit", &self.hop_limit)
            .finish()
    }
}
