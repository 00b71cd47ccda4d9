//! Tests of ports, worked by hand.

mod hosting;
mod properties;
mod watching;

use super::*;
use crate::testing::{epoch, ms, packet};
use crate::{DeliveryTrace, DropTail};

fn rate(bits_per_second: u64) -> Rate {
    Rate::new(bits_per_second).expect("not zero")
}

/// A rate at which a packet of 1000 bytes takes 1 ms.
fn kilobyte_per_ms() -> Service {
    Service::Rate(rate(8_000_000))
}

fn trace(text: &str) -> Service {
    Service::Trace(DeliveryTrace::parse(text).unwrap())
}

fn drop_tail(now: Instant, service: Service, limit: Limit) -> Port<u64> {
    let discipline = Box::new(DropTail);
    let config = PortConfig {
        service,
        overhead_bytes: 0,
        watches_flows: false,
        limit,
        discipline,
        stamps: Vec::new(),
        flow_hash_key: [0; 16],
    };
    Port::new(now, config)
}

/// All departures up to `now`: time since `start`, and which packet.
fn departures(port: &mut Port<u64>, start: Instant, now: Instant) -> Vec<(Duration, u64)> {
    std::iter::from_fn(|| port.dequeue(now))
        .map(|(ended, packet)| (ended - start, packet.payload))
        .collect()
}

#[test]
fn a_packet_leaves_when_its_last_bit_is_sent() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(10));
    assert_eq!(port.next_timeout(), None);
    assert_eq!(port.enqueue(start, packet(1000, 1)), Verdict::Admit);
    assert_eq!(port.next_timeout(), Some(start + ms(1)));
    assert_eq!(port.dequeue(start + ms(1) - Duration::from_nanos(1)), None);
    let (ended, packet) = port
        .dequeue(start + ms(1))
        .expect("the millisecond is over");
    assert_eq!((ended, packet.meta.queued), (start + ms(1), Duration::ZERO));
    assert_eq!(port.next_timeout(), None);
}

#[test]
fn two_hundred_packets_of_1228_bytes_a_second_take_five_milliseconds_each() {
    let start = epoch();
    let mut port = drop_tail(start, Service::Rate(rate(1_964_800)), Limit::NONE);
    for number in 1..=200 {
        port.enqueue(start, packet(1228, number));
    }
    for number in 1..=200 {
        let (ended, packet) = port.dequeue(start + ms(1000)).unwrap();
        assert_eq!((ended - start, packet.payload), (ms(5 * number), number));
    }
}

#[test]
fn a_million_packets_at_an_awkward_rate_end_at_the_exact_time_rounded_down() {
    for bits_per_second in [9_973, 1_234_567_891, 999_999_999_989] {
        let start = epoch();
        let mut port = drop_tail(start, Service::Rate(rate(bits_per_second)), Limit::NONE);
        let mut bits = 0u128;
        let mut now = start;
        port.enqueue(now, packet(41, 0));
        for number in 1..=1_000_000u64 {
            // One packet more than is sent, so that the port never idles.
            port.enqueue(
                now,
                packet(41 + u32::try_from(number % 1460).unwrap(), number),
            );
            let (ended, packet) = port.dequeue(port.next_timeout().unwrap()).unwrap();
            bits += u128::from(packet.meta.bytes) * 8;
            let exact = bits * 1_000_000_000 / u128::from(bits_per_second);
            assert_eq!((ended - start).as_nanos(), exact);
            now = ended;
        }
    }
}

#[test]
fn a_host_that_calls_late_learns_the_exact_instants() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::NONE);
    port.enqueue(start, packet(1000, 1));
    port.enqueue(start, packet(500, 2));
    port.enqueue(start + ms(5), packet(1000, 3));
    let expected = [(ms(1), 1), (Duration::from_micros(1500), 2), (ms(6), 3)];
    assert_eq!(departures(&mut port, start, start + ms(1000)), expected);
}

#[test]
fn the_packet_in_transmission_is_not_counted_in_the_queue() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(2));
    let verdicts: Vec<_> = (1..=4)
        .map(|number| port.enqueue(start, packet(1000, number)))
        .collect();
    assert_eq!(verdicts[..3], [Verdict::Admit; 3]);
    assert_eq!(verdicts[3], Verdict::Drop(DropReason::Full));
    let stats = port.stats(start);
    assert_eq!(
        stats.queued(),
        Amount {
            packets: 2,
            bytes: 2000
        }
    );
    assert_eq!(stats.in_transmission(), Amount::one(1000));
    assert_eq!(stats.queue().max(), 2);
}

