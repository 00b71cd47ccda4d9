use std::fs;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_tests::one_of_three_tries;
use evenkeel_wire::PATH_HEADER_LEN;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use crate::raw::{self, Injector};
use crate::support::{Host, Lab, Router, Versions, header, link, number};

/// Packets that look like nothing in particular.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let payload = || proptest::collection::vec(any::<u8>(), 0..1400);
    let v4 = (any::<(u8, u8, u16, [u8; 2])>(), 0..10usize, payload()).prop_map(
        |((ttl, protocol, id, fragment), words, payload)| {
            let options = vec![1; words * 4];
            let mut packet = raw::v4(ttl, protocol, id, &options, &payload);
            // Any fragment offset and flags; they may go beyond the largest packet.
            packet[6..8].copy_from_slice(&fragment);
            raw::fix_checksum(&mut packet);
            packet
        },
    );
    let v6 = (any::<(u8, u8)>(), 0..1u32 << 20, payload())
        .prop_map(|((hops, next), label, payload)| raw::v6(hops, next, label, &payload));
    prop_oneof![v4, v6]
}

#[test]
fn of_a_flood_of_junk_every_packet_is_accounted_for() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link(
        "rate_bps = 100e6\nqueue_packets = 20\nloss = 0.1\ndelay_ms = 3\njitter_ms = 1",
    ));
    let injector = Injector::new(&lab, Host::A);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let packets = any_packet();
    for _ in 0..200 {
        let burst: Vec<_> = (0..100)
            .map(|_| packets.new_tree(&mut runner).unwrap().current())
            .collect();
        for packet in burst {
            // Some are refused by the sender's own kernel.
            let _ = injector.send(&packet);
        }
    }
    let drained = (0..300).find_map(|_| {
        thread::park_timeout(Duration::from_millis(10));
        Some(router.link()).filter(|link| number(link, "inside.packets") == 0.0)
    });
    let link = drained.expect("the link runs empty");
    for unit in ["packets", "bytes"] {
        let count = |name: &str| number(&link, &format!("total.{name}.{unit}"));
        assert_eq!(
            count("arrived"),
            count("dropped") + count("lost") + count("delivered"),
            "{link}"
        );
        assert_eq!(
            count("forwarded"),
            count("lost") + count("delivered"),
            "{link}"
        );
    }
    let count = |name: &str| number(&link, &format!("total.{name}.packets"));
    assert!(
        count("arrived") > 5000.0 && count("dropped_full") > 0.0 && count("lost") > 0.0,
        "{link}"
    );
    // The kernel's own counters of the device say the same.
    let statistics: Value =
        serde_json::from_str(&lab.ip(Host::R, "-j -s link show ek-bn")).unwrap();
    let kernel = |name: &str| number(&statistics, &format!("0.stats64.{name}"));
    assert_eq!(
        kernel("tx.packets"),
        count("arrived") + count("link_scope") + count("not_ip")
    );
    assert_eq!(kernel("tx.dropped"), number(&link, "total.ring_dropped"));
    assert_eq!(kernel("rx.packets"), count("delivered") - count("refused"));
}

/// Memory that a router holds, in kilobytes.
fn resident_kb(router: &Router) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", router.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.unwrap().split_whitespace().next().unwrap();
    kb.parse().unwrap()
}

/// What left the sender of a [`flood`].
struct Offered {
    junk: u64,
    flow: u64,
}

/// Sends junk of a different flow each time, half of it with path headers, as fast as it can until told to stop, and for each 64th
/// packet, at random, one of 1000 bytes to B's UDP port 9. Both come from one thread: of two, the
/// machine's scheduler would decide how much of each meets a full queue.
fn flood(injector: &Injector, stop: &AtomicBool) -> Offered {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let packets = any_packet();
    let mut packets: Vec<_> = (0..500)
        .map(|_| packets.new_tree(&mut runner).unwrap().current())
        .filter(|packet| packet[0] >> 4 == 4 && packet.len() >= 100)
        .collect();
    for (index, packet) in packets.iter_mut().enumerate() {
        // UDP with ports of its own, whole, from a TTL that lasts; the rest stays junk.
        packet[6..8].fill(0);
        packet[8] = packet[8].max(8);
        packet[9] = 17;
        if index % 2 == 0 {
            // A path header whose every field lies.
            let udp = usize::from(packet[0] & 0xf) * 4;
            let length = u16::try_from(packet.len() - udp).unwrap();
            packet[udp + 4..udp + 6].copy_from_slice(&length.to_be_bytes());
            packet[udp + 6..udp + 8].fill(0);
            let path_header = &mut packet[udp + 8..][..PATH_HEADER_LEN];
            path_header.copy_from_slice(&header());
            runner.rng().fill_bytes(&mut path_header[5..]);
        }
    }
    let flow = datagram_of_the_flow();
    let mut offered = Offered { junk: 0, flow: 0 };
    while !stop.load(Ordering::Relaxed) {
        for packet in &mut packets {
            if runner.rng().next_u32().is_multiple_of(64) {
                offered.flow += u64::from(injector.send(&flow).is_ok());
            }
            let ports = usize::from(packet[0] & 0xf) * 4;
            packet[ports..ports + 4].copy_from_slice(&(offered.junk as u32).to_be_bytes());
            raw::fix_checksum(packet);
            offered.junk += u64::from(injector.send(packet).is_ok());
        }
    }
    offered
}

