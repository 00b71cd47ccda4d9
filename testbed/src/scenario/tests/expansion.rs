//! What files become.

use std::time::Duration;

use evenkeel::{EcnUse, Pacing};
use evenkeel_apps::bulk::AckFrequency;
use evenkeel_queue::description::{BlackoutKeys, ChangeKeys, LinkDescription};

use super::*;

#[test]
fn a_dumbbell_with_three_flows_has_two_routers_and_six_hosts() {
    let scenario = expanded(DUMBBELL, &["flows.0.count=3"]);
    let nodes: Vec<_> = scenario
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(
        nodes,
        [
            "left",
            "right",
            "bulk-0.sender",
            "bulk-0.receiver",
            "bulk-1.sender",
            "bulk-1.receiver",
            "bulk-2.sender",
            "bulk-2.receiver"
        ]
    );
    let links: Vec<_> = scenario
        .links
        .iter()
        .map(|link| (link.name.as_str(), link.from.0, link.to.0, link.reported))
        .collect();
    assert_eq!(
        links[..6],
        [
            ("bottleneck", 0, 1, true),
            ("bottleneck.reverse", 1, 0, true),
            ("bulk-0.sender.access", 2, 0, false),
            ("bulk-0.sender.access.reverse", 0, 2, false),
            ("bulk-0.receiver.access", 3, 1, false),
            ("bulk-0.receiver.access.reverse", 1, 3, false),
        ]
    );
    assert_eq!(links.len(), 2 + 3 * 4);
    let flows: Vec<_> = scenario
        .flows
        .iter()
        .map(|flow| {
            (
                flow.name.as_str(),
                flow.group.as_str(),
                flow.from.0,
                flow.to.0,
            )
        })
        .collect();
    assert_eq!(
        flows,
        [
            ("bulk-0", "bulk", 2, 3),
            ("bulk-1", "bulk", 4, 5),
            ("bulk-2", "bulk", 6, 7)
        ]
    );
}

#[test]
fn flows_are_paced_and_have_path_headers_where_their_controllers_use_them() {
    for row in evenkeel::controllers() {
        let controller = format!("flows.0.controller={}", row.name);
        let flow = &expanded(DUMBBELL, &[&controller]).flows[0];
        assert_eq!(flow.pacing, Pacing::Controller);
        let uses_path = evenkeel::uses_path_headers(row.name).unwrap();
        assert_eq!(flow.path_headers, u32::from(uses_path), "{}", row.name);
        let asked = [
            "flows.0.path_headers=7",
            "flows.0.pacing=none",
            "flows.0.ecn=l4s",
            &controller,
        ];
        let flow = &expanded(DUMBBELL, &asked).flows[0];
        assert_eq!((flow.path_headers, flow.pacing), (7, Pacing::Unpaced));
        assert_eq!(flow.ecn, EcnUse::L4s);
    }
}

#[test]
fn packets_of_a_dumbbell_cross_the_bottleneck_and_come_back() {
    let scenario = expanded(DUMBBELL, &["flows.0.count=2"]);
    let hops = scenario.next_hops();
    let way = |from: usize, to: usize| {
        let mut names = Vec::new();
        let mut at = from;
        while let Some(LinkIndex(hop)) = hops[at][to] {
            names.push(scenario.links[hop].name.as_str());
            at = scenario.links[hop].to.0;
        }
        assert_eq!(at, to);
        names
    };
    assert_eq!(
        way(4, 5),
        [
            "bulk-1.sender.access",
            "bottleneck",
            "bulk-1.receiver.access.reverse"
        ]
    );
    assert_eq!(
        way(5, 4),
        [
            "bulk-1.receiver.access",
            "bottleneck.reverse",
            "bulk-1.sender.access.reverse"
        ]
    );
}

