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
    assert!(seen.flows[0].delivered[25] > 100_000, "{:?}", seen.flows[0].delivered);
    let bps = throughput_bps(&seen.flows[0], &timing(&scenario)).unwrap();
    assert!((9.5e6..=10.01e6).contains(&bps), "{bps}");
}
