//! Tests of CoDel, worked by hand from the pseudocode of RFC 8289, section 5.

use evenkeel_wire::Ecn;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::*;
use crate::testing::{epoch, ms, packet};
use crate::{Amount, Limit, Port, PortConfig, Rate, Service, discipline};

const PARAMS: Params = Params {
    target: Duration::from_millis(5),
    interval: Duration::from_millis(100),
    ecn: false,
};

/// Packets of 1000 bytes leave in each ms from `from` to `to`, each after waiting for `waited(time)`,
/// with `behind` bytes waiting behind it. Returns when packets were dropped or marked.
fn signals(
    control: &mut Control,
    params: &Params,
    times: std::ops::Range<u64>,
    behind: u64,
    waited: impl Fn(u64) -> Duration,
) -> Vec<u64> {
    let own = Amount {
        packets: behind / 1000,
        bytes: behind,
    };
    let port = PortView {
        queued: own,
        queue: 0,
        own,
        transmitting: false,
        limit: Limit::NONE,
        rate: None,
    };
    let mut signals = Vec::new();
    for time in times {
        let meta = PacketMeta {
            queued: waited(time),
            ..PacketMeta::new(1000, Ecn::Ect0)
        };
        let mut leave = || control.on_departure(params, epoch() + ms(time), &meta, &port);
        loop {
            match leave() {
                Verdict::Admit => break,
                Verdict::Mark => {
                    signals.push(time);
                    break;
                }
                // The next one follows at the same instant.
                Verdict::Drop(_) => signals.push(time),
            }
        }
    }
    signals
}

#[test]
fn drops_begin_after_an_interval_and_follow_each_other_by_the_square_root_of_their_number() {
    let control = &mut Control::default();
    let dropped = signals(control, &PARAMS, 0..450, 50_000, |_| ms(20));
    // 100; then 100 / sqrt(1), / sqrt(2), / sqrt(3), / sqrt(4) later: 200, 270.7, 328.4, 378.4, 423.2.
    assert_eq!(dropped, [100, 200, 271, 329, 379, 424]);
}

#[test]
fn marks_follow_the_same_law_where_the_sender_understands_them() {
    let params = Params {
        ecn: true,
        ..PARAMS
    };
    let control = &mut Control::default();
    let marked = signals(control, &params, 0..450, 50_000, |_| ms(20));
    assert_eq!(marked, [100, 200, 271, 329, 379, 424]);
}

#[test]
fn bursts_shorter_than_an_interval_lose_nothing() {
    let control = &mut Control::default();
    // Above the target for 99 ms, then one packet below it.
    let waited = |time| if time % 100 == 99 { ms(4) } else { ms(50) };
    assert_eq!(
        signals(control, &PARAMS, 0..1000, 50_000, waited),
        [] as [u64; 0]
    );
}

#[test]
fn a_queue_of_one_packet_loses_nothing_however_slow_the_link() {
    let control = &mut Control::default();
    assert_eq!(
        signals(control, &PARAMS, 0..1000, 1000, |_| ms(50)),
        [] as [u64; 0]
    );
}

#[test]
fn a_queue_that_comes_back_soon_is_dropped_from_as_often_as_before() {
    let signals_without_queue = |pause: std::ops::Range<u64>, end| {
        let waited = |time| if pause.contains(&time) { ms(0) } else { ms(20) };
        signals(&mut Control::default(), &PARAMS, 0..end, 50_000, waited)
    };
    let dropped = signals_without_queue(450..500, 700);
    // Six were dropped, five since it began: the next interval is 100 / sqrt(5) = 44.7 ms.
    assert_eq!(dropped[6..], [600, 645, 686]);
    let dropped = signals_without_queue(450..3000, 3250);
    assert_eq!(dropped[6..], [3100, 3200], "2.6 s later it begins anew");
}

#[test]
fn an_overload_that_answers_to_nothing_is_brought_down_to_the_rate_of_the_link() {
    let start = epoch();
    let config = discipline("codel", Limit::NONE).expect("a discipline");
    let mut port = Port::new(
        start,
        PortConfig {
            service: Service::Rate(Rate::new(8_000_000).expect("not zero")),
            overhead_bytes: 0,
            watches_flows: false,
            limit: Limit::NONE,
            discipline: config.build(Xoshiro256PlusPlus::seed_from_u64(1)),
            stamps: Vec::new(),
            flow_hash_key: [0; 16],
        },
    );
    // 1000 packets of 1000 bytes a second leave, 1050 arrive.
    let mut longest_late = Duration::ZERO;
    for number in 0..105_000u64 {
        let now = start + Duration::from_secs_f64(number as f64 / 1050.0);
        port.enqueue(now, packet(1000, number));
        while let Some((ended, packet)) = port.dequeue(now) {
            if ended > start + ms(60_000) {
                longest_late = longest_late.max(packet.meta.queued);
            }
        }
    }
    let stats = port.stats(start + ms(100_000));
    let dropped = stats.total().dropped.total().packets;
    assert!((4000..5500).contains(&dropped), "{dropped}");
    assert!(longest_late < ms(400), "{longest_late:?}");
}
