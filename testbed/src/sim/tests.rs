use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use evenkeel_wire::{
    CompactRate, CompactTime, HeaderTimestamp, PATH_HEADER_LEN, PathHeaderKind, PathHeaderRepr,
    PathHeaderView, Signals,
};
use quinn::AsyncUdpSocket;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};

use super::*;
use crate::scenario::{FlowBuilder, LinkBuilder, ScenarioBuilder};
use crate::scenario::{IpVersion, LinkIndex, NodeIndex};

/// a -- b -- c: 1 Mb/s and 10 ms each way on both links, MTU 1500.
fn line() -> Simulation {
    line_with(&[])
}

/// The same with stamps on both links.
fn line_with(stamps: &[&str]) -> Simulation {
    let link = |name, from, to| {
        LinkBuilder::between(name, from, to)
            .rate_bps(1_000_000)
            .delay(ms(10))
            .queue_packets(2)
            .stamps(stamps)
    };
    simulation(&[link("ab", "a", "b"), link("bc", "b", "c")], "c")
}

/// These links, with a flow from a to `to`.
fn simulation(links: &[LinkBuilder], to: &str) -> Simulation {
    let flow = FlowBuilder::bulk("f", "reno").between("a", to);
    let line = Scenario::builder("line", Duration::from_secs(1)).flow(flow);
    let line = links.iter().cloned().fold(line, ScenarioBuilder::link);
    super::simulation(&line.build().expect("a scenario")).expect("links that can be built")
}

/// A path header and, behind it, this many bytes.
fn headed(bytes: usize) -> BytesMut {
    let header = PathHeaderRepr {
        kind: PathHeaderKind::Acp,
        rtt: CompactTime::ZERO,
        signals: Signals::initial(CompactRate::NO_LIMIT, Some(HOP_LIMIT)),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(0),
        echo: None,
        tag: [0; 4],
    };
    let mut datagram = BytesMut::from(&header.emit()[..]);
    datagram.resize(PATH_HEADER_LEN + bytes, 0);
    datagram
}

/// What has arrived at a socket, datagram by datagram.
fn received(socket: &SimSocket) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut buffer = [0; 1500];
    let mut meta = [RecvMeta::default()];
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Ok(_)) =
        socket.poll_recv(&mut context, &mut [IoSliceMut::new(&mut buffer)], &mut meta)
    {
        datagrams.push(buffer[..meta[0].len].to_vec());
    }
    datagrams
}

