use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_tests::one_of_three_tries;
use evenkeel_wire::{PATH_HEADER_LEN, PathHeaderView};
use quinn_udp::{Transmit, UdpSocketState};
use rustix::net::sockopt;

use crate::raw::{self, Injector, Sniffer};
use crate::support::{Host, Lab, Router, Versions, header, link, number};

/// Answers each packet, until none has come for two seconds.
fn echo(socket: &UdpSocket) {
    let mut buffer = vec![0; 65_536];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        socket.send_to(&buffer[..length], from).unwrap();
    }
}

/// Sends `payload` and checks that the same comes back; how long that took.
#[expect(clippy::disallowed_methods, reason = "measures a daemon in real time")]
fn round_trip(socket: &UdpSocket, payload: &[u8]) -> Duration {
    let began = Instant::now();
    socket.send(payload).unwrap();
    let mut buffer = vec![0; 65_536];
    let length = socket.recv(&mut buffer).expect("an answer");
    assert!(buffer[..length] == *payload, "the payload has changed");
    began.elapsed()
}

/// Both ends of an echo service of B.
fn pair(lab: &Lab, from: Host, version: u8) -> (UdpSocket, UdpSocket) {
    let (any, service) = match version {
        4 => ("0.0.0.0:0", "10.0.2.1:7"),
        _ => ("[::]:0", "[fd00:2::1]:7"),
    };
    let receiver = lab.udp(Host::B, service);
    let sender = lab.udp(from, any);
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_round_trip_takes_the_configured_delay_and_at_most_half_a_millisecond_more() {
    one_of_three_tries(|| {
        let Some(lab) = Lab::alone(Versions::Both) else {
            return;
        };
        let _router = lab.start(&link("rate_bps = 100e6\ndelay_ms = 18.0"));
        for version in [4, 6] {
            let (sender, receiver) = pair(&lab, Host::A, version);
            thread::scope(|scope| {
                scope.spawn(|| echo(&receiver));
                // The machine may be busy with other things: the shortest of twenty is the router's own.
                let shortest = (0..20).map(|_| round_trip(&sender, b"ping")).min().unwrap();
                let delay = Duration::from_millis(18);
                assert!(shortest >= delay, "IPv{version}: {shortest:?}");
                assert!(
                    shortest < delay + Duration::from_micros(500),
                    "IPv{version}: {shortest:?}"
                );
            });
        }
    });
}

#[test]
fn datagrams_of_all_sizes_arrive_unharmed_in_fragments_too() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 100e6\nmtu = 1280"));
    for version in [4, 6] {
        let (sender, receiver) = pair(&lab, Host::A, version);
        // Let the kernel fragment at the MTU of its device, then at that of the path.
        sockopt::set_ip_mtu_discover(&sender, sockopt::Ipv4PathMtuDiscovery::DONT).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| echo(&receiver));
            for length in [0, 1, 500, 1232] {
                round_trip(&sender, &vec![length as u8; length]);
            }
            if version == 4 {
                for length in [1400, 4000, 20_000] {
                    let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
                    round_trip(&sender, &payload);
                }
            }
        });
    }
    assert!(number(&router.link(), "total.arrived.packets") > 20.0);
}

/// Two routers in a row, from A to C: R's with these values, then B's, whose device has no offloads, so
/// that the kernel between them makes packets of superpackets, and completes their checksums.
fn two_routers(lab: &Lab, values: &str) -> (Router, Router) {
    lab.extend();
    let link_to = |via: &str, dev: &str, values: &str| {
        format!(
            "[[links]]\nname = \"l\"\ntun = \"ek-{dev}\"\nrate_bps = 1e9\nqueue_packets = 5000\n{values}\n\
             routes = [{{ to = \"10.0.3.1/32\", via = \"{via}\", dev = \"{dev}\" }}]\n"
        )
    };
    let second = lab.start_in(Host::B, &link_to("10.0.8.2", "vc", "offload = false"));
    let first = lab.start(&link_to("10.0.9.2", "vb", values));
    (first, second)
}

/// What a device in R has given its router, superpackets counted as one.
fn pieces(lab: &Lab, tun: &str) -> f64 {
    let statistics = lab.ip(Host::R, &format!("-j -s link show {tun}"));
    let statistics = serde_json::from_str(&statistics).unwrap();
    number(&statistics, "0.stats64.tx.packets")
}

