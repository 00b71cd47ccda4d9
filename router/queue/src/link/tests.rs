//! Tests of links: made of parts that have their own.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::testing::{epoch, ms, packet};
use crate::{Cellular, DeliveryTrace, DropReason};

fn rng() -> Box<dyn Rng + Send> {
    Box::new(Pcg64::seed_from_u64(7))
}

fn rate(bits_per_second: u64) -> Rate {
    Rate::new(bits_per_second).expect("not zero")
}

/// A link on which a packet of 1000 bytes takes 1 ms.
fn kilobyte_per_ms() -> LinkConfig {
    LinkConfig {
        service: Service::Rate(rate(8_000_000)),
        ..LinkConfig::default()
    }
}

fn link(start: Instant, config: LinkConfig) -> Link<u64> {
    Link::new(start, config, rng()).unwrap()
}

fn cellular() -> Service {
    let bounds = (rate(1_000_000), rate(20_000_000));
    let cellular = Cellular::new(bounds, 0.2, Some(ms(500)), ms(100));
    Service::Cellular(cellular.expect("in range"))
}

/// Follows `next_timeout` to the end; when which packet came out, in time since `start`.
fn drain(link: &mut Link<u64>, start: Instant) -> Vec<(Duration, u64)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_timeout() {
        while let Some((came_out, packet)) = link.pop_exact(at) {
            assert_eq!(came_out, at, "next_timeout is never too late");
            out.push((at - start, packet.payload));
        }
    }
    assert_eq!(link.check_conservation(), Ok(()));
    out
}

#[test]
fn what_the_link_layer_adds_takes_time_and_counts_nowhere_else() {
    let config = LinkConfig {
        overhead_bytes: 250,
        ..kilobyte_per_ms()
    };
    let mut link = link(epoch(), config);
    for number in 0..4 {
        link.push(epoch(), packet(1000, number));
    }
    let left = |link: &mut Link<u64>, at| std::iter::from_fn(|| link.pop(epoch() + ms(at))).count();
    assert_eq!(left(&mut link, 4), 3, "a packet takes 1.25 ms");
    assert_eq!(left(&mut link, 5), 1);
    let stats = link.stats(epoch() + ms(10));
    assert_eq!(stats.total().forwarded.bytes, 4000);
    assert_eq!(stats.utilization(), Some(0.5));
}

#[test]
fn a_packet_takes_its_transmission_and_the_delay() {
    let start = epoch();
    let mut link = link(
        start,
        LinkConfig {
            delay: ms(18),
            ..kilobyte_per_ms()
        },
    );
    for number in 1..=3 {
        assert_eq!(link.push(start, packet(1000, number)), Verdict::Admit);
    }
    assert_eq!(
        drain(&mut link, start),
        [(ms(19), 1), (ms(20), 2), (ms(21), 3)]
    );
}

#[test]
fn a_hop_wakes_its_host_once_when_the_packet_comes_out() {
    let start = epoch();
    let mut link = link(
        start,
        LinkConfig {
            delay: ms(18),
            ..kilobyte_per_ms()
        },
    );
    link.push(start, packet(1000, 1));
    assert_eq!(link.next_timeout(), Some(start + ms(19)));
    assert!(link.pop(start + ms(19)).is_some());
    assert_eq!(link.next_timeout(), None);
}

#[test]
fn the_default_link_is_a_straight_wire() {
    let start = epoch();
    let mut link = link(start, LinkConfig::default());
    link.push(start, packet(1000, 1));
    assert_eq!(link.next_timeout(), Some(start));
    assert_eq!(link.pop(start), Some(packet(1000, 1)));
    assert_eq!(
        link.impairments().map(|(name, _)| name).collect::<Vec<_>>(),
        ["delay"]
    );
}

#[test]
fn a_full_queue_drops_and_the_pusher_hears_of_it() {
    let start = epoch();
    let config = LinkConfig {
        limit: Limit::packets(1),
        ..kilobyte_per_ms()
    };
    let mut link = link(start, config);
    let verdicts = [1, 2, 3].map(|number| link.push(start, packet(1000, number)));
    assert_eq!(
        verdicts,
        [
            Verdict::Admit,
            Verdict::Admit,
            Verdict::Drop(DropReason::Full)
        ]
    );
    assert_eq!(drain(&mut link, start).len(), 2);
}