#[test]
fn quantities_become_durations_and_bits() {
    let scenario = expanded(DUMBBELL, &[]);
    assert_eq!(scenario.duration, Duration::from_secs(100));
    assert_eq!(scenario.warmup, Duration::from_secs(20));
    assert_eq!(scenario.seed, 1);
    assert_eq!(scenario.mtu, 1500);
    assert_eq!(scenario.sampling_interval, Duration::from_millis(100));
    let link = &scenario.links[0];
    assert_eq!(link.description.rate_bps, Some(1_964_800));
    assert_eq!(link.description.delay(), Duration::from_millis(18));
    assert_eq!(limits(link), (Some(50), None));
    assert_eq!(link.description.discipline.value, "drop-tail");
    let flow = &scenario.flows[0];
    assert_eq!(flow.app, App::Bulk(Payload::Endless));
    assert_eq!(flow.stop, Duration::from_secs(100));
    assert_eq!(
        flow.acks,
        AckFrequency {
            every: 2,
            max_delay: Duration::from_millis(25)
        }
    );
}

#[test]
fn instances_start_one_stagger_apart_and_may_stop_early() {
    let set = [
        "flows.0.count=3",
        "flows.0.start_s=1",
        "flows.0.stagger_s=20",
        "flows.0.stop_s=90",
    ];
    let scenario = expanded(DUMBBELL, &set);
    let starts: Vec<_> = scenario
        .flows
        .iter()
        .map(|flow| flow.start.as_secs())
        .collect();
    assert_eq!(starts, [1, 21, 41]);
    assert!(
        scenario
            .flows
            .iter()
            .all(|flow| flow.stop == Duration::from_secs(90))
    );
}

#[test]
fn a_spread_of_starts_is_drawn_from_the_seed() {
    let starts = |seed: &str| {
        let set = [
            "flows.0.count=50",
            "flows.0.start_s=3",
            "flows.0.start_spread_s=2",
            seed,
        ];
        let scenario = expanded(DUMBBELL, &set);
        scenario
            .flows
            .iter()
            .map(|flow| flow.start)
            .collect::<Vec<_>>()
    };
    let first = starts("seed=1");
    assert_eq!(first, starts("seed=1"));
    assert_ne!(first, starts("seed=2"));
    let [low, high] = [3, 5].map(Duration::from_secs);
    assert!(first.iter().all(|start| (low..high).contains(start)));
    // Fifty uniform draws all on one side of the middle: a chance of 2^-49.
    let middle = Duration::from_secs(4);
    assert!(first.iter().any(|start| *start < middle) && first.iter().any(|start| *start > middle));
}

#[test]
fn the_reverse_direction_overrides_what_it_names() {
    let reverse = "[links.reverse]\nrate_bps = 24_800\nloss = 0.5\n[access]";
    let scenario = expanded(&DUMBBELL.replace("[access]", reverse), &[]);
    let forward = &scenario.links[0].description;
    let reverse = LinkDescription {
        rate_bps: Some(24_800),
        loss: 0.5,
        ..forward.clone()
    };
    assert_eq!(forward.loss, 0.0);
    assert_eq!(scenario.links[1].description, reverse);
}

fn limits(link: &LinkSpec) -> (Option<u32>, Option<u64>) {
    (link.description.queue_packets, link.description.queue_bytes)
}

#[test]
fn a_limit_in_bytes_replaces_the_default_limit_in_packets() {
    let text = DUMBBELL.replace("queue_packets = 50", "queue_bytes = 30_000");
    assert_eq!(limits(&expanded(&text, &[]).links[0]), (None, Some(30_000)));
    let both = expanded(DUMBBELL, &["links.0.queue_bytes=30000"]);
    assert_eq!(limits(&both.links[0]), (Some(50), Some(30_000)));
    let neither = DUMBBELL.replace("queue_packets = 50\n", "");
    assert_eq!(limits(&expanded(&neither, &[]).links[0]), (Some(100), None));
}

#[test]
fn one_flow_may_have_longer_access_links() {
    let text = format!(
        "{DUMBBELL}access_delay_ms = 31.5\n[[flows]]\nname = \"near\"\napp = \"bulk\"\ncontroller = \"reno\"\n"
    );
    let scenario = expanded(&text, &[]);
    let delay = |name: &str| {
        let link = scenario
            .links
            .iter()
            .find(|link| link.name == name)
            .unwrap();
        link.description.delay().as_micros()
    };
    assert_eq!(delay("bulk.sender.access"), 31_500);
    assert_eq!(delay("bulk.receiver.access.reverse"), 31_500);
    assert_eq!(delay("near.sender.access"), 1000);
}