#[test]
fn a_full_port_drops_the_arriving_packet_and_keeps_the_others() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::bytes(1500));
    for number in 1..=3 {
        port.enqueue(start, packet(1000, number));
    }
    assert_eq!(port.enqueue(start, packet(500, 4)), Verdict::Admit);
    assert_eq!(
        departures(&mut port, start, start + ms(9))
            .iter()
            .map(|(_, n)| *n)
            .collect::<Vec<_>>(),
        [1, 2, 4]
    );
    assert_eq!(
        port.stats(start + ms(9)).total().dropped.full,
        Amount::one(1000)
    );
    assert_eq!(port.check_conservation(), Ok(()));
}

#[test]
fn a_transmission_that_ends_makes_room_for_an_arrival_at_the_same_instant() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(1));
    port.enqueue(start, packet(1000, 1));
    port.enqueue(start, packet(1000, 2));
    assert_eq!(port.enqueue(start + ms(1), packet(1000, 3)), Verdict::Admit);
}

#[test]
fn a_port_without_a_queue_still_transmits_what_finds_it_idle() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(0));
    assert_eq!(port.enqueue(start, packet(1000, 1)), Verdict::Admit);
    assert_eq!(
        port.enqueue(start, packet(1000, 2)),
        Verdict::Drop(DropReason::Full)
    );
    assert_eq!(port.enqueue(start + ms(1), packet(1000, 3)), Verdict::Admit);
    assert_eq!(port.stats(start + ms(1)).queue().max(), 0);
}

#[test]
fn an_unlimited_port_passes_everything_at_once() {
    let start = epoch();
    let mut port = drop_tail(start, Service::Unlimited, Limit::packets(0));
    for number in 1..=3 {
        assert_eq!(port.enqueue(start, packet(1000, number)), Verdict::Admit);
    }
    assert_eq!(port.next_timeout(), Some(start));
    let zero = Duration::ZERO;
    assert_eq!(
        departures(&mut port, start, start),
        [(zero, 1), (zero, 2), (zero, 3)]
    );
    assert_eq!(port.check_conservation(), Ok(()));
}

#[test]
fn the_rest_of_a_packet_is_sent_at_the_new_rate() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::NONE);
    port.enqueue(start, packet(1000, 1));
    port.enqueue(start, packet(1000, 2));
    // 250 bytes are sent; 750 at half the rate take 1.5 ms, and so the packet 1.75 ms.
    port.set_rate(start + Duration::from_micros(250), rate(4_000_000))
        .unwrap();
    assert_eq!(
        port.next_timeout(),
        Some(start + Duration::from_micros(1750))
    );
    // 500 bytes of the second packet are sent by 2.75 ms; the others at 16 Mbit/s take 0.25 ms.
    port.set_rate(start + Duration::from_micros(2750), rate(16_000_000))
        .unwrap();
    let expected = [(Duration::from_micros(1750), 1), (ms(3), 2)];
    assert_eq!(departures(&mut port, start, start + ms(9)), expected);
}

#[test]
fn a_changed_rate_loses_no_fraction_of_a_bit() {
    // Two rates of which neither divides a nanosecond, changed every 100 ns.
    let start = epoch();
    let mut port = drop_tail(start, Service::Rate(rate(333_333_333)), Limit::NONE);
    port.enqueue(start, packet(125, 1));
    let mut nanobits = 0u128;
    for change in 1..=10 {
        let (before, after) = if change % 2 == 1 {
            (333_333_333, 777_777_777)
        } else {
            (777_777_777, 333_333_333)
        };
        nanobits += 100 * before;
        port.set_rate(start + Duration::from_nanos(100 * change), rate(after))
            .unwrap();
    }
    let rest = (125 * 8_000_000_000 - nanobits) / 333_333_333;
    let (ended, _) = port.dequeue(start + ms(1)).unwrap();
    assert_eq!((ended - start).as_nanos(), 1000 + rest);
}

#[test]
fn a_rate_can_be_given_to_an_unlimited_port_but_not_to_one_with_a_trace() {
    let start = epoch();
    let mut port = drop_tail(start, Service::Unlimited, Limit::NONE);
    assert_eq!(port.set_rate(start + ms(1), rate(8_000_000)), Ok(()));
    port.enqueue(start + ms(1), packet(1000, 1));
    assert_eq!(port.next_timeout(), Some(start + ms(2)));
    let mut port = drop_tail(start, trace("1"), Limit::NONE);
    assert_eq!(port.set_rate(start, rate(1)), Err(FixedService));
    assert_eq!(port.suspend(start), Err(FixedService));
}