#[test]
fn changes_happen_at_their_instants_however_late_the_host() {
    let start = epoch();
    let config = || LinkConfig {
        delay: ms(10),
        changes: vec![
            (Duration::from_micros(4500), Change::Delay(ms(20))),
            (Duration::from_micros(1500), Change::Rate(rate(4_000_000))),
        ],
        ..kilobyte_per_ms()
    };
    // Sent by 1 ms; by 2.5 (half at each rate); by 4.5, on the wire before the change; by 6.5.
    let expected = [
        (ms(11), 1),
        (Duration::from_micros(12_500), 2),
        (Duration::from_micros(14_500), 3),
        (Duration::from_micros(26_500), 4),
    ];
    let mut followed = link(start, config());
    let mut late = link(start, config());
    for number in 1..=4 {
        followed.push(start, packet(1000, number));
        late.push(start, packet(1000, number));
    }
    assert_eq!(drain(&mut followed, start), expected);
    let out: Vec<_> = std::iter::from_fn(|| late.pop_exact(start + ms(1000)))
        .map(|(at, packet)| (at - start, packet.payload))
        .collect();
    assert_eq!(out, expected);
}

#[test]
fn a_link_that_is_altered_goes_on_like_one_whose_change_was_planned() {
    let start = epoch();
    let change = Change::Rate(rate(4_000_000));
    let [planned, altered] = [true, false].map(|is_planned| {
        let changes = is_planned.then_some((ms(10), change));
        let mut link = link(
            start,
            LinkConfig {
                changes: changes.into_iter().collect(),
                ..kilobyte_per_ms()
            },
        );
        for number in 1..=30 {
            link.push(start, packet(1000, number));
        }
        let mut out = Vec::new();
        while let Some(at) = link.next_timeout().filter(|at| *at <= start + ms(10)) {
            out.extend(
                link.pop_exact(at)
                    .map(|(at, packet)| (at - start, packet.payload)),
            );
        }
        if !is_planned {
            link.alter(start + ms(10), change).expect("it has a rate");
        }
        out.extend(drain(&mut link, start));
        assert_eq!(link.stats(start + ms(100)).total().arrived.packets, 30);
        out
    });
    assert_eq!(altered, planned);
    assert_eq!(altered[29], (ms(50), 30));
    let config = LinkConfig {
        service: cellular(),
        ..LinkConfig::default()
    };
    let refused = link(start, config).alter(start, change);
    assert_eq!(refused, Err(FixedService.into()));
}

#[test]
fn a_change_of_the_limit_holds_for_arrivals_of_the_same_instant() {
    let start = epoch();
    let config = LinkConfig {
        limit: Limit::packets(0),
        changes: vec![(ms(1), Change::Limit(Limit::packets(1)))],
        ..kilobyte_per_ms()
    };
    let mut link = link(start, config);
    link.push(start, packet(1500, 1));
    assert_eq!(
        link.push(start, packet(1000, 2)),
        Verdict::Drop(DropReason::Full)
    );
    assert_eq!(link.push(start + ms(1), packet(1000, 3)), Verdict::Admit);
}

#[test]
fn loss_can_be_switched_on_and_off() {
    let start = epoch();
    let config = LinkConfig {
        changes: vec![(ms(1), Change::Loss(1.0)), (ms(2), Change::Loss(0.0))],
        ..LinkConfig::default()
    };
    let mut link = link(start, config);
    for number in 0..4 {
        link.push(start + ms(number), packet(1000, number));
    }
    let arrived: Vec<_> = drain(&mut link, start)
        .into_iter()
        .map(|(_, number)| number)
        .collect();
    assert_eq!(arrived, [0, 2, 3]);
    assert_eq!(link.lost(), Amount::one(1000));
}

#[test]
fn a_blackout_takes_what_is_sent_during_it_and_nothing_that_was_sent_before() {
    let start = epoch();
    let config = LinkConfig {
        delay: ms(10),
        blackouts: vec![(ms(2), ms(2))],
        ..kilobyte_per_ms()
    };
    let mut link = link(start, config);
    for number in 1..=5 {
        link.push(start, packet(1000, number));
    }
    // Sent by 1, 2, 3, 4 and 5 ms.
    assert_eq!(
        drain(&mut link, start),
        [(ms(11), 1), (ms(14), 4), (ms(15), 5)]
    );
    assert_eq!(link.lost().packets, 2);
}

#[test]
fn jitter_does_not_change_which_packets_are_lost() {
    let start = epoch();
    let survivors = |jitter| {
        let config = LinkConfig {
            loss: 0.3,
            jitter,
            ..LinkConfig::default()
        };
        let mut link = link(start, config);
        for number in 0..200 {
            link.push(start, packet(1000, number));
        }
        drain(&mut link, start)
            .into_iter()
            .map(|(_, number)| number)
            .collect::<Vec<_>>()
    };
    assert_eq!(survivors(Duration::ZERO), survivors(ms(5)));
    // Binomial(200, 0.7): mean 140, standard deviation 6.5; four of them either way.
    assert!((114..=166).contains(&survivors(ms(5)).len()));
}

