//! What tells one flow from another.

use std::net::IpAddr;

use evenkeel_wire::{Ipv4View, Ipv6View};

/// Protocols whose headers begin with two ports (IANA): TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// The longest key: two IPv6 addresses, a protocol, two ports.
const LONGEST: usize = 2 * 16 + 1 + 4;

/// Addresses, protocol and ports of a packet; of a fragment, or a protocol without ports, only
/// addresses and protocol. One direction: answers are another flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey {
    bytes: [u8; LONGEST],
    len: usize,
}

impl FlowKey {
    /// The flow between these addresses; of both pairs the source's comes first.
    pub fn new(addresses: [IpAddr; 2], protocol: u8, ports: Option<[u16; 2]>) -> Self {
        let mut key = Self {
            bytes: [0; LONGEST],
            len: 0,
        };
        for address in addresses {
            match address {
                IpAddr::V4(address) => key.push(&address.octets()),
                IpAddr::V6(address) => key.push(&address.octets()),
            }
        }
        key.push(&[protocol]);
        for port in ports.into_iter().flatten() {
            key.push(&port.to_be_bytes());
        }
        key
    }

    /// The flow of an IP packet; `None` if it is malformed.
    pub fn of_ip_packet(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let view = Ipv4View::parse(packet).ok()?;
                let addresses = [view.source().into(), view.destination().into()];
                let ports = ports(view.protocol(), view.is_fragment(), view.payload());
                Some(Self::new(addresses, view.protocol(), ports))
            }
            6 => {
                let view = Ipv6View::parse(packet).ok()?;
                let addresses = [view.source().into(), view.destination().into()];
                let ports = ports(view.protocol(), view.is_fragment(), view.payload());
                Some(Self::new(addresses, view.protocol(), ports))
            }
            _ => None,
        }
    }

    /// What is hashed. No two keys with and without ports, or of IPv4 and IPv6, are alike: they
    /// differ in length.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What is hashed of its host: the source's address, of IPv6 the first 64 bits, of which a site has
    /// all others at its disposal.
    pub(crate) fn host(&self) -> &[u8] {
        let is_ipv6 = self.len > 2 * 16;
        &self.bytes[..if is_ipv6 { 8 } else { 4 }]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// Later fragments have no ports, so the first one's are not looked at either.
fn ports(protocol: u8, is_fragment: bool, payload: &[u8]) -> Option<[u16; 2]> {
    if is_fragment || !WITH_PORTS.contains(&protocol) {
        return None;
    }
    let [a, b, c, d] = *payload.first_chunk()?;
    Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}
