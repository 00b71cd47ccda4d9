//! Properties of links under random traffic, with some of everything.

use std::num::NonZeroU32;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;

/// A link with some of everything, as data that can be built again and again.
#[derive(Debug, Clone)]
struct Plan {
    service: Service,
    limit: Limit,
    delay: Duration,
    jitter: Duration,
    wifi_jitter: Duration,
    aggregation: Option<Aggregation>,
    policer: Option<Policer>,
    reorder: f64,
    loss: f64,
    duplicate: f64,
    bursts: Option<GilbertElliott>,
    mark: f64,
    mtu: Option<u32>,
    blackouts: Vec<(Duration, Duration)>,
    changes: Vec<(Duration, Change)>,
}

impl Plan {
    fn build(&self, epoch: Instant) -> Link<u64> {
        let plan = self.clone();
        let config = LinkConfig {
            service: plan.service,
            limit: plan.limit,
            delay: plan.delay,
            jitter: plan.jitter,
            wifi_jitter: plan.wifi_jitter,
            aggregation: plan.aggregation,
            policer: plan.policer,
            reorder: plan.reorder,
            loss: plan.loss,
            duplicate: plan.duplicate,
            gilbert_elliott: plan.bursts,
            mark: plan.mark,
            mtu: plan.mtu,
            blackouts: plan.blackouts,
            changes: plan.changes,
            ..LinkConfig::default()
        };
        link(epoch, config)
    }
}

fn microseconds(below: u64) -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (0..below).prop_map(Duration::from_micros)
    ]
}

fn plans() -> impl Strategy<Value = Plan> {
    let rates = || (100_000u64..100_000_000).prop_map(rate);
    let change = prop_oneof![
        rates().prop_map(Change::Rate),
        Just(Change::Suspend),
        microseconds(30_000).prop_map(Change::Delay),
        microseconds(90_000).prop_map(Change::WifiJitter),
        (0.0..=1.0f64).prop_map(Change::Loss),
        (0u64..20).prop_map(|packets| Change::Limit(Limit::packets(packets))),
        (68u32..2000).prop_map(Change::Mtu),
    ];
    let interval = (microseconds(100_000), microseconds(20_000));
    let share = || prop_oneof![Just(0.0), 0.0..=1.0f64];
    let aggregation = (microseconds(10_000), 0u32..5)
        .prop_map(|(time, packets)| Aggregation::new(time, NonZeroU32::new(packets)));
    let policer = (rates(), 0u64..5000).prop_map(|(rate, burst)| Policer::new(rate, burst));
    let bursts = (0.0..=1.0f64, 0.0..=1.0f64).prop_map(|(p, r)| GilbertElliott {
        p,
        r,
        bad: 0.9,
        good: 0.1,
    });
    (
        prop_oneof![
            1 => Just(Service::Unlimited),
            4 => rates().prop_map(Service::Rate),
            1 => Just(cellular()),
        ],
        prop_oneof![Just(Limit::NONE), (0u64..20).prop_map(Limit::packets)],
        (
            microseconds(30_000),
            microseconds(10_000),
            microseconds(90_000),
        ),
        (of(aggregation), of(policer)),
        (share(), share(), share()),
        (of(bursts), share(), of(68u32..2000)),
        vec(interval, 0..3),
        vec((microseconds(150_000), change), 0..8),
    )
        .prop_map(
            |(
                service,
                limit,
                times,
                (aggregation, policer),
                shares,
                (bursts, mark, mtu),
                blackouts,
                mut changes,
            )| {
                changes.retain(|(_, change)| match (change, &service) {
                    (Change::Suspend, service) => matches!(service, Service::Rate(_)),
                    (Change::Rate(_), service) => !matches!(service, Service::Cellular(_)),
                    _ => true,
                });
                Plan {
                    service,
                    limit,
                    delay: times.0,
                    jitter: times.1,
                    wifi_jitter: times.2,
                    aggregation,
                    policer,
                    reorder: shares.0,
                    loss: shares.1,
                    duplicate: shares.2,
                    bursts,
                    mark,
                    mtu,
                    blackouts,
                    changes,
                }
            },
        )
}

