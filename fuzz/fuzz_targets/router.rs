//! Packets on their way through the router: read, recognised, queued, stamped, written back.
#![no_main]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use evenkeel_router::config::{Config, LinkSpec};
use evenkeel_router::fuzzing::PacketPath;
use evenkeel_wire::{
    Ecn, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, PATH_HEADER_LEN, PATH_HEADER_MAGIC, PROTOCOL_UDP,
    PathHeaderView, PseudoHeader, UdpRepr,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// What a packet is made of.
#[derive(Debug, Arbitrary)]
enum Made {
    /// Nothing in particular.
    Junk(Vec<u8>),
    /// A UDP datagram behind the magic of a header, over either version of IP.
    Headered {
        over_ipv6: bool,
        hops: u8,
        ports: (u16, u16),
        header: [u8; PATH_HEADER_LEN],
        rest: Vec<u8>,
        /// A byte that is damaged on the way.
        damage: Option<(u16, u8)>,
    },
}

/// One arrival: microseconds since the one before; an offload header, if a device with offloads gives
/// one that may not fit.
type Arrival = (u16, Option<[u8; 10]>, Made);

/// Packets of many kinds at a link with all stamps, with some, and with none.
const STAMPS: [&str; 3] = [
    r#"["aqt", "acp", "flows:period_ms=10"]"#,
    r#"["acp"]"#,
    "[]",
];

static LINKS: LazyLock<Vec<LinkSpec>> = LazyLock::new(|| {
    let link = |stamps| {
        let text = format!(
            "name = \"r\"\n[[links]]\nname = \"l\"\ntun = \"t\"\nrate_bps = 50e6\nqueue_packets = 1e6\n\
             stamps = {stamps}\nroutes = [{{ to = \"::/0\", dev = \"d\" }}]"
        );
        let config = Config::parse(&text, "r.toml", Path::new("."));
        config.expect("a right text").links.remove(0)
    };
    STAMPS.map(link).into()
});

/// When every run begins; nothing depends on which moment it is.
static EPOCH: LazyLock<Instant> = LazyLock::new(
    #[expect(clippy::disallowed_methods, reason = "the one source of an Instant")]
    Instant::now,
);

fuzz_target!(|input: (u8, Vec<Arrival>)| {
    let (which, arrivals) = input;
    let mut now = *EPOCH;
    let mut path = PacketPath::new(now, &LINKS[usize::from(which) % STAMPS.len()]);
    let mut odd = PacketPath::new(now, &LINKS[usize::from(which) % STAMPS.len()]);
    let mut inside = VecDeque::new();
    for (gap, header, made) in arrivals {
        now += Duration::from_micros(gap.into());
        let packet = made.packet();
        if let Some(header) = header {
            odd.arrive_in_one_piece(now, &header, &packet);
            while odd.depart(now).is_some() {}
            continue;
        }
        if path.arrive(now, &packet) {
            inside.push_back(packet);
        }
        while let Some(after) = path.depart(now) {
            check(&inside.pop_front().expect("nothing is added"), &after);
        }
    }
    while let Some(timeout) = path.next_timeout() {
        while let Some(after) = path.depart(timeout) {
            check(&inside.pop_front().expect("nothing is added"), &after);
        }
    }
    assert!(inside.is_empty(), "nothing is dropped");
});

/// Checks that in a packet with a header only what routers write has changed, and in any other
/// nothing but the hop that is given back.
fn check(before: &[u8], after: &[u8]) {
    assert_eq!(before.len(), after.len());
    let is_v4 = before[0] >> 4 == 4;
    let hops_at = if is_v4 { 8 } else { 7 };
    assert_eq!(after[hops_at], before[hops_at].saturating_add(1));
    let mut restored = after.to_vec();
    restored[hops_at] = before[hops_at];
    if is_v4 {
        // The identification of a packet that must not be fragmented means nothing.
        if before[6] & 0x40 != 0 {
            restored[4..6].copy_from_slice(&before[4..6]);
        }
        restored[10..12].copy_from_slice(&before[10..12]);
        assert_eq!(header_checksum_holds(before), header_checksum_holds(after));
    }
    if let Ok(old) = PathHeaderView::find(before) {
        let new = PathHeaderView::find(after).expect("a stamped header is still one");
        assert_eq!(old.covered_by_tag(), new.covered_by_tag());
        assert_eq!(old.tag(), new.tag());
        let (old, new) = (old.signals(), new.signals());
        assert!(new.queueing_time >= old.queueing_time && new.contention >= old.contention);
        assert_eq!(udp_checksum_holds(before), udp_checksum_holds(after));
        let at = if is_v4 {
            usize::from(before[0] & 15) * 4 + 8
        } else {
            48
        };
        // The checksum; flags to the contentions.
        restored[at - 2..at].copy_from_slice(&before[at - 2..at]);
        restored[at + 5..at + 13].copy_from_slice(&before[at + 5..at + 13]);
    }
    assert_eq!(restored, before);
}

fn header_checksum_holds(packet: &[u8]) -> Option<bool> {
    Some(Ipv4View::parse(packet).ok()?.checksum_holds())
}

fn udp_checksum_holds(packet: &[u8]) -> Option<bool> {
    if packet[0] >> 4 == 4 {
        let view = Ipv4View::parse(packet).ok()?;
        let (source, destination) = (view.source(), view.destination());
        let pseudo = PseudoHeader::V4 {
            source,
            destination,
        };
        Some(view.udp().ok()??.checksum_holds(&pseudo))
    } else {
        let view = Ipv6View::parse(packet).ok()?;
        let (source, destination) = (view.source(), view.destination());
        let pseudo = PseudoHeader::V6 {
            source,
            destination,
        };
        Some(view.udp().ok()??.checksum_holds(&pseudo))
    }
}

impl Made {
    fn packet(self) -> Vec<u8> {
        let (over_ipv6, hops, ports, mut header, rest, damage) = match self {
            Self::Junk(bytes) => return bytes,
            Self::Headered {
                over_ipv6,
                hops,
                ports,
                header,
                rest,
                damage,
            } => (over_ipv6, hops, ports, header, rest, damage),
        };
        header[..PATH_HEADER_MAGIC.len()].copy_from_slice(&PATH_HEADER_MAGIC);
        let payload: Vec<_> = header
            .into_iter()
            .chain(rest.into_iter().take(1400))
            .collect();
        let udp = UdpRepr {
            source_port: ports.0,
            destination_port: ports.1,
        };
        let payload_len = u16::try_from(8 + payload.len()).expect("below 1500 bytes");
        let mut packet = if over_ipv6 {
            let (source, destination) = ([0xfd; 16].into(), [0xfc; 16].into());
            let pseudo = PseudoHeader::V6 {
                source,
                destination,
            };
            let ip = Ipv6Repr {
                source,
                destination,
                protocol: PROTOCOL_UDP,
                ecn: Ecn::Ect0,
                dscp: 0,
                flow_label: 0,
                hop_limit: hops,
                payload_len,
            };
            [&ip.emit()[..], &udp.emit(&pseudo, &payload), &payload].concat()
        } else {
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 2, 1].into());
            let pseudo = PseudoHeader::V4 {
                source,
                destination,
            };
            let ip = Ipv4Repr {
                source,
                destination,
                protocol: PROTOCOL_UDP,
                ecn: Ecn::Ect0,
                dscp: 0,
                ttl: hops,
                identification: 0,
                dont_fragment: true,
                payload_len,
            };
            [&ip.emit()[..], &udp.emit(&pseudo, &payload), &payload].concat()
        };
        if let Some((at, flip)) = damage {
            let at = usize::from(at) % packet.len();
            packet[at] ^= flip;
        }
        packet
    }
}
