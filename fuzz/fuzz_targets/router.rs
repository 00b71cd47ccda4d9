//! Packets on their way through the router: read, recognised, queued, stamped, written back.
#![no_main]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use evenkeel_fuzz::datagram::{in_packet, udp_checksum};
use evenkeel_router::config::{Config, LinkSpec};
use evenkeel_router::fuzzing::PacketPath;
use evenkeel_wire::{Ipv4View, PATH_HEADER_LEN, PATH_HEADER_MAGIC, PathHeaderView};
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

/// Packets of many kinds at a link with all stamps, with some, and with none, and at links with
/// several queues. The latter come first to what CoDel and PI2 wait for, and hold few packets.
const LINKS: [&str; 6] = [
    r#"queue_packets = 1e6, stamps = ["aqt", "acp", "flows:period_ms=10"]"#,
    r#"queue_packets = 1e6, stamps = ["acp"]"#,
    "queue_packets = 1e6",
    r#"queue_packets = 5, discipline = "fq-codel:target_ms=0.01,interval_ms=0.1,flows=16""#,
    r#"queue_packets = 5, discipline = "dualpi2:target_ms=0.1,rtt_max_ms=1,min_th_us=1""#,
    r#"queue_packets = 5, discipline = "guided", stamps = ["aqt", "acp", "xcp", "rcp"]"#,
];

/// How many of them have one queue that drops nothing.
const IN_ORDER: usize = 3;

static SPECS: LazyLock<Vec<LinkSpec>> = LazyLock::new(|| {
    let link = |keys| {
        let text = format!(
            "name = \"r\"\nlinks = [{{ name = \"l\", tun = \"t\", rate_bps = 50e6, {keys}, \
             routes = [{{ to = \"::/0\", dev = \"d\" }}] }}]"
        );
        let config = Config::parse(&text, "r.toml", Path::new("."));
        config.expect("a right text").links.remove(0)
    };
    LINKS.map(link).into()
});

/// When every run begins; nothing depends on which moment it is.
static EPOCH: LazyLock<Instant> = LazyLock::new(
    #[expect(clippy::disallowed_methods, reason = "the one source of an Instant")]
    Instant::now,
);

fuzz_target!(|input: (u8, Vec<Arrival>)| {
    let (which, arrivals) = input;
    let which = usize::from(which) % LINKS.len();
    let mut now = *EPOCH;
    let mut path = PacketPath::new(now, &SPECS[which]);
    let mut odd = PacketPath::new(now, &SPECS[which]);
    let mut inside = VecDeque::new();
    let left = |inside: &mut VecDeque<Vec<u8>>, after: &[u8]| {
        let reach = if which < IN_ORDER { 1 } else { inside.len() };
        let before = inside.iter().take(reach);
        let found = before
            .map(|before| changes(before, after))
            .position(|it| it.is_none());
        let Some(found) = found else {
            panic!("{after:02x?} is none of what is inside: {inside:02x?}");
        };
        inside.remove(found);
    };
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
            left(&mut inside, &after);
        }
    }
    while let Some(timeout) = path.next_timeout() {
        now = timeout;
        while let Some(after) = path.depart(now) {
            left(&mut inside, &after);
        }
    }
    let dropped = path.dropped(now);
    assert_eq!(
        inside.len() as u64,
        dropped,
        "what does not leave is counted"
    );
    assert!(which >= IN_ORDER || dropped == 0);
});

/// Says what has changed in a packet that should not: with a header anything but what routers write,
/// in any other anything but the hop that is given back and a mark.
fn changes(before: &[u8], after: &[u8]) -> Option<&'static str> {
    if before.len() != after.len() || before[0] != after[0] {
        return Some("length or version");
    }
    let is_v4 = before[0] >> 4 == 4;
    let hops_at = if is_v4 { 8 } else { 7 };
    if after[hops_at] != before[hops_at].saturating_add(1) {
        return Some("hops");
    }
    let mut restored = after.to_vec();
    restored[hops_at] = before[hops_at];
    // Congestion experienced, of a sender that understands it (RFC 3168).
    let ecn: u8 = if is_v4 { 0b11 } else { 0b11 << 4 };
    if after[1] & ecn == ecn && before[1] & ecn != 0 {
        restored[1] = before[1] & ecn | after[1] & !ecn;
    }
    if is_v4 {
        // The identification of a packet that must not be fragmented means nothing.
        if before[6] & 0x40 != 0 {
            restored[4..6].copy_from_slice(&before[4..6]);
        }
        restored[10..12].copy_from_slice(&before[10..12]);
        if header_checksum_holds(before) != header_checksum_holds(after) {
            return Some("header checksum");
        }
    }
    if let Ok(old) = PathHeaderView::find(before) {
        let Ok(new) = PathHeaderView::find(after) else {
            return Some("path header");
        };
        if old.covered_by_tag() != new.covered_by_tag() || old.tag() != new.tag() {
            return Some("what the tag covers");
        }
        let (earlier, later) = (old.signals(), new.signals());
        if later.queueing_time < earlier.queueing_time || later.contention < earlier.contention {
            return Some("less queueing or contention");
        }
        let holds = |packet| udp_checksum(packet).map(|(_, holds)| holds);
        if holds(before) != holds(after) {
            return Some("UDP checksum");
        }
        let at = if is_v4 {
            usize::from(before[0] & 15) * 4 + 8
        } else {
            48
        };
        // The checksum; flags to the contentions.
        restored[at - 2..at].copy_from_slice(&before[at - 2..at]);
        restored[at + 5..at + 13].copy_from_slice(&before[at + 5..at + 13]);
    }
    (restored != before).then_some("something else")
}

fn header_checksum_holds(packet: &[u8]) -> Option<bool> {
    Some(Ipv4View::parse(packet).ok()?.checksum_holds())
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
        let packet = in_packet(over_ipv6, hops, ports, &payload);
        let mut packet = packet.expect("below 1500 bytes");
        if let Some((at, flip)) = damage {
            let at = usize::from(at) % packet.len();
            packet[at] ^= flip;
        }
        packet
    }
}