#[test]
fn a_chain_joins_its_routers_in_order() {
    let text = DUMBBELL
        .replace("dumbbell", "chain")
        .replace("[access]", "[[links]]\nname = \"second\"\n[access]");
    let scenario = expanded(&text, &["flows.0.from=r2", "flows.0.to=r1"]);
    let nodes: Vec<_> = scenario
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    assert_eq!(nodes, ["r0", "r1", "r2", "bulk.sender", "bulk.receiver"]);
    let second = &scenario.links[2];
    assert_eq!(
        (second.name.as_str(), second.from.0, second.to.0),
        ("second", 1, 2)
    );
    let sender = &scenario.links[4];
    assert_eq!((sender.from.0, sender.to.0), (3, 2));
}

#[test]
fn routes_over_a_graph_are_shortest_and_prefer_the_first_link() {
    let scenario = expanded(GRAPH, &[]);
    let hops = scenario.next_hops();
    let link =
        |from: usize, to: usize| hops[from][to].map(|link| scenario.links[link.0].name.as_str());
    // Nodes in order of appearance: a b c x y.
    assert_eq!(link(0, 2), Some("ab"));
    assert_eq!(link(1, 2), Some("bc"));
    assert_eq!(link(2, 0), Some("bc.reverse"));
    assert_eq!(link(0, 0), None);
    assert_eq!(link(0, 3), None);
}

#[test]
fn the_off_time_of_cross_traffic_follows_from_rate_and_load() {
    let cross = "[[cross]]\nname = \"vbr\"\nkind = \"exponential\"\nrate_bps = 3_929_600\nload = 0.9\non_s = 0.5\nfrom = \"right\"\nto = \"left\"\n";
    let scenario = expanded(&format!("{DUMBBELL}{cross}"), &[]);
    let source = &scenario.cross[0];
    assert_eq!(source.rate_bps, 3_929_600);
    assert_eq!(source.packet_bytes, 1228);
    let periods = source.periods.unwrap();
    // Half the ON rate is the link's; ON for 0.45 of the time is a load of 0.9.
    let share = periods.on.as_secs_f64() / (periods.on + periods.off).as_secs_f64();
    assert!((share - 0.45).abs() < 1e-9, "{share}");
    let from = &scenario
        .links
        .iter()
        .find(|link| link.from == source.from)
        .unwrap();
    assert_eq!(scenario.nodes[from.to.0].name, "right");
}

#[test]
fn a_load_is_a_share_of_the_direction_that_is_crossed_and_split_among_the_sources() {
    let cross = "[[cross]]\nname = \"udp\"\nkind = \"cbr\"\nload = 0.5\n";
    let text = format!("{DUMBBELL}{cross}");
    let rates = |set: &[&str]| {
        let set = [&["links.0.reverse.rate_bps=1000"], set].concat();
        let scenario = expanded(&text, &set);
        scenario
            .cross
            .iter()
            .map(|source| source.rate_bps)
            .collect::<Vec<_>>()
    };
    assert_eq!(rates(&[]), [982_400]);
    assert_eq!(rates(&["cross.0.count=2"]), [491_200, 491_200]);
    assert_eq!(rates(&["cross.0.from=right", "cross.0.to=left"]), [500]);
    assert!(rates(&["cross.0.load=0"]).is_empty());
}

