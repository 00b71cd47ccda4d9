//! Tests of the flow count: against hashes that are drawn, and behind a port.

use evenkeel_wire::PathHeaderKind;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::stamp::tests::testing::{IpPacket, header};
use crate::stamp::{FlowKey, stamp_set};
use crate::testing::{epoch, ms};
use crate::{DropTail, Limit, Port, PortConfig, Rate, Service};

#[test]
fn few_flows_are_counted_exactly_by_hand() {
    // -8192 ln(8191 / 8192) = 1.00006; of 30, all on bits of their own: 8192 x 0.0036689 = 30.055.
    assert_eq!(linear_count(BITS, BITS), 0.0);
    assert!((linear_count(BITS, BITS - 1) - 1.00006).abs() < 1e-5);
    assert!((linear_count(BITS, BITS - 30) - 30.055).abs() < 1e-3);
}

#[test]
fn a_full_map_means_as_many_as_leave_one_zero() {
    let most = linear_count(BITS, 1);
    assert_eq!(linear_count(BITS, 0), most);
    // 8192 ln 8192
    assert!((most - 73_817.0).abs() < 1.0, "{most}");
}

/// The standard error of linear counting with load t = n / m (Whang et al., equation 12):
/// sqrt(m (e^t - t - 1)) / n.
fn standard_error(flows: f64) -> f64 {
    let bits = BITS as f64;
    let load = flows / bits;
    (bits * (load.exp() - load - 1.0)).sqrt() / flows
}

#[test]
fn the_error_is_that_of_the_paper_from_one_flow_to_ten_thousand() {
    let mut rng = Pcg64::seed_from_u64(1);
    for flows in [1usize, 30, 1000, 10_000] {
        let runs = 100;
        let errors: Vec<_> = (0..runs)
            .map(|_| {
                let mut map = FlowMap::default();
                let hashes: Vec<u64> = (0..flows).map(|_| rng.random()).collect();
                // Each flow sends several packets, and counts once.
                for hash in hashes.iter().chain(&hashes) {
                    map.insert(*hash);
                }
                map.estimate() / flows as f64 - 1.0
            })
            .collect();
        let mean = errors.iter().sum::<f64>() / f64::from(runs);
        let rms = (errors.iter().map(|error| error * error).sum::<f64>() / f64::from(runs)).sqrt();
        let expected = standard_error(flows as f64);
        // One flow is off by the slope of the logarithm alone; of 100 draws the deviation varies by 7 %.
        assert!(
            rms < 1.3 * expected + 1e-4,
            "{flows}: {rms} against {expected}"
        );
        assert!(mean.abs() < 0.4 * expected + 1e-4, "{flows}: {mean}");
        assert!(expected < 0.0125, "{flows}: {expected}");
    }
}

#[test]
fn the_map_is_cleared_between_periods() {
    let mut map = FlowMap::default();
    map.insert(5);
    map.insert(5 + BITS as u64);
    assert_eq!(map.ones, 1);
    map.clear();
    assert_eq!((map.estimate(), map.ones), (0.0, 0));
}

fn port(start: Instant, spec: &str) -> Port<IpPacket> {
    let config = PortConfig {
        service: Service::Rate(Rate::new(80_000_000).expect("not zero")),
        overhead_bytes: 0,
        watches_flows: false,
        limit: Limit::NONE,
        discipline: Box::new(DropTail),
        stamps: stamp_set([spec]).unwrap(),
        flow_hash_key: [7; 16],
    };
    Port::new(start, config)
}

/// A packet of one of many flows, and the count that it comes out with.
fn counted(port: &mut Port<IpPacket>, now: Instant, flow: u16) -> u32 {
    let payload = header(PathHeaderKind::Acp, ms(50)).emit();
    port.enqueue(now, IpPacket::v4((flow, 4433), &payload).queued());
    let (_, packet) = port.dequeue(now + ms(1)).unwrap();
    packet.payload.header().signals().contention.flows()
}

#[test]
fn headers_carry_the_count_of_the_last_period_that_is_over() {
    let start = epoch();
    let mut port = port(start, "flows");
    // Thirty flows, a packet of each in 600 ms: each well below a packet in a round trip.
    for second in 0..2 {
        for flow in 0..30 {
            let now = start + ms(1000 * second + 20 * u64::from(flow));
            let expected = if second == 0 { 0 } else { 30 };
            assert_eq!(counted(&mut port, now, flow), expected);
        }
    }
    // Two of them stay; a packet in the second that follows still tells of the thirty.
    assert_eq!(counted(&mut port, start + ms(2100), 3), 30);
    assert_eq!(counted(&mut port, start + ms(2200), 4), 30);
    assert_eq!(counted(&mut port, start + ms(3100), 3), 2);
    let figures = port.stamp_figures(start + ms(3100));
    let [("flows", flows)] = figures[0].figures[..] else {
        panic!("{figures:?}");
    };
    assert!((flows - 2.0).abs() < 0.01);
}

