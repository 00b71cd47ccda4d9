//! Tests of how a port hosts stamps, and of AQT.

pub(super) mod closed_loop;
mod properties;
pub(super) mod testing;

use evenkeel_wire::{CompactCount, Ecn, PathHeaderKind};

use super::*;
use crate::testing::{epoch, ms};
use crate::{
    Discipline, DropReason, DropTail, Limit, Packet, Port, PortConfig, Rate, Service, Verdict,
};
use testing::{IpPacket, header};

fn port(now: Instant, specs: &[&str]) -> Port<IpPacket> {
    port_with(
        now,
        stamp_set(specs).unwrap(),
        Box::new(DropTail),
        Limit::NONE,
    )
}

/// A packet of 1000 bytes takes 1 ms.
fn port_with(
    now: Instant,
    stamps: Vec<Box<dyn StampConfig>>,
    discipline: Box<dyn Discipline>,
    limit: Limit,
) -> Port<IpPacket> {
    let config = PortConfig {
        service: Service::Rate(Rate::new(8_000_000).expect("not zero")),
        overhead_bytes: 0,
        watches_flows: false,
        limit,
        discipline,
        stamps,
        flow_hash_key: [7; 16],
    };
    Port::new(now, config)
}

fn acp(rtt: Duration) -> Packet<IpPacket> {
    IpPacket::headered(&header(PathHeaderKind::Acp, rtt), 1000).queued()
}

fn departures(port: &mut Port<IpPacket>, now: Instant) -> Vec<IpPacket> {
    std::iter::from_fn(|| port.dequeue(now))
        .map(|(_, packet)| packet.payload)
        .collect()
}

#[test]
fn aqt_is_the_time_from_arrival_to_the_start_of_transmission() {
    let start = epoch();
    let mut port = port(start, &["aqt"]);
    // The second waits for the first, the third comes half way through the second.
    port.enqueue(start, acp(ms(50)));
    port.enqueue(start, acp(ms(50)));
    port.enqueue(start + Duration::from_micros(1500), acp(ms(50)));
    let aqt: Vec<_> = departures(&mut port, start + ms(9))
        .iter()
        .map(|packet| {
            assert!(packet.udp_checksum_holds());
            let signals = packet.header().signals();
            assert!(signals.flags.stamped && !signals.flags.gap && !signals.flags.offered);
            assert_eq!(signals.hop_limit, 63);
            signals.queueing_time.duration().as_micros()
        })
        .collect();
    assert_eq!(aqt, [0, 1000, 500]);
}

#[test]
fn the_queueing_times_of_two_routers_in_a_row_add_up_without_a_gap() {
    let start = epoch();
    let (mut first, mut second) = (port(start, &["aqt"]), port(start, &["aqt"]));
    for _ in 0..3 {
        first.enqueue(start, acp(ms(50)));
    }
    let mut crossing: Vec<_> = std::iter::from_fn(|| first.dequeue(start + ms(9))).collect();
    // What crossed the first at its rate queues at the second only behind what others send.
    crossing.insert(2, (start + Duration::from_micros(2900), acp(ms(50))));
    for (at, mut packet) in crossing {
        packet.payload.take_hop();
        second.enqueue(at, packet);
    }
    let last = departures(&mut second, start + ms(9)).pop().unwrap();
    let signals = last.header().signals();
    // 2 ms behind two packets, then 1 ms behind the other's, which started at 3 ms.
    assert_eq!(signals.queueing_time.duration(), ms(3));
    assert_eq!((signals.flags.gap, signals.hop_limit), (false, 62));
}

#[test]
fn a_hop_between_two_routers_that_does_not_stamp_sets_the_gap() {
    let start = epoch();
    let (mut first, mut second) = (port(start, &["aqt"]), port(start, &["aqt"]));
    first.enqueue(start, acp(ms(50)));
    let (at, mut packet) = first.dequeue(start + ms(9)).unwrap();
    packet.payload.take_hop();
    packet.payload.take_hop();
    second.enqueue(at, packet);
    let packet = departures(&mut second, start + ms(9)).pop().unwrap();
    assert!(packet.header().signals().flags.gap);
}

