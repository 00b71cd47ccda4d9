//! ACP end to end, in virtual time: links that stamp, senders that follow. The scenarios are those of
//! the paper's experiments, on slower links where that changes nothing but the time it takes.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::metrics::{LinkObservation, Observations};
use evenkeel_testbed::report::ResultDocument;
use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, Scenario};

/// The target: 0.99 of a link of 50.4 Mb/s (40 Mb/s of the paper's packets).
const RATE_BPS: u64 = 50_400_000;
const TARGET_BPS: f64 = 0.99 * RATE_BPS as f64;

/// A link of 20 Mb/s of the paper's packets, 80 ms and a buffer of a bandwidth-delay product.
const TWENTY_MEGABITS: [&str; 6] = [
    "links.0.rate_bps=25200000",
    "links.0.queue_packets=200",
    "links.0.delay_ms=10",
    "access.delay_ms=15",
    "duration_s=35",
    "warmup_s=20",
];

struct Run {
    scenario: Scenario,
    observations: Observations,
}

impl Run {
    fn new(scenario: Scenario) -> Self {
        let observations = sim::run(&scenario, &sim::Options::default(), |_| ());
        Self {
            observations: observations.unwrap_or_else(|error| panic!("{error}")),
            scenario,
        }
    }

    fn paper(name: &str, overrides: &[&str]) -> Self {
        let scenarios = "../testbed/experiments/papers/acp/scenarios";
        let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(scenarios);
        let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
        let scenario = Scenario::load(&directory.join(name), &overrides);
        Self::new(scenario.unwrap_or_else(|error| panic!("{error}")))
    }

    fn result(&self) -> ResultDocument {
        ResultDocument::new(&self.scenario, "sim", &self.observations)
    }

    /// Index of the sampling interval that begins at `s` seconds.
    fn at(&self, s: f64) -> usize {
        (s / self.scenario.sampling_interval.as_secs_f64()).round() as usize
    }

    /// Throughput of a flow from one time to another, in seconds, as a share of the target.
    fn share(&self, flow: &str, from_s: f64, to_s: f64) -> f64 {
        let flow = self.observations.flows.iter().find(|one| one.name == flow);
        let delivered = &flow.expect("a flow of the scenario").delivered;
        let bytes: u64 = delivered[self.at(from_s)..self.at(to_s)].iter().sum();
        bytes as f64 * 8.0 / (to_s - from_s) / TARGET_BPS
    }
}

/// Packets that a link dropped in the whole run, the warm-up included.
fn dropped(link: &LinkObservation) -> u64 {
    link.drop_series.iter().sum()
}

fn assert_near(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!(
        (value / expected - 1.0).abs() <= tolerance,
        "{what}: {value} where {expected} is due"
    );
}

#[test]
fn fifty_users_that_join_one_per_round_trip_share_the_whole_link_without_a_queue_or_a_drop() {
    let times = ["duration_s=25", "warmup_s=15"];
    let run = Run::paper("single.toml", &times);
    let result = run.result();
    let bottleneck = &result.links[0];
    let utilization = bottleneck.utilization.expect("it has a rate");
    assert!(utilization >= 0.97 * 0.99, "utilization {utilization}");
    let queue = bottleneck.queue_packets.mean.expect("it was measured");
    assert!(queue < 5.0, "equilibrium queue of {queue} packets");
    assert!(result.fairness.least.jain.expect("fifty flows") >= 0.999);
    // Each gets to the rate of a nearly idle link by slow start, and others are granted the same in the
    // meantime: the queue of a bandwidth-delay product is nearly used up, once.
    assert_eq!(dropped(&run.observations.links[0]), 0, "while users joined");
    let lost: u64 = result.flows.iter().map(|flow| flow.lost_packets).sum();
    assert_eq!(lost, 0);
}

