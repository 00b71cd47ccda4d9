//! Tests of RED: its equations worked by hand, then behind a port.

use std::ops::RangeInclusive;

use evenkeel_wire::Ecn;
use proptest::collection::vec;
use proptest::prelude::*;
use rand_pcg::Pcg64;

use super::*;
use crate::testing::{epoch, ms, packet};
use crate::{Amount, Packet, Port, PortConfig, Service, discipline};

/// Thresholds of a queue of 60 packets, by the smoothness paper.
const PAPER: Params = Params {
    min: 10.0,
    max: 30.0,
    max_p: 0.1,
    weight: 0.002,
    gentle: false,
    wait: false,
    ecn: false,
};

const GENTLE: Params = Params {
    gentle: true,
    ..PAPER
};

/// The average is the queue that the last arrival saw.
const MEMORYLESS: Params = Params {
    weight: 1.0,
    ..PAPER
};

const DROP: Verdict = Verdict::Drop(DropReason::Early);

fn red(params: Params, seed: u128) -> Red<Pcg64> {
    Red::new(params, Pcg64::new(seed, 0))
}

/// A rate at which a small packet takes 500 us, one of 1000 bytes 1 ms.
fn kilobyte_per_ms() -> Rate {
    Rate::new(8_000_000).expect("not zero")
}

/// A port at which `packets` wait behind the one in transmission.
fn busy(packets: u64) -> PortView {
    let queued = Amount {
        packets,
        bytes: packets * 1000,
    };
    PortView {
        queued,
        queue: 0,
        own: queued,
        transmitting: true,
        limit: Limit::packets(60),
        rate: Some(kilobyte_per_ms()),
    }
}

fn idle() -> PortView {
    PortView {
        transmitting: false,
        ..busy(0)
    }
}

fn arrive(red: &mut Red<Pcg64>, now: Instant, port: &PortView) -> Verdict {
    red.on_arrival(now, &mut PacketMeta::new(1000, Ecn::NotEct), port)
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-12 * right.abs().max(1.0)
}

#[test]
fn the_average_moves_by_the_weight_towards_what_each_arrival_finds() {
    assert!(close(averaged(10.0, 0.25, 20), 12.5));
    assert!(close(averaged(12.5, 0.25, 0), 9.375));
    let mut red = red(
        Params {
            weight: 0.25,
            ..PAPER
        },
        1,
    );
    let mut seen = Vec::new();
    for queued in [4, 4, 0] {
        arrive(&mut red, epoch(), &busy(queued));
        seen.push(red.vars.average);
    }
    // 0 + 4/4 = 1; 1 + 3/4 = 1.75; 1.75 - 1.75/4 = 1.3125.
    assert_eq!(seen, [1.0, 1.75, 1.3125]);
}

#[test]
fn the_average_decays_by_the_small_packets_that_an_idle_link_could_have_sent() {
    // 5 ms at 8 Mbit/s: 5000 bytes, 10 small packets.
    assert!(close(small_packets(ms(5), kilobyte_per_ms()), 10.0));
    assert!(close(decayed(8.0, 0.5, 3.0), 1.0));
    let start = epoch();
    let mut red = red(PAPER, 1);
    red.vars.average = 8.0;
    // The last packet's transmission ends at 1 ms; 5 ms later the next one comes.
    red.on_departure(start, &mut PacketMeta::new(1000, Ecn::NotEct), &busy(0));
    assert_eq!(red.vars.idle_since, Some(start + ms(1)));
    arrive(&mut red, start + ms(6), &idle());
    // 8 x 0.998^10 = 7.841...
    assert!(close(red.vars.average, 8.0 * 0.998f64.powi(10)));
    assert!((7.84..7.85).contains(&red.vars.average));
}

#[test]
fn a_packet_that_leaves_others_behind_starts_no_idle_time() {
    let mut red = red(PAPER, 1);
    red.on_departure(epoch(), &mut PacketMeta::new(1000, Ecn::NotEct), &busy(1));
    assert_eq!(red.vars.idle_since, None);
}

#[test]
fn idle_time_that_one_arrival_has_seen_is_not_counted_again_by_the_next() {
    let start = epoch();
    let mut red = red(PAPER, 1);
    red.vars.average = 40.0;
    red.vars.idle_since = Some(start);
    assert_eq!(
        arrive(&mut red, start + ms(1), &idle()),
        DROP,
        "it keeps the link idle"
    );
    assert_eq!(arrive(&mut red, start + ms(3), &idle()), DROP);
    // Two small packets to the first, four more to the second.
    assert!(close(red.vars.average, 40.0 * 0.998f64.powi(6)));
}

