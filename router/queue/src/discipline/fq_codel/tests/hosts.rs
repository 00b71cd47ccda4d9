//! Tests of shares by host.

use super::*;

/// A packet from one host to another, of the flow with this source port.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Between {
    hosts: [u8; 2],
    port: u16,
}

impl Carrier for Between {
    fn flow(&self) -> Option<FlowKey> {
        let address = |host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host));
        let addresses = self.hosts.map(address);
        Some(FlowKey::new(addresses, 17, Some([self.port, 1])))
    }
}

/// Sends packets of 1000 bytes for two seconds, a thousand of which fit into one. `flows` are hosts
/// and numbers of flows between them; each has something to send all the time. Returns the packets
/// of each.
fn share(spec: &str, limit: Limit, flows: &[([u8; 2], u16)]) -> Vec<usize> {
    let config = port_config(spec, limit);
    let mut port: Port<Between> = Port::new(epoch(), config);
    let mut sent = vec![0; flows.len()];
    for time in 0..2000 {
        let now = epoch() + ms(time);
        for (hosts, count) in flows {
            for number in 0..*count {
                // Each offers a fifth of the link, and at least as much as it could have.
                if time % 5 == 0 {
                    let meta = PacketMeta::new(1000, Ecn::NotEct);
                    let payload = Between {
                        hosts: *hosts,
                        port: number,
                    };
                    port.enqueue(now, Packet::new(meta, payload));
                }
            }
        }
        while let Some((_, packet)) = port.dequeue(now) {
            let hosts = packet.payload.hosts;
            let place = flows.iter().position(|(other, _)| *other == hosts);
            sent[place.expect("one of them")] += 1;
        }
    }
    assert_eq!(port.check_conservation(), Ok(()));
    sent
}

/// Plenty of room, and no drop by CoDel.
const WIDE: &str = "fq-codel:target_ms=10000,hosts=true";

#[test]
fn a_host_with_ten_flows_has_no_more_than_one_with_five() {
    let sources = [([1, 9], 10), ([2, 8], 5)];
    let sent = share(WIDE, Limit::NONE, &sources);
    assert!(sent[0].abs_diff(sent[1]) < 100, "{sent:?}");
    let by_flow = share("fq-codel:target_ms=10000", Limit::NONE, &sources);
    assert!(by_flow[0] > by_flow[1] * 18 / 10, "{by_flow:?}");
}

#[test]
fn on_the_way_down_it_is_the_destination_that_shares() {
    let from_two = [([7, 1], 12), ([8, 2], 6)];
    let sent = share(WIDE, Limit::NONE, &from_two);
    assert!(sent[0].abs_diff(sent[1]) < 100, "{sent:?}");
    // All from one server: only who says which end counts has equal shares.
    let from_one = [([9, 1], 12), ([9, 2], 6)];
    let sent = share(
        "fq-codel:target_ms=10000,hosts=destination",
        Limit::NONE,
        &from_one,
    );
    assert!(sent[0].abs_diff(sent[1]) < 100, "{sent:?}");
    for spec in [WIDE, "fq-codel:target_ms=10000,hosts=source"] {
        let sent = share(spec, Limit::NONE, &from_one);
        assert!(sent[0] > sent[1] * 18 / 10, "{sent:?}");
    }
}

#[test]
fn a_host_alone_has_the_whole_link_however_many_flows_it_has() {
    let sent = share(WIDE, Limit::NONE, &[([1, 2], 200)]);
    assert!(sent[0] > 1900, "{sent:?}");
}

#[test]
fn a_full_queue_drops_packets_of_the_host_that_has_most_of_it() {
    let flows = [([1, 9], 60), ([2, 8], 5)];
    let sent = share("fq-codel:hosts=true", Limit::packets(60), &flows);
    assert!(sent[1] > 800, "{sent:?}");
}

/// Packets of 1000 bytes that leave in the first two seconds, of each host. Each of `floods`, a number
/// of flows, is a host that sends two packets in each ms, of its flows in turn. Behind them a host with
/// one flow sends as much.
fn beside_floods(spec: &str, floods: &[u16]) -> (Vec<usize>, usize) {
    let mut port: Port<Between> = Port::new(epoch(), port_config(spec, Limit::packets(1000)));
    let mut sent = vec![0; floods.len() + 1];
    for time in 0..2000 {
        let now = epoch() + ms(time);
        for (host, flows) in (1u8..).zip(floods.iter().chain(&[1])) {
            for number in [2 * time, 2 * time + 1] {
                let payload = Between {
                    hosts: [host, 200 - host],
                    port: (number % u64::from(*flows)) as u16,
                };
                let meta = PacketMeta::new(1000, Ecn::NotEct);
                port.enqueue(now, Packet::new(meta, payload));
            }
        }
        while let Some((_, packet)) = port.dequeue(now) {
            sent[usize::from(packet.payload.hosts[0]) - 1] += 1;
        }
    }
    assert_eq!(port.check_conservation(), Ok(()));
    let alone = sent.pop().expect("there is one");
    (sent, alone)
}

