use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_wire::{Ipv4View, Ipv6View, PATH_HEADER_LEN, PathHeaderView, PseudoHeader, UdpRepr};

use evenkeel_tests::one_of_three_tries;

use crate::raw::{self, Injector, Sniffer, V4, V6};
use crate::support::{Host, Lab, Versions, header, link, number};

const STAMPS: &str = r#"stamps = ["aqt", "acp", "flows"]"#;

/// A UDP datagram with a right checksum.
fn datagram(source: IpAddr, destination: IpAddr, payload: &[u8]) -> Vec<u8> {
    let pseudo = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => PseudoHeader::V4 {
            source,
            destination,
        },
        (IpAddr::V6(source), IpAddr::V6(destination)) => PseudoHeader::V6 {
            source,
            destination,
        },
        _ => unreachable!("both are of one version"),
    };
    let repr = UdpRepr {
        source_port: 4433,
        destination_port: 9,
    };
    [&repr.emit(&pseudo, payload)[..], payload].concat()
}

/// From A to `destination`, with a TTL of 64.
fn v4_to(destination: Ipv4Addr, identification: u16, payload: &[u8]) -> Vec<u8> {
    let datagram = datagram(V4.0.into(), destination.into(), payload);
    let mut packet = raw::v4(64, 17, identification, &[], &datagram);
    packet[16..20].copy_from_slice(&destination.octets());
    raw::fix_checksum(&mut packet);
    packet
}

fn v6(flow_label: u32, payload: &[u8]) -> Vec<u8> {
    let datagram = datagram(V6.0.into(), V6.1.into(), payload);
    raw::v6(64, 17, flow_label, &datagram)
}

/// Whether the checksums of IP and UDP are those of full computations.
fn checksums_hold(packet: &[u8]) -> bool {
    if packet[0] >> 4 == 4 {
        let view = Ipv4View::parse(packet).unwrap();
        let pseudo = PseudoHeader::V4 {
            source: view.source(),
            destination: view.destination(),
        };
        view.checksum_holds() && view.udp().unwrap().unwrap().checksum_holds(&pseudo)
    } else {
        let view = Ipv6View::parse(packet).unwrap();
        let pseudo = PseudoHeader::V6 {
            source: view.source(),
            destination: view.destination(),
        };
        view.udp().unwrap().unwrap().checksum_holds(&pseudo)
    }
}

/// A packet as it is on the next link when nothing but a hop was taken off it.
fn hop_less(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[8] -= 1;
        raw::fix_checksum(&mut packet);
    } else {
        packet[7] -= 1;
    }
    packet
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
#[expect(clippy::disallowed_methods, reason = "measures a daemon in real time")]
fn the_queueing_time_in_a_header_is_the_one_that_passes() {
    one_of_three_tries(|| {
        let Some(lab) = Lab::alone(Versions::Both) else {
            return;
        };
        let router = lab.start(&link(&format!("rate_bps = 1e6\n{STAMPS}")));
        // The kernel gives a socket nothing with a wrong checksum.
        let receiver = lab.udp(Host::B, "10.0.2.1:9");
        let injector = Injector::new(&lab, Host::A);
        let payload = |number: u8| {
            let mut payload = header().to_vec();
            payload.resize(972, number);
            payload
        };
        // Twenty packets of 1000 bytes at once; each takes 8 ms.
        let transmission = Duration::from_millis(8);
        let (mut sent, mut slack, mut queueing) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..20 {
            sent.push(Instant::now());
            let packet = v4_to(V4.1, 1 + u16::from(number), &payload(number));
            injector.send(&packet).unwrap();
        }
        let mut buffer = [0; 2000];
        for (number, sent) in (0..).zip(sent) {
            let length = receiver.recv(&mut buffer).unwrap();
            let passed = sent.elapsed();
            let view = PathHeaderView::parse(&buffer[..length]).unwrap();
            assert_eq!(
                buffer[PATH_HEADER_LEN..length],
                payload(number)[PATH_HEADER_LEN..]
            );
            assert_eq!(
                view.covered_by_tag(),
                PathHeaderView::parse(&header()).unwrap().covered_by_tag()
            );
            let signals = view.signals();
            assert!(signals.flags.stamped && signals.flags.offered && !signals.flags.gap);
            let queued = signals.queueing_time.duration();
            queueing.push(queued);
            slack.push(passed.as_secs_f64() - (queued + transmission).as_secs_f64());
        }
        // Each packet was under way for its queueing time, its transmission, and what the machine took.
        let least = slack.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((-1e-6..1e-3).contains(&least), "{slack:?}");
        // The router's own measurement.
        let figures = router.link();
        let most = queueing.iter().max().unwrap().as_secs_f64() * 1e6;
        let max = number(&figures, "sojourn_us.max");
        assert!((most - max).abs() <= 0.5, "{most}, {figures}");
        assert!(max > 100_000.0, "nineteen packets take 152 ms: {max}");
    });
}