#[test]
fn an_unlimited_link_forgets_its_queue_as_soon_as_it_is_idle() {
    let mut red = red(PAPER, 1);
    red.vars.average = 40.0;
    red.vars.idle_since = Some(epoch());
    let unlimited = PortView {
        rate: None,
        ..idle()
    };
    assert_eq!(arrive(&mut red, epoch(), &unlimited), Verdict::Admit);
    assert_eq!(red.vars.average, 0.0);
}

#[test]
fn the_probability_rises_from_zero_at_min_to_max_p_at_max_and_then_to_one() {
    let table = [
        // average, plain, gentle
        (0.0, 0.0, 0.0),
        (9.999, 0.0, 0.0),
        (10.0, 0.0, 0.0),
        (15.0, 0.025, 0.025),
        (20.0, 0.05, 0.05),
        (25.0, 0.075, 0.075),
        (30.0, 1.0, 0.1),
        (45.0, 1.0, 0.55),
        (60.0, 1.0, 1.0),
        (1000.0, 1.0, 1.0),
    ];
    for (average, plain, gentle) in table {
        assert!(
            close(base_probability(&PAPER, average), plain),
            "{average} plain"
        );
        assert!(
            close(base_probability(&GENTLE, average), gentle),
            "{average} gentle"
        );
    }
}

#[test]
fn the_probability_grows_with_the_arrivals_since_the_last_signal_up_to_certainty() {
    // p_b = 1/4: 1/4, 1/3, 1/2, 1.
    let spread = |count| spread_probability(0.25, count);
    assert!(close(spread(0), 0.25));
    assert!(close(spread(1), 1.0 / 3.0));
    assert!(close(spread(2), 0.5));
    for count in [3, 4, 5, u32::MAX] {
        assert_eq!(spread(count), 1.0);
    }
    for count in [0, 1, u32::MAX] {
        assert_eq!(spread_probability(0.0, count), 0.0);
    }
}

#[test]
fn the_count_begins_between_the_thresholds_and_again_with_every_signal() {
    let now = epoch();
    let mut red = red(MEMORYLESS, 1);
    arrive(&mut red, now, &busy(9));
    assert_eq!(red.vars.count, None);
    // At min the probability is 0: nothing is signalled, but counted.
    for count in 0..3 {
        assert_eq!(arrive(&mut red, now, &busy(10)), Verdict::Admit);
        assert_eq!(red.vars.count, Some(count));
    }
    // 1/p_b = 20 at an average of 20: the signal comes with count = 19 at the latest.
    while arrive(&mut red, now, &busy(20)) == Verdict::Admit {
        assert!(red.vars.count.expect("between the thresholds") < 19);
    }
    assert_eq!(red.vars.count, Some(0));
    arrive(&mut red, now, &busy(10));
    assert_eq!(red.vars.count, Some(1));
    arrive(&mut red, now, &busy(0));
    assert_eq!(red.vars.count, None);
}

#[test]
fn signals_that_wait_have_no_chance_before_one_over_p_and_are_certain_before_two() {
    // p_b = 1/4: nothing at 0 to 3; then 1/4, 1/3, 1/2, 1.
    let waiting = |count| waiting_probability(0.25, count);
    for count in [0, 1, 2, 3] {
        assert_eq!(waiting(count), 0.0);
    }
    assert!(close(waiting(4), 0.25));
    assert!(close(waiting(5), 1.0 / 3.0));
    assert!(close(waiting(6), 0.5));
    for count in [7, 8, 9, u32::MAX] {
        assert_eq!(waiting(count), 1.0);
    }
    for count in [0, 1, u32::MAX] {
        assert_eq!(waiting_probability(0.0, count), 0.0);
    }
}

