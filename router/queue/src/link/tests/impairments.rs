//! Links whose routes, rates and radios change, and that hold, police and double packets.

use evenkeel_wire::Ecn;

use super::*;

#[test]
fn changes_begin_again_after_their_period_for_ever_and_however_late_the_host() {
    let start = epoch();
    // A route of 20 ms for 10 ms, then one of 5 ms, again and again.
    let config = || LinkConfig {
        changes: vec![
            (ms(0), Change::Delay(ms(20))),
            (ms(10), Change::Delay(ms(5))),
        ],
        changes_period: Some(ms(30)),
        ..LinkConfig::default()
    };
    let (mut followed, mut late) = (link(start, config()), link(start, config()));
    let mut out = Vec::new();
    for number in 0..10_000 {
        let now = start + ms(number);
        while let Some(at) = followed.next_timeout().filter(|at| *at <= now) {
            out.extend(std::iter::from_fn(|| followed.pop_exact(at)));
            assert!(out.iter().all(|(came_out, _)| *came_out <= at));
        }
        followed.push(now, packet(100, number));
        late.push(now, packet(100, number));
    }
    let end = start + ms(20_000);
    out.extend(std::iter::from_fn(|| followed.pop_exact(end)));
    assert!(
        out.iter()
            .eq(&std::iter::from_fn(|| late.pop_exact(end)).collect::<Vec<_>>())
    );
    for (number, (at, packet)) in (0..).zip(&out) {
        assert_eq!(packet.payload, number);
        let delay = match number % 30 {
            0..10 => ms(20),
            // They wait for the last one with the longer delay.
            in_short @ 10..24 => ms(29 - in_short),
            _ => ms(5),
        };
        assert_eq!(*at, start + ms(number) + delay, "packet {number}");
    }
    assert!(followed.next_timeout().is_some_and(|at| at > end));
}

#[test]
fn a_suspended_link_keeps_what_waits_and_goes_on() {
    let start = epoch();
    // C4's suspension: 200 ms of every two seconds.
    let config = LinkConfig {
        changes: vec![
            (ms(0), Change::Rate(rate(8_000_000))),
            (ms(1800), Change::Suspend),
        ],
        changes_period: Some(ms(2000)),
        ..kilobyte_per_ms()
    };
    let mut link = link(start, config);
    for number in 0..10_000 {
        assert_eq!(
            link.push(start + ms(number), packet(500, number)),
            Verdict::Admit
        );
    }
    let end = start + ms(10_000);
    let out: Vec<_> = std::iter::from_fn(|| link.pop_exact(end)).collect();
    for (at, packet) in &out {
        let (sent, phase) = (packet.payload, packet.payload % 2000);
        // Of two seconds, 0.2 s of packets wait behind the suspension, and leave at twice the pace.
        let delay = match phase {
            1800.. => Duration::from_micros(200_000 - (phase - 1800) * 500 + 500),
            phase if phase < 200 && sent >= 2000 => Duration::from_micros(100_500 - phase * 500),
            _ => Duration::from_micros(500),
        };
        assert_eq!(*at, start + ms(sent) + delay, "packet {sent}");
    }
    assert_eq!(out.len(), 9800);
    assert_eq!(link.check_conservation(), Ok(()));
}

#[test]
fn wifi_jitter_fades_in_and_out_with_changes() {
    let start = epoch();
    let config = LinkConfig {
        changes: vec![
            (ms(10_000), Change::WifiJitter(ms(85))),
            (ms(30_000), Change::WifiJitter(Duration::ZERO)),
        ],
        ..LinkConfig::default()
    };
    let mut link = link(start, config);
    for number in 0..40 {
        link.push(start + ms(1000 * number), packet(100, number));
    }
    for (at, number) in drain(&mut link, start) {
        let jitter = at - ms(1000 * number);
        // At least two long intervals in all but one of 12,000.
        let faded = (10..30).contains(&number);
        assert_eq!(jitter > ms(7), faded, "packet {number}: {jitter:?}");
        assert!(faded || jitter.is_zero());
    }
}

#[test]
fn a_route_whose_mtu_shrinks_loses_larger_packets_from_then_on_and_counts_them() {
    let start = epoch();
    let config = LinkConfig {
        mtu: Some(1400),
        changes: vec![(ms(10), Change::Mtu(1300)), (ms(20), Change::Mtu(1500))],
        ..LinkConfig::default()
    };
    let mut link = link(start, config);
    let sizes = [1300, 1400, 1500];
    for number in 0..9 {
        let at = start + ms(number / 3 * 10);
        link.push(at, packet(sizes[number as usize % 3], number));
    }
    let out: Vec<_> = drain(&mut link, start).iter().map(|out| out.1).collect();
    assert_eq!(out, [0, 1, 3, 6, 7, 8]);
    assert_eq!(link.lost(), link.wire_counters().too_big);
    assert_eq!(link.lost().packets, 3);
}

