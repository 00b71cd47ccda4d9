//! Tests of FQ-CoDel behind a port.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use evenkeel_wire::Ecn;
use proptest::collection::vec;
use proptest::prelude::*;

mod hosts;

use super::*;
use crate::testing::{epoch, ms, port_config};
use crate::{Carrier, FlowKey, Limit, Packet, Port};

/// A packet of a flow, and which one of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Numbered {
    flow: u16,
    number: u64,
}

impl Carrier for Numbered {
    fn flow(&self) -> Option<FlowKey> {
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        Some(FlowKey::new([address, address], 17, Some([self.flow, 1])))
    }
}

/// A port at which 1000 bytes take 1 ms.
fn port(spec: &str, limit: Limit) -> Port<Numbered> {
    let config = port_config(spec, limit);
    Port::new(epoch(), config)
}

fn packet(flow: u16, number: u64, bytes: u32) -> Packet<Numbered> {
    let meta = PacketMeta::new(bytes, Ecn::NotEct);
    Packet::new(meta, Numbered { flow, number })
}

/// The flows and numbers of packets that leave until `time`.
fn leave(port: &mut Port<Numbered>, time: Duration) -> Vec<(u16, u64)> {
    let now = epoch() + time;
    std::iter::from_fn(|| port.dequeue(now))
        .map(|(_, packet)| (packet.payload.flow, packet.payload.number))
        .collect()
}

#[test]
fn flows_with_packets_of_different_sizes_share_the_bytes() {
    let mut port = port("fq-codel:target_ms=10000", Limit::NONE);
    for number in 0..1000 {
        port.enqueue(epoch(), packet(1, number, 1500));
        for part in 0..5 {
            port.enqueue(epoch(), packet(2, 5 * number + part, 300));
        }
    }
    let left = leave(&mut port, ms(1000));
    let count = |flow| left.iter().filter(|packet| packet.0 == flow).count();
    let [large, small] = [count(1) * 1500, count(2) * 300];
    assert!(large.abs_diff(small) <= 4 * 1514, "{large}, {small}");
}

#[test]
fn a_flow_that_begins_goes_before_those_that_have_sent_their_quantum() {
    let mut port = port("fq-codel", Limit::NONE);
    for number in 0..100 {
        port.enqueue(epoch(), packet(1, number, 1000));
    }
    assert_eq!(leave(&mut port, ms(10)).len(), 10);
    port.enqueue(epoch() + ms(10), packet(2, 0, 100));
    let next = leave(&mut port, ms(13));
    assert_eq!(next[..2], [(1, 10), (2, 0)], "one is in transmission");
}

#[test]
fn a_flow_that_sends_a_packet_at_a_time_does_not_starve_the_others() {
    let mut port = port("fq-codel:target_ms=10000", Limit::NONE);
    for number in 0..1000 {
        port.enqueue(epoch(), packet(1, number, 1000));
    }
    // Flow 2 has the next packet there as soon as one has left.
    let mut left = [0, 0, 0];
    for time in 0..500 {
        port.enqueue(epoch() + ms(time), packet(2, time, 1000));
        for (flow, _) in leave(&mut port, ms(time + 1)) {
            left[usize::from(flow)] += 1;
        }
    }
    assert!(left[1] >= 240, "{left:?}");
}

#[test]
fn the_queue_with_the_most_bytes_makes_room_for_others() {
    let mut port = port("fq-codel", Limit::packets(50));
    for number in 0..51 {
        port.enqueue(epoch(), packet(1, number, 1000));
    }
    assert_eq!(port.enqueue(epoch(), packet(2, 0, 100)), Verdict::Admit);
    let stats = port.stats(epoch());
    assert_eq!(stats.total().dropped.full.packets, 25, "half of its 50");
    assert_eq!(stats.queued().packets, 26);
    port.check_conservation().expect("nothing disappears");
    let left = leave(&mut port, ms(1000));
    // The first of flow 1 was in transmission; 1 to 25 were dropped.
    assert_eq!(left[..3], [(1, 0), (1, 26), (2, 0)]);
    assert_eq!(left.len(), 27);
}

#[test]
fn a_limit_of_nothing_drops_what_arrives_while_the_link_is_busy() {
    let mut port = port("fq-codel", Limit::packets(0));
    assert_eq!(port.enqueue(epoch(), packet(1, 0, 1000)), Verdict::Admit);
    let second = port.enqueue(epoch(), packet(1, 1, 1000));
    assert_eq!(second, Verdict::Drop(crate::DropReason::Full));
}

#[test]
fn a_packet_larger_than_the_whole_limit_makes_nobody_lose_anything() {
    let mut port = port("fq-codel", Limit::bytes(1000));
    for number in 0..11 {
        port.enqueue(epoch(), packet(1, number, 100));
    }
    let large = port.enqueue(epoch(), packet(2, 0, 1001));
    assert_eq!(large, Verdict::Drop(crate::DropReason::Full));
    assert_eq!(port.stats(epoch()).queued().packets, 10);
}

proptest! {
    #[test]
    fn whatever_arrives_nothing_is_lost_or_invented_and_flows_keep_their_order(
        arrivals in vec((0u64..3_000_000, 0u16..6, 40u32..1600), 1..400),
        limit in prop_oneof![Just(Limit::NONE), (0u64..60).prop_map(Limit::packets),
                             (0u64..60_000).prop_map(Limit::bytes)],
        flows in 1usize..5,
        target in prop_oneof![Just("0.1"), Just("5")],
    ) {
        let spec = format!("fq-codel:flows={flows},target_ms={target},interval_ms=1");
        let mut port = port(&spec, limit);
        let mut now = Duration::ZERO;
        let mut left = Vec::new();
        for (number, (gap, flow, bytes)) in (0..).zip(&arrivals) {
            now += Duration::from_nanos(*gap);
            port.enqueue(epoch() + now, packet(*flow, number, *bytes));
            left.extend(leave(&mut port, now));
            prop_assert_eq!(port.check_conservation(), Ok(()));
            let queued = port.stats(epoch() + now).queued();
            prop_assert!(limit.packets.is_none_or(|most| queued.packets <= most));
            prop_assert!(limit.bytes.is_none_or(|most| queued.bytes <= most));
        }
        left.extend(leave(&mut port, now + ms(10_000)));
        prop_assert_eq!(port.next_timeout(), None, "all is sent");
        let dropped = port.stats(epoch() + now).total().dropped.total().packets;
        prop_assert_eq!(left.len() as u64 + dropped, arrivals.len() as u64);
        for flow in 0..6 {
            let numbers: Vec<u64> = left.iter().filter(|one| one.0 == flow).map(|one| one.1).collect();
            prop_assert!(numbers.is_sorted(), "{numbers:?}");
        }
    }

    #[test]
    fn of_flows_that_always_have_something_to_send_none_is_served_a_quantum_and_a_packet_more(
        sizes in vec(40u32..1514, 2..8),
    ) {
        let mut port = port("fq-codel:target_ms=10000", Limit::NONE);
        for (flow, bytes) in (0..).zip(&sizes) {
            for number in 0..100_000 / u64::from(*bytes) {
                port.enqueue(epoch(), packet(flow, number, *bytes));
            }
        }
        let mut sent = vec![0u32; sizes.len()];
        for (flow, _) in leave(&mut port, ms(50)) {
            sent[usize::from(flow)] += sizes[usize::from(flow)];
        }
        let spread = sent.iter().max().unwrap() - sent.iter().min().unwrap();
        prop_assert!(spread <= 2 * (1514 + 1514), "{sent:?}");
    }
}