/// A packet of 1000 bytes to UDP port 9, without a UDP checksum.
fn datagram_of_the_flow() -> Vec<u8> {
    let length: u16 = 980;
    let mut datagram = [1000_u16, 9, length, 0].map(u16::to_be_bytes).concat();
    datagram.resize(usize::from(length), 7);
    raw::v4(64, 17, 1, &[], &datagram)
}

/// Sends 250 packets of 1000 bytes a second until told to stop; how many.
#[expect(
    clippy::disallowed_methods,
    reason = "offers packets to a daemon in real time"
)]
fn trickle(socket: &UdpSocket, stop: &AtomicBool) -> u64 {
    let began = Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        sent += u64::from(socket.send(&[7; 972]).is_ok());
        let due = began + Duration::from_millis(4) * u32::try_from(sent).unwrap();
        if let Some(ahead) = due.checked_duration_since(Instant::now()) {
            thread::sleep(ahead);
        }
    }
    sent
}

/// Counts what [`trickle`] sends until nothing has come for half a second after the end.
fn count(socket: &UdpSocket, stop: &AtomicBool) -> u64 {
    let wait = Some(Duration::from_millis(500));
    socket.set_read_timeout(wait).unwrap();
    let (mut buffer, mut received) = ([0; 2000], 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => received += u64::from(length == 972 && buffer[0] == 7),
            Err(_) if stop.load(Ordering::Relaxed) => return received,
            Err(_) => {}
        }
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
#[expect(clippy::disallowed_methods, reason = "measures a daemon in real time")]
fn junk_at_line_rate_takes_no_memory_nothing_of_another_link_and_its_share_of_its_own() {
    one_of_three_tries(|| {
        let Some(lab) = Lab::alone(Versions::Both) else {
            return;
        };
        let values = "rate_bps = 20e6\nqueue_packets = 100\nstamps = [\"aqt\", \"acp\", \"flows\"]";
        let back = "[[links]]\nname = \"back\"\ntun = \"ek-back\"\nrate_bps = 20e6\n\
                    routes = [{ to = \"10.0.1.1/32\", dev = \"va\" }]\n";
        let router = lab.start(&(link(values) + back));
        let injector = Injector::new(&lab, Host::A);
        let (at_b, at_a) = (
            lab.udp(Host::B, "10.0.2.1:9"),
            lab.udp(Host::A, "10.0.1.1:9"),
        );
        let back = lab.udp(Host::B, "10.0.2.1:0");
        back.connect(at_a.local_addr().unwrap()).unwrap();
        let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let (offered, there, back, memory) = thread::scope(|scope| {
            let flood = scope.spawn(|| flood(&injector, &stop));
            let trickle = scope.spawn(|| trickle(&back, &stop));
            let receivers = [&at_b, &at_a].map(|socket| scope.spawn(|| count(socket, &ended)));
            thread::sleep(Duration::from_secs(2));
            let early = resident_kb(&router);
            thread::sleep(Duration::from_secs(6));
            let late = resident_kb(&router);
            stop.store(true, Ordering::Relaxed);
            let offered = flood.join().unwrap();
            let trickled = trickle.join().unwrap() as f64;
            ended.store(true, Ordering::Relaxed);
            let [there, back] = receivers.map(|receiver| receiver.join().unwrap() as f64);
            (offered, there, back / trickled, (early, late))
        });
        let link = router.link();
        let total = |name: &str| number(&link, &format!("total.{name}"));
        let junk = (total("delivered.packets") - there) / offered.junk as f64;
        let flow = there / offered.flow as f64;
        let flows = number(&link, "stamps.flows.flows");
        println!(
            "junk: {} packets in 8 s, {junk:.3} of them through, {flows:.0} flows counted; {} of a flow \
             among them, {flow:.3} through; on the link back {back:.3}; memory {} and {} kB",
            offered.junk, offered.flow, memory.0, memory.1
        );
        let stamped = total("headers.stamped");
        assert!(stamped > 0.2 * total("delivered.packets"), "{link}");
        // Several times what the link carries.
        assert!(junk < 0.5, "{junk} of the junk is through: {link}");
        assert!(memory.1 - memory.0 < 1024.0, "{memory:?} kB");
        // A FIFO asks nobody: of each sender's packets the same share is through.
        assert!(
            (0.8..1.25).contains(&(flow / junk)),
            "{flow} of the flow, {junk} of the junk"
        );
        assert!(back > 0.95, "{back} of the flow on the other link");
    });
}
