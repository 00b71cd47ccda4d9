//! Datagrams on their way through the virtual network.

use std::net::SocketAddr;

use bytes::BytesMut;
use evenkeel_queue::{CarriedHeader, Carrier, FlowKey};
use evenkeel_wire::{Ecn, PROTOCOL_UDP, PathHeaderMut, Skipped};

use crate::place::{IpVersion, NodeIndex};

/// A UDP datagram on its way.
#[derive(Debug, Clone)]
pub struct Datagram {
    pub(crate) source: SocketAddr,
    /// Of the same version of IP.
    pub(crate) destination: SocketAddr,
    /// The node that has the destination's address.
    pub(crate) to: NodeIndex,
    pub(crate) ecn: Ecn,
    /// Time to live on its next link, or on arrival.
    pub(crate) ttl: u8,
    pub(crate) contents: BytesMut,
}

impl Datagram {
    /// Size of the IP packet, in bytes.
    pub(crate) fn ip_bytes(&self) -> usize {
        let version = version(&self.destination);
        self.contents.len() + version.header_bytes()
    }
}

/// The version of IP that an address belongs to.
pub(crate) fn version(address: &SocketAddr) -> IpVersion {
    match address {
        SocketAddr::V4(_) => IpVersion::V4,
        SocketAddr::V6(_) => IpVersion::V6,
    }
}

impl Carrier for Datagram {
    /// There is no checksum to keep: a capture computes it.
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        Ok(CarriedHeader {
            header: PathHeaderMut::parse(&mut self.contents)?,
            leaving_ttl: self.ttl,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        let ends = [self.source, self.destination];
        let ports = ends.map(|end| end.port());
        Some(FlowKey::new(
            ends.map(|end| end.ip()),
            PROTOCOL_UDP,
            Some(ports),
        ))
    }

    fn flip_bit(&mut self, bit: u64) -> bool {
        let Some(bit) = bit.checked_rem(self.contents.len() as u64 * 8) else {
            return false;
        };
        self.contents[(bit / 8) as usize] ^= 1 << (bit % 8);
        true
    }
}
