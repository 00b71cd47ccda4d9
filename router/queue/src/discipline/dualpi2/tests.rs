//! Tests of DualPI2, alone and behind a port.

use proptest::collection::vec;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::*;
use crate::testing::{epoch, ms};
use crate::{Limit, Packet, Port, PortConfig, Rate, Service, discipline};

/// A port at which 1000 bytes take 1 ms.
fn port(limit: Limit) -> Port<u64> {
    let config = PortConfig {
        service: Service::Rate(Rate::new(8_000_000).expect("not zero")),
        overhead_bytes: 0,
        watches_flows: false,
        limit,
        discipline: discipline("dualpi2", limit)
            .expect("a discipline")
            .build(Xoshiro256PlusPlus::seed_from_u64(1)),
        stamps: Vec::new(),
        flow_hash_key: [7; 16],
    };
    Port::new(epoch(), config)
}

fn packet(ecn: Ecn, number: u64) -> Packet<u64> {
    Packet::new(PacketMeta::new(1000, ecn), number)
}

fn dualpi2() -> DualPi2 {
    let (_, values) = evenkeel_spec::find("discipline", &[ROW], "dualpi2").expect("it is there");
    DualPi2::new(Params::read(&values))
}

fn view(queued: Amount) -> PortView {
    PortView {
        queued,
        queue: CLASSIC,
        own: queued,
        transmitting: true,
        limit: Limit::NONE,
        rate: Rate::new(8_000_000),
    }
}

/// p' after updates with these delays, in milliseconds.
fn base_after(delays: &[u64]) -> f64 {
    let mut dualpi2 = dualpi2();
    for delay in delays {
        let waited = |queue| if queue == CLASSIC { ms(*delay) } else { ms(0) };
        dualpi2.on_timer(epoch(), &view(Amount::one(1)), &waited);
    }
    dualpi2.base
}

#[test]
fn the_controller_follows_the_equation_of_the_rfc() {
    // alpha = 0.1 x 0.015 / 0.01 = 0.15 Hz, beta = 0.3 / 0.1 = 3 Hz.
    let first = 0.15 * 0.025 + 3.0 * 0.040;
    assert!((base_after(&[40]) - first).abs() < 1e-12);
    let second = first + 0.15 * 0.005 + 3.0 * -0.020;
    assert!((base_after(&[40, 20]) - second).abs() < 1e-12);
    let short = 3.0 * 0.001 - 0.15 * 0.014;
    assert!((base_after(&[1]) - short).abs() < 1e-12);
    assert_eq!(base_after(&[0]), 0.0, "never below 0");
    assert_eq!(base_after(&[10_000, 10_000]), 1.0, "never above 1");
}

#[test]
fn signals_of_both_queues_are_coupled() {
    let mut dualpi2 = dualpi2();
    dualpi2.base = 0.1;
    let mut signals = [0; 2];
    for _ in 0..10_000 {
        signals[CLASSIC] += u32::from(dualpi2.on_classic() == Verdict::Mark);
        let low_latency = dualpi2.on_low_latency(ms(0), 10_000);
        signals[LOW_LATENCY] += u32::from(low_latency == Verdict::Mark);
    }
    // p'^2 and 2 p'.
    assert!(signals[CLASSIC].abs_diff(100) <= 1, "{signals:?}");
    assert!(signals[LOW_LATENCY].abs_diff(2000) <= 1, "{signals:?}");
}

#[test]
fn the_low_latency_queue_is_marked_on_a_ramp_unless_it_is_a_packet() {
    let dualpi2 = dualpi2();
    let ramp = |micros| dualpi2.ramp(Duration::from_micros(micros), 10_000);
    assert_eq!(
        [ramp(0), ramp(800), ramp(1200), ramp(5000)],
        [0.0, 0.0, 1.0, 1.0]
    );
    assert!((ramp(1000) - 0.5).abs() < 1e-9);
    assert_eq!(dualpi2.ramp(ms(5), 1514), 0.0);
}

#[test]
fn an_overload_that_marks_do_not_calm_is_dropped_in_both_queues() {
    let mut dualpi2 = dualpi2();
    dualpi2.base = 0.5;
    let mut dropped = [0; 2];
    for _ in 0..1000 {
        let is_dropped = |verdict| u32::from(matches!(verdict, Verdict::Drop(_)));
        dropped[CLASSIC] += is_dropped(dualpi2.on_classic());
        let verdict = dualpi2.on_low_latency(ms(0), 0);
        assert_ne!(verdict, Verdict::Admit, "what is not dropped is marked");
        dropped[LOW_LATENCY] += is_dropped(verdict);
    }
    assert_eq!(dropped, [250, 250]);
}

