//! Runs whose figures follow from the scenario.

use std::time::Duration;

use super::*;
use crate::metrics::{Timing, throughput_bps};
use crate::scenario::{FlowBuilder, LinkBuilder};

fn timing(scenario: &Scenario) -> Timing {
    Timing {
        interval: scenario.sampling_interval,
        warmup: scenario.warmup,
        duration: scenario.duration,
    }
}

#[test]
fn a_flow_that_stops_within_an_interval_has_no_more_than_its_link() {
    let bulk = FlowBuilder::bulk("f", "cubic").between("a", "b");
    let scenario = Scenario::builder("stops", Duration::from_secs(3))
        .warmup(Duration::from_secs(2))
        .link(LinkBuilder::between("l", "a", "b").rate_bps(10_000_000))
        .flow(bulk.stop(Duration::from_millis(2510)))
        .build()
        .unwrap();
    let seen = run(&scenario, &Options::default(), |_| ()).unwrap();
    // Its queue is full: packets go on coming for 100 ms.
    assert!(
        seen.flows[0].delivered[25] > 100_000,
        "{:?}",
        seen.flows[0].delivered
    );
    let bps = throughput_bps(&seen.flows[0], &timing(&scenario)).unwrap();
    assert!((9.5e6..=10.01e6).contains(&bps), "{bps}");
}

#[test]
fn series_tell_delays_and_what_the_link_could_carry_and_did() {
    let ms = Duration::from_millis;
    let link = LinkBuilder::between("l", "a", "b").rate_bps(10_000_000);
    let scenario = Scenario::builder("series", Duration::from_secs(2))
        .link(
            link.delay(ms(20))
                .queue_packets(50)
                .change(ms(1000), "rate_bps", 5_000_000),
        )
        .flow(FlowBuilder::bulk("f", "cubic").between("a", "b"))
        .build()
        .unwrap();
    let seen = run(&scenario, &Options::default(), |_| ()).unwrap();
    let (flow, link) = (&seen.flows[0], &seen.links[0]);
    assert_eq!(
        link.capacity_series[9..11],
        [Some(10_000_000), Some(5_000_000)]
    );
    // Full once it has begun, but for the packet that straddles an end.
    let forwarded = link.forwarded_series[15] as i64;
    assert!((forwarded - 62_500).abs() <= 1500, "{forwarded}");
    // 20 ms, the queue of at most 51 packets at 5 Mb/s, and the packet's own 2 ms.
    let one_way = flow.one_way[15].unwrap();
    assert!(
        one_way.mean > ms(20) && one_way.mean <= one_way.max,
        "{one_way:?}"
    );
    assert!(one_way.max <= ms(20 + 103), "{one_way:?}");
    let rtt = crate::metrics::rtt_series(flow, &timing(&scenario), 20)[15].unwrap();
    // Round trips of this bin are of packets that came up to 20 ms earlier, to a shorter queue.
    assert!(rtt.mean > one_way.mean + ms(19), "{rtt:?}");
}

#[test]
fn a_run_ends_where_its_progress_breaks_it() {
    let scenario = Scenario::builder("broken", Duration::from_secs(3))
        .link(LinkBuilder::between("l", "a", "b").rate_bps(10_000_000))
        .flow(FlowBuilder::bulk("f", "cubic").between("a", "b"))
        .build()
        .unwrap();
    let mut heard = Vec::new();
    let broken = run_until_broken(&scenario, &Options::default(), |epoch, at| {
        heard.push((epoch, at));
        match heard.len() {
            4 => ControlFlow::Break("enough"),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(broken.unwrap(), ControlFlow::Break("enough"));
    let times: Vec<_> = heard.iter().map(|(_, at)| at.as_millis()).collect();
    assert_eq!(times, [0, 100, 200, 300]);
    assert!(heard.iter().all(|(epoch, _)| *epoch == heard[0].0));
}

#[test]
fn each_packet_is_kept_where_that_is_asked_for() {
    let ms = Duration::from_millis;
    let link = LinkBuilder::between("l", "a", "b").rate_bps(10_000_000);
    let scenario = Scenario::builder("packets", Duration::from_secs(2))
        .link(link.delay(ms(20)).queue_packets(20))
        .flow(FlowBuilder::bulk("f", "cubic").between("a", "b"))
        .build()
        .unwrap();
    let options = Options {
        packets: true,
        ..Options::default()
    };
    let seen = run(&scenario, &options, |_| ()).unwrap();
    let (flow, link) = (&seen.flows[0], &seen.links[0]);
    let packets = flow.packets.as_ref().unwrap();
    // The link counts from the warm-up's end on, at 0 s, when the first had left.
    assert_eq!(packets.sent_s.len() as u64, link.arrived + 1);
    let arrived = |index: &usize| packets.arrived_s[*index].is_finite();
    let count = packets.sent_s.len();
    let (came, lost): (Vec<_>, Vec<_>) = (0..count).partition(arrived);
    assert!(link.dropped > 0);
    // The last ones are still on their way.
    let on_their_way = lost.iter().filter(|index| packets.sent_s[**index] > 1.9);
    assert!(lost.len() as u64 - on_their_way.count() as u64 <= link.dropped);
    assert!(lost.len() as u64 >= link.dropped);
    let bytes: u64 = came
        .iter()
        .map(|index| u64::from(packets.bytes[*index]))
        .sum();
    assert_eq!(bytes, flow.delivered.iter().sum::<u64>());
    for index in came {
        let took = packets.arrived_s[index] - packets.sent_s[index];
        let sends = f64::from(packets.bytes[index]) * 8.0 / 10e6;
        let expected = packets.queueing_ms[index] / 1e3 + sends + 0.02;
        assert!(
            (took - expected).abs() < 1e-6,
            "{index}: {took}, {expected}"
        );
        assert!(!packets.marked[index]);
    }
    assert!(
        lost.iter()
            .all(|index| packets.queueing_ms[*index].is_nan())
    );
    let without = run(&scenario, &Options::default(), |_| ()).unwrap();
    assert_eq!(without.flows[0].packets, None);
    assert_eq!(without.links, seen.links);
}

#[test]
fn a_run_with_the_same_seed_writes_the_same_qlogs() {
    let flow = |name| FlowBuilder::bulk(name, "cubic").between("a", "b");
    let build = |seed| {
        let built = Scenario::builder("logs", Duration::from_secs(1)).seed(seed);
        let built = built.link(LinkBuilder::between("l", "a", "b").rate_bps(10_000_000));
        built.flow(flow("f")).flow(flow("g")).build().unwrap()
    };
    let logs = |seed| {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            qlog: Some(directory.path().to_owned()),
            ..Options::default()
        };
        run(&build(seed), &options, |_| ()).unwrap();
        ["f", "g"].map(|name| {
            std::fs::read_to_string(directory.path().join(format!("{name}.sqlog"))).unwrap()
        })
    };
    let ([f, g], again, other) = (logs(1), logs(1), logs(2));
    assert!([&f, &g] == again.each_ref(), "they differ");
    // Each connection has ids of its own.
    let id = |log: &str| {
        log.split("\"group_id\":")
            .nth(1)
            .map(|id| id[..18].to_owned())
    };
    assert!(id(&f).is_some());
    assert_ne!(id(&f), id(&g));
    assert_ne!(id(&f), id(&other[0]));
}