/// Pushes packets after the given gaps; what came out when, and what the port measured. `follow`
/// calls at every `next_timeout`, else only the pushes and one late call move the link.
fn run(
    plan: &Plan,
    gaps: &[Duration],
    follow: bool,
) -> (Vec<(Duration, u64)>, Vec<Verdict>, String) {
    let start = epoch();
    let mut link = plan.build(start);
    let mut out = Vec::new();
    let mut verdicts = Vec::new();
    let mut pushed = Vec::new();
    let mut now = start;
    let mut pop = |link: &mut Link<u64>, now: Instant, pushed: &[Instant]| {
        while let Some((at, packet)) = link.pop_exact(now) {
            assert!(
                if follow { at == now } else { at <= now },
                "next_timeout is never too late"
            );
            assert!(at >= pushed[usize::try_from(packet.payload).unwrap()] + packet.meta.queued);
            out.push((at - start, packet.payload));
        }
        assert_eq!(link.check_conservation(), Ok(()));
    };
    for (number, gap) in (0..).zip(gaps) {
        now += *gap;
        while let Some(at) = link.next_timeout().filter(|at| follow && *at < now) {
            pop(&mut link, at, &pushed);
        }
        pushed.push(now);
        verdicts.push(link.push(
            now,
            packet(100 + u32::try_from(number).unwrap() * 17 % 1400, number),
        ));
        if follow {
            pop(&mut link, now, &pushed);
        }
    }
    while let Some(at) = link.next_timeout().filter(|_| follow) {
        pop(&mut link, at, &pushed);
    }
    let end = now + ms(1000) * 3600;
    pop(&mut link, end, &pushed);
    assert_eq!(link.next_timeout(), None);
    let stats = link.stats(end);
    let port = format!(
        "{:?}",
        (stats.total(), stats.queue(), stats.sojourn(), stats.busy())
    );
    let wire = format!("{:?}", link.impairments().collect::<Vec<_>>());
    (out, verdicts, port + &wire)
}

proptest! {
    #[test]
    fn what_comes_out_when_does_not_depend_on_when_the_host_calls(
        plan in plans(), gaps in vec(microseconds(5000), 1..60),
    ) {
        prop_assert_eq!(run(&plan, &gaps, true), run(&plan, &gaps, false));
    }

    #[test]
    fn nothing_is_reordered_unless_asked(plan in plans(), gaps in vec(microseconds(5000), 1..60)) {
        let plan = Plan { reorder: 0.0, ..plan };
        let (out, ..) = run(&plan, &gaps, false);
        for pair in out.windows(2) {
            prop_assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        }
        // A copy comes right behind its original, and there is one.
        let triple = out.windows(3).any(|three| three[0].1 == three[2].1);
        prop_assert!(!triple);
    }

    #[test]
    fn nothing_is_lost_but_where_loss_was_asked_for(
        plan in plans(), gaps in vec(microseconds(5000), 1..60),
    ) {
        let mut plan = Plan {
            loss: 0.0, bursts: None, mtu: None, policer: None, blackouts: Vec::new(), ..plan
        };
        let loses = |change: &Change| {
            matches!(change, Change::Loss(_) | Change::Mtu(_) | Change::Suspend)
        };
        plan.changes.retain(|(_, change)| !loses(change));
        let (out, verdicts, _) = run(&plan, &gaps, true);
        let mut numbers: Vec<_> = out.iter().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let admitted = (0..).zip(&verdicts).filter(|(_, verdict)| **verdict == Verdict::Admit);
        prop_assert!(numbers.into_iter().eq(admitted.map(|(number, _)| number)));
        prop_assert!(plan.duplicate > 0.0 || out.len() <= verdicts.len());
    }
}
