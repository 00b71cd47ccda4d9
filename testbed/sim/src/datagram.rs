//! Datagrams on their way through the virtual network.

use std::net::SocketAddr;
use std::time::Instant;

use evenkeel_queue::{CarriedHeader, Carrier, FlowKey};
use evenkeel_wire::{Ecn, PROTOCOL_UDP, PathHeaderMut, Skipped};

use crate::log::Logged;
use crate::place::{IpVersion, NodeIndex};

/// A UDP datagram on its way. Every link moves it several times, hence the box.
#[derive(Debug, Clone)]
pub struct Datagram(pub(crate) Box<Parts>);

#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) source: SocketAddr,
    /// Of the same version of IP.
    pub(crate) destination: SocketAddr,
    /// The node that has the destination's address.
    pub(crate) to: NodeIndex,
    /// When its host put it on the network.
    pub(crate) sent: Instant,
    pub(crate) ecn: Ecn,
    /// Time to live on its next link, or on arrival.
    pub(crate) ttl: u8,
    pub(crate) contents: Vec<u8>,
    /// If its socket keeps a log.
    pub(crate) logged: Option<Box<Logged>>,
}

impl Datagram {
    /// Size of the IP packet, in bytes.
    pub(crate) fn ip_bytes(&self) -> usize {
        let version = version(&self.0.destination);
        self.0.contents.len() + version.header_bytes()
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
            header: PathHeaderMut::parse(&mut self.0.contents)?,
            leaving_ttl: self.0.ttl,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        let ends = [self.0.source, self.0.destination];
        let ports = ends.map(|end| end.port());
        Some(FlowKey::new(
            ends.map(|end| end.ip()),
            PROTOCOL_UDP,
            Some(ports),
        ))
    }

    fn flip_bit(&mut self, bit: u64) -> bool {
        let Some(bit) = bit.checked_rem(self.0.contents.len() as u64 * 8) else {
            return false;
        };
        self.0.contents[(bit / 8) as usize] ^= 1 << (bit % 8);
        true
    }
}