/// Mean and variance of 10,000 intervals between signals at an average of 20, and the range that
/// they lie in.
fn intervals(params: Params) -> (f64, f64, RangeInclusive<u32>) {
    let mut red = red(params, 1993);
    let mut intervals = Vec::new();
    let mut interval = 0u32;
    // The first interval begins at count -1, and is one longer.
    while intervals.len() <= 10_000 {
        interval += 1;
        if arrive(&mut red, epoch(), &busy(20)) != Verdict::Admit {
            intervals.push(interval);
            interval = 0;
        }
    }
    let intervals = &intervals[1..];
    let length = intervals.len() as f64;
    let mean = intervals.iter().map(|x| f64::from(*x)).sum::<f64>() / length;
    let squares = intervals.iter().map(|x| (f64::from(*x) - mean).powi(2));
    let variance = squares.sum::<f64>() / length;
    let least = *intervals.iter().min().expect("there are intervals");
    let most = *intervals.iter().max().expect("there are intervals");
    (mean, variance, least..=most)
}

#[test]
fn intervals_between_signals_are_uniform() {
    // Average 20: p_b = 0.05, so intervals are uniform over 1..=19: mean 10, variance
    // (19^2 - 1) / 12 = 30, standard deviation 5.48. Of 10,000 intervals the mean has one of
    // 0.055 (four of them: 0.22), the variance, with a fourth moment of 1.79 times its square,
    // one of 30 sqrt(0.79 / 10,000) = 0.27 (four of them: 1.1). Geometric intervals of the same
    // mean would have a variance of 90.
    let (mean, variance, range) = intervals(MEMORYLESS);
    assert!((mean - 10.0).abs() < 0.22, "mean {mean}");
    assert!((variance - 30.0).abs() < 1.1, "variance {variance}");
    assert_eq!(range, 1..=19);
}

#[test]
fn intervals_between_signals_that_wait_are_uniform_from_one_over_p_on() {
    // As above, over 20..=39: mean 29.5, variance (20^2 - 1) / 12 = 33.25.
    let (mean, variance, range) = intervals(Params {
        wait: true,
        ..MEMORYLESS
    });
    assert!((mean - 29.5).abs() < 0.23, "mean {mean}");
    assert!((variance - 33.25).abs() < 1.2, "variance {variance}");
    assert_eq!(range, 20..=39);
}

#[test]
fn with_ecn_early_signals_are_marks_but_above_the_thresholds_all_are_dropped() {
    let marking = Params {
        ecn: true,
        ..MEMORYLESS
    };
    let mut red = red(marking, 1);
    let verdicts: Vec<_> = (0..100)
        .map(|_| arrive(&mut red, epoch(), &busy(20)))
        .collect();
    assert!(verdicts.contains(&Verdict::Mark) && !verdicts.contains(&DROP));
    assert_eq!(arrive(&mut red, epoch(), &busy(30)), DROP);
}

#[test]
fn parameters_are_the_smoothness_papers_shares_of_the_limit_unless_given() {
    let read =
        |text, limit| Params::read(&SpecValues::parse("red", PARAMETERS, text).unwrap(), limit);
    assert_eq!(read(None, Limit::packets(60)), Ok(PAPER));
    let text = Some("min=5,max=15,max_p=0.02,w=0.01,gentle=true,wait=true,ecn=true");
    let given = Params {
        min: 5.0,
        max: 15.0,
        max_p: 0.02,
        weight: 0.01,
        gentle: true,
        wait: true,
        ecn: true,
    };
    assert_eq!(read(text, Limit::NONE), Ok(given));
    let needs = |parameter| {
        let message = format!(
            "red: {parameter} is a share of the limit in packets, and this queue has none; \
             give {parameter}, or a limit of one packet or more"
        );
        Err(SpecError::new(message))
    };
    assert_eq!(read(None, Limit::bytes(90_000)), needs("min"));
    assert_eq!(read(Some("min=5"), Limit::NONE), needs("max"));
    assert_eq!(read(Some("max=5"), Limit::packets(0)), needs("min"));
    for equal in ["min=5,max=5", "min=0,max=0", "max=10"] {
        let refused = read(Some(equal), Limit::packets(60)).unwrap_err();
        assert!(
            refused.to_string().contains("; make min the smaller"),
            "{equal}"
        );
    }
}

/// A port of `limit` packets at 8 Mbit/s with the discipline of `spec`.
fn port(now: Instant, spec: &str, limit: u64, seed: u64) -> Port<u64> {
    use rand::SeedableRng;
    let limit = Limit::packets(limit);
    let config = discipline(spec, limit).expect("a right spec");
    Port::new(
        now,
        PortConfig {
            service: Service::Rate(kilobyte_per_ms()),
            overhead_bytes: 0,
            watches_flows: false,
            limit,
            discipline: config.build(Xoshiro256PlusPlus::seed_from_u64(seed)),
            stamps: Vec::new(),
            flow_hash_key: [0; 16],
        },
    )
}