#[test]
fn applications_have_their_parameters() {
    let onoff = expanded(
        DUMBBELL,
        &[
            "flows.0.app=onoff",
            "flows.0.onoff.on_s=50",
            "flows.0.onoff.off_s=60",
        ],
    );
    let periods = Periods {
        on: Duration::from_secs(50),
        off: Duration::from_secs(60),
        distribution: PeriodDistribution::Pareto { shape: 1.5 },
    };
    assert_eq!(
        onoff.flows[0].app,
        App::OnOff {
            periods,
            begins: Begins::On,
            reconnect: true,
        }
    );
    let silent_first = expanded(
        DUMBBELL,
        &[
            "flows.0.app=onoff",
            "flows.0.onoff={on_s=50, off_s=60, begins='off', reconnect=false}",
        ],
    );
    assert_eq!(
        silent_first.flows[0].app,
        App::OnOff {
            periods,
            begins: Begins::Off,
            reconnect: false,
        }
    );
    let short = expanded(
        DUMBBELL,
        &[
            "flows.0.app=short",
            "flows.0.short={arrivals_per_s=2, mean_bytes=5000}",
        ],
    );
    assert_eq!(
        short.flows[0].app,
        App::Short {
            arrivals_per_s: 2.0,
            mean_bytes: 5000,
            shape: 1.2
        }
    );
    let sized = expanded(DUMBBELL, &["flows.0.bytes=1e6"]);
    assert_eq!(sized.flows[0].app, App::Bulk(Payload::Bytes(1_000_000)));
}

#[test]
fn what_the_reverse_direction_sets_is_not_changed_by_inherited_changes() {
    let changes = "links.0.changes=[{at_s=0, rate_bps=100e6, delay_ms=13}, {at_s=15, rate_bps=0}, \
                   {at_s=16, rate_bps=60e6, loss=0.1}]";
    let changes_with = |keys: &[&str]| {
        let scenario = expanded(DUMBBELL, &[&[changes], keys].concat());
        let again = Scenario::parse(&scenario.to_toml(), "d.toml", &[]).unwrap();
        assert_eq!(again, scenario);
        assert_eq!(scenario.links[0].description.changes.len(), 3);
        let reverse = &scenario.links[1].description;
        let at_end = scenario.links[1].mean_rate_bps(Duration::from_secs(50), scenario.duration);
        let changes = reverse.changes.iter().map(|change| change.value);
        let changes = changes.map(|change| (change.at_s, change.rate_bps, change.delay_ms));
        (at_end, changes.collect::<Vec<_>>())
    };
    // Another delay and loss still come; an instant at which nothing is left to change is none.
    let left = vec![(0.0, None, Some(13.0)), (16.0, None, None)];
    let rate = changes_with(&["links.0.reverse.rate_bps=15M"]);
    assert_eq!(rate, (Some(15_000_000), left.clone()));
    let walk = "links.0.reverse.cellular={min_bps=1000, max_bps=1000}";
    assert_eq!(changes_with(&[walk]).1, left);
    let all = ["rate_bps=15M", "delay_ms=3", "loss=0"].map(|key| format!("links.0.reverse.{key}"));
    let all = changes_with(&all.each_ref().map(String::as_str));
    assert_eq!(all, (Some(15_000_000), Vec::new()));
    // Changes of its own are.
    let own = "links.0.reverse.changes=[{at_s=1, rate_bps=7}]";
    let own = changes_with(&["links.0.reverse.rate_bps=15M", own]);
    assert_eq!(own, (Some(7), vec![(1.0, Some(7), None)]));
}

#[test]
fn flows_share_if_their_data_crosses_a_link_the_same_way_or_others_join_them() {
    let flow = |name: &str, from: &str, to: &str| {
        format!(
            "[[flows]]\nname = \"{name}\"\napp = \"bulk\"\ncontroller = \"reno\"\nfrom = \"{from}\"\nto = \"{to}\"\n"
        )
    };
    let sets = |flows: &[(&str, &str)]| {
        let flows = flows.iter().enumerate();
        let flows: String = flows
            .map(|(index, (from, to))| flow(&format!("g{index}"), from, to))
            .collect();
        // The flow of GRAPH goes from a by b to c.
        expanded(&format!("{GRAPH}{flows}"), &[]).sharing_sets()
    };
    assert_eq!(sets(&[]), [0]);
    assert_eq!(
        sets(&[("b", "c"), ("a", "b"), ("c", "a"), ("x", "y")]),
        [0, 0, 0, 1, 2]
    );
    assert_eq!(
        sets(&[("y", "x"), ("b", "a"), ("c", "a"), ("c", "b")]),
        [0, 1, 2, 2, 2]
    );
}