#[test]
fn packets_without_a_header_are_counted_by_reason_and_left_alone() {
    let start = epoch();
    let mut port = port(start, &["aqt", "acp", "flows"]);
    let whole = header(PathHeaderKind::Acp, ms(50)).emit();
    let mut other_version = whole;
    other_version[4] = 2 << 6 | other_version[4] & 0x3f;
    let mut other_kind = whole;
    other_kind[4] = other_kind[4] & !0b0011_1000 | 5 << 3;
    let mut fragment = IpPacket::v4((1, 2), &whole);
    fragment.0[6] = 0x20;
    let packets = [
        IpPacket::v4((1, 2), b"no header"),
        IpPacket::v4((1, 2), &whole[..31]),
        IpPacket::v4((1, 2), &other_version),
        IpPacket::v4((1, 2), &other_kind),
        fragment,
        IpPacket(vec![0x45; 9]),
        IpPacket(vec![]),
    ];
    for packet in &packets {
        port.enqueue(start, packet.clone().queued());
    }
    port.enqueue(start, acp(ms(50)));
    let departed = departures(&mut port, start + ms(100));
    assert_eq!(departed[..packets.len()], packets);
    let expected = HeaderCounts {
        recognised: 1,
        stamped: 1,
        foreign: 3,
        truncated: 1,
        version: 1,
        kind: 1,
        untouchable: 1,
    };
    assert_eq!(port.stats(start + ms(100)).total().headers, expected);
    assert_eq!(expected.refused(), 4);
    port.restart_measurement(start + ms(100));
    assert_eq!(
        port.stats(start + ms(100)).window().headers,
        HeaderCounts::default()
    );
}

#[test]
fn a_port_without_stamps_looks_at_nothing() {
    let start = epoch();
    let mut port = port(start, &[]);
    let packet = acp(ms(50));
    port.enqueue(start, packet.clone());
    assert_eq!(port.stats(start).total().headers, HeaderCounts::default());
    assert!(port.stamp_figures(start).is_empty());
    assert_eq!(departures(&mut port, start + ms(9)), [packet.payload]);
}

#[test]
fn a_packet_that_the_port_drops_is_recognised_but_not_stamped() {
    let start = epoch();
    let stamps = stamp_set(["aqt"]).unwrap();
    let mut port = port_with(start, stamps, Box::new(DropTail), Limit::packets(0));
    port.enqueue(start, acp(ms(50)));
    assert_eq!(
        port.enqueue(start, acp(ms(50))),
        Verdict::Drop(DropReason::Full)
    );
    let headers = port.stats(start + ms(9)).total().headers;
    assert_eq!((headers.recognised, headers.stamped), (2, 1));
}

#[test]
fn an_unlimited_port_stamps_the_queueing_time_it_has_none_of_and_offers_no_rate() {
    let start = epoch();
    let config = PortConfig {
        service: Service::Unlimited,
        overhead_bytes: 0,
        watches_flows: false,
        limit: Limit::NONE,
        discipline: Box::new(DropTail),
        stamps: stamp_set(["aqt", "acp"]).unwrap(),
        flow_hash_key: [7; 16],
    };
    let mut port = Port::new(start, config);
    port.enqueue(start + ms(70), acp(ms(50)));
    let packet = departures(&mut port, start + ms(70)).pop().unwrap();
    let signals = packet.header().signals();
    assert!(signals.flags.stamped && !signals.flags.offered && !signals.flags.congested);
    assert_eq!(signals.queueing_time.duration(), Duration::ZERO);
    assert_eq!(port.next_timeout(), None);
}

/// Notes when it was called, and whether it heard of a header.
#[derive(Debug, Clone, Default)]
struct Scripted {
    timer: Option<Instant>,
    heard: std::sync::Arc<std::sync::Mutex<Vec<(&'static str, Instant)>>>,
}

impl Scripted {
    fn note(&self, what: &'static str, now: Instant) {
        self.heard
            .lock()
            .expect("no test panics while it holds the log")
            .push((what, now));
    }
}

impl StampConfig for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn build(&self, now: Instant) -> Box<dyn Stamp> {
        Box::new(Self {
            timer: Some(now + Duration::from_micros(700)),
            heard: self.heard.clone(),
        })
    }
}