#[test]
fn packets_that_jump_the_delay_change_neither_what_is_lost_nor_the_jitter_of_the_others() {
    let start = epoch();
    let run = |reorder| {
        let config = LinkConfig {
            loss: 0.3,
            delay: ms(20),
            jitter: Duration::from_micros(500),
            reorder,
            ..LinkConfig::default()
        };
        let mut link = link(start, config);
        for number in 0..200 {
            link.push(start + ms(number), packet(1000, number));
            assert_eq!(link.check_conservation(), Ok(()));
        }
        drain(&mut link, start)
    };
    let numbers = |out: &[(Duration, u64)]| -> Vec<u64> { out.iter().map(|o| o.1).collect() };
    let (straight, reordered) = (run(0.0), run(0.25));
    assert!(numbers(&straight).is_sorted());
    assert!(!numbers(&reordered).is_sorted(), "{reordered:?}");
    let mut sorted = numbers(&reordered);
    sorted.sort_unstable();
    assert_eq!(sorted, numbers(&straight));
    // Those that jumped have their jitter too: at most half a millisecond.
    let jumped = reordered.iter().filter(|(at, number)| *at < ms(number + 1));
    // Binomial(140, 0.25): mean 35, standard deviation 5.1; four of them either way.
    let jumped = jumped.count();
    assert!((14..=56).contains(&jumped), "{jumped}");
}

#[test]
fn a_discipline_has_a_generator_of_its_own() {
    let start = epoch();
    // RED whose average is the queue: from 10 packets on, half of all arrivals are dropped early.
    let red = "red:min=1,max=1000,max_p=1,w=1";
    let run = |spec, loss| {
        let limit = Limit::packets(500);
        let mut link = link(
            start,
            LinkConfig {
                limit,
                loss,
                discipline: crate::discipline(spec, limit).unwrap(),
                ..kilobyte_per_ms()
            },
        );
        let verdicts: Vec<_> = (0..500)
            .map(|number| link.push(start, packet(1000, number)))
            .collect();
        // Which of those that were admitted, by position, come out.
        let admitted = (0..).zip(&verdicts);
        let admitted = admitted.filter(|(_, verdict)| **verdict == Verdict::Admit);
        let admitted: Vec<u64> = admitted.map(|(number, _)| number).collect();
        let out: Vec<_> = drain(&mut link, start)
            .iter()
            .map(|(_, number)| admitted.binary_search(number).unwrap())
            .collect();
        (verdicts, out)
    };
    // What RED drops does not depend on whether the wire loses packets too.
    let (without_loss, _) = run(red, 0.0);
    let (with_loss, survivors) = run(red, 0.3);
    assert_eq!(without_loss, with_loss);
    assert!(with_loss.contains(&Verdict::Drop(DropReason::Early)));
    // Nor which positions on the wire are lost on what RED draws.
    let (_, all_survivors) = run("drop-tail", 0.3);
    assert!(survivors.len() > 10);
    assert_eq!(survivors, all_survivors[..survivors.len()]);
}

#[test]
fn what_no_link_can_do_is_refused() {
    let start = epoch();
    let refused = |config| Link::<u64>::new(start, config, rng()).unwrap_err();
    for loss in [-0.1, 1.5, f64::NAN] {
        assert!(matches!(
            refused(LinkConfig {
                loss,
                ..LinkConfig::default()
            }),
            LinkError::Loss(_)
        ));
        let changes = vec![(ms(1), Change::Loss(loss))];
        assert!(matches!(
            refused(LinkConfig {
                changes,
                ..LinkConfig::default()
            }),
            LinkError::Loss(_)
        ));
        let error = refused(LinkConfig {
            reorder: loss,
            ..LinkConfig::default()
        });
        assert!(matches!(error, LinkError::Reorder(_)));
        let duplicate = refused(LinkConfig {
            duplicate: loss,
            ..LinkConfig::default()
        });
        assert!(matches!(duplicate, LinkError::Duplicate(_)));
        assert_eq!(
            error.to_string(),
            format!("reorder = {loss} is no probability; give a number from 0 to 1")
        );
    }
    let rate_of_trace = LinkConfig {
        service: Service::Trace(DeliveryTrace::parse("1").unwrap()),
        changes: vec![(ms(1), Change::Rate(rate(1)))],
        ..LinkConfig::default()
    };
    assert_eq!(
        refused(rate_of_trace),
        LinkError::FixedService(FixedService)
    );
    for service in [Service::Unlimited, cellular()] {
        let config = LinkConfig {
            service,
            changes: vec![(ms(1), Change::Suspend)],
            ..LinkConfig::default()
        };
        assert_eq!(refused(config), LinkError::FixedService(FixedService));
    }
    for (period, at) in [
        (Duration::from_micros(999), Duration::ZERO),
        (ms(5), ms(5)),
        (ms(5), ms(6)),
    ] {
        let config = LinkConfig {
            changes: vec![(at, Change::Delay(ms(1)))],
            changes_period: Some(period),
            ..LinkConfig::default()
        };
        assert_eq!(refused(config), LinkError::Period(period));
    }
    let endless = [
        LinkConfig {
            wifi_jitter: Duration::MAX,
            ..LinkConfig::default()
        },
        LinkConfig {
            aggregation: Some(Aggregation::new(Duration::MAX, None)),
            ..LinkConfig::default()
        },
        LinkConfig {
            changes: vec![(ms(1), Change::WifiJitter(Duration::MAX))],
            ..LinkConfig::default()
        },
        LinkConfig {
            changes_period: Some(Duration::MAX),
            ..LinkConfig::default()
        },
        LinkConfig {
            delay: Duration::MAX,
            ..LinkConfig::default()
        },
        LinkConfig {
            jitter: Duration::MAX,
            ..LinkConfig::default()
        },
        LinkConfig {
            blackouts: vec![(Duration::MAX, ms(1))],
            ..LinkConfig::default()
        },
        LinkConfig {
            blackouts: vec![(ms(1), Duration::MAX)],
            ..LinkConfig::default()
        },
        LinkConfig {
            changes: vec![(Duration::MAX, Change::Loss(0.0))],
            ..LinkConfig::default()
        },
        LinkConfig {
            changes: vec![(ms(1), Change::Delay(Duration::MAX))],
            ..LinkConfig::default()
        },
    ];
    for config in endless {
        assert_eq!(refused(config), LinkError::TooLong(Duration::MAX));
    }
}