#[test]
fn packets_with_ect_1_do_not_wait_behind_the_classic_queue() {
    let mut port = port(Limit::packets(1000));
    for number in 0..500 {
        port.enqueue(epoch(), packet(Ecn::Ect0, number));
    }
    let mut longest = Duration::ZERO;
    for time in 1..200 {
        let now = epoch() + ms(time);
        if time % 5 == 0 {
            port.enqueue(now, packet(Ecn::Ect1, time));
        }
        while let Some((_, packet)) = port.dequeue(now) {
            if packet.payload % 5 == 0 && packet.meta.ecn != Ecn::Ect0 && packet.payload < 200 {
                longest = longest.max(packet.meta.queued);
            }
        }
    }
    assert!(longest <= ms(2), "{longest:?}");
}

#[test]
fn the_classic_queue_keeps_a_tenth_while_the_other_one_always_has_something() {
    let mut dualpi2 = dualpi2();
    let queues = [Amount::one(1000); 2];
    let mut sent = [0; 2];
    for _ in 0..1000 {
        let queue = dualpi2.select(&queues, 2);
        let port = PortView {
            queue,
            own: queues[queue],
            ..view(Amount::one(2000))
        };
        let mut meta = PacketMeta::new(1000, Ecn::NotEct);
        dualpi2.on_departure(epoch(), &mut meta, &port);
        sent[queue] += 1;
    }
    assert_eq!(sent, [100, 900]);
}

#[test]
fn a_packet_that_is_seen_late_and_overtakes_delays_nobody_else() {
    let mut port = port(Limit::NONE);
    for number in 0..100 {
        port.enqueue(epoch(), packet(Ecn::Ect0, number));
    }
    let (came, seen) = (epoch() + ms(10), epoch() + ms(15));
    port.enqueue_seen(came, seen, packet(Ecn::Ect1, 100));
    let mut left = Vec::new();
    while let Some((at, packet)) = port.dequeue(epoch() + ms(1000)) {
        left.push((packet.payload, at - epoch()));
    }
    let late = left.iter().find(|(number, _)| *number == 100);
    assert_eq!(late, Some(&(100, ms(16))));
    assert_eq!(left.last(), Some(&(99, ms(101))));
    assert!(left.iter().is_sorted_by_key(|(_, at)| *at));
}

#[test]
fn a_port_with_nothing_to_do_sleeps() {
    let mut port = port(Limit::NONE);
    for number in 0..500 {
        port.enqueue(epoch(), packet(Ecn::NotEct, number));
    }
    let mut now = epoch();
    while let Some(next) = port.next_timeout() {
        now = next;
        while port.dequeue(now).is_some() {}
        port.stats(now);
    }
    assert!(now < epoch() + ms(20_000), "{:?}", now - epoch());
}

proptest! {
    #[test]
    fn whatever_arrives_nothing_is_lost_or_invented_and_queues_keep_their_order(
        arrivals in vec((0u64..3_000_000, any::<bool>()), 1..400),
        limit in prop_oneof![Just(Limit::NONE), (0u64..60).prop_map(Limit::packets)],
    ) {
        let mut port = port(limit);
        let mut now = epoch();
        let mut left = Vec::new();
        for (number, (gap, is_scalable)) in (0..).zip(&arrivals) {
            now += Duration::from_nanos(*gap);
            let ecn = if *is_scalable { Ecn::Ect1 } else { Ecn::NotEct };
            port.enqueue(now, packet(ecn, 2 * number + u64::from(*is_scalable)));
            while let Some((_, packet)) = port.dequeue(now) {
                left.push(packet.payload);
            }
            prop_assert_eq!(port.check_conservation(), Ok(()));
        }
        while let Some((_, packet)) = port.dequeue(now + ms(10_000)) {
            left.push(packet.payload);
        }
        let dropped = port.stats(now + ms(10_000)).total().dropped.total().packets;
        prop_assert_eq!(left.len() as u64 + dropped, arrivals.len() as u64);
        for queue in 0..2 {
            prop_assert!(left.iter().filter(|number| *number % 2 == queue).is_sorted());
        }
    }
}
