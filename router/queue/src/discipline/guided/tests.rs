//! Tests of the guided class behind a port.

mod starving;

use std::net::{IpAddr, Ipv4Addr};

use evenkeel_wire::{
    CompactRate, CompactTime, Ecn, HeaderTimestamp, PathHeaderKind, PathHeaderMut, PathHeaderRepr,
    Signals, Skipped,
};
use proptest::collection::vec;
use proptest::prelude::*;
use rand::SeedableRng;

use super::*;
use crate::testing::{epoch, ms, port_config};
use crate::{
    CarriedHeader, Carrier, FlowKey, Limit, Packet, Port, PortConfig, StampConfig, stamp_set,
};

/// A packet of a flow, and which one of it.
#[derive(Debug, Clone)]
struct Numbered {
    flow: u16,
    number: u64,
    header: Option<[u8; 32]>,
}

impl Carrier for Numbered {
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        let header = self.header.as_mut().ok_or(Skipped::Foreign)?;
        Ok(CarriedHeader {
            header: PathHeaderMut::parse(header)?,
            leaving_ttl: 63,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        let host = (self.flow / FLOWS_OF_A_HOST) as u8;
        let addresses = [Ipv4Addr::new(10, 0, 0, host), Ipv4Addr::LOCALHOST];
        Some(FlowKey::new(
            addresses.map(IpAddr::from),
            17,
            Some([self.flow, 1]),
        ))
    }
}

/// From here on flows of the first host send no headers.
const FIRST_OTHER: u16 = 100;

const FLOWS_OF_A_HOST: u16 = 1000;

/// From here on all flows send no headers.
const FIRST_HOST_OF_OTHERS: u16 = 10 * FLOWS_OF_A_HOST;

fn sends_headers(flow: u16) -> bool {
    !(FIRST_OTHER..FLOWS_OF_A_HOST).contains(&flow) && flow < FIRST_HOST_OF_OTHERS
}

fn packet(flow: u16, number: u64, bytes: u32) -> Packet<Numbered> {
    let header = PathHeaderRepr {
        kind: PathHeaderKind::Acp,
        rtt: CompactTime::from_duration(ms(40)),
        signals: Signals::initial(CompactRate::NO_LIMIT, Some(64)),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(0),
        echo: None,
        tag: [0; 4],
    };
    let header = sends_headers(flow).then(|| header.emit());
    let payload = Numbered {
        flow,
        number,
        header,
    };
    Packet::new(PacketMeta::new(bytes, Ecn::NotEct), payload)
}

/// A port at which 1000 bytes take 1 ms.
fn port_with(spec: &str, limit: Limit, stamps: Vec<Box<dyn StampConfig>>) -> Port<Numbered> {
    let config = PortConfig {
        stamps,
        ..port_config(spec, limit)
    };
    Port::new(epoch(), config)
}

fn port() -> Port<Numbered> {
    port_with("guided:others=drop-tail", Limit::packets(200), Vec::new())
}

/// What has left: of each packet its flow, and how long it has waited.
type Left = Vec<(u16, Duration)>;

/// How flows send in a run: packets of 1000 bytes, one each `every`, in a span of milliseconds.
struct Sends {
    flow: u16,
    every: f64,
    span: std::ops::Range<u64>,
}

fn sends(flow: u16, every: f64, span: std::ops::Range<u64>) -> Sends {
    Sends { flow, every, span }
}

/// Runs senders for `until` milliseconds; returns what left from `from` on.
fn run(port: &mut Port<Numbered>, senders: &[Sends], from: u64, until: u64) -> Left {
    let mut left = Vec::new();
    for time in 0..until {
        let now = epoch() + ms(time);
        for sender in senders.iter().filter(|sender| sender.span.contains(&time)) {
            let sent = |time: u64| (time as f64 / sender.every) as u64;
            for number in sent(time)..sent(time + 1) {
                port.enqueue(now, packet(sender.flow, number, 1000));
            }
        }
        while let Some((_, packet)) = port.dequeue(now) {
            if time >= from {
                left.push((packet.payload.flow, packet.meta.queued));
            }
        }
    }
    left
}

/// The share of packets that were of flows with headers.
fn guided_share(left: &Left) -> f64 {
    let guided = left.iter().filter(|(flow, _)| sends_headers(*flow)).count();
    guided as f64 / left.len() as f64
}

fn longest_wait(left: &Left, flow: u16) -> Duration {
    let waits = left.iter().filter(|one| one.0 == flow).map(|one| one.1);
    waits.max().expect("it has sent something")
}

#[test]
fn the_classes_share_the_link_by_their_numbers_of_flows() {
    for (guided, others) in [(1, 1), (1, 10), (2, 3), (10, 1), (15, 1), (10, 10)] {
        let flows = (0..guided).chain(FIRST_OTHER..FIRST_OTHER + others);
        // Each sends a fifth more than its part of the link.
        let every = f64::from(guided + others) / 1.2;
        let senders: Vec<_> = flows.map(|flow| sends(flow, every, 0..5000)).collect();
        let wanted = f64::from(guided) / f64::from(guided + others);
        for spec in ["guided", "guided:others=drop-tail"] {
            let mut port = port_with(spec, Limit::packets(200), Vec::new());
            let share = guided_share(&run(&mut port, &senders, 1000, 5000));
            assert!(
                (share / wanted - 1.0).abs() < 0.05,
                "{guided}, {others}: {share}"
            );
        }
    }
}

#[test]
fn a_guided_flow_within_its_share_does_not_wait_behind_the_others() {
    let senders = [sends(1, 2.2, 0..5000), sends(FIRST_OTHER, 0.5, 0..5000)];
    let left = run(&mut port(), &senders, 1000, 5000);
    assert!(
        longest_wait(&left, 1) <= ms(2),
        "{:?}",
        longest_wait(&left, 1)
    );
    let others = longest_wait(&left, FIRST_OTHER);
    assert!(
        others > ms(300),
        "200 packets at half of the link: {others:?}"
    );
}

#[test]
fn what_a_class_does_not_use_the_other_one_has_at_once() {
    let senders = [
        sends(1, 0.9, 0..2000),
        sends(1, 0.9, 3000..4000),
        sends(FIRST_OTHER, 0.9, 0..4000),
    ];
    let left = run(&mut port(), &senders, 0, 4000);
    let share = |from: usize, until: usize| guided_share(&left[from..until].to_vec());
    assert!(
        (share(1000, 1900) - 0.5).abs() < 0.02,
        "{}",
        share(1000, 1900)
    );
    // What it had waiting has left; then the others have the link.
    assert_eq!(share(2500, 2990), 0.0);
    assert!(
        (share(3010, 3900) - 0.5).abs() < 0.02,
        "{}",
        share(3010, 3900)
    );
}

#[test]
fn a_flow_that_sends_little_is_a_part_of_a_flow() {
    let senders = [
        sends(1, 2.0, 0..5000),
        // Acknowledgements.
        sends(2, 50.0, 0..5000),
        sends(FIRST_OTHER, 0.9, 0..5000),
    ];
    let left = run(&mut port(), &senders, 1000, 5000);
    let share = guided_share(&left);
    assert!((0.48..0.54).contains(&share), "{share}");
}

#[test]
fn stamps_see_the_queue_and_the_rate_of_the_guided_class() {
    let mut guided = Config {
        others: Box::new(crate::DropTail),
    }
    .build(Xoshiro256PlusPlus::seed_from_u64(1));
    let view = |queue| PortView {
        queued: Amount::one(9000),
        queue,
        own: Amount::ZERO,
        transmitting: true,
        limit: Limit::NONE,
        rate: Rate::new(8_000_000),
    };
    let queues = [Amount::one(2000), Amount::one(7000)];
    assert_eq!(guided.seen_by_stamps(view(1), &queues), None);
    let seen = |guided: &dyn Discipline| guided.seen_by_stamps(view(0), &queues).expect("guided");
    assert_eq!(seen(&*guided).queued, queues[0]);
    // The others send a quarter of the link, in packets of 1000 bytes.
    let other = Sender {
        flow: Some(1),
        host: Some(1),
        has_header: false,
        ends: None,
    };
    let mut now = epoch();
    for packets in 0..1000 {
        if packets % 4 == 0 {
            let mut meta = PacketMeta::new(1000, Ecn::NotEct);
            guided.classify(&meta, other);
            guided.on_arrival(now, &mut meta, &view(1));
            guided.on_departure(now, &mut meta, &view(1));
        }
        now += ms(1);
        if guided.next_timer().is_some_and(|timer| timer <= now) {
            guided.on_timer(now, &view(0), &|_| Duration::ZERO);
        }
    }
    let rate = seen(&*guided).rate.expect("the link has one");
    let wanted = 6_000_000;
    assert!(rate.bits_per_second().abs_diff(wanted) < 200_000, "{rate}");
}

#[test]
fn packets_of_others_are_neither_counted_nor_stamped_by_stamps() {
    let stamps = stamp_set(["flows"]).expect("stamps");
    let mut port = port_with("guided", Limit::packets(200), stamps);
    let senders = [
        sends(1, 4.0, 0..3000),
        sends(2, 4.0, 0..3000),
        sends(FIRST_OTHER, 0.9, 0..3000),
    ];
    run(&mut port, &senders, 0, 3000);
    let figures = port.stamp_figures(epoch() + ms(3000));
    let flows = figures[0].figures[0].1;
    assert!((1.9..2.1).contains(&flows), "{flows}");
    let headers = port.stats(epoch() + ms(3000)).total().headers;
    assert_eq!(headers.recognised, 1500);
    assert!(headers.stamped >= 1490, "{headers:?}");
}

#[test]
fn a_flow_that_goes_on_above_its_share_is_found_and_leaves_the_honest_ones_alone() {
    let mut senders: Vec<_> = (1..10).map(|flow| sends(flow, 22.0, 0..9000)).collect();
    // It sends headers and would take all.
    senders.push(sends(99, 1.0, 0..9000));
    senders.extend((0..10).map(|flow| sends(FIRST_OTHER + flow, 10.0, 0..9000)));
    // By then what it had left waiting has been sent.
    let left = run(&mut port(), &senders, 7000, 9000);
    for flow in 1..10 {
        assert!(
            longest_wait(&left, flow) < ms(12),
            "{flow}: {:?}",
            longest_wait(&left, flow)
        );
        let packets = left.iter().filter(|one| one.0 == flow).count();
        assert!(packets >= 2000 / 22 - 1, "{flow}: {packets}");
    }
    assert!(
        longest_wait(&left, 99) > ms(50),
        "it waits behind the others"
    );
}

#[test]
fn a_flow_with_a_class_to_itself_gains_nothing_by_claiming_to_be_guided() {
    let mut senders = vec![sends(1, 0.9, 0..5000)];
    senders.extend((0..4).map(|flow| sends(FIRST_OTHER + flow, 0.9, 0..5000)));
    let mut port = port_with("guided", Limit::packets(200), Vec::new());
    let share = guided_share(&run(&mut port, &senders, 1000, 5000));
    assert!(share < 0.21, "{share}");
}

#[test]
fn where_hosts_take_turns_one_with_a_new_port_for_each_packet_leaves_another_its_half() {
    let share = |spec| {
        let hops = (0..3000).map(|time| {
            sends(
                FIRST_HOST_OF_OTHERS + time,
                0.5,
                time.into()..u64::from(time) + 1,
            )
        });
        let mut senders: Vec<_> = hops.collect();
        senders.push(sends(FIRST_OTHER, 0.9, 0..3000));
        let mut port = port_with(spec, Limit::packets(200), Vec::new());
        let left = run(&mut port, &senders, 1000, 3000);
        left.iter().filter(|(flow, _)| *flow == FIRST_OTHER).count() as f64 / left.len() as f64
    };
    let (with, without) = (share("guided:hosts=source"), share("guided"));
    assert!(with > 0.45 && without < 0.1, "{with} {without}");
}

#[test]
fn hosts_of_others_in_one_queue_take_no_turns() {
    let error =
        crate::discipline::discipline("guided:others=drop-tail,hosts=true", Limit::packets(9));
    assert!(error.is_err());
}

#[test]
fn others_that_fill_the_queue_do_not_make_guided_flows_lose_packets() {
    let mut port = port_with("guided:others=drop-tail", Limit::packets(20), Vec::new());
    let senders = [sends(1, 2.2, 0..3000), sends(FIRST_OTHER, 0.3, 0..3000)];
    let left = run(&mut port, &senders, 0, 3000);
    let guided = left.iter().filter(|one| one.0 == 1).count();
    assert!(guided >= 1362, "{guided} of 1363");
}

#[test]
fn a_port_sleeps_once_its_flows_are_forgotten() {
    let mut port = port();
    run(&mut port, &[sends(1, 2.0, 0..100)], 0, 200);
    let mut now = epoch() + ms(200);
    while let Some(next) = port.next_timeout() {
        now = next;
        while port.dequeue(now).is_some() {}
        port.stats(now);
    }
    assert!(now < epoch() + ms(10_000), "{:?}", now - epoch());
}

proptest! {
    #[test]
    fn whatever_arrives_nothing_is_lost_or_invented_and_flows_keep_their_order(
        arrivals in vec((0u64..3_000_000, prop_oneof![0u16..4, 100u16..104], 40u32..1600), 1..400),
        limit in prop_oneof![Just(Limit::NONE), (0u64..60).prop_map(Limit::packets),
                             (0u64..60_000).prop_map(Limit::bytes)],
        spec in prop_oneof![Just("guided"), Just("guided:others=drop-tail")],
    ) {
        let mut port = port_with(spec, limit, Vec::new());
        let mut now = epoch();
        let mut left = Vec::new();
        let mut fetch = |port: &mut Port<Numbered>, now| {
            while let Some((_, packet)) = port.dequeue(now) {
                left.push((packet.payload.flow, packet.payload.number));
            }
        };
        for (number, (gap, flow, bytes)) in (0..).zip(&arrivals) {
            now += Duration::from_nanos(*gap);
            port.enqueue(now, packet(*flow, number, *bytes));
            fetch(&mut port, now);
            prop_assert_eq!(port.check_conservation(), Ok(()));
            let queued = port.stats(now).queued();
            prop_assert!(limit.packets.is_none_or(|most| queued.packets <= most));
            prop_assert!(limit.bytes.is_none_or(|most| queued.bytes <= most));
        }
        now += ms(10_000);
        fetch(&mut port, now);
        let dropped = port.stats(now).total().dropped.total().packets;
        prop_assert_eq!(left.len() as u64 + dropped, arrivals.len() as u64);
        for flow in (0..4).chain(100..104) {
            let numbers: Vec<u64> = left.iter().filter(|one| one.0 == flow).map(|one| one.1).collect();
            prop_assert!(numbers.is_sorted(), "{numbers:?}");
        }
    }

    #[test]
    fn of_two_classes_with_something_to_send_neither_starves(
        guided in 1u16..8, others in 1u16..8, bytes in 200u32..1500,
    ) {
        let mut port = port_with("guided", Limit::NONE, Vec::new());
        for flow in (0..guided).chain(FIRST_OTHER..FIRST_OTHER + others) {
            for number in 0..3000 {
                port.enqueue(epoch(), packet(flow, number, bytes));
            }
        }
        let mut last = [epoch(); 2];
        while let Some((ended, packet)) = port.dequeue(epoch() + ms(500)) {
            let class = usize::from(packet.payload.flow >= FIRST_OTHER);
            // By their numbers at least each ninth packet, and what one class was owed.
            prop_assert!(ended - last[class] <= ms(60), "{:?}", ended - last[class]);
            last[class] = ended;
        }
    }
}