#[test]
fn fifty_users_that_take_at_once_what_they_are_granted_join_without_a_drop() {
    // The paper's sender: nothing but the grant bounds what it has in flight.
    let at_once = [
        "duration_s=8",
        "warmup_s=7",
        "flows.0.controller=acp:bound=60000",
    ];
    let run = Run::paper("single.toml", &at_once);
    let link = &run.observations.links[0];
    assert_eq!(dropped(link), 0);
    let longest = link.queue_series.iter().map(|queue| queue.packets).max();
    let longest = longest.expect("it was sampled");
    assert!((500..2325).contains(&longest), "{longest} packets queued");
    assert!(run.result().links[0].utilization.expect("it has a rate") >= 0.97 * 0.99);
}

#[test]
fn a_link_of_ten_megabits_and_a_round_trip_of_a_second_change_nothing_of_that() {
    for (name, overrides) in [
        (
            "10 Mb/s",
            &["links.0.rate_bps=12600000", "links.0.queue_packets=150"][..],
        ),
        (
            "1 s",
            &[
                "links.0.rate_bps=12600000",
                "links.0.queue_packets=1250",
                "links.0.delay_ms=460",
                "flows.0.count=10",
                "flows.0.stagger_s=0",
                "flows.0.start_spread_s=10",
                "duration_s=190",
                "warmup_s=160",
            ],
        ),
    ] {
        let run = Run::paper("single.toml", overrides);
        let result = run.result();
        let utilization = result.links[0].utilization.expect("it has a rate");
        assert!(utilization >= 0.97 * 0.99, "{name}: {utilization}");
        let queue = result.links[0].queue_packets.mean.expect("it was measured");
        assert!(queue < 5.0, "{name}: equilibrium queue of {queue} packets");
        assert!(
            result.fairness.least.jain.expect("many flows") >= 0.999,
            "{name}: fairness"
        );
        // While users join at a round trip of 1 s more arrives than a bandwidth-delay product holds.
        assert_eq!(result.links[0].dropped, 0, "{name}: at equilibrium");
    }
}

#[test]
fn a_window_of_two_packets_does_not_stall_the_handshake_over_a_second_as_one_of_one_does() {
    for (controller, is_stalled) in [("acp:iw=2", false), ("acp", true)] {
        let controller = format!("flows.0.controller={controller}");
        let run = Run::paper(
            "single.toml",
            &[
                "links.0.delay_ms=166.6667",
                "access.delay_ms=166.6667",
                "flows.0.count=1",
                "duration_s=5",
                "warmup_s=0",
                &controller,
            ],
        );
        // The first data leaves after two round trips.
        let data = run.share("user", 3.0, 5.0);
        assert_eq!(data == 0.0, is_stalled, "{controller}: {data}");
    }
}

#[test]
fn users_whose_share_is_few_packets_per_round_trip_or_less_than_one_queue_less_than_their_root() {
    // 200 packets of 1260 bytes fill the pipe at 20 Mb/s of the paper's packets and 80 ms: 1.5
    // packets for each of 130 users, half a packet for each of 400.
    for (users, stagger_s) in [(130, 0.04), (400, 0.015)] {
        let flows = [
            format!("flows.0.count={users}"),
            format!("flows.0.stagger_s={stagger_s}"),
        ];
        let mut overrides = TWENTY_MEGABITS.to_vec();
        overrides.extend(flows.iter().map(String::as_str));
        let run = Run::paper("single.toml", &overrides);
        let result = run.result();
        let bottleneck = &result.links[0];
        let utilization = bottleneck.utilization.expect("it has a rate");
        assert!(utilization >= 0.985, "{users}: utilization {utilization}");
        let queue = bottleneck.queue_packets.mean.expect("it was measured");
        assert!(queue < f64::from(users).sqrt(), "{users}: {queue} packets");
        assert_eq!(bottleneck.dropped, 0, "{users}: at equilibrium");
        let jain = result.fairness.least.jain.expect("many flows");
        assert!(jain >= 0.999, "{users}: fairness {jain}");
    }
}