#[test]
fn while_a_port_is_suspended_packets_wait_and_half_a_packet_too() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(2));
    port.enqueue(start, packet(1000, 1));
    let half = start + Duration::from_micros(500);
    port.suspend(half).unwrap();
    assert_eq!(port.next_timeout(), None);
    // The queue is limited as ever, and what arrives does not start.
    let verdicts = [2, 3, 4].map(|number| port.enqueue(start + ms(2), packet(1000, number)));
    let full = Verdict::Drop(DropReason::Full);
    assert_eq!(verdicts, [Verdict::Admit, Verdict::Admit, full]);
    assert_eq!(port.dequeue(start + ms(9)), None);
    assert_eq!(port.check_conservation(), Ok(()));
    // Suspended again, it goes on from where it was.
    port.suspend(start + ms(5)).unwrap();
    port.set_rate(start + ms(10), rate(4_000_000)).unwrap();
    let expected = [(ms(11), 1), (ms(13), 2), (ms(15), 3)];
    assert_eq!(departures(&mut port, start, start + ms(20)), expected);
}

#[test]
fn a_port_that_was_suspended_while_idle_starts_when_it_has_a_rate_again() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::NONE);
    port.suspend(start + ms(1)).unwrap();
    port.enqueue(start + ms(2), packet(1000, 1));
    port.set_rate(start + ms(7), rate(8_000_000)).unwrap();
    let (ended, sent) = port.dequeue(start + ms(9)).expect("it was sent");
    assert_eq!((ended, sent.meta.queued), (start + ms(8), ms(5)));
}

#[test]
fn a_smaller_limit_refuses_arrivals_and_keeps_what_waits() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(5));
    for number in 1..=4 {
        port.enqueue(start, packet(1000, number));
    }
    port.set_limit(start, Limit::packets(1));
    assert_eq!(
        port.enqueue(start, packet(1000, 5)),
        Verdict::Drop(DropReason::Full)
    );
    assert_eq!(departures(&mut port, start, start + ms(9)).len(), 4);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_several() {
    let start = epoch();
    let mut port = drop_tail(start, trace("10\n20\n30\n40\n"), Limit::NONE);
    for (number, bytes) in [(1, 500), (2, 600), (3, 3000), (4, 800), (5, 100)] {
        port.enqueue(start, packet(bytes, number));
    }
    // 10 ms: 500 + 600 + 400 of packet 3; 20: 1500 of it; 30: its last 1100, 400 of packet 4;
    // 40: its last 400 and packet 5.
    let expected = [
        (ms(10), 1),
        (ms(10), 2),
        (ms(30), 3),
        (ms(40), 4),
        (ms(40), 5),
    ];
    assert_eq!(departures(&mut port, start, start + ms(40)), expected);
}

#[test]
fn what_an_empty_queue_leaves_of_an_opportunity_is_lost() {
    let start = epoch();
    let mut port = drop_tail(start, trace("10\n10\n20\n"), Limit::NONE);
    port.enqueue(start, packet(100, 1));
    // The opportunities of 10 ms have gone by when this one comes.
    port.enqueue(start + ms(10), packet(100, 2));
    assert_eq!(
        departures(&mut port, start, start + ms(20)),
        [(ms(10), 1), (ms(20), 2)]
    );
}

#[test]
fn opportunities_of_the_same_millisecond_serve_one_packet_each() {
    let start = epoch();
    let mut port = drop_tail(start, trace("10\n10\n20\n"), Limit::NONE);
    for number in 1..=4 {
        port.enqueue(start, packet(1500, number));
    }
    let expected = [(ms(10), 1), (ms(10), 2), (ms(20), 3), (ms(30), 4)];
    assert_eq!(departures(&mut port, start, start + ms(30)), expected);
}

#[test]
fn a_packet_waits_for_its_first_opportunity_in_the_queue() {
    let start = epoch();
    let mut port = drop_tail(start, trace("10\n"), Limit::packets(1));
    assert_eq!(port.enqueue(start + ms(3), packet(1500, 1)), Verdict::Admit);
    assert_eq!(
        port.enqueue(start + ms(4), packet(1500, 2)),
        Verdict::Drop(DropReason::Full)
    );
    assert_eq!(port.next_timeout(), Some(start + ms(10)));
    let (_, packet) = port.dequeue(start + ms(10)).unwrap();
    assert_eq!(packet.meta.queued, ms(7));
    // Ten opportunities in 100 ms, one of them used.
    assert_eq!(port.stats(start + ms(100)).utilization(), Some(0.1));
}

