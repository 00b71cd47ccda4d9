//! Datagrams on their way through the virtual network.

use std::net::SocketAddrV4;

use bytes::BytesMut;
use evenkeel_queue::{CarriedHeader, Carrier, FlowKey};
use evenkeel_wire::{Ecn, PROTOCOL_UDP, PathHeaderMut, Skipped};

use crate::scenario::NodeIndex;

/// A UDP datagram on its way.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    pub(super) source: SocketAddrV4,
    pub(super) destination: SocketAddrV4,
    /// The node that has the destination's address.
    pub(super) to: NodeIndex,
    pub(super) ecn: Ecn,
    /// Time to live on its next link, or on arrival.
    pub(super) ttl: u8,
    pub(super) contents: BytesMut,
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
        Some(FlowKey::new(
            (*self.source.ip()).into(),
            (*self.destination.ip()).into(),
            PROTOCOL_UDP,
            Some((self.source.port(), self.destination.port())),
        ))
    }
}