#[test]
fn a_queue_that_comes_and_goes_sets_off_no_probes_of_users_with_less_than_a_packet_per_round_trip()
{
    // Somebody who heeds no routers leaves ten users 48 packets in a second, 0.4 in a round trip. At
    // 40 s a queue of 10 ms comes: their next ACKs are that late, after 40 s of steady round trips.
    let run = Run::paper(
        "single.toml",
        &[
            "links.0.rate_bps=25200000",
            "links.0.queue_packets=200",
            "links.0.delay_ms=10",
            "access.delay_ms=15",
            "flows.0.count=10",
            "flows.0.stagger_s=0.3",
            "duration_s=42",
            "warmup_s=30",
            "cross=[{name='rest',kind='cbr',rate_bps=24450000,packet_bytes=1260},\
             {name='burst',kind='cbr',rate_bps=2520000,packet_bytes=1260,start_s=40,stop_s=40.1}]",
        ],
    );
    let delivered = |from_s, to_s| -> f64 {
        let users = (0..10).map(|user| run.share(&format!("user-{user}"), from_s, to_s));
        users.sum()
    };
    let (before, during) = (delivered(38.0, 40.0), delivered(40.0, 41.0));
    // Ten probes would be ten packets more. A second has 25 packets, two have 49.
    let half_a_packet = 0.5 * 1260.0 * 8.0 / TARGET_BPS;
    assert!(
        during <= before + half_a_packet,
        "{during} of the target, {before} before the queue"
    );
}

#[test]
fn a_sender_that_lies_about_its_round_trip_moves_the_control_period_by_its_share_or_not_at_all() {
    // Nine users and one source that sends as much as each of them, a tenth of all packets, and
    // tells routers a round trip (path-header.md, section 5: clamps).
    let run = |told_ms: Option<f64>| {
        let liar = format!(
            "cross=[{{name='liar',kind='cbr',rate_bps=2494800,packet_bytes=1260,start_s=10{}}}]",
            told_ms.map_or(String::new(), |ms| format!(",acp_rtt_ms={ms}"))
        );
        let mut overrides = TWENTY_MEGABITS.to_vec();
        overrides.extend(["flows.0.count=9", "flows.0.stagger_s=0.08", &liar]);
        Run::paper("single.toml", &overrides)
    };
    let period_ms = |run: &Run| {
        let mut stamps = run.observations.links[0].stamps.iter();
        let told = stamps.find(|one| one.stamp == "acp" && one.figure == "rtt_ms");
        let series = &told.expect("a figure of the stamp").series[run.at(25.0)..];
        series.iter().sum::<f64>() / series.len() as f64
    };
    let honest = period_ms(&run(None));
    assert!((80.0..82.0).contains(&honest), "{honest} ms");
    // Told, and what it counts as beside nine packets of ten: nothing, itself, or at most four
    // times the median, rounded up to a power of two of microseconds.
    for (told_ms, counts_ms) in [
        (0.5, None),
        (9000.0, None),
        (134_000.0, None),
        (1.0, Some(1.0)),
        (400.0, Some(400.0)),
        (8000.0, Some(4.0 * 131.072)),
    ] {
        let run = run(Some(told_ms));
        let due = counts_ms.map_or(honest, |ms| 0.9 * honest + 0.1 * ms);
        assert_near(
            period_ms(&run),
            due,
            0.02,
            &format!("period, told {told_ms}"),
        );
        let result = run.result();
        let utilization = result.links[0].utilization.expect("it has a rate");
        // A longer period drains the queue that the change has left more slowly: then all is used.
        assert!(utilization >= 0.98, "told {told_ms} ms: {utilization}");
        assert_eq!(result.links[0].dropped, 0, "told {told_ms} ms");
        let jain = result.fairness.least.jain.expect("nine flows");
        assert!(jain >= 0.999, "told {told_ms} ms: {jain}");
    }
}