#[test]
fn an_idle_year_costs_a_trace_nothing() {
    let start = epoch();
    let mut port = drop_tail(start, trace("1\n2\n"), Limit::NONE);
    let later = start + ms(1000) * 86_400 * 365;
    port.enqueue(later, packet(1500, 1));
    assert_eq!(
        port.dequeue(later + ms(1)).map(|(at, _)| at),
        Some(later + ms(1))
    );
}

#[test]
fn figures_of_a_port_are_those_worked_by_hand() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(2));
    // In transmission 0..1, 1..2, 2..3; waiting: 2 in 0..1, 1 in 1..2; the fourth is dropped.
    for number in 1..=4 {
        port.enqueue(start, packet(1000, number));
    }
    let stats = port.stats(start + ms(4));
    let window = stats.window();
    assert_eq!(window, stats.total());
    assert_eq!(
        window.arrived,
        Amount {
            packets: 4,
            bytes: 4000
        }
    );
    assert_eq!(
        window.forwarded,
        Amount {
            packets: 3,
            bytes: 3000
        }
    );
    assert_eq!(window.dropped.total(), Amount::one(1000));
    assert_eq!(stats.loss_rate(), Some(0.25));
    assert_eq!(stats.busy(), ms(3));
    assert_eq!(stats.utilization(), Some(0.75));
    assert_eq!(stats.queue().mean(), Some(0.75));
    assert_eq!(stats.queue().percentile(0.5), Some(0));
    assert_eq!(stats.queue().percentile(0.75), Some(1));
    assert_eq!(stats.sojourn().count(), 3);
    assert_eq!(stats.sojourn().mean(), Some(ms(1)));
    assert_eq!(stats.sojourn().max(), Some(ms(2)));
}

#[test]
fn a_new_window_begins_in_the_middle_of_things() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::packets(2));
    for number in 1..=4 {
        port.enqueue(start, packet(1000, number));
    }
    port.restart_measurement(start + Duration::from_micros(1500));
    let stats = port.stats(start + Duration::from_micros(3500));
    assert_eq!(stats.window_length(), ms(2));
    assert_eq!(stats.window().arrived, Amount::ZERO);
    assert_eq!(stats.window().forwarded.packets, 2);
    assert_eq!(stats.loss_rate(), None);
    assert_eq!(stats.utilization(), Some(0.75));
    assert_eq!((stats.queue().mean(), stats.queue().max()), (Some(0.25), 1));
    assert_eq!(stats.sojourn().mean(), Some(ms(2)));
    let sojourns = stats.sojourn_total();
    assert_eq!((sojourns.count(), sojourns.sum()), (3, ms(3)));
    assert_eq!(stats.total().arrived.packets, 4);
    assert_eq!(port.check_conservation(), Ok(()));
}

#[test]
fn a_new_window_of_a_trace_counts_what_is_offered_in_it() {
    let start = epoch();
    let mut port = drop_tail(start, trace("10\n"), Limit::NONE);
    port.enqueue(start, packet(3000, 1));
    // Half of the first packet went at 10 ms; the window sees its end at 20 and the second at 30.
    port.restart_measurement(start + ms(15));
    port.enqueue(start + ms(25), packet(1500, 2));
    assert_eq!(port.stats(start + ms(25)).utilization(), Some(1.0));
    assert_eq!(port.stats(start + ms(65)).utilization(), Some(0.6));
    port.restart_measurement(start + ms(65));
    assert_eq!(port.stats(start + ms(65)).utilization(), None);
    assert_eq!(port.stats(start + ms(85)).utilization(), Some(0.0));
}

#[test]
fn an_interval_has_its_own_mean_and_maximum() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::NONE);
    for number in 1..=3 {
        port.enqueue(start, packet(1000, number));
    }
    assert_eq!(
        port.take_interval(start + ms(2)),
        QueueInterval { mean: 1.5, max: 2 }
    );
    assert_eq!(
        port.take_interval(start + ms(4)),
        QueueInterval { mean: 0.0, max: 0 }
    );
}

#[test]
fn a_clock_that_steps_back_is_held() {
    let start = epoch();
    let mut port = drop_tail(start, kilobyte_per_ms(), Limit::NONE);
    port.enqueue(start + ms(5), packet(1000, 1));
    port.enqueue(start, packet(1000, 2));
    let (_, first) = port.dequeue(start + ms(9)).unwrap();
    let (ended, second) = port
        .dequeue(start)
        .expect("it has ended at what was called 9 ms");
    assert_eq!((first.payload, second.payload), (1, 2));
    assert_eq!((ended - start, second.meta.queued), (ms(7), ms(1)));
}