#[test]
fn datagrams_that_are_sent_in_one_call_are_queued_stamped_and_received_one_by_one() {
    for values in ["stamps = [\"aqt\"]", "stamps = [\"aqt\"]\noffload = false"] {
        let Some(lab) = Lab::new(Versions::Both) else {
            return;
        };
        let (first, second) = two_routers(&lab, values);
        // The kernel gives a socket nothing with a wrong checksum.
        let receiver = lab.udp(Host::C, "10.0.3.1:9");
        let sender = lab.udp(Host::A, "10.0.1.1:0");
        let payload = |number: u8| {
            let mut payload = header().to_vec();
            payload.resize(if number == 39 { 500 } else { 1200 }, number);
            payload
        };
        let contents: Vec<u8> = (0..40).flat_map(payload).collect();
        let transmit = Transmit {
            destination: receiver.local_addr().unwrap(),
            ecn: None,
            contents: &contents,
            segment_size: Some(1200),
            src_ip: None,
        };
        let state = UdpSocketState::new((&sender).into()).unwrap();
        state.try_send((&sender).into(), &transmit).unwrap();
        let mut buffer = [0; 2000];
        let mut waited = Vec::new();
        for number in 0..40 {
            let length = receiver.recv(&mut buffer).unwrap();
            let sent = payload(number);
            assert_eq!(buffer[PATH_HEADER_LEN..length], sent[PATH_HEADER_LEN..]);
            let view = PathHeaderView::parse(&buffer[..length]).unwrap();
            assert!(view.signals().flags.stamped);
            waited.push(view.signals().queueing_time.duration().as_micros());
        }
        if pieces(&lab, "ek-vb") == 1.0 {
            // They came at once: each waited for those before it, 1228 bytes at 1 Gb/s each.
            let expected: Vec<_> = (0..40).map(|before| (before * 9824 + 500) / 1000).collect();
            assert_eq!(waited, expected);
        }
        for router in [first, second] {
            let figures = router.link();
            for field in ["arrived", "forwarded", "delivered"] {
                let packets = number(&figures, &format!("total.{field}.packets"));
                assert_eq!(packets, 40.0, "{field}: {figures}");
            }
            assert_eq!(number(&figures, "total.refused.packets"), 0.0);
        }
    }
}

#[test]
fn a_stream_of_tcp_arrives_whole_and_the_queue_counts_its_segments() {
    for (values, has_superpackets) in [("", true), ("offload = false", false)] {
        let Some(lab) = Lab::new(Versions::Both) else {
            return;
        };
        let (first, _second) = two_routers(&lab, values);
        let listener = lab.within(Host::C, || TcpListener::bind("10.0.3.1:9").unwrap());
        let mut sender = lab.within(Host::A, || TcpStream::connect("10.0.3.1:9").unwrap());
        let mut receiver = listener.accept().unwrap().0;
        let sent: Vec<u8> = (0..4_000_000u32).map(|at| (at % 251) as u8).collect();
        let mut received = Vec::new();
        thread::scope(|scope| {
            scope.spawn(move || {
                sender.write_all(&sent).unwrap();
            });
            receiver.read_to_end(&mut received).unwrap();
        });
        assert_eq!(received.len(), 4_000_000);
        assert!(
            (0..)
                .zip(&received)
                .all(|(at, byte)| (at % 251) as u8 == *byte)
        );
        let segments = number(&first.link(), "total.arrived.packets");
        assert!(segments >= 4_000_000.0 / 1448.0, "{segments} segments");
        let pieces = pieces(&lab, "ek-vb");
        assert_eq!(
            pieces < segments,
            has_superpackets,
            "{pieces} of {segments}"
        );
    }
}

#[test]
fn a_sender_learns_the_mtu_of_the_link() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let _router = lab.start(&link("rate_bps = 100e6\nmtu = 1280"));
    for version in [4, 6] {
        let (sender, receiver) = pair(&lab, Host::A, version);
        // Never fragment, and forget no answer of a router.
        let discover = match version {
            4 => sockopt::set_ip_mtu_discover(&sender, sockopt::Ipv4PathMtuDiscovery::DO),
            _ => sockopt::set_ipv6_mtu_discover(&sender, sockopt::Ipv6PathMtuDiscovery::DO),
        };
        discover.unwrap();
        sender.send(&[0; 1400]).unwrap();
        // The router's answer is reported by the next call.
        let refused = (0..20).any(|_| {
            let _ = sender.recv(&mut [0]);
            sender.send(&[0; 1400]).is_err()
        });
        assert!(
            refused,
            "IPv{version}: nobody has said that the packet is too big"
        );
        thread::scope(|scope| {
            scope.spawn(|| echo(&receiver));
            round_trip(&sender, &[1; 1200]);
        });
    }
}

#[test]
fn the_routers_own_packets_take_the_link_and_count_no_hop() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("delay_ms = 10"));
    let sniffer = Sniffer::new(&lab, Host::B);
    for version in [4, 6] {
        let (sender, receiver) = pair(&lab, Host::R, version);
        thread::scope(|scope| {
            scope.spawn(|| echo(&receiver));
            assert!(round_trip(&sender, b"from the router") >= Duration::from_millis(10));
        });
        let hops_at = if version == 4 { 8 } else { 7 };
        let packet = sniffer
            .find(|packet| packet[0] >> 4 == version && packet.ends_with(b"from the router"));
        assert_eq!(packet[hops_at], 64, "IPv{version}");
    }
    assert!(number(&router.link(), "total.arrived.packets") >= 2.0);
}