#[test]
fn each_user_gets_its_max_min_share_at_each_stage_of_the_three_link_network() {
    let rate = format!("rate_bps={RATE_BPS}");
    let overrides: Vec<String> = (0..3)
        .flat_map(|link| {
            [
                format!("links.{link}.{rate}"),
                format!("links.{link}.queue_packets=1000"),
            ]
        })
        .collect();
    let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
    let run = Run::paper("max-min.toml", &overrides);
    let (half, third, quarter) = (1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0);
    for (from, to, shares) in [
        (18.0, 20.0, &[("user-1", half), ("user-2", half)][..]),
        (
            38.0,
            40.0,
            &[
                ("user-1", third),
                ("user-2", 2.0 * third),
                ("user-3", third),
                ("user-4", third),
            ],
        ),
        (
            58.0,
            60.0,
            &[
                ("user-1", quarter),
                ("user-2", 3.0 * quarter),
                ("user-3", 3.0 / 8.0),
                ("user-4", 3.0 / 8.0),
                ("user-5", quarter),
                ("user-6", quarter),
                ("user-7", quarter),
            ],
        ),
    ] {
        for (user, share) in shares {
            assert_near(
                run.share(user, from, to),
                *share,
                0.02,
                &format!("{user} at {from} s"),
            );
        }
    }
    // Users 5 to 7 all begin at 40 s at the rate of an idle link: four times what it can carry, for a
    // round trip. Of some 100,000 packets fewer than one in a thousand is lost.
    for link in &run.observations.links {
        assert!(
            dropped(link) < 100,
            "{}: {} dropped",
            link.name,
            dropped(link)
        );
    }
}

#[test]
fn a_link_knows_how_many_users_it_has_and_notices_when_they_leave_and_come() {
    let rate = format!("links.0.rate_bps={RATE_BPS}");
    let run = Run::paper(
        "dynamics.toml",
        &[
            &rate,
            "links.0.queue_packets=400",
            "links.0.stamps=[\"acp\", \"flows\"]",
        ],
    );
    let link = &run.observations.links[0];
    let figure = |stamp: &str, figure: &str, s: f64| {
        let mut stamps = link.stamps.iter();
        let found = stamps.find(|one| one.stamp == stamp && one.figure == figure);
        found.expect("a figure of the stamp").series[run.at(s) - 1]
    };
    for (s, users) in [(29.0, 30.0), (36.0, 10.0), (44.0, 10.0), (58.0, 30.0)] {
        assert_near(
            figure("acp", "users", s),
            users,
            0.05,
            &format!("N-hat at {s} s"),
        );
        assert_near(
            figure("flows", "flows", s),
            users,
            0.05,
            &format!("flows at {s} s"),
        );
    }
    assert_eq!(dropped(link), 0);
}

#[test]
fn a_narrower_link_that_says_nothing_is_shared_as_vegas_or_loss_would_and_nothing_collapses() {
    // The first link grants 0.99 of 50.4 Mb/s; the second, without a stamp, carries a third of that.
    for queue_packets in [100, 1000] {
        let link = |name: &str, rate_bps: u64| {
            let link = LinkBuilder::new(name).rate_bps(rate_bps);
            link.delay(Duration::from_millis(10))
        };
        let users = FlowBuilder::bulk("user", "acp").count(4);
        let scenario = Scenario::builder("partial", Duration::from_secs(60))
            .warmup(Duration::from_secs(20))
            .set("topology", "chain")
            .link(link("wide", RATE_BPS).stamps(&["aqt", "acp"]))
            .link(link("narrow", 16_800_000).queue_packets(queue_packets))
            .flow(users.set("stagger_s", 0.1))
            .build();
        let run = Run::new(scenario.unwrap_or_else(|error| panic!("{error}")));
        let result = run.result();
        let narrow = result.links.iter().find(|link| link.name == "narrow");
        let utilization = narrow.and_then(|link| link.utilization);
        let utilization = utilization.expect("it has a rate");
        assert!(
            utilization >= 0.85,
            "{queue_packets}: utilization {utilization}"
        );
        let jain = result.fairness.least.jain.expect("four flows");
        assert!(jain >= 0.8, "{queue_packets}: fairness {jain}");
    }
}
