//! Properties of ports under random traffic, against a second, simpler reckoning.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::port::*;
use crate::testing::{epoch, ms, packet};
use crate::{Cellular, DeliveryTrace, DropTail};

/// What arrives: time since the one before, and bytes.
#[derive(Debug, Clone)]
struct Arrival {
    gap: Duration,
    bytes: u32,
}

/// What a run comes to, as the host sees it. Times in nanoseconds since the start.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    verdicts: Vec<Verdict>,
    /// Number, end of transmission, sojourn.
    departures: Vec<(u64, u128, u128)>,
}

fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    // Zero gaps, gaps far below and far above a transmission time.
    let gap = prop_oneof![Just(0u64), 0u64..100, 0u64..2_000_000, 0u64..50_000_000];
    let arrival = (gap, 0u32..4000).prop_map(|(gap, bytes)| Arrival {
        gap: Duration::from_nanos(gap),
        bytes,
    });
    vec(arrival, 1..80)
}

fn limit() -> impl Strategy<Value = Limit> {
    let packets = prop::option::of(0u64..20);
    let bytes = prop::option::of(0u64..30_000);
    (packets, bytes).prop_map(|(packets, bytes)| Limit { packets, bytes })
}

fn service() -> impl Strategy<Value = Service> {
    let rate = (1_000_000u64..1_000_000_000)
        .prop_map(|rate| Service::Rate(Rate::new(rate).expect("not zero")));
    let trace = vec(0u32..40, 1..20).prop_map(|mut times| {
        times.push(40);
        times.sort_unstable();
        let text: String = times.iter().map(|time| format!("{time}\n")).collect();
        Service::Trace(DeliveryTrace::parse(&text).expect("sorted, ends at 40"))
    });
    let cellular = (1_000_000u64..100_000_000, 0.0..2.0f64, any::<u64>()).prop_map(
        |(max, volatility, seed)| {
            let bounds = [max / 10, max].map(|rate| Rate::new(rate).expect("not zero"));
            let (every, outage) = (Some(ms(200)), ms(100));
            let cellular = Cellular::new(bounds.into(), volatility, every, outage);
            Service::Cellular(cellular.expect("in range")).seeded(seed)
        },
    );
    prop_oneof![1 => Just(Service::Unlimited), 4 => rate, 2 => trace, 2 => cellular]
}

fn port(start: Instant, service: &Service, limit: Limit) -> Port<u64> {
    let config = PortConfig {
        service: service.clone(),
        overhead_bytes: 0,
        watches_flows: false,
        limit,
        discipline: Box::new(DropTail),
        stamps: Vec::new(),
        flow_hash_key: [0; 16],
    };
    Port::new(start, config)
}

/// Runs the arrivals; `polls` are instants at which the host fetches and looks besides.
fn run(
    service: &Service,
    limit: Limit,
    arrivals: &[Arrival],
    polls: &[Duration],
    each_timeout: bool,
) -> Outcome {
    let start = epoch();
    let mut port = port(start, service, limit);
    let mut outcome = Outcome {
        verdicts: Vec::new(),
        departures: Vec::new(),
    };
    let mut fetch = |port: &mut Port<u64>, now: Instant| {
        while let Some((ended, packet)) = port.dequeue(now) {
            assert!(ended <= now);
            let sojourn = packet.meta.queued.as_nanos();
            outcome
                .departures
                .push((packet.payload, (ended - start).as_nanos(), sojourn));
        }
        let queued = port.stats(now).queued();
        assert!(limit.packets.is_none_or(|most| queued.packets <= most));
        assert!(limit.bytes.is_none_or(|most| queued.bytes <= most));
        port.check_conservation()
            .expect("nothing appears or disappears");
    };
    let mut polls = polls.iter().map(|poll| start + *poll).peekable();
    let mut now = start;
    for (number, arrival) in (0..).zip(arrivals) {
        now += arrival.gap;
        loop {
            let timeout = port.next_timeout().filter(|at| each_timeout && *at < now);
            let poll = polls.peek().copied().filter(|at| *at < now);
            let Some(at) = timeout.into_iter().chain(poll).min() else {
                break;
            };
            if poll == Some(at) {
                polls.next();
            }
            fetch(&mut port, at);
        }
        outcome
            .verdicts
            .push(port.enqueue(now, packet(arrival.bytes, number)));
    }
    fetch(&mut port, now + ms(1000) * 3600);
    assert_eq!(port.next_timeout(), None, "an hour later all is sent");
    outcome
}