#[test]
fn marks_of_the_queue_and_of_the_wire_count_apart_and_bleaching_takes_both() {
    let start = epoch();
    let red = || crate::discipline("red:min=0,max=1,max_p=1,ecn=true,w=1", Limit::NONE).unwrap();
    let run = |config: LinkConfig| {
        let mut link = link(
            start,
            LinkConfig {
                discipline: red(),
                ..config
            },
        );
        for number in 0..100 {
            let mut packet = packet(1000, number);
            packet.meta.ecn = Ecn::Ect0;
            link.push(start + Duration::from_micros(1500 * number), packet);
        }
        let end = start + ms(1000);
        let out = std::iter::from_fn(|| link.pop(end));
        let ce = out.filter(|packet| packet.meta.ecn == Ecn::Ce).count() as u64;
        let marked = link.stats(end).total().marked.packets;
        (ce, marked, link.wire_counters())
    };
    let (ce, by_queue, wire) = run(kilobyte_per_ms());
    assert_eq!((ce, wire), (by_queue, WireCounters::default()));
    let mark = LinkConfig {
        mark: 1.0,
        ..kilobyte_per_ms()
    };
    let (ce, marked, wire) = run(mark);
    assert_eq!((ce, marked), (100, by_queue));
    assert_eq!(wire.marked_on_wire.packets, 100 - by_queue);
    let bleach = LinkConfig {
        recoding: Some(Recoding::Bleach),
        ..kilobyte_per_ms()
    };
    let (ce, marked, wire) = run(bleach);
    assert_eq!((ce, marked, wire.ecn_changed.packets), (0, by_queue, 100));
}

#[test]
fn new_impairments_change_neither_what_is_lost_nor_the_jitter_nor_what_jumps() {
    let start = epoch();
    let run = |config: LinkConfig| {
        let mut link = link(
            start,
            LinkConfig {
                loss: 0.3,
                delay: ms(20),
                jitter: Duration::from_micros(500),
                reorder: 0.25,
                ..config
            },
        );
        for number in 0..200 {
            link.push(start + ms(number), packet(1000, number));
        }
        drain(&mut link, start)
    };
    let plain = run(LinkConfig::default());
    let policer = Some(Policer::new(rate(1_000_000_000), 10_000));
    assert_eq!(
        plain,
        run(LinkConfig {
            policer,
            ..LinkConfig::default()
        })
    );
    // Half a millisecond later at least, in the same order.
    let aggregation = Some(Aggregation::new(ms(1), None));
    let held = run(LinkConfig {
        aggregation,
        ..LinkConfig::default()
    });
    assert!(
        plain
            .iter()
            .map(|out| out.1)
            .eq(held.iter().map(|out| out.1))
    );
    assert!(
        plain
            .iter()
            .zip(&held)
            .all(|(plain, held)| held.0 >= plain.0)
    );
    // Duplicates draw jitter and jumps of their own, so only the losses stay.
    let numbers = |out: Vec<(Duration, u64)>| {
        let mut numbers: Vec<_> = out.into_iter().map(|out| out.1).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let doubled = run(LinkConfig {
        duplicate: 0.5,
        ..LinkConfig::default()
    });
    assert!(doubled.len() > plain.len());
    assert_eq!(numbers(plain), numbers(doubled));
}

/// A link's generators are what they were before it could duplicate packets: figures of results
/// depend on it.
#[test]
fn the_draws_of_a_link_without_new_impairments_stay_what_they_were() {
    let start = epoch();
    let config = LinkConfig {
        loss: 0.5,
        delay: ms(5),
        jitter: ms(1),
        reorder: 0.1,
        ..LinkConfig::default()
    };
    let mut link = link(start, config);
    for number in 0..20 {
        link.push(start + ms(10 * number), packet(1000, number));
    }
    let out = drain(&mut link, start);
    let out: Vec<_> = out
        .iter()
        .map(|(at, number)| (at.as_nanos(), *number))
        .collect();
    assert_eq!(out, DRAWS);
}

const DRAWS: [(u128, u64); 13] = [
    (5_726_744, 0),
    (25_318_390, 2),
    (35_103_636, 3),
    (45_042_112, 4),
    (55_945_139, 5),
    (85_490_881, 8),
    (95_609_994, 9),
    (105_138_128, 10),
    (115_331_918, 11),
    (135_750_701, 13),
    (150_207_167, 15),
    (165_604_388, 16),
    (195_744_012, 19),
];
