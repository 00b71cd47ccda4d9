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
    share_between(0..2000, spec, limit, flows)
}

/// The same, of the packets that leave in these milliseconds.
fn share_between(
    counted: std::ops::Range<u64>,
    spec: &str,
    limit: Limit,
    flows: &[([u8; 2], u16)],
) -> Vec<usize> {
    let config = port_config(spec, limit);
    let mut port: Port<Between> = Port::new(epoch(), config);
    let mut sent = vec![0; flows.len()];
    for time in 0..counted.end {
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
            sent[place.expect("one of them")] += usize::from(time >= counted.start);
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

#[test]
fn a_host_that_begins_a_thousand_flows_delays_another_by_their_first_quanta_at_most() {
    // In 1024 queues the other's flow would share one with another flow more often than not.
    let spec = format!("{WIDE},flows=65536");
    let flows = [([1, 9], 1000), ([2, 8], 1)];
    let sent = share_between(4000..6000, &spec, Limit::NONE, &flows);
    assert!(sent[1] > 600, "{sent:?}");
    let by_flow = "fq-codel:target_ms=10000,flows=65536";
    let sent = share_between(4000..6000, by_flow, Limit::NONE, &flows);
    assert!(sent[1] < 10, "{sent:?}");
}