#[test]
fn changes_and_blackouts_come_through() {
    let text = DUMBBELL.replace(
        "queue_packets = 50",
        "changes = [{at_s = 5, rate_bps = 1000}, {at_s = 6.5, delay_ms = 3, loss = 0.1, queue_packets = 9}]\nblackouts = [{start_s = 20, length_s = 1}]",
    );
    let scenario = expanded(&text, &["links.0.reverse.blackouts=[]"]);
    let link = &scenario.links[0].description;
    assert_eq!(link.changes[0].value.rate_bps, Some(1000));
    let change = ChangeKeys {
        at_s: 6.5,
        delay_ms: Some(3.0),
        loss: Some(0.1),
        queue_packets: Some(9),
        ..ChangeKeys::default()
    };
    assert_eq!(link.changes[1], change.into());
    let blackout = BlackoutKeys {
        start_s: 20.0,
        length_s: 1.0,
    };
    assert_eq!(link.blackouts, [blackout.into()]);
    assert_eq!(scenario.links[1].description.blackouts, []);
    assert_eq!(scenario.links[1].description.changes, link.changes);
}

#[test]
fn traces_and_files_are_found_beside_the_scenario() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s.toml");
    std::fs::write(directory.path().join("t.trace"), "1\n2\n").unwrap();
    std::fs::write(directory.path().join("data"), "hello").unwrap();
    std::fs::write(
        &path,
        DUMBBELL.replace("rate_bps = 1_964_800", "trace = \"t.trace\""),
    )
    .unwrap();
    let scenario = Scenario::load(&path, &["flows.0.file=data".to_owned()]).unwrap();
    let trace = scenario.links[0].trace.as_ref().unwrap();
    assert_eq!(&*trace.contents, "1\n2\n");
    let data = directory.path().join("data");
    assert_eq!(scenario.flows[0].app, App::Bulk(Payload::File(data)));
    let reverse = Scenario::load(&path, &["links.0.reverse.rate_bps=7".to_owned()]).unwrap();
    assert_eq!(reverse.links[1].trace, None);
    assert_eq!(reverse.links[1].description.rate_bps, Some(7));
}

#[test]
fn the_effective_configuration_is_the_same_scenario_again() {
    let set = ["flows.0.count=3", "links.0.reverse.loss=0.25", "seed=9"];
    let scenario = expanded(DUMBBELL, &set);
    let text = scenario.to_toml();
    assert!(text.contains("discipline = \"drop-tail\""), "{text}");
    assert_eq!(expanded(&text, &[]), scenario);
}

#[test]
fn rates_sizes_and_times_read_the_same_as_numbers_and_as_text() {
    let plain = "links.0.queue_bytes=64000";
    let scenario = expanded(DUMBBELL, &["links.0.rate_bps=5_000_000", plain]);
    let same = [
        ["links.0.rate_bps=5e6", plain, "links.0.delay_ms=18.0"],
        [
            "links.0.rate_bps=5M",
            "links.0.queue_bytes=64kB",
            "links.0.delay_ms=18ms",
        ],
        [
            "links.0.rate_bps='5 Mb/s'",
            "links.0.queue_bytes=62.5KiB",
            "links.0.delay_ms=0.018s",
        ],
    ];
    for overrides in same {
        assert_eq!(expanded(DUMBBELL, &overrides), scenario, "{overrides:?}");
    }
    let text = DUMBBELL.replace("duration_s = 100", "duration_s = \"100s\"");
    assert_eq!(expanded(&text, &[]), expanded(DUMBBELL, &[]));
}

#[test]
fn flows_have_the_scenarios_version_of_ip_or_their_own() {
    let scenario = expanded(DUMBBELL, &["ip_version=6", "flows.0.count=2"]);
    assert!(
        scenario
            .flows
            .iter()
            .all(|flow| flow.ip_version == IpVersion::V6)
    );
    let own = expanded(DUMBBELL, &["ip_version=6", "flows.0.ip_version=4"]);
    assert_eq!(own.flows[0].ip_version, IpVersion::V4);
    assert_eq!(expanded(DUMBBELL, &[]).flows[0].ip_version, IpVersion::V4);
    assert_eq!(expanded(&own.to_toml(), &[]), own);
}