#[test]
fn a_greater_count_of_another_router_stays() {
    let start = epoch();
    let mut port = port(start, "flows");
    counted(&mut port, start, 1);
    let mut crowded = header(PathHeaderKind::Acp, ms(50));
    crowded.signals.contention = CompactCount::from_flows(500);
    let now = start + ms(1100);
    port.enqueue(now, IpPacket::headered(&crowded, 100).queued());
    let (_, packet) = port.dequeue(now + ms(1)).unwrap();
    assert_eq!(packet.payload.header().signals().contention.flows(), 496);
}

#[test]
fn a_shorter_period_ends_sooner() {
    let start = epoch();
    let mut port = port(start, "flows:period_ms=50");
    assert_eq!(counted(&mut port, start, 1), 0);
    assert_eq!(counted(&mut port, start + ms(51), 1), 1);
}

#[test]
fn an_idle_link_sets_no_timer() {
    let start = epoch();
    let mut port = port(start, "flows");
    assert_eq!(port.next_timeout(), None);
    counted(&mut port, start, 1);
    assert_eq!(port.next_timeout(), Some(start + ms(1000)));
    port.stats(start + ms(1500));
    assert_eq!(port.next_timeout(), Some(start + ms(2000)));
    port.stats(start + ms(2500));
    assert_eq!(port.next_timeout(), None);
    assert_eq!(counted(&mut port, start + ms(9000), 1), 0);
}

#[test]
fn packets_without_a_header_count_and_both_directions_are_two_flows() {
    let start = epoch();
    let mut port = port(start, "flows");
    for (source, destination) in [(1, 2), (2, 1), (1, 2)] {
        let packet = IpPacket::v4((source, destination), b"anything");
        port.enqueue(start, packet.queued());
    }
    while port.dequeue(start + ms(1)).is_some() {}
    assert_eq!(counted(&mut port, start + ms(1000), 9), 2);
}

#[test]
fn a_flow_is_its_addresses_protocol_and_ports_and_fragments_are_one_flow() {
    let key = |packet: &IpPacket| FlowKey::of_ip_packet(&packet.0).unwrap();
    let of = |ports| IpPacket::v4(ports, b"payload");
    assert_eq!(key(&of((1, 2))), key(&of((1, 2))));
    assert_ne!(key(&of((1, 2))), key(&of((2, 1))));
    assert_ne!(key(&of((1, 2))), key(&IpPacket::v6((1, 2), b"payload")));
    let addresses = [0, 2].map(|third| std::net::IpAddr::from([10, 0, third, 1]));
    assert_eq!(key(&of((1, 2))), FlowKey::new(addresses, 17, Some([1, 2])));
    let fragment = |ports, offset| {
        let mut packet = of(ports);
        packet.0[6] = 0x20;
        packet.0[7] = offset;
        key(&packet)
    };
    // The second fragment begins with other bytes.
    assert_eq!(fragment((1, 2), 0), fragment((77, 88), 1));
    assert_eq!(fragment((1, 2), 0), FlowKey::new(addresses, 17, None));
    let mut icmp = of((1, 2));
    icmp.0[9] = 1;
    assert_eq!(key(&icmp), FlowKey::new(addresses, 1, None));
    for junk in [&[][..], &[0x45; 7], &[0x60; 39], &[0; 60]] {
        assert_eq!(FlowKey::of_ip_packet(junk), None);
    }
}

#[test]
fn another_key_spreads_flows_otherwise() {
    let hash = |key: [u8; 16], ports| {
        let flow = FlowKey::of_ip_packet(&IpPacket::v4(ports, b"").0).unwrap();
        siphasher::sip::SipHasher13::new_with_key(&key).hash(flow.as_bytes()) % BITS as u64
    };
    // Flows that fall on one bit under one key do not under another.
    let bit = hash([1; 16], (1, 0));
    let together: Vec<_> = (0..=u16::MAX)
        .map(|port| (1, port))
        .filter(|ports| hash([1; 16], *ports) == bit)
        .collect();
    assert!(together.len() > 1);
    let bits: std::collections::BTreeSet<_> =
        together.iter().map(|ports| hash([2; 16], *ports)).collect();
    assert_eq!(bits.len(), together.len());
}