#[test]
fn a_header_passes_with_its_stamps_and_right_checksums_over_both_versions() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link(&format!("rate_bps = 10e6\n{STAMPS}")));
    let injector = Injector::new(&lab, Host::A);
    let sniffer = Sniffer::new(&lab, Host::B);
    let payload = [&header()[..], b"a QUIC packet"].concat();
    for packet in [v4_to(V4.1, 4001, &payload), v6(0x4002, &payload)] {
        injector.send(&packet).unwrap();
        let id = if packet[0] >> 4 == 4 { 4..6 } else { 1..4 };
        let seen =
            sniffer.find(|seen| seen[0] == packet[0] && seen[id.clone()] == packet[id.clone()]);
        assert_eq!(seen.len(), packet.len());
        assert!(checksums_hold(&seen));
        let signals = PathHeaderView::find(&seen).unwrap().signals();
        assert!(signals.flags.stamped && signals.flags.offered && !signals.flags.gap);
        assert_eq!(signals.hop_limit, 63);
        // But for what routers write, and the checksum over it, all is as it was.
        let mut expected = hop_less(&packet);
        let at = packet.len() - payload.len();
        expected[at - 2..at].copy_from_slice(&seen[at - 2..at]);
        expected[at + 5..at + 13].copy_from_slice(&seen[at + 5..at + 13]);
        assert_eq!(seen, expected);
    }
    let figures = router.link();
    assert_eq!(number(&figures, "total.headers.stamped"), 2.0);
    assert_eq!(number(&figures, "window.headers.recognised"), 2.0);
    assert!(number(&figures, "stamps.acp.users") >= 1.0);
    assert!((0.0..=10e6).contains(&number(&figures, "stamps.acp.desired_bps")));
    let flows = (0..300).find_map(|_| {
        thread::park_timeout(Duration::from_millis(10));
        Some(number(&router.link(), "stamps.flows.flows").round()).filter(|flows| *flows > 0.0)
    });
    // Two versions, two flows; the host's own chatter may be others.
    assert!(
        flows.is_some_and(|flows| (2.0..10.0).contains(&flows)),
        "{flows:?}"
    );
    let mut command = lab.evenkeel_router(&["status", "--socket"]);
    let output = command.arg(lab.socket()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("headers    2 stamped of 2; 0 left as they came"),
        "{text}"
    );
    assert!(text.contains("  acp        desired_bps "), "{text}");
}

#[test]
fn what_is_no_header_or_must_be_left_alone_passes_byte_for_byte() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link(&format!("rate_bps = 10e6\n{STAMPS}")));
    let injector = Injector::new(&lab, Host::A);
    let sniffer = Sniffer::new(&lab, Host::B);
    let whole = header();
    let mut version = whole;
    version[4] = version[4] & 0x3f | 2 << 6;
    let mut kind = whole;
    kind[4] = kind[4] & !0b0011_1000 | 6 << 3;
    let mut fragment = v4_to(V4.1, 5005, &whole);
    fragment[6..8].copy_from_slice(&[0x20, 0x00]);
    raw::fix_checksum(&mut fragment);
    let of_udp = datagram(V6.0.into(), V6.1.into(), &whole);
    // A hop-by-hop header with padding, and an atomic fragment header (RFC 8200, section 4).
    let extended = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &of_udp].concat();
    let mut unsummed = v6(0x5008, &whole);
    unsummed[46..48].fill(0);
    let tcp = raw::v4(
        64,
        6,
        5009,
        &[],
        &datagram(V4.0.into(), V4.1.into(), &whole),
    );
    let packets = [
        v4_to(V4.1, 5001, b"\x40 a QUIC packet"),
        v4_to(V4.1, 5002, &whole[..31]),
        v4_to(V4.1, 5003, &version),
        v4_to(V4.1, 5004, &kind),
        fragment,
        v6(0x5006, &whole[..5]),
        raw::v6(64, 0, 0x5007, &extended),
        unsummed,
        tcp,
    ];
    for packet in &packets {
        injector.send(packet).unwrap();
        let id = if packet[0] >> 4 == 4 { 4..6 } else { 1..4 };
        let seen =
            sniffer.find(|seen| seen[0] == packet[0] && seen[id.clone()] == packet[id.clone()]);
        assert_eq!(seen, hop_less(packet));
    }
    let figures = router.link();
    let count = |name: &str| number(&figures, &format!("total.headers.{name}"));
    assert_eq!(count("stamped"), 0.0, "{figures}");
    assert_eq!(
        [
            count("truncated"),
            count("version"),
            count("kind"),
            count("untouchable")
        ],
        [2.0, 1.0, 1.0, 3.0],
        "{figures}"
    );
    assert!(count("foreign") >= 2.0, "{figures}");
}

#[test]
fn two_routers_in_a_row_leave_no_gap_and_a_host_that_does_not_stamp_leaves_one() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.extend();
    let injector = Injector::new(&lab, Host::A);
    let sniffer = Sniffer::new(&lab, Host::C);
    let third = Ipv4Addr::new(10, 0, 3, 1);
    let link_to = |via: &str, dev: &str| {
        format!(
            "[[links]]\nname = \"l\"\ntun = \"ek-{dev}\"\nrate_bps = 10e6\n{STAMPS}\n\
             routes = [{{ to = \"10.0.3.1/32\", via = \"{via}\", dev = \"{dev}\" }}]\n"
        )
    };
    let cross = |identification: u16| {
        injector
            .send(&v4_to(third, identification, &header()))
            .unwrap();
        let id = identification.to_be_bytes();
        let seen = sniffer.find(|seen| seen[0] == 0x45 && seen[4..6] == id);
        assert!(checksums_hold(&seen));
        let signals = PathHeaderView::find(&seen).unwrap().signals();
        (seen[8], signals.hop_limit, signals.flags.gap)
    };
    let _second = lab.start_in(Host::B, &link_to("10.0.8.2", "vc"));
    // R forwards without a stamp: B's router sees a hop too many.
    assert_eq!(cross(6001), (62, 62, true));
    let _first = lab.start(&link_to("10.0.9.2", "vb"));
    assert_eq!(cross(6002), (62, 62, false));
}