/// The same for a rate, reckoned in units of a nanosecond divided by the rate: no rounding.
fn reckoned(rate: u64, limit: Limit, arrivals: &[Arrival]) -> Outcome {
    let rate = u128::from(rate);
    let mut admitted: Vec<(u128, u128, u32)> = Vec::new();
    let mut outcome = Outcome {
        verdicts: Vec::new(),
        departures: Vec::new(),
    };
    let mut now = 0u128;
    for (number, arrival) in (0..).zip(arrivals) {
        now += arrival.gap.as_nanos();
        let free = admitted.last().map_or(0, |(_, end, _)| *end);
        let waiting: Amount = admitted
            .iter()
            .filter(|(start, ..)| start / rate > now)
            .map(|(.., bytes)| Amount::one(*bytes))
            .sum();
        if free / rate > now && !limit.admits(waiting, arrival.bytes) {
            outcome.verdicts.push(Verdict::Drop(DropReason::Full));
            continue;
        }
        let start = free.max(now * rate);
        let end = start + u128::from(arrival.bytes) * 8 * 1_000_000_000;
        admitted.push((start, end, arrival.bytes));
        outcome.verdicts.push(Verdict::Admit);
        outcome
            .departures
            .push((number, end / rate, start / rate - now));
    }
    outcome
}

