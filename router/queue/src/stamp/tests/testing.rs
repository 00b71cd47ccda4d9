//! IP packets with path headers, for tests.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use evenkeel_wire::{
    CompactRate, CompactTime, Ecn, Feedback, HeaderTimestamp, Ipv4Repr, Ipv4View, Ipv6Repr,
    Ipv6View, PROTOCOL_UDP, PathHeaderKind, PathHeaderMut, PathHeaderRepr, PathHeaderView,
    PseudoHeader, Signals, Skipped, UdpRepr,
};

use crate::stamp::stamp_set;
use crate::{
    Amount, CarriedHeader, Carrier, DropTail, FlowKey, Limit, Packet, PacketMeta, Port, PortConfig,
    PortView, Rate, Service,
};

/// The TTL of packets that are made here, as they leave their sender.
pub(crate) const TTL: u8 = 64;

/// An IP packet in bytes. It leaves the host of its port with a hop less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IpPacket(pub(crate) Vec<u8>);

impl Carrier for IpPacket {
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        let leaving_ttl = self.ttl().wrapping_sub(1);
        let header = PathHeaderMut::find(&mut self.0)?;
        Ok(CarriedHeader {
            header,
            leaving_ttl,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        FlowKey::of_ip_packet(&self.0)
    }
}

impl IpPacket {
    /// UDP over IPv4 between the first addresses of two networks.
    pub(crate) fn v4(ports: (u16, u16), payload: &[u8]) -> Self {
        let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 2, 1));
        let pseudo = PseudoHeader::V4 {
            source,
            destination,
        };
        let datagram = datagram(ports, &pseudo, payload);
        let header = Ipv4Repr {
            source,
            destination,
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            ttl: TTL,
            identification: 0,
            dont_fragment: true,
            payload_len: u16::try_from(datagram.len()).expect("tests make small packets"),
        };
        Self([&header.emit()[..], &datagram].concat())
    }

    /// The same over IPv6.
    pub(crate) fn v6(ports: (u16, u16), payload: &[u8]) -> Self {
        let address = |network| Ipv6Addr::new(0xfd00, network, 0, 0, 0, 0, 0, 1);
        let (source, destination) = (address(0), address(2));
        let pseudo = PseudoHeader::V6 {
            source,
            destination,
        };
        let datagram = datagram(ports, &pseudo, payload);
        let header = Ipv6Repr {
            source,
            destination,
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            flow_label: 0,
            hop_limit: TTL,
            payload_len: u16::try_from(datagram.len()).expect("tests make small packets"),
        };
        Self([&header.emit()[..], &datagram].concat())
    }

    /// A packet of `bytes` in all whose header says `repr`.
    pub(crate) fn headered(repr: &PathHeaderRepr, bytes: usize) -> Self {
        let mut payload = repr.emit().to_vec();
        payload.resize(bytes - 28, 0xaa);
        Self::v4((4433, 4433), &payload)
    }

    /// As it is queued.
    pub(crate) fn queued(self) -> Packet<Self> {
        let bytes = u32::try_from(self.0.len()).expect("tests make small packets");
        Packet::new(PacketMeta::new(bytes, Ecn::Ect0), self)
    }

    pub(crate) fn header(&self) -> PathHeaderView<'_> {
        PathHeaderView::find(&self.0).expect("the test has put one there")
    }

    pub(crate) fn ttl(&self) -> u8 {
        match self.0.first().map(|byte| byte >> 4) {
            Some(4) => Ipv4View::parse(&self.0).map_or(0, |view| view.ttl()),
            _ => Ipv6View::parse(&self.0).map_or(0, |view| view.hop_limit()),
        }
    }

    /// The next host has taken its hop off.
    pub(crate) fn take_hop(&mut self) {
        match self.0[0] >> 4 {
            4 => self.0[8] -= 1,
            _ => self.0[7] -= 1,
        }
    }

    /// Whether the UDP checksum is that of a full computation.
    pub(crate) fn udp_checksum_holds(&self) -> bool {
        match self.0[0] >> 4 {
            4 => {
                let view = Ipv4View::parse(&self.0).expect("a whole packet");
                let udp = view.udp().expect("well formed").expect("it is UDP");
                udp.checksum_holds(&PseudoHeader::V4 {
                    source: view.source(),
                    destination: view.destination(),
                })
            }
            _ => {
                let view = Ipv6View::parse(&self.0).expect("a whole packet");
                let udp = view.udp().expect("well formed").expect("it is UDP");
                udp.checksum_holds(&PseudoHeader::V6 {
                    source: view.source(),
                    destination: view.destination(),
                })
            }
        }
    }
}

/// 10^6 bytes per second: a packet of 1000 bytes takes 1 ms.
pub(crate) fn megabyte_per_second() -> Rate {
    Rate::new(8_000_000).expect("not zero")
}

/// A port of that rate with one stamp.
pub(crate) fn port(now: Instant, spec: &str) -> Port<IpPacket> {
    let config = PortConfig {
        service: Service::Rate(megabyte_per_second()),
        overhead_bytes: 0,
        watches_flows: false,
        limit: Limit::packets(1000),
        discipline: Box::new(DropTail),
        stamps: stamp_set([spec]).expect("a test's specification is right"),
        flow_hash_key: [7; 16],
    };
    Port::new(now, config)
}

/// Such a port when nothing waits.
pub(crate) fn idle_view() -> PortView {
    PortView {
        queued: Amount::ZERO,
        queue: 0,
        own: Amount::ZERO,
        transmitting: false,
        limit: Limit::NONE,
        rate: Some(megabyte_per_second()),
    }
}

/// One of the figures of the port's only stamp.
pub(crate) fn figure(port: &mut Port<IpPacket>, now: Instant, name: &str) -> f64 {
    let figures = port.stamp_figures(now);
    let found = figures[0].figures.iter().find(|(other, _)| *other == name);
    found.expect("the stamp has such a figure").1
}

/// To one part in a million.
#[track_caller]
pub(crate) fn assert_close(value: f64, expected: f64) {
    let scale = expected.abs().max(1e-6);
    let error = (value - expected).abs();
    assert!(error < 1e-6 * scale, "{value}, not {expected}");
}

/// A header as a sender with this round trip writes it.
pub(crate) fn header(kind: PathHeaderKind, rtt: Duration) -> PathHeaderRepr {
    PathHeaderRepr {
        kind,
        rtt: CompactTime::from_duration(rtt),
        signals: Signals::initial(Feedback::from(CompactRate::NO_LIMIT), Some(TTL)),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(0),
        echo: None,
        tag: [1, 2, 3, 4],
    }
}

fn datagram(
    (source_port, destination_port): (u16, u16),
    pseudo: &PseudoHeader,
    payload: &[u8],
) -> Vec<u8> {
    let header = UdpRepr {
        source_port,
        destination_port,
    };
    [&header.emit(pseudo, payload)[..], payload].concat()
}
