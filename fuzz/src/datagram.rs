//! Inputs of `path_header` and `packet`: bytes, and what a router does to the header in them. And IP
//! packets around a payload, for all targets.

use arbitrary::{Result, Unstructured};
use evenkeel_wire::{
    Ecn, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, PROTOCOL_UDP, PseudoHeader, UDP_HEADER_LEN,
    UdpRepr, UdpView,
};

use crate::{Operation, read_operations, write_operations};

/// A UDP payload at an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// What is done to the header in it.
    pub operations: Vec<Operation>,
    /// The payload.
    pub bytes: Vec<u8>,
}

/// A packet at a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// What is done to the header in it.
    pub operations: Vec<Operation>,
    /// What `bytes` are.
    pub shape: Shape,
    /// Bytes of the whole packet that are then changed: where (modulo its length) to what.
    pub damage: Vec<(u16, u8)>,
    /// The packet, or its payload.
    pub bytes: Vec<u8>,
}

/// What the bytes of a [`Packet`] are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The whole packet.
    Whole,
    /// The payload of a packet with right lengths and checksums.
    OverIpv4,
    /// Likewise.
    OverIpv6,
}

impl Payload {
    /// Reads an input.
    pub fn read(input: &[u8]) -> Result<Self> {
        let mut u = Unstructured::new(input);
        Ok(Self {
            operations: read_operations(&mut u)?,
            bytes: u.take_rest().to_vec(),
        })
    }

    /// The input that is read so.
    pub fn write(&self) -> Vec<u8> {
        let mut input = Vec::new();
        write_operations(&self.operations, &mut input);
        input.extend(&self.bytes);
        input
    }
}

impl Packet {
    /// Reads an input.
    pub fn read(input: &[u8]) -> Result<Self> {
        let mut u = Unstructured::new(input);
        let operations = read_operations(&mut u)?;
        let shape = match u.arbitrary::<u8>()? % 3 {
            0 => Shape::Whole,
            1 => Shape::OverIpv4,
            _ => Shape::OverIpv6,
        };
        let damages = u.arbitrary::<u8>()? % 8;
        let damage: Result<_> = (0..damages).map(|_| u.arbitrary()).collect();
        Ok(Self {
            operations,
            shape,
            damage: damage?,
            bytes: u.take_rest().to_vec(),
        })
    }

    /// The input that is read so.
    pub fn write(&self) -> Vec<u8> {
        let mut input = Vec::new();
        write_operations(&self.operations, &mut input);
        input.push(self.shape as u8);
        input.push(self.damage.len() as u8);
        for (at, byte) in &self.damage {
            input.extend(at.to_le_bytes());
            input.push(*byte);
        }
        input.extend(&self.bytes);
        input
    }
}

/// Returns `payload` in a UDP datagram between `ports` in an IP packet with right lengths and
/// checksums; `None` if no packet holds as much.
pub fn in_packet(over_ipv6: bool, hops: u8, ports: (u16, u16), payload: &[u8]) -> Option<Vec<u8>> {
    // IPv4 counts its own header.
    let payload_len = u16::try_from(UDP_HEADER_LEN + payload.len()).ok()?;
    payload_len.checked_add(20)?;
    let (mut packet, pseudo) = if over_ipv6 {
        let header = Ipv6Repr {
            source: [0xfd; 16].into(),
            destination: [0xfc; 16].into(),
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            flow_label: 0,
            hop_limit: hops,
            payload_len,
        };
        (header.emit().to_vec(), header.pseudo_header())
    } else {
        let header = Ipv4Repr {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 2, 1].into(),
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            ttl: hops,
            identification: 0,
            dont_fragment: true,
            payload_len,
        };
        (header.emit().to_vec(), header.pseudo_header())
    };
    let udp = UdpRepr {
        source_port: ports.0,
        destination_port: ports.1,
    };
    packet.extend(udp.emit(&pseudo, payload));
    packet.extend(payload);
    Some(packet)
}

/// Returns the checksum field of the datagram in an IP packet, and whether it is right.
pub fn udp_checksum(packet: &[u8]) -> Option<(u16, bool)> {
    let of = |udp: UdpView<'_>, pseudo: PseudoHeader| (udp.checksum(), udp.checksum_holds(&pseudo));
    if let Ok(view) = Ipv4View::parse(packet) {
        return Some(of(view.udp().ok()??, view.pseudo_header()));
    }
    let view = Ipv6View::parse(packet).ok()?;
    Some(of(view.udp().ok()??, view.pseudo_header()))
}