#[test]
fn a_port_counts_early_drops_and_marks_apart_from_those_of_a_full_queue() {
    let start = epoch();
    // Twice the rate for ten seconds, into 60 packets; the average follows within 50 arrivals.
    let run = |spec: &str, ecn| {
        let mut port = port(start, spec, 60, 1);
        for number in 0..20_000u64 {
            let now = start + Duration::from_micros(500 * number);
            port.enqueue(now, Packet::new(PacketMeta::new(1000, ecn), number));
            while port.dequeue(now).is_some() {}
        }
        assert_eq!(port.check_conservation(), Ok(()));
        port.stats(start + ms(10_000)).total()
    };
    let dropping = run("red:w=0.02", Ecn::Ect0);
    assert!(dropping.dropped.early.packets > 9_000);
    assert_eq!(dropping.marked.packets, 0);
    // No average stays below max at twice the rate: all that is not marked in time is dropped.
    let marking = run("red:w=0.02,ecn=true", Ecn::Ect0);
    assert!(marking.marked.packets > 100 && marking.dropped.early.packets > 9_000);
    assert_eq!(run("red:w=0.02,ecn=true", Ecn::NotEct), dropping);
    // A slow average lets the queue overflow first.
    let slow = run("red:w=0.0001", Ecn::Ect0);
    assert!(slow.dropped.full.packets > 1_000);
}

#[test]
fn the_seed_decides_which_packets_are_dropped() {
    let start = epoch();
    let verdicts = |seed| -> Vec<_> {
        let mut port = port(start, "red:w=1", 60, seed);
        (0..40)
            .map(|number| port.enqueue(start, packet(1000, number)))
            .collect()
    };
    assert_eq!(verdicts(1), verdicts(1));
    assert_ne!(verdicts(1), verdicts(2));
}

fn params() -> impl Strategy<Value = Params> {
    (
        0.0..50.0f64,
        0.01..50.0f64,
        1e-6..=1.0f64,
        1e-6..=1.0f64,
        any::<[bool; 3]>(),
    )
        .prop_map(|(min, width, max_p, weight, [gentle, wait, ecn])| Params {
            min,
            max: min + width,
            max_p,
            weight,
            gentle,
            wait,
            ecn,
        })
}

proptest! {
    #[test]
    fn nothing_below_min_everything_above_and_the_average_within_what_the_queue_was(
        params in params(), seed in any::<u128>(),
        arrivals in vec((0u64..200, any::<bool>(), 0u64..20_000), 1..300),
    ) {
        let mut red = red(params, seed);
        let mut now = epoch();
        let mut longest = 0;
        let top = if params.gentle { 2.0 * params.max } else { params.max };
        for (queued, leaves, gap) in arrivals {
            now += Duration::from_micros(gap);
            let view = if queued % 4 == 0 { idle() } else { busy(queued) };
            longest = longest.max(view.queued.packets);
            let verdict = arrive(&mut red, now, &view);
            let average = red.vars.average;
            // The sum that makes the average is rounded.
            let most = longest as f64 * (1.0 + 1e-12);
            prop_assert!((0.0..=most).contains(&average), "{average} of {longest}");
            if average < params.min {
                prop_assert_eq!(verdict, Verdict::Admit);
            }
            if average >= top {
                prop_assert_eq!(verdict, DROP);
            }
            if params.ecn && average < params.max * 0.999 {
                prop_assert_ne!(verdict, DROP);
            }
            if leaves {
                red.on_departure(now, &mut PacketMeta::new(1000, Ecn::NotEct), &view);
            }
        }
    }

    #[test]
    fn probabilities_are_probabilities_and_never_fall_as_the_average_or_the_count_grows(
        params in params(), average in 0.0..300.0f64, more in 0.0..10.0f64, count in any::<u32>(),
    ) {
        let (lower, upper) = (base_probability(&params, average), base_probability(&params, average + more));
        prop_assert!((0.0..=1.0).contains(&lower) && lower <= upper);
        let next = count.saturating_add(1);
        let (first, second) = (spread_probability(lower, count), spread_probability(lower, next));
        prop_assert!((0.0..=1.0).contains(&first) && lower <= first && first <= second);
        let (waiting, later) = (waiting_probability(lower, count), waiting_probability(lower, next));
        prop_assert!((0.0..=first).contains(&waiting) && waiting <= later);
    }
}
