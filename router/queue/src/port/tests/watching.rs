//! Tests of what a port says of flows and classes.

use std::net::{IpAddr, Ipv4Addr};

use evenkeel_wire::Ecn;

use crate::testing::{epoch, ms, port_config};
use crate::{Amount, Carrier, FlowKey, Limit, Packet, PacketMeta, Port, PortConfig};

#[derive(Debug, Clone, Copy)]
struct OfFlow(u16);

impl Carrier for OfFlow {
    fn flow(&self) -> Option<FlowKey> {
        let address = |host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host));
        Some(FlowKey::new(
            [address(1), address(2)],
            17,
            Some([self.0, 443]),
        ))
    }
}

/// A port at which 1000 bytes take 1 ms.
fn port(spec: &str, watches_flows: bool) -> Port<OfFlow> {
    let limit = Limit::packets(20);
    let config = PortConfig {
        watches_flows,
        ..port_config(spec, limit)
    };
    Port::new(epoch(), config)
}

fn packet(flow: u16, ecn: Ecn) -> Packet<OfFlow> {
    Packet::new(PacketMeta::new(1000, ecn), OfFlow(flow))
}

/// Flow 1 sends twice what the link carries, flow 2 a packet in 100 ms, for three seconds.
fn run(port: &mut Port<OfFlow>) {
    for time in 0..3000 {
        let now = epoch() + ms(time);
        for _ in 0..2 {
            port.enqueue(now, packet(1, Ecn::Ect0));
        }
        if time % 100 == 0 {
            port.enqueue(now, packet(2, Ecn::NotEct));
        }
        while port.dequeue(now).is_some() {}
    }
}

#[test]
fn the_heaviest_flow_comes_first_with_its_bytes_queue_marks_and_drops() {
    let mut port = port("fq-codel", true);
    run(&mut port);
    let report = port.flows(epoch() + ms(2999));
    let [heavy, light] = &report.heaviest[..] else {
        panic!("{report:?}");
    };
    assert_eq!(heavy.flow.to_string(), "udp 10.0.0.1:1 > 10.0.0.2:443");
    assert_eq!((heavy.class, light.class), (Some("bulk"), Some("sparse")));
    assert!(
        (7_500_000..=8_000_000).contains(&heavy.rate_bps),
        "{heavy:?}"
    );
    assert_eq!(light.rate_bps, 80_000, "ten packets");
    assert!(heavy.queued.packets > 5 && heavy.dropped > 2000 && heavy.marked > 0);
    assert_eq!(
        (light.queued, light.dropped, light.marked),
        (Amount::ZERO, 0, 0)
    );
    let total = port.stats(epoch() + ms(2999)).total();
    let [sparse, bulk] = &report.classes[..] else {
        panic!("{report:?}");
    };
    assert_eq!((sparse.class, sparse.flows), ("sparse", 1));
    assert_eq!((bulk.class, bulk.flows), ("bulk", 1));
    assert_eq!(sparse.dropped + bulk.dropped, total.dropped.total());
    assert_eq!(sparse.marked + bulk.marked, total.marked);
    let sent = sparse.forwarded + bulk.forwarded;
    assert!(
        sent.packets - total.forwarded.packets <= 1,
        "one is being sent"
    );
}

#[test]
fn flows_that_have_gone_are_not_shown() {
    let mut port = port("fq-codel", true);
    run(&mut port);
    assert!(port.flows(epoch() + ms(9000)).heaviest.is_empty());
}

#[test]
fn of_thousands_of_flows_ten_are_shown_and_a_heavy_one_is_among_them() {
    let mut port = port("fq-codel", true);
    for time in 0..3000u64 {
        let now = epoch() + ms(time);
        port.enqueue(now, packet(0, Ecn::NotEct));
        if time % 2 == 0 {
            port.enqueue(now, packet(1 + time as u16, Ecn::NotEct));
        }
        while port.dequeue(now).is_some() {}
    }
    let report = port.flows(epoch() + ms(2999));
    assert_eq!(report.heaviest.len(), 10);
    assert_eq!(
        report.heaviest[0].flow.to_string(),
        "udp 10.0.0.1:0 > 10.0.0.2:443"
    );
}

#[test]
fn a_port_that_is_not_asked_to_watches_nothing() {
    let mut port = port("fq-codel", false);
    run(&mut port);
    assert_eq!(port.flows(epoch() + ms(2999)), crate::FlowReport::default());
}

#[test]
fn guided_flows_and_others_are_classes() {
    let mut port = port("guided", true);
    run(&mut port);
    let report = port.flows(epoch() + ms(2999));
    let classes: Vec<_> = report.classes.iter().map(|class| class.class).collect();
    assert_eq!(classes, ["guided", "others"]);
    assert_eq!(report.heaviest[0].class, Some("others"));
    assert_eq!(report.classes[0].forwarded, Amount::ZERO);
}