impl Stamp for Scripted {
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival<'_>, port: &PortView) {
        assert_eq!((arrival.bytes, arrival.flow), (1000, None));
        assert!(arrival.header.is_some());
        assert_eq!(port.queued.packets, 0);
        self.note("arrival", now);
    }

    fn on_departure(&mut self, now: Instant, departure: &mut Departure<'_>, _: &PortView) {
        assert_eq!(departure.leaving_ttl, 63);
        departure
            .header
            .raise_contention(CompactCount::from_flows(3));
        self.note("departure", now);
    }

    fn on_timer(&mut self, now: Instant, _: &PortView) {
        self.note("timer", now);
        self.timer = Some(now + Duration::from_micros(700));
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timer
    }
}

#[test]
fn stamps_hear_of_events_at_their_instants_however_late_the_host() {
    let start = epoch();
    let script = Scripted::default();
    let stamps: Vec<Box<dyn StampConfig>> = vec![Box::new(script.clone())];
    let mut port = port_with(start, stamps, Box::new(DropTail), Limit::NONE);
    assert_eq!(
        port.next_timeout(),
        Some(start + Duration::from_micros(700))
    );
    port.enqueue(start, acp(ms(50)));
    port.enqueue(start, acp(ms(50)));
    let packets = departures(&mut port, start + ms(2));
    let flows: Vec<_> = packets
        .iter()
        .map(|packet| packet.header().signals().contention.flows())
        .collect();
    assert_eq!(flows, [3, 3]);
    let heard = script.heard.lock().unwrap();
    let heard: Vec<_> = heard
        .iter()
        .map(|(what, at)| (*what, (*at - start).as_micros()))
        .collect();
    let expected = [
        ("arrival", 0),
        ("departure", 0),
        ("arrival", 0),
        ("timer", 700),
        ("departure", 1000),
        ("timer", 1400),
    ];
    assert_eq!(heard, expected);
}

/// Drops what is about to leave.
#[derive(Debug, Clone)]
struct HeadDrop;

impl Discipline for HeadDrop {
    fn on_arrival(&mut self, _: Instant, _: &mut crate::PacketMeta, _: &PortView) -> Verdict {
        Verdict::Admit
    }

    fn on_departure(&mut self, _: Instant, _: &mut crate::PacketMeta, _: &PortView) -> Verdict {
        Verdict::Drop(DropReason::Early)
    }
}

#[test]
fn what_the_discipline_drops_at_departure_is_not_stamped() {
    let start = epoch();
    let stamps = stamp_set(["aqt"]).unwrap();
    let mut port = port_with(start, stamps, Box::new(HeadDrop), Limit::NONE);
    port.enqueue(start, acp(ms(50)));
    let headers = port.stats(start + ms(9)).total().headers;
    assert_eq!((headers.recognised, headers.stamped), (1, 0));
}

#[test]
fn a_mark_and_a_stamp_reach_the_same_packet() {
    #[derive(Debug)]
    struct MarkAll;
    impl Discipline for MarkAll {
        fn on_arrival(&mut self, _: Instant, _: &mut crate::PacketMeta, _: &PortView) -> Verdict {
            Verdict::Mark
        }
    }
    let start = epoch();
    let stamps = stamp_set(["aqt"]).unwrap();
    let mut port = port_with(start, stamps, Box::new(MarkAll), Limit::NONE);
    port.enqueue(start, acp(ms(50)));
    let (_, packet) = port.dequeue(start + ms(1)).unwrap();
    assert_eq!(packet.meta.ecn, Ecn::Ce);
    assert!(packet.payload.header().signals().flags.stamped);
}

#[test]
fn stamps_do_not_change_what_else_a_link_draws() {
    let outcome = |specs: &[&str]| {
        let start = epoch();
        let config = crate::LinkConfig {
            stamps: stamp_set(specs).unwrap(),
            jitter: ms(3),
            loss: 0.3,
            ..crate::LinkConfig::default()
        };
        let rng = rand_pcg::Pcg64::new(1, 0);
        let mut link = crate::Link::new(start, config, Box::new(rng)).unwrap();
        let mut out = Vec::new();
        for number in 0..200 {
            let now = start + ms(number);
            link.push(now, acp(ms(50)));
            while let Some(packet) = link.pop(now) {
                out.push((number, packet.meta.bytes));
            }
        }
        out
    };
    assert_eq!(outcome(&["aqt", "flows"]), outcome(&[]));
}
