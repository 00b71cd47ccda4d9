//! What tells one flow from another.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

    /// The same of the host that it goes to.
    pub(crate) fn peer(&self) -> &[u8] {
        let is_ipv6 = self.len > 2 * 16;
        &self.bytes[if is_ipv6 { 16..24 } else { 4..8 }]
    }

    /// The addresses of source and destination.
    fn addresses(&self) -> [IpAddr; 2] {
        let half = if self.len > 2 * 16 { 16 } else { 4 };
        let address = |bytes: &[u8]| match bytes.first_chunk::<16>().filter(|_| half == 16) {
            Some(address) => IpAddr::from(Ipv6Addr::from(*address)),
            None => IpAddr::from(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        };
        [
            address(&self.bytes[..half]),
            address(&self.bytes[half..2 * half]),
        ]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// As in `udp 10.0.1.1:5000 > 10.0.2.1:443`; other protocols than TCP and UDP by their numbers.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = self.addresses();
        let after = if from.is_ipv6() { 32 } else { 8 };
        match self.bytes[after] {
            1 => f.write_str("icmp")?,
            6 => f.write_str("tcp")?,
            17 => f.write_str("udp")?,
            58 => f.write_str("icmpv6")?,
            other => write!(f, "protocol {other}")?,
        }
        match self.bytes[after + 1..self.len] {
            [a, b, c, d] => {
                let [from, to] = [(from, [a, b]), (to, [c, d])]
                    .map(|(address, port)| SocketAddr::new(address, u16::from_be_bytes(port)));
                write!(f, " {from} > {to}")
            }
            _ => write!(f, " {from} > {to}"),
        }
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