#[test]
fn a_host_with_one_flow_has_its_share_beside_thousands_of_flows_whatever_the_number_of_queues() {
    for queues in [2, 3, 16, 1024] {
        for flows in [10, 60_000] {
            for hosts in ["true", "source", "destination"] {
                let spec = format!("fq-codel:flows={queues},hosts={hosts}");
                let (floods, alone) = beside_floods(&spec, &[flows]);
                assert!(alone > 940, "{spec}, {flows}: {floods:?} and {alone}");
                assert!(floods[0] > 940, "{spec}, {flows}: {floods:?} and {alone}");
            }
        }
    }
    let (_, alone) = beside_floods("fq-codel", &[60_000]);
    assert!(alone < 20, "without hosts each flow has its share: {alone}");
}

#[test]
fn a_host_that_comes_to_many_with_a_thousand_flows_each_has_a_queue_of_its_own() {
    for queues in [64, 1024] {
        let spec = format!("fq-codel:flows={queues},hosts=true");
        let (floods, alone) = beside_floods(&spec, &[1000; 7]);
        assert!(alone > 235, "{spec}: {floods:?} and {alone} of 250");
    }
}

#[test]
fn a_thousand_flows_that_begin_at_once_delay_a_packet_of_another_host_by_three_quanta() {
    let mut port: Port<Between> = Port::new(epoch(), port_config(WIDE, Limit::NONE));
    let from = |host, port| {
        let meta = PacketMeta::new(1000, Ecn::NotEct);
        let hosts = [host, 200 - host];
        Packet::new(meta, Between { hosts, port })
    };
    for number in 0..1000 {
        port.enqueue(epoch(), from(1, number));
    }
    port.enqueue(epoch(), from(2, 0));
    let left = std::iter::from_fn(|| port.dequeue(epoch() + ms(10)));
    let place = left
        .map(|(_, packet)| packet.payload.hosts[0])
        .position(|host| host == 2);
    assert!(place.is_some_and(|place| place <= 4), "{place:?}");
}

#[test]
fn a_host_alone_has_nearly_as_many_queues_as_flows_and_they_share_alike() {
    let flows: Vec<_> = (0..100).map(|flow| ([flow, 200], 1)).collect();
    let sent = share(
        "fq-codel:target_ms=10000,hosts=destination",
        Limit::NONE,
        &flows,
    );
    let shared = sent.iter().filter(|sent| **sent < 15).count();
    assert!(shared < 10, "{sent:?}");
}

proptest! {
    #[test]
    fn no_host_that_has_something_to_send_has_less_than_its_share_whatever_flows_others_have(
        queues in 8usize..64,
        floods in vec(1u16..2000, 1..4),
        hosts in prop_oneof![Just("true"), Just("source"), Just("destination")],
        quantum in 64u32..4000,
    ) {
        let spec = format!("fq-codel:flows={queues},quantum={quantum},hosts={hosts}");
        let (floods, alone) = beside_floods(&spec, &floods);
        let fair = 2000 / (floods.len() + 1);
        prop_assert!(alone * 100 > fair * 85, "{floods:?} and {alone} of {fair}");
    }

    #[test]
    fn whatever_hosts_send_nothing_is_lost_or_invented(
        arrivals in vec((0u64..2_000_000, 0u8..12, 0u8..12, 0u16..6, 40u32..1600), 1..600),
        queues in 1usize..20,
        hosts in prop_oneof![Just("true"), Just("source"), Just("destination")],
    ) {
        let spec = format!("fq-codel:target_ms=0.1,interval_ms=1,flows={queues},hosts={hosts}");
        let mut port: Port<Between> = Port::new(epoch(), port_config(&spec, Limit::packets(40)));
        let mut now = epoch();
        let mut left = 0;
        for (gap, source, destination, number, bytes) in &arrivals {
            now += Duration::from_nanos(*gap);
            let payload = Between { hosts: [*source, *destination], port: *number };
            port.enqueue(now, Packet::new(PacketMeta::new(*bytes, Ecn::NotEct), payload));
            left += std::iter::from_fn(|| port.dequeue(now)).count();
            prop_assert_eq!(port.check_conservation(), Ok(()));
        }
        left += std::iter::from_fn(|| port.dequeue(now + ms(10_000))).count();
        let dropped = port.stats(now).total().dropped.total().packets;
        prop_assert_eq!(left as u64 + dropped, arrivals.len() as u64);
    }
}