#[test]
fn a_packet_that_vanishes_between_two_nodes_is_noticed() {
    let start = epoch();
    let mut link = link(start, kilobyte_per_ms());
    link.push(start, packet(1000, 1));
    link.port
        .dequeue(start + ms(1))
        .expect("fetched behind the link's back");
    let error = link.check_conservation().unwrap_err();
    assert_eq!(error.place, "between two nodes of a link");
    assert_eq!(error.counters.arrived, Amount::one(1000));
}

mod impairments;
mod properties;

#[test]
fn a_link_that_is_split_loses_nothing_to_its_successor() {
    let start = epoch();
    let config = LinkConfig {
        delay: ms(18),
        ..kilobyte_per_ms()
    };
    let mut before = link(start, config);
    for number in 0..6 {
        before.push(start, packet(1000, number));
    }
    // Two are on their way, one is being transmitted, three wait.
    let now = start + ms(2) + ms(1) / 2;
    let (waiting, mut remains) = before.split(now);
    let mut after = link(
        start,
        LinkConfig {
            limit: Limit::packets(1),
            ..kilobyte_per_ms()
        },
    );
    after.refill(now, waiting);
    assert_eq!(
        after.push(now, packet(1000, 6)),
        Verdict::Drop(DropReason::Full)
    );
    let mut out = Vec::new();
    while let Some(at) = remains.next_timeout() {
        out.extend(remains.pop(at).map(|packet| (at - start, packet.payload)));
    }
    assert_eq!(out, [(ms(19), 0), (ms(20), 1)]);
    let out = drain(&mut after, now);
    let milliseconds = [1, 2, 3, 4].map(ms);
    assert_eq!(out, milliseconds.into_iter().zip(2..6).collect::<Vec<_>>());
}

#[test]
fn a_packet_that_was_seen_after_it_was_reckoned_to_have_come_has_the_whole_delay_behind_it() {
    let start = epoch();
    let delay = ms(20);
    let config = LinkConfig {
        delay,
        ..kilobyte_per_ms()
    };
    let mut link = link(start, config);
    // Three packets, found by a host that looks for the first time in 12 ms.
    for number in 1..=3 {
        let reckoned = start + ms(4 * number);
        link.push_seen(reckoned, start + ms(12), packet(1000, number));
    }
    let out = drain(&mut link, start);
    assert_eq!(out, [(ms(33), 1), (ms(34), 2), (ms(35), 3)]);
    let sojourn = link.stats(start + ms(40)).sojourn().max();
    assert_eq!(
        sojourn,
        Some(Duration::ZERO),
        "the queue takes them as reckoned"
    );
    link.check_conservation().unwrap();
}

#[test]
fn a_link_that_is_split_keeps_what_may_not_leave_its_port_yet() {
    let start = epoch();
    let mut link = link(start, kilobyte_per_ms());
    link.push_seen(start, start + ms(5), packet(1000, 1));
    let (waiting, mut remains) = link.split(start + ms(5));
    assert_eq!(waiting, []);
    assert_eq!(remains.pop(start + ms(5)), None);
    assert_eq!(remains.next_timeout(), Some(start + ms(6)));
    assert!(remains.pop(start + ms(6)).is_some());
}
