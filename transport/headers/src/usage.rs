//! How an endpoint uses headers.

use std::net::UdpSocket;
use std::sync::Arc;

use evenkeel_wire::PATH_HEADER_LEN;

use crate::connections::Connections;
use crate::hop_limit::fix_hop_limit;

/// How an endpoint uses headers; by default, not at all.
#[derive(Debug)]
pub struct Usage<C> {
    /// The endpoint's connections.
    pub connections: Arc<Connections<C>>,
    /// One datagram in this many carries a header, once the peer echoes them; 0 turns headers off.
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

impl<C> Usage<C> {
    /// Returns whether the endpoint uses headers, and offers them in handshakes.
    pub fn is_offered(&self) -> bool {
        self.every > 0
    }

    /// Returns the same for a socket of the system, and fixes the TTL or hop limit of its packets.
    #[must_use]
    pub fn on_socket(&self, socket: &UdpSocket) -> Self {
        Self {
            hop_limit: fix_hop_limit(socket),
            ..self.clone()
        }
    }
}

impl<C> Clone for Usage<C> {
    fn clone(&self) -> Self {
        Self {
            connections: self.connections.clone(),
            ..*self
        }
    }
}

impl<C> Default for Usage<C> {
    fn default() -> Self {
        Self {
            connections: Arc::default(),
            every: 0,
            hop_limit: None,
        }
    }
}