fn datagram(bytes: usize) -> BytesMut {
    BytesMut::zeroed(bytes)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_datagram_crosses_two_links_in_their_exact_time() {
    let mut simulation = line();
    let sender = simulation.bind(NodeIndex(0), 0).expect("a free port");
    let receiver = simulation.bind(NodeIndex(2), 7).expect("a free port");
    // 972 bytes and 28 of headers: 8 ms at 1 Mb/s. Twice 8 + 10 ms.
    sender.send_to(receiver.address(), &datagram(972));
    simulation.run_until(ms(36) - Duration::from_nanos(1));
    assert_eq!(receiver.received_bytes(), 0);
    simulation.run_until(ms(36));
    assert_eq!(receiver.received_bytes(), 1000);
    simulation.assert_conservation();
}

#[test]
fn both_versions_of_ip_share_the_links_and_the_ports_of_a_node() {
    let mut simulation = line();
    let bind = |node, version, port| simulation.bind_ip(NodeIndex(node), version, port);
    let sender = bind(0, IpVersion::V6, 0).expect("a free port");
    let receiver = bind(2, IpVersion::V6, 7).expect("a free port");
    assert!(bind(2, IpVersion::V4, 7).is_err());
    let old = bind(2, IpVersion::V4, 8).expect("a free port");
    assert_eq!(receiver.address().to_string(), "[fd00::a00:3]:7");
    // 952 bytes and 48 of headers; nobody crosses over to the other version.
    sender.send_to(receiver.address(), &datagram(952));
    sender.send_to(old.address(), &datagram(952));
    simulation.run_until(ms(36) - Duration::from_nanos(1));
    assert_eq!(receiver.received_bytes(), 0);
    simulation.run_until(ms(500));
    assert_eq!(receiver.received_bytes(), 1000);
    assert_eq!((old.received_bytes(), simulation.counters().sent), (0, 1));
    drop(receiver);
    assert!(simulation.bind(NodeIndex(2), 7).is_ok());
    simulation.assert_conservation();
}

#[test]
fn a_full_queue_drops_and_every_packet_is_accounted_for() {
    let mut simulation = line();
    let sender = simulation.bind(NodeIndex(0), 0).expect("a free port");
    let receiver = simulation.bind(NodeIndex(2), 7).expect("a free port");
    for _ in 0..5 {
        sender.send_to(receiver.address(), &datagram(972));
    }
    simulation.run_until(ms(500));
    // One in transmission and two that wait.
    assert_eq!(receiver.received_bytes(), 3000);
    let stats = simulation.with_link(LinkIndex(0), |now, link| link.stats(now).total());
    assert_eq!(
        (stats.arrived.packets, stats.dropped.total().packets),
        (5, 2)
    );
    simulation.assert_conservation();
}

#[test]
fn links_stamp_the_headers_that_cross_them_and_leave_all_else_alone() {
    let mut simulation = line_with(&["aqt", "flows:period_ms=10"]);
    let sender = simulation.bind(NodeIndex(0), 0).expect("a free port");
    let receiver = simulation.bind(NodeIndex(2), 7).expect("a free port");
    // 940 bytes, 32 and 28 of headers: 8 ms at 1 Mb/s. The second waits for the first once.
    sender.send_to(receiver.address(), &headed(940));
    sender.send_to(receiver.address(), &headed(940));
    sender.send_to(receiver.address(), &datagram(10));
    simulation.run_until(ms(100));
    let datagrams = received(&receiver);
    assert_eq!(datagrams.len(), 3);
    for (datagram, waited) in datagrams.iter().zip([0, 8]) {
        let header = PathHeaderView::parse(datagram).expect("a header");
        let signals = header.signals();
        assert_eq!(signals.queueing_time.duration(), ms(waited));
        assert!(signals.flags.stamped && !signals.flags.gap);
        // One router between sender and receiver.
        assert_eq!(signals.hop_limit, HOP_LIMIT - 1);
        // The count of a period in which nothing else was sent.
        assert!(signals.contention.flows() <= 1);
    }
    assert_eq!(datagrams[2], [0; 10]);
    let headers = simulation.with_link(LinkIndex(0), |now, link| {
        let stats = link.stats(now);
        stats.total().headers
    });
    assert_eq!((headers.stamped, headers.foreign), (2, 1));
}

#[test]
fn a_hop_that_does_not_stamp_shows_as_a_gap_behind_it() {
    let links = [
        LinkBuilder::between("ab", "a", "b").stamps(&["aqt"]),
        LinkBuilder::between("bc", "b", "c"),
        LinkBuilder::between("cd", "c", "d").stamps(&["aqt"]),
    ];
    let mut simulation = simulation(&links, "d");
    let sender = simulation.bind(NodeIndex(0), 0).expect("a free port");
    let receiver = simulation.bind(NodeIndex(3), 7).expect("a free port");
    sender.send_to(receiver.address(), &headed(0));
    simulation.run_until(ms(1));
    let datagrams = received(&receiver);
    let header = PathHeaderView::parse(&datagrams[0]).expect("a header");
    let flags = header.signals().flags;
    assert!(flags.stamped && flags.gap);
}

#[test]
fn what_exceeds_the_mtu_or_finds_no_port_is_counted_and_goes_no_further() {
    let mut simulation = line();
    let sender = simulation.bind(NodeIndex(0), 0).expect("a free port");
    let nobody = SocketAddr::new(NodeIndex(2).address(IpVersion::V4), 9);
    sender.send_to(nobody, &datagram(1473));
    sender.send_to(nobody, &datagram(1472));
    simulation.run_until(ms(500));
    let counters = simulation.counters();
    assert_eq!(
        (counters.sent, counters.too_big, counters.unreachable),
        (2, 1, 1)
    );
}

#[test]
fn a_port_is_bound_once_and_free_again_when_its_socket_is_dropped() {
    let simulation = line();
    let first = simulation.bind(NodeIndex(1), 7).expect("a free port");
    assert!(simulation.bind(NodeIndex(1), 7).is_err());
    assert!(simulation.bind(NodeIndex(0), 7).is_ok(), "another node");
    drop(first);
    assert!(simulation.bind(NodeIndex(1), 7).is_ok());
}

/// What comes from a to b over a link of these values: contents and ECN codepoint.
fn over(
    link: impl FnOnce(LinkBuilder) -> LinkBuilder,
    sent: &[(usize, EcnCodepoint)],
) -> Vec<(Vec<u8>, Option<EcnCodepoint>)> {
    let links = [link(LinkBuilder::between("ab", "a", "b").delay(ms(10)))];
    let mut simulation = simulation(&links, "b");
    let [from, to] = [0, 1].map(|node| simulation.bind(NodeIndex(node), 7).unwrap());
    for (bytes, ecn) in sent {
        let sending = from.try_send(&Transmit {
            destination: to.address(),
            ecn: Some(*ecn),
            contents: &vec![0; *bytes],
            segment_size: None,
            src_ip: None,
        });
        sending.unwrap();
    }
    simulation.run_until(ms(100));
    simulation.assert_conservation();
    let mut buffer = [0; 2048];
    let mut meta = [RecvMeta::default()];
    let next = || {
        let mut buffers = [IoSliceMut::new(&mut buffer)];
        let mut context = Context::from_waker(Waker::noop());
        match to.poll_recv(&mut context, &mut buffers, &mut meta) {
            Poll::Ready(Ok(_)) => Some((buffer[..meta[0].len].to_vec(), meta[0].ecn)),
            _ => None,
        }
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_wire_marks_bleaches_corrupts_and_swallows() {
    use EcnCodepoint::{Ce, Ect0};
    let sent = [(1372, Ect0), (1373, Ect0)];
    let whole = |ecn| [1372, 1373].map(|bytes| (vec![0; bytes], ecn)).to_vec();
    assert_eq!(over(|link| link, &sent), whole(Some(Ect0)));
    assert_eq!(over(|link| link.set("mark", 1), &sent), whole(Some(Ce)));
    assert_eq!(over(|link| link.set("ecn", "bleach"), &sent), whole(None));
    // 28 bytes of headers are part of the packet.
    assert_eq!(
        over(|link| link.set("mtu", 1400), &sent),
        [(vec![0; 1372], Some(Ect0))]
    );
    for (contents, ecn) in over(|link| link.set("corrupt", 1), &sent) {
        let ones = contents.iter().map(|byte| byte.count_ones());
        assert_eq!((ones.sum::<u32>(), ecn), (1, Some(Ect0)));
    }
}

#[test]
fn a_bounded_socket_loses_what_comes_while_nobody_reads() {
    let mut simulation = simulation(&[LinkBuilder::between("ab", "a", "b")], "b");
    let [from, to] = [0, 1].map(|node| simulation.bind(NodeIndex(node), 7).unwrap());
    to.hold_at_most(3 * 128);
    let send = |simulation: &mut Simulation, packets: usize, at: u64| {
        for _ in 0..packets {
            from.send_to(to.address(), &BytesMut::zeroed(100));
        }
        simulation.run_until(ms(at));
    };
    send(&mut simulation, 5, 10);
    assert_eq!(simulation.counters().overflowed, 2);
    assert_eq!(received(&to).len(), 3);
    // What has been read makes room.
    send(&mut simulation, 3, 20);
    assert_eq!(received(&to).len(), 3);
    assert_eq!(simulation.counters().overflowed, 2);
    assert_eq!(to.received_bytes(), 8 * 128);
}