#[test]
fn a_packet_of_any_kind_loses_one_hop_and_nothing_else_changes() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6\ndelay_ms = 1"));
    let injector = Injector::new(&lab, Host::A);
    let sniffer = Sniffer::new(&lab, Host::B);
    // No-operation and end of list (RFC 791, section 3.1); an experimental protocol (RFC 3692); a
    // last fragment without a first; a hop-by-hop header with padding (RFC 8200, section 4.3) and a
    // fragment header; nothing at all.
    let mut fragment = raw::v4(64, 17, 1003, &[], &[7; 64]);
    fragment[6..8].copy_from_slice(&[0x00, 0x10]);
    raw::fix_checksum(&mut fragment);
    let packets = [
        raw::v4(64, 253, 1001, &[], b"experiment"),
        raw::v4(64, 17, 1002, &[1, 1, 1, 0], &[9; 100]),
        fragment,
        raw::v4(2, 253, 1004, &[], b"the last hop but one"),
        raw::v4(255, 253, 1005, &[], b""),
        raw::v6(64, 253, 0x1001, b"experiment"),
        raw::v6(64, 0, 0x1002, &[253, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3]),
        raw::v6(2, 44, 0x1003, &[253, 0, 0, 8, 0, 0, 0, 9, 1, 2, 3, 4]),
        raw::v6(255, 59, 0x1004, b""),
    ];
    for packet in packets {
        injector.send(&packet).unwrap();
        let mut expected = packet.clone();
        let (hops_at, id) = if packet[0] >> 4 == 4 {
            (8, 4..6)
        } else {
            (7, 1..4)
        };
        expected[hops_at] -= 1;
        if hops_at == 8 {
            raw::fix_checksum(&mut expected);
        }
        let seen =
            sniffer.find(|seen| seen[0] == packet[0] && seen[id.clone()] == packet[id.clone()]);
        assert_eq!(seen, expected);
    }
    assert_eq!(number(&router.link(), "total.full_ttl"), 0.0);
}

#[test]
fn the_router_is_one_hop_to_traceroute() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let _router = lab.start(&link("rate_bps = 10e6"));
    let injector = Injector::new(&lab, Host::A);
    let sniffer = Sniffer::new(&lab, Host::A);
    injector
        .send(&raw::v4(1, 253, 77, &[], b"how far?"))
        .unwrap();
    // Time exceeded (RFC 792): type 11.
    let answer = sniffer.find(|packet| packet[0] == 0x45 && packet[9] == 1 && packet[20] == 11);
    assert_eq!(answer[12..16], [10, 0, 1, 254]);
    // With two hops it is there, where nobody knows the protocol: unreachable (RFC 792), type 3.
    injector
        .send(&raw::v4(2, 253, 78, &[], b"how far?"))
        .unwrap();
    let answer = sniffer.find(|packet| packet[0] == 0x45 && packet[9] == 1 && packet[20] == 3);
    assert_eq!(answer[12..16], [10, 0, 2, 1]);
}

#[test]
fn without_ipv4_the_router_forwards_ipv6() {
    let Some(lab) = Lab::new(Versions::V6) else {
        return;
    };
    lab.set(Host::R, "ipv4/ip_forward", "0");
    let routes = r#"routes = [{ to = "fd00:2::/64", via = "fd00:9::2", dev = "vb" }]"#;
    let router = lab.start(&format!(
        "[[links]]\nname = \"six\"\ntun = \"ek-six\"\ndelay_ms = 5\nmtu = 1280\n{routes}"
    ));
    let (sender, receiver) = pair(&lab, Host::A, 6);
    thread::scope(|scope| {
        scope.spawn(|| echo(&receiver));
        assert!(round_trip(&sender, &[5; 1232]) >= Duration::from_millis(5));
    });
    assert_eq!(number(&router.link(), "total.delivered.packets"), 1.0);
}

#[test]
fn traffic_ends_where_its_device_goes_down_and_does_not_come_round_again() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 100e6"));
    lab.ip(Host::R, "link set vb down");
    let injector = Injector::new(&lab, Host::A);
    for number in 0..10 {
        injector
            .send(&raw::v4(64, 253, number, &[], b"lost"))
            .unwrap();
    }
    let link = (0..50)
        .map(|_| {
            std::thread::park_timeout(Duration::from_millis(10));
            router.link()
        })
        .find(|link| number(link, "total.delivered.packets") >= 10.0);
    let link = link.expect("ten packets come");
    assert_eq!(number(&link, "total.arrived.packets"), 10.0);
}