proptest! {
    #[test]
    fn departures_and_drops_do_not_depend_on_when_the_host_calls(
        service in service(), limit in limit(), arrivals in arrivals(),
        mut polls in vec(0u64..500_000_000, 0..50),
    ) {
        polls.sort_unstable();
        let polls: Vec<_> = polls.into_iter().map(Duration::from_nanos).collect();
        let at_the_end = run(&service, limit, &arrivals, &[], false);
        prop_assert_eq!(&run(&service, limit, &arrivals, &polls, false), &at_the_end);
        prop_assert_eq!(&run(&service, limit, &arrivals, &polls, true), &at_the_end);
    }

    #[test]
    fn a_port_with_a_rate_does_what_exact_arithmetic_says(
        rate in prop_oneof![1u64..1_000_000, 1_000_000u64..1_000_000_000_000],
        limit in limit(), arrivals in arrivals(),
    ) {
        let rate_of_port = Service::Rate(Rate::new(rate).expect("not zero"));
        // Slow links take longer than the hour that `run` waits; then there is nothing to compare.
        let bits: u64 = arrivals.iter().map(|arrival| u64::from(arrival.bytes) * 8).sum();
        prop_assume!(bits / rate < 3600);
        let outcome = run(&rate_of_port, limit, &arrivals, &[], false);
        prop_assert_eq!(outcome, reckoned(rate, limit, &arrivals));
    }

    #[test]
    fn packets_leave_in_order_and_never_before_they_came(
        service in service(), limit in limit(), arrivals in arrivals(),
    ) {
        let outcome = run(&service, limit, &arrivals, &[], true);
        let mut came = Duration::ZERO;
        let came: Vec<_> = arrivals.iter().map(|arrival| { came += arrival.gap; came.as_nanos() }).collect();
        for (number, ended, sojourn) in &outcome.departures {
            prop_assert!(*ended >= came[usize::try_from(*number).unwrap()] + sojourn);
        }
        for pair in outcome.departures.windows(2) {
            prop_assert!(pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        }
        let admitted = outcome.verdicts.iter().filter(|verdict| **verdict == Verdict::Admit).count();
        prop_assert_eq!(outcome.departures.len(), admitted);
    }

    #[test]
    fn no_interval_sees_more_than_the_rate(
        rate in 1_000_000u64..1_000_000_000, limit in limit(), arrivals in arrivals(),
    ) {
        let outcome = run(&Service::Rate(Rate::new(rate).expect("not zero")), limit, &arrivals, &[], false);
        for (first, from) in outcome.departures.iter().enumerate() {
            let mut nanobits = 0u128;
            for to in &outcome.departures[first + 1..] {
                nanobits += u128::from(arrivals[usize::try_from(to.0).unwrap()].bytes) * 8_000_000_000;
                // Both ends are rounded down: the interval may look up to 1 ns shorter than it is.
                prop_assert!(nanobits <= (to.1 - from.1 + 1) * u128::from(rate));
            }
        }
    }

    #[test]
    fn a_port_with_a_rate_never_idles_while_something_waits(
        rate in 1_000_000u64..1_000_000_000, arrivals in arrivals(),
    ) {
        let start = epoch();
        let mut port = port(start, &Service::Rate(Rate::new(rate).expect("not zero")), Limit::NONE);
        let mut now = start;
        for (number, arrival) in (0..).zip(&arrivals) {
            now += arrival.gap;
            port.enqueue(now, packet(arrival.bytes, number));
            let stats = port.stats(now);
            prop_assert!(stats.queued() == Amount::ZERO || stats.in_transmission().packets == 1);
        }
    }

    #[test]
    fn a_trace_never_delivers_more_than_it_offers(
        mut times in vec(0u32..40, 0..20), arrivals in arrivals(),
    ) {
        times.push(40);
        times.sort_unstable();
        let text: String = times.iter().map(|time| format!("{time}\n")).collect();
        let trace = DeliveryTrace::parse(&text).expect("sorted, ends at 40");
        let outcome = run(&Service::Trace(trace.clone()), Limit::NONE, &arrivals, &[], false);
        let mut bytes = 0;
        for (number, ended, _) in outcome.departures {
            bytes += u64::from(arrivals[usize::try_from(number).unwrap()].bytes);
            let ended = Duration::from_nanos(u64::try_from(ended).unwrap());
            prop_assert!(bytes <= trace.opportunities_until(ended) * 1500);
        }
    }
}

/// When each packet leaves a port without a limit that is told of packets four at a time: they
/// are reckoned to have come at their instants, or when they are seen.
fn looked_at(service: &Service, arrivals: &[Arrival], reckons: bool) -> Vec<(u64, Instant)> {
    let start = epoch();
    let mut port = port(start, service, Limit::NONE);
    let instants: Vec<_> = arrivals
        .iter()
        .scan(start, |now, arrival| {
            *now += arrival.gap;
            Some(*now)
        })
        .collect();
    for (number, arrival) in arrivals.iter().enumerate() {
        let last = (number | 3).min(arrivals.len() - 1);
        let seen = instants[last];
        let reckoned = if reckons { instants[number] } else { seen };
        port.enqueue_seen(reckoned, seen, packet(arrival.bytes, number as u64));
    }
    let end = start + Duration::from_secs(3600);
    std::iter::from_fn(|| port.dequeue(end))
        .map(|(at, packet)| (packet.payload, at))
        .collect()
}

proptest! {
    #[test]
    fn packets_that_are_seen_late_leave_no_earlier_than_if_they_had_come_then(
        bits_per_second in 1_000_000u64..1_000_000_000,
        arrivals in arrivals(),
    ) {
        let rate = Rate::new(bits_per_second).expect("not zero");
        for service in [Service::Rate(rate), Service::Unlimited] {
            let reckoned = looked_at(&service, &arrivals, true);
            let seen = looked_at(&service, &arrivals, false);
            prop_assert_eq!(reckoned.len(), seen.len());
            for ((number, at), (other, least)) in reckoned.into_iter().zip(seen) {
                prop_assert_eq!(number, other);
                // Parts of a nanosecond are rounded away in other places.
                let slack = Duration::from_nanos(number + 1);
                prop_assert!(at + slack >= least, "packet {} leaves {:?} early", number, least - at);
            }
        }
    }
}
