//! The discipline `guided` end to end, in virtual time: flows that follow routers beside CUBIC that
//! does not. docs/queue.md has the whole table.

use std::path::PathBuf;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::report::{FlowResult, ResultDocument};
use evenkeel_testbed::scenario::Scenario;

/// Five packets at the rate of a class with half of 20 Mb/s, and one of the others at the link's.
const SIX_PACKETS_MS: f64 = (5.0 * 2.0 + 1.0) * 1260.0 * 8.0 / 20e6 * 1e3;

/// Twice the delays of the links.
const ROUND_TRIP_MS: f64 = 40.0;

/// Those who follow, and what they follow.
const GUIDED: [(&str, &str); 4] = [
    ("acp", "['aqt', 'acp']"),
    ("xcp", "['aqt', 'xcp']"),
    ("rcp", "['aqt', 'rcp']"),
    ("ro-vegas", "['aqt']"),
];

/// Runs `mixed.toml`, with all flows from the beginning to the end.
fn run(overrides: &[String]) -> ResultDocument {
    let whole = ["warmup_s=20", "flows.1.start_s=0", "flows.1.stop_s=60"];
    let whole = whole.map(str::to_owned);
    let overrides = [&whole[..], overrides].concat();
    let file = "../testbed/scenarios/mixed.toml";
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    let scenario = Scenario::load(&file, &overrides).unwrap_or_else(|error| panic!("{error}"));
    let observations = sim::run(&scenario, &sim::Options::default(), |_| ());
    let observations = observations.unwrap_or_else(|error| panic!("{error}"));
    ResultDocument::new(&scenario, "sim", &observations)
}

/// This many flows that follow their stamps beside this many of CUBIC.
fn mixed((controller, stamps): (&str, &str), guided: u32, cubic: u32) -> Vec<String> {
    vec![
        format!("flows.0.controller={controller}"),
        format!("links.0.stamps={stamps}"),
        format!("flows.0.count={guided}"),
        "flows.0.start_spread_s=2".to_owned(),
        "flows.1.start_spread_s=2".to_owned(),
        format!("flows.1.count={cubic}"),
    ]
}

fn of<'a>(result: &'a ResultDocument, group: &'a str) -> impl Iterator<Item = &'a FlowResult> {
    result.flows.iter().filter(move |flow| flow.group == group)
}

/// Throughput of a group, as a share of all.
fn share(result: &ResultDocument, group: &str) -> f64 {
    let throughput = |flow: &FlowResult| flow.throughput_bps.expect("it was active") as f64;
    let all: f64 = result.flows.iter().map(throughput).sum();
    of(result, group).map(throughput).sum::<f64>() / all
}

#[test]
fn flows_that_follow_routers_have_their_part_of_the_link_beside_cubic() {
    for followed in GUIDED {
        for (guided, cubic) in [(1, 1), (1, 4), (4, 1)] {
            let result = run(&mixed(followed, guided, cubic));
            let fair = f64::from(guided) / f64::from(guided + cubic);
            let share = share(&result, "guided");
            let what = format!("{followed:?}, {guided} beside {cubic}: {share}");
            assert!((share / fair - 1.0).abs() <= 0.1, "{what}");
            let all: u64 = result
                .flows
                .iter()
                .filter_map(|flow| flow.throughput_bps)
                .sum();
            assert!(all as f64 >= 0.9 * 20e6, "{what}, {all} bit/s in all");
        }
    }
}

#[test]
fn they_hardly_queue_and_lose_nothing_whatever_queue_cubic_fills() {
    for followed in &GUIDED[..3] {
        for queue_packets in [20, 400] {
            let mut overrides = mixed(*followed, 2, 2);
            overrides.push(format!("links.0.queue_packets={queue_packets}"));
            overrides.push("links.0.discipline=guided:others=drop-tail".to_owned());
            let result = run(&overrides);
            for flow in of(&result, "guided") {
                let queued = flow.rtt_ms.as_ref().expect("it was measured").p95 - ROUND_TRIP_MS;
                let what = format!("{followed:?}, {queue_packets}: {queued} ms");
                assert!(queued <= SIX_PACKETS_MS, "{what}");
                assert_eq!(flow.lost_packets, 0, "{what}");
            }
        }
    }
}

#[test]
fn without_a_place_of_their_own_they_have_nothing() {
    let mut overrides = mixed(GUIDED[0], 1, 1);
    overrides.push("links.0.discipline=drop-tail".to_owned());
    let share = share(&run(&overrides), "guided");
    assert!(share < 0.05, "{share}");
}

#[test]
fn one_that_sends_headers_and_does_not_follow_does_not_starve_those_that_do() {
    let flows = "flows=[\
        {name='honest', app='bulk', controller='acp', count=4, start_spread_s=2}, \
        {name='liar', app='bulk', controller='cubic', path_headers=1}, \
        {name='others', app='bulk', controller='cubic', count=5, start_spread_s=2}]";
    // In the first minute the liar is tried again after 30 s, and chance says when that is.
    let times = ["duration_s=120", "warmup_s=60"].map(str::to_owned);
    let result = run(&[&[flows.to_owned()][..], &times].concat());
    let tenths = ["honest", "liar", "others"].map(|group| share(&result, group) * 10.0);
    assert!(tenths[0] >= 4.0 * 0.8, "{tenths:?}");
    assert!(tenths[1] <= 1.5, "{tenths:?}");
    assert!(tenths[2] >= 5.0 * 0.9, "{tenths:?}");
}

#[test]
fn one_alone_that_sends_headers_and_does_not_follow_gains_nothing() {
    let mut overrides = mixed(("cubic", "['aqt', 'acp']"), 1, 1);
    // CUBIC with headers beside CUBIC without.
    overrides.push("flows.0.path_headers=1".to_owned());
    let share = share(&run(&overrides), "guided");
    assert!(share < 0.55, "{share}");
}
