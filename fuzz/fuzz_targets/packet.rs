//! An IP packet at a router: the views of IPv4, IPv6 and UDP, and a header stamped inside it.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use evenkeel_fuzz::Operation;
use evenkeel_wire::{
    Ecn, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, PATH_HEADER_LEN, PATH_HEADER_MAGIC, PROTOCOL_UDP,
    PathHeaderMut, UDP_HEADER_LEN, UdpRepr, UdpView,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// The checksum field of the datagram inside and whether it is right.
type Checksum = Option<(u16, bool)>;

#[derive(Debug, Arbitrary)]
enum Input {
    Raw(Vec<u8>),
    /// A packet of ours, of which single bytes are then changed.
    Datagram {
        over_ipv6: bool,
        /// The byte behind the magic, if there is to be a header.
        version_kind_length: Option<u8>,
        payload: Vec<u8>,
        damage: Vec<(u16, u8)>,
    },
}

fuzz_target!(|input: (Input, Vec<Operation>)| {
    let (input, operations) = input;
    let mut packet = input.packet();
    let before = packet.clone();
    let was = look(&packet);
    look_at_udp(&packet);
    let Ok(mut header) = PathHeaderMut::find(&mut packet) else {
        assert_eq!(packet, before, "a packet that is skipped stays as it is");
        return;
    };
    for operation in operations {
        operation.apply_checked(&mut header);
    }
    let (field, right) = was.expect("a header is found in UDP alone");
    let (new_field, still_right) = look(&packet).expect("it is UDP still");
    assert_eq!(field == 0, new_field == 0);
    assert_eq!(right, still_right);
    // Only the checksum and the first half of the header may differ.
    let differing = || (0..packet.len()).filter(|at| packet[*at] != before[*at]);
    if let (Some(first), Some(last)) = (differing().min(), differing().max()) {
        assert!(last - first < UDP_HEADER_LEN + PATH_HEADER_LEN);
    }
});

impl Input {
    fn packet(self) -> Vec<u8> {
        match self {
            Self::Raw(packet) => packet,
            Self::Datagram {
                over_ipv6,
                version_kind_length,
                mut payload,
                damage,
            } => {
                if let Some(byte) = version_kind_length {
                    payload.splice(0..0, PATH_HEADER_MAGIC.into_iter().chain([byte]));
                }
                let mut packet = datagram(&payload, over_ipv6);
                for (at, byte) in damage {
                    let len = packet.len();
                    packet[usize::from(at) % len] = byte;
                }
                packet
            }
        }
    }
}

/// `payload` in a packet with right lengths and checksums.
fn datagram(payload: &[u8], over_ipv6: bool) -> Vec<u8> {
    let payload_len = u16::try_from(UDP_HEADER_LEN + payload.len()).expect("a short input");
    let udp = UdpRepr {
        source_port: 50_000,
        destination_port: 443,
    };
    let (mut packet, pseudo) = if over_ipv6 {
        let header = Ipv6Repr {
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::LOCALHOST,
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_len,
        };
        (header.emit().to_vec(), header.pseudo_header())
    } else {
        let header = Ipv4Repr {
            source: Ipv4Addr::LOCALHOST,
            destination: Ipv4Addr::LOCALHOST,
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
            payload_len,
        };
        (header.emit().to_vec(), header.pseudo_header())
    };
    packet.extend(udp.emit(&pseudo, payload));
    packet.extend(payload);
    packet
}

/// Asks an IP packet everything there is to ask.
fn look(packet: &[u8]) -> Checksum {
    if let Ok(view) = Ipv4View::parse(packet) {
        assert!(view.header_len() + view.payload().len() == usize::from(view.total_len()));
        assert!(view.options().len() <= 40);
        view.checksum_holds();
        if let Ok(repr) = Ipv4Repr::parse(&view) {
            let header = repr.emit();
            // What the repr does not hold: the reserved flag, and a wrong checksum.
            assert_eq!(header[..6], packet[..6]);
            assert_eq!(header[12..], packet[12..20]);
        }
        let udp = view.udp().ok().flatten()?;
        return Some((udp.checksum(), udp.checksum_holds(&view.pseudo_header())));
    }
    let view = Ipv6View::parse(packet).ok()?;
    assert_eq!(view.header_len() + view.payload().len(), view.total_len());
    if let Ok(repr) = Ipv6Repr::parse(&view) {
        assert_eq!(repr.emit()[..], packet[..40]);
    }
    let udp = view.udp().ok().flatten()?;
    Some((udp.checksum(), udp.checksum_holds(&view.pseudo_header())))
}

/// The same bytes taken for a datagram.
fn look_at_udp(datagram: &[u8]) {
    if let Ok(view) = UdpView::parse(datagram) {
        assert!(view.is_whole());
        assert_eq!(
            usize::from(view.length()),
            UDP_HEADER_LEN + view.payload().len()
        );
        let ports = UdpRepr::parse(&view);
        assert_eq!(ports.source_port.to_be_bytes(), datagram[..2]);
    }
}
