//! What the shipping code does on the papers' scenarios, in virtual time.

use std::path::PathBuf;

use evenkeel::HeaderState;
use evenkeel_apps::path::{LastAndMean, SampleSummary};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::metrics::{ControllerSample, Observations};
use evenkeel_testbed::report::{self, ResultDocument};
use evenkeel_testbed::scenario::Scenario;

fn scenario(name: &str, overrides: &[&str]) -> Scenario {
    let scenarios = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testbed/scenarios");
    let overrides: Vec<String> = overrides.iter().map(ToString::to_string).collect();
    Scenario::load(&scenarios.join(name), &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn observe(scenario: &Scenario) -> Observations {
    let observations = sim::run(scenario, &sim::Options::default(), |_| ());
    observations.unwrap_or_else(|error| panic!("{error}"))
}

fn run(name: &str, overrides: &[&str]) -> ResultDocument {
    let scenario = scenario(name, overrides);
    ResultDocument::new(&scenario, "sim", &observe(&scenario))
}

#[test]
fn one_vegas_flow_fills_the_link_with_one_to_three_packets_queued_and_none_lost() {
    let result = run("dumbbell.toml", &[]);
    let bottleneck = &result.links[0];
    let queue = bottleneck.queue_packets.mean.expect("it was measured");
    assert!(bottleneck.utilization.expect("it has a rate") >= 0.98);
    assert!((1.0..=3.0).contains(&queue), "mean queue {queue}");
    assert_eq!((bottleneck.dropped, result.flows[0].lost_packets), (0, 0));
}

#[test]
fn a_flow_whose_handshake_takes_longer_than_servers_wait_lives() {
    let overrides = ["links.0.delay_ms=6000", "duration_s=60", "warmup_s=30"];
    let result = run("dumbbell.toml", &overrides);
    let flow = &result.flows[0];
    assert!(flow.throughput_bps > Some(0), "{:?}", flow.died_s);
}

#[test]
fn one_reno_flow_saws_between_half_and_all_of_pipe_and_queue() {
    let scenario = scenario("dumbbell.toml", &["flows.0.controller=reno"]);
    let observations = observe(&scenario);
    let bottleneck = &observations.links[0];
    assert_eq!(bottleneck.queue.max, 50, "the queue is full before a loss");
    assert!(bottleneck.dropped > 0);
    // Pipe 45 ms x 200/s = 9 packets, one in transmission within it, and 50 queued.
    let packets =
        |state: &Option<ControllerSample>| state.expect("it is connected").window as f64 / 1200.0;
    let states = observations.flows[0].controller_state.iter();
    let warm = states.skip(200).map(packets);
    let (low, high) = warm.fold((f64::MAX, 0.0_f64), |(low, high), w| {
        (low.min(w), high.max(w))
    });
    assert!((58.0..=64.0).contains(&high), "greatest window {high}");
    assert!(
        (0.45..=0.55).contains(&(low / high)),
        "from {high} to {low}"
    );
}

#[test]
fn eight_vegas_flows_that_join_one_by_one_stand_at_four_to_six_packets_each() {
    // RoVegas Fig. 15 and ns-2: 40 packets where at most 24 are meant, as later flows take the
    // queue of the earlier ones for distance.
    let result = run("persistent.toml", &[]);
    let queue = result.links[0].queue_packets.mean.expect("it was measured");
    assert!((32.0..=48.0).contains(&queue), "standing queue {queue}");
    assert_eq!(result.flows.len(), 8);
}

#[test]
fn vegas_gets_one_kth_of_the_link_where_only_one_kth_of_its_acks_can_return() {
    // RoVegas Eq. 16 and ns-2: u / k. An ACK-only packet has 64 bytes on the wire here.
    for k in [2, 4, 8] {
        let ack_rate = 200 * 64 * 8 / k;
        let reverse = format!("links.0.reverse.rate_bps={ack_rate}");
        let result = run("asymmetric.toml", &[&reverse]);
        let share = result.links[0].utilization.expect("it has a rate") * f64::from(k);
        assert!((0.97..=1.03).contains(&share), "k = {k}: {share} of u / k");
        let queue = result.links[1].queue_packets.mean.expect("it was measured");
        // Of the 1 to 3 that Vegas keeps, one may be in transmission.
        assert!((0.5..=3.0).contains(&queue), "k = {k}: {queue} ACKs queued");
    }
}

#[test]
fn the_same_scenario_and_seed_give_the_same_bytes_and_another_seed_others() {
    // Random arrivals, sizes, start times and loss; twenty connections and more.
    for name in ["short-flows.toml", "vbr.toml", "onoff.toml"] {
        let run = |seed: &str| {
            let overrides = ["duration_s=20", "warmup_s=2", "links.0.loss=0.001", seed];
            let mut overrides = overrides.to_vec();
            if name == "vbr.toml" {
                overrides.push("cross.0.start_s=1");
            }
            report::json(&run(name, &overrides))
        };
        let first = run("seed=7");
        assert_eq!(first, run("seed=7"), "{name}");
        assert_ne!(first, run("seed=8"), "{name}");
    }
}

#[test]
fn short_flows_stand_for_many_users_and_no_server_makes_them_wait() {
    // A server guards itself against one host that begins more than 100 connections a second.
    let result = run(
        "short-flows.toml",
        &[
            "duration_s=5",
            "warmup_s=1",
            "links.0.rate_bps=100000000",
            "flows.0.stop_s=1",
            "flows.1.stop_s=4",
            "flows.1.short.arrivals_per_s=300",
            "flows.1.short.mean_bytes=1000",
        ],
    );
    let web = &result.flows[1].transfers;
    assert!(web.started > 1000, "{web:?}");
    assert_eq!(web.completed, web.started, "{web:?}");
}

#[test]
fn every_controller_moves_a_file_intact_over_a_lossy_link() {
    for row in evenkeel::controllers().iter().map(|row| row.name) {
        let controller = format!("flows.0.controller={row}");
        let result = run("lossy.toml", &[&controller, "flows.0.bytes=2000000"]);
        let transfers = &result.flows[0].transfers;
        assert_eq!(
            (transfers.completed, transfers.bytes),
            (1, 2_000_000),
            "{row}"
        );
        assert_eq!(transfers.sha256_verified, Some(true), "{row}");
        assert!(
            result.flows[0].lost_packets > 0,
            "{row}: the link lost nothing"
        );
    }
}

#[test]
fn twenty_megabytes_cross_a_hundred_megabit_link_that_loses_one_packet_in_a_hundred() {
    let result = run("lossy.toml", &[]);
    let flow = &result.flows[0];
    assert_eq!(flow.transfers.completed, 1);
    assert_eq!(flow.transfers.bytes, 20_000_000);
    assert_eq!(flow.transfers.sha256_verified, Some(true));
    let lost = flow.retransmitted_ratio.expect("packets were sent");
    // 17,000 packets: the standard deviation of the share is 0.08 %.
    assert!(
        (0.007..=0.013).contains(&lost),
        "{lost} of the packets lost"
    );
}

#[test]
fn a_flow_that_stops_leaves_the_link_to_the_other_at_once() {
    let result = run(
        "dumbbell.toml",
        &["flows.0.count=2", "flows.0.stop_s=50", "warmup_s=60"],
    );
    assert_eq!(result.links[0].arrived, 0, "both have stopped");
    let started: usize = result.flows.iter().map(|flow| flow.transfers.started).sum();
    assert_eq!(started, 2);
}

#[test]
fn an_on_off_user_that_keeps_its_connection_sends_in_its_on_periods_only() {
    let scenario = scenario(
        "onoff.toml",
        &[
            "flows.0.count=1",
            "flows.0.onoff.reconnect=false",
            "flows.0.onoff.on_s=5",
            "flows.0.onoff.off_s=5",
        ],
    );
    let observations = observe(&scenario);
    let flow = &observations.flows[0];
    assert_eq!(flow.transfers.len(), 1, "one connection");
    assert_eq!(flow.error, None);
    let busy = flow
        .app_delivered
        .iter()
        .filter(|bytes| **bytes > 0)
        .count();
    let share = busy as f64 / flow.app_delivered.len() as f64;
    assert!(
        (0.2..=0.8).contains(&share),
        "active for {share} of the time"
    );
}

/// Mean time that a forwarded packet waited, by Little's law from the queue's mean length.
fn mean_wait_ms(result: &ResultDocument, link: usize) -> f64 {
    let seconds = result.duration_s - result.warmup_s;
    let link = &result.links[link];
    let queue = link.queue_packets.mean.expect("it was measured");
    queue * seconds * 1e3 / link.forwarded as f64
}

#[test]
fn path_headers_tell_the_queueing_time_that_the_links_themselves_measure() {
    // A queue of data on the way there, each packet with its ACK: of two that come together an ACK
    // for both tells of the second, which waited for the first. And one of acknowledgements, of 96
    // bytes with a header, on a way back on which half of them can return.
    let forward = [
        "flows.0.path_headers=1",
        "flows.0.count=3",
        "flows.0.ack_every=1",
    ];
    let backward = ["flows.0.path_headers=1", "links.0.reverse.rate_bps=76800"];
    type Time = fn(&SampleSummary) -> Option<LastAndMean>;
    let cases: [(&str, &[&str], usize, Time); 2] = [
        ("dumbbell.toml", &forward, 0, |told| {
            told.forward_queueing_ms
        }),
        ("asymmetric.toml", &backward, 1, |told| {
            told.backward_queueing_ms
        }),
    ];
    for (name, settings, link, time) in cases {
        let stamps = ["links.0.stamps=[\"aqt\"]"];
        let scenario = scenario(name, &[settings, &stamps].concat());
        let observations = observe(&scenario);
        let result = ResultDocument::new(&scenario, "sim", &observations);
        let measured = mean_wait_ms(&result, link);
        assert!(measured > 5.0, "{name}: {measured} ms queued");
        let paths = result.flows.iter().map(|flow| flow.path.as_ref());
        let paths: Vec<_> = paths.map(|path| path.expect("agreed on")).collect();
        let told = paths
            .iter()
            .map(|path| time(&path.samples).expect("told").mean);
        let told = told.sum::<f64>() / paths.len() as f64;
        assert!(
            (told / measured - 1.0).abs() < 0.03,
            "{name}: {told} ms told of {measured}"
        );
        for (path, flow) in paths.iter().zip(&observations.flows) {
            assert_eq!(path.headers.state, HeaderState::Confirmed);
            let samples = &flow.path.as_ref().expect("it has headers").samples;
            let after = samples.iter().filter(|sample| sample.at_s >= 20.0);
            assert_eq!(path.samples.samples as usize, after.count());
            assert!(samples.len() > 1000, "{name}: {} samples", samples.len());
            let complete = samples.iter().all(|sample| sample.complete);
            assert!(complete, "{name}: all routers stamp");
        }
        let headers = result.links[link].headers.expect("it stamps");
        assert!(headers.stamped > 5_000, "{headers:?}");
        assert_eq!(headers.truncated + headers.version + headers.untouchable, 0);
    }
}

#[test]
fn a_router_that_does_not_stamp_is_noticed_between_others_that_do() {
    for (without, complete) in [
        ("links.0.stamps=[\"aqt\"]", true),
        ("links.1.stamps=[]", false),
    ] {
        let settings = [
            "duration_s=20",
            "cross.0.start_s=1",
            "cross.1.start_s=2",
            "cross.2.start_s=3",
            "flows.0.path_headers=1",
            "links.0.stamps=[\"aqt\"]",
            "links.1.stamps=[\"aqt\"]",
            "links.2.stamps=[\"aqt\"]",
            without,
        ];
        let observations = observe(&scenario("parking-lot.toml", &settings));
        let path = observations.flows[0].path.as_ref().expect("it has headers");
        assert!(path.samples.len() > 100);
        assert!(
            path.samples
                .iter()
                .all(|sample| sample.complete == complete)
        );
    }
}

#[test]
fn flows_are_counted_by_the_routers_and_their_senders_are_told() {
    let settings = [
        "duration_s=30",
        "warmup_s=10",
        "flows.0.count=5",
        "flows.0.path_headers=2",
        "links.0.stamps=[\"flows\"]",
    ];
    let result = run("dumbbell.toml", &settings);
    for flow in &result.flows {
        let path = flow.path.as_ref().expect("headers were agreed on");
        assert_eq!(path.samples.flows, Some(5));
        // Every second one, and two in a round trip, however few packets it has.
        let share = path.headers.counts.sent as f64 / flow.sent_packets as f64;
        assert!((0.48..=0.75).contains(&share), "{share} of the packets");
    }
    let counted = result.links[0].stamps["flows"]["flows"].expect("it counts");
    assert!((4.9..=5.1).contains(&counted), "{counted} flows");
}

#[test]
fn a_flow_without_headers_or_pacing_is_as_plain_as_quinn_and_says_so() {
    let settings = ["duration_s=30", "flows.0.pacing=none"];
    let scenario = scenario("dumbbell.toml", &settings);
    let observations = observe(&scenario);
    let result = ResultDocument::new(&scenario, "sim", &observations);
    let flow = &result.flows[0];
    assert!(flow.pacing == "none" && flow.path_headers == 0 && flow.path.is_none());
    let states = &observations.flows[0].controller_state;
    assert!(
        states
            .iter()
            .flatten()
            .all(|state| state.pacing_rate.is_none())
    );
    // With pacing, a rate stands behind every round trip but the first.
    let paced = observe(&self::scenario(
        "dumbbell.toml",
        &["duration_s=30", "flows.0.pacing=controller"],
    ));
    let states = &paced.flows[0].controller_state;
    let rates = states
        .iter()
        .flatten()
        .filter(|state| state.pacing_rate.is_some());
    assert!(rates.count() > 290);
}

#[test]
fn cross_traffic_arrives_at_the_rate_that_was_asked_for() {
    // 400 s of ON/OFF periods of 0.139 s in the mean: about 2900 of them, so that the standard
    // deviation of an exponential source's load is about 2 % of it. Pareto has none to speak of.
    for (kind, periods, tolerance) in [
        ("cbr", "", 0.001),
        ("exponential", "load = 0.9\non_s = 0.125", 0.1),
        ("pareto", "load = 0.9\non_s = 0.125\nshape = 1.9", 0.25),
    ] {
        let rate_bps = if kind == "cbr" { 900_000 } else { 2_000_000 };
        let text = format!(
            "name = 'cross'\nduration_s = 400\ntopology = 'dumbbell'\n\
             [[links]]\nname = 'link'\nrate_bps = 1000000\ndelay_ms = 1\nqueue_packets = 100000\n\
             [[cross]]\nname = 'udp'\nkind = '{kind}'\nrate_bps = {rate_bps}\npacket_bytes = 1000\n{periods}\n"
        );
        let scenario =
            Scenario::parse(&text, "cross.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        let link = &observe(&scenario).links[0];
        let load = link.arrived as f64 * 1000.0 * 8.0 / 400.0 / 1e6;
        assert!((load / 0.9 - 1.0).abs() < tolerance, "{kind}: load {load}");
    }
}

#[test]
fn a_policer_lets_its_rate_through_to_flows_of_both_versions_of_ip_and_copies_are_no_data() {
    let result = run("policer.toml", &[]);
    let line = &result.links[0];
    assert!(line.lost > 100, "{} dropped by the policer", line.lost);
    assert_eq!(line.dropped, 0, "the line itself is far from full");
    let shares = result.flows.iter().map(|flow| {
        assert_eq!(flow.error, None);
        flow.throughput_bps.expect("it sent")
    });
    let total: u64 = shares.inspect(|share| assert!(*share > 200_000)).sum();
    // 5 Mb/s, and copies of one packet in a thousand.
    assert!((3_000_000..5_020_000).contains(&total), "{total}");
}

#[test]
fn the_same_transfer_over_ipv6_takes_20_bytes_more_a_packet() {
    let bytes_a_packet = |version: &str| {
        let result = run(
            "dumbbell.toml",
            &[version, "warmup_s=0", "flows.0.bytes=2e6"],
        );
        let link = &result.links[0];
        (
            link.forwarded,
            link.forwarded_bytes as f64 / link.forwarded as f64,
        )
    };
    let (packets, bytes) = bytes_a_packet("ip_version=4");
    let (packets_v6, bytes_v6) = bytes_a_packet("flows.0.ip_version=6");
    assert!(
        (bytes_v6 - bytes - 20.0).abs() < 0.5,
        "{bytes} and {bytes_v6}"
    );
    assert!(
        packets.abs_diff(packets_v6) < packets / 50,
        "{packets} and {packets_v6}"
    );
}

#[test]
fn a_seed_gives_a_wifi_and_a_cell_and_another_one_others() {
    for name in ["wifi.toml", "cellular.toml"] {
        let carried = |seed: &str| {
            let result = run(name, &[seed, "duration_s=15"]);
            assert_eq!(result.flows[0].error, None);
            (
                result.links[0].forwarded_bytes,
                result.links[1].forwarded_bytes,
            )
        };
        let first = carried("seed=1");
        assert!(first.0 > 1_000_000, "{name}: {first:?}");
        assert_eq!(first, carried("seed=1"), "{name}");
        assert_ne!(first, carried("seed=2"), "{name}");
    }
}

#[test]
fn live_video_with_keel_does_not_stand_still_on_crowded_wifi() {
    for seed in ["seed=1", "seed=2"] {
        let result = run(
            "wifi.toml",
            &[
                seed,
                "duration_s=15",
                "warmup_s=2",
                "links.0.rate_bps=20e6",
                "links.0.queue_packets=200",
                "links.0.reverse.aggregate_ms=0",
                "flows.0.controller=keel",
                "flows.0.app=stream",
                "flows.0.stream={bitrate_bps=4e6, fixed=true}",
            ],
        );
        let stream = result.flows[0].stream.as_ref().expect("a stream");
        let (frames, stalls) = (&stream.report.frames, &stream.report.stalls);
        assert_eq!((stalls.count, frames.lost), (0, 0), "{seed}");
    }
}

#[test]
fn keels_that_join_behind_a_deep_queue_empty_it_together() {
    // Newcomers have not seen the empty path, 40 ms; a full queue makes it 200 ms.
    let medians = ["seed=1", "seed=2", "seed=3"].map(|seed| {
        let result = run(
            "dumbbell.toml",
            &[
                seed,
                "duration_s=60",
                "warmup_s=30",
                "links.0.rate_bps=20e6",
                "links.0.queue_packets=332",
                "access.rate_bps=1e9",
                "flows.0={name='keel', app='bulk', controller='keel', count=8, start_spread_s=2}",
            ],
        );
        let rtts = result.flows.iter().filter_map(|flow| flow.rtt_ms.as_ref());
        let mut rtts: Vec<_> = rtts.map(|rtt| rtt.p50).collect();
        rtts.sort_by(f64::total_cmp);
        rtts[4]
    });
    assert!(medians.iter().sum::<f64>() / 3.0 < 100.0, "{medians:?}");
}

#[test]
fn jitter_of_wifi_and_held_acks_are_in_the_round_trips() {
    let rtt = |overrides: &[&str]| {
        let result = run("wifi.toml", &[&["warmup_s=0"], overrides].concat());
        result.flows[0]
            .rtt_ms
            .as_ref()
            .map(|rtt| (rtt.min, rtt.p99))
    };
    // The flow is held to a few packets in flight, so that no queue adds to it.
    let still = [
        "links.0.wifi_jitter_ms=0",
        "links.0.reverse.aggregate_ms=0",
        "flows.0.controller=vegas",
    ];
    let (min, _) = rtt(&still).expect("it has samples");
    let (held, _) = rtt(&[
        still[0],
        "links.0.reverse.aggregate_packets=10000",
        still[2],
    ])
    .unwrap();
    let (_, jittered) = rtt(&[still[1], still[2]]).unwrap();
    assert!((2.0..5.0).contains(&min), "{min}");
    assert!((min + 1.5..min + 8.0).contains(&held), "{min} and {held}");
    assert!((60.0..500.0).contains(&jittered), "{jittered}");
}
