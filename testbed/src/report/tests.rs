//! Tests of whole results.

mod comparison;
mod files;

use std::time::Duration;

use evenkeel::{HeaderCounters, HeaderState, Pacing};
use evenkeel_apps::path::{HeaderReport, SampleRecord};
use toml::toml;

use super::*;
use crate::metrics::{
    ControllerSample, DelaySample, FlowObservation, LinkObservation, PacketSample, PathObservation,
    QueueObservation, QueueSample, RttSample, SojournObservation, StampObservation, Transfer,
    WireObservation,
};
use crate::scenario::{FlowBuilder, LinkBuilder, ScenarioBuilder};

/// What makes a run again.
const COMMAND: &str = "evenkeel-testbed run 'small & big.toml' --seed 1";

fn builder() -> ScenarioBuilder {
    Scenario::builder("small", Duration::from_secs(3))
        .warmup(Duration::from_secs(1))
        .set("topology", "dumbbell")
        .set("sampling", toml! { interval_ms = 500 })
        .link(LinkBuilder::new("bottleneck").rate_bps(8000))
        .flow(FlowBuilder::bulk("a", "vegas:alpha=<1&\"2\">"))
        .flow(FlowBuilder::bulk("b", "reno").start(Duration::from_secs(2)))
}

fn scenario() -> Scenario {
    builder().build().unwrap()
}

/// Two flows and a link whose figures are worked out by hand below.
fn observations() -> Observations {
    let seconds = Duration::from_secs;
    let flow = |name: &str, controller: &str, start, delivered: &[u64]| FlowObservation {
        name: name.into(),
        group: name.into(),
        controller: controller.into(),
        start,
        stop: seconds(3),
        delivered: delivered.to_vec(),
        app_delivered: delivered.iter().map(|bytes| bytes / 2).collect(),
        ..FlowObservation::default()
    };
    let controller = |window: Option<u64>| {
        window.map(|window| ControllerSample {
            window,
            slow_start_threshold: (window > 2400).then_some(2400),
            pacing_rate: (window > 3600).then_some(1000),
        })
    };
    let a = FlowObservation {
        controller_state: [
            None,
            Some(2400),
            Some(3600),
            Some(3600),
            Some(4800),
            Some(4800),
        ]
        .map(controller)
        .to_vec(),
        rtt: vec![
            RttSample {
                at: seconds(0),
                rtt: Duration::from_micros(1),
            },
            RttSample {
                at: seconds(1),
                rtt: Duration::from_micros(40_123),
            },
        ],
        one_way: vec![
            None,
            Some(DelaySample {
                mean: Duration::from_millis(20),
                max: Duration::from_micros(25_500),
            }),
        ],
        pacing: Pacing::Controller,
        packet_series: vec![
            PacketSample { sent: 2, lost: 0 },
            PacketSample { sent: 1, lost: 1 },
        ],
        sent_packets: 3,
        lost_packets: 1,
        transfers: vec![Transfer {
            start: seconds(0),
            end: Some(Duration::from_micros(2_345_678)),
            bytes: 1000,
            sha256_verified: Some(true),
        }],
        ..flow(
            "a",
            "vegas:alpha=<1&\"2\">",
            seconds(0),
            &[9, 9, 300, 100, 100, 100],
        )
    };
    let b = FlowObservation {
        error: Some("no server".into()),
        ..flow("b", "reno", seconds(2), &[0, 0, 0, 0, 50, 50])
    };
    let link = LinkObservation {
        name: "bottleneck".into(),
        rate_bps: Some(8000),
        delay: Duration::from_micros(1500),
        emulator: Some("evenkeel"),
        arrived: 300,
        forwarded: 299,
        dropped: 3,
        dropped_early: Some(2),
        marked: 4,
        lost: 2,
        wire: WireObservation::default(),
        forwarded_bytes: 1500,
        queue: QueueObservation {
            mean: 1.23456,
            sd: f64::NAN,
            p95: 2,
            max: 3,
        },
        sojourn: Some(SojournObservation {
            p50: Duration::from_micros(10),
            p95: Duration::from_micros(20_000),
            p99: Duration::from_nanos(30_000_400),
        }),
        queue_series: (0..6)
            .map(|n| QueueSample {
                packets: n,
                max: n + 1,
            })
            .collect(),
        drop_series: vec![0, 0, 1, 0, 0, 0],
        forwarded_series: vec![0, 0, 500, 500, 250, 250],
        capacity_series: [8000, 8000, 8000, 0, 8000, 8000]
            .map(|bps| (bps > 0).then_some(bps))
            .to_vec(),
        headers: Some(evenkeel_queue::HeaderCounts {
            recognised: 250,
            stamped: 249,
            foreign: 49,
            kind: 1,
            ..evenkeel_queue::HeaderCounts::default()
        }),
        stamps: vec![StampObservation {
            stamp: "acp".into(),
            figure: "users".into(),
            series: vec![10.0, f64::NAN, 2.5, 2.0, 2.0, 1.999_999_9],
        }],
    };
    Observations {
        flows: vec![a, b],
        links: vec![link],
        packets_sent: 321,
    }
}

#[test]
fn a_result_holds_the_figures_worked_out_by_hand() {
    let document = ResultDocument::new(&scenario(), "sim", &observations());
    let mut value: serde_json::Value = serde_json::from_str(&json(&document)).unwrap();
    // The configuration is tested where it is made.
    assert_eq!(
        value.as_object_mut().unwrap().remove("config").unwrap()["name"],
        "small"
    );
    let expected = serde_json::json!({
        "scenario": "small",
        "backend": "sim",
        "version": env!("CARGO_PKG_VERSION"),
        "seed": 1,
        "duration_s": 3.0,
        "warmup_s": 1.0,
        "packets_sent": 321,
        "flows": [
            {
                "name": "a",
                "group": "a",
                "controller": "vegas:alpha=<1&\"2\">",
                "pacing": "controller",
                "path_headers": 0,
                "start_s": 0.0,
                "stop_s": 3.0,
                "died_s": null,
                // 600 bytes in 2 s.
                "throughput_bps": 2400,
                "goodput_bps": 1200,
                // 300, 100, 100, 100: mean 150, deviation sqrt(7500).
                "cov": 0.57735,
                "sent_packets": 3,
                "lost_packets": 1,
                "retransmitted_ratio": 0.333333,
                "rtt_ms": {"min": 40.123, "p50": 40.123, "p95": 40.123, "p99": 40.123},
                "path": null,
                "transfers": {
                    "started": 1,
                    "completed": 1,
                    "bytes": 1000,
                    "sha256_verified": true,
                    "completion_s": {"p50": 2.345678, "p95": 2.345678, "p99": 2.345678}
                },
                "error": null
            },
            {
                "name": "b",
                "group": "b",
                "controller": "reno",
                "pacing": "controller",
                "path_headers": 0,
                "start_s": 2.0,
                "stop_s": 3.0,
                "died_s": null,
                // 100 bytes in 1 s.
                "throughput_bps": 800,
                "goodput_bps": 400,
                "cov": 0.0,
                "sent_packets": 0,
                "lost_packets": 0,
                "retransmitted_ratio": null,
                "rtt_ms": null,
                "path": null,
                "transfers": {
                    "started": 0, "completed": 0, "bytes": 0, "sha256_verified": null, "completion_s": null
                },
                "error": "no server"
            }
        ],
        // CoV: the mean of 0.57735 and 0.
        "totals": {"throughput_bps": 3200, "goodput_bps": 1600, "cov": 0.288675, "retransmitted_ratio": 0.333333},
        // 3200^2 / (2 (2400^2 + 800^2)); 800 / 2400; twice (100, 50): 150^2 / (2 x 12500).
        "fairness": {"jain": 0.8, "worst_case": 0.333333, "short_term": 0.9},
        "links": [
            {
                "name": "bottleneck",
                "rate_bps": 8000,
                "delay_ms": 1.5,
                "emulator": "evenkeel",
                // 1500 bytes of 2000.
                "utilization": 0.75,
                "queue_packets": {"mean": 1.235, "sd": null, "p95": 2, "max": 3},
                "sojourn_ms": {"p50": 0.01, "p95": 20.0, "p99": 30.0},
                "arrived": 300,
                "forwarded": 299,
                "forwarded_bytes": 1500,
                "dropped": 3,
                "dropped_early": 2,
                "marked": 4,
                "loss_rate": 0.01,
                "lost": 2,
                "headers": {
                    "recognised": 250, "stamped": 249, "foreign": 49,
                    "truncated": 0, "version": 0, "kind": 1, "untouchable": 0
                },
                "stamps": {"acp": {"users": 2.0}}
            }
        ],
        "warnings": [],
        "series": "series.json"
    });
    assert_eq!(value, expected);
}

#[test]
fn series_hold_every_interval() {
    let series = Series::new(&scenario(), &observations());
    let expected = concat!(
        r#"{"interval_s":0.5,"flows":[{"name":"a","rate_bps":[144,144,4800,1600,1600,1600],"#,
        r#""goodput_bps":[64,64,2400,800,800,800],"#,
        r#""rtt_ms":[0.001,null,40.123,null,null,null],"rtt_max_ms":[0.001,null,40.123,null,null,null],"#,
        r#""one_way_ms":[null,20.0],"one_way_max_ms":[null,25.5],"#,
        r#""sent_packets":[2,1],"lost_packets":[0,1],"#,
        r#""window_bytes":[null,2400,3600,3600,4800,4800],"#,
        r#""slow_start_threshold_bytes":[null,null,2400,2400,2400,2400],"#,
        r#""pacing_rate_bps":[null,null,null,null,8000,8000],"path":null,"#,
        r#""transfers":[{"start_s":0.0,"end_s":2.345678,"bytes":1000,"sha256_verified":true}]},"#,
        r#"{"name":"b","rate_bps":[0,0,0,0,800,800],"goodput_bps":[0,0,0,0,400,400],"#,
        r#""rtt_ms":[null,null,null,null,null,null],"rtt_max_ms":[null,null,null,null,null,null],"#,
        r#""sent_packets":[],"lost_packets":[],"#,
        r#""window_bytes":[],"slow_start_threshold_bytes":[],"pacing_rate_bps":[],"path":null,"#,
        r#""transfers":[]}],"#,
        r#""links":[{"name":"bottleneck","rate_bps":[0,0,8000,8000,4000,4000],"#,
        r#""capacity_bps":[8000,8000,8000,null,8000,8000],"queue_packets":[0,1,2,3,4,5],"#,
        r#""queue_packets_max":[1,2,3,4,5,6],"dropped":[0,0,1,0,0,0],"#,
        r#""stamps":{"acp":{"users":[10.0,null,2.5,2.0,2.0,2.0]}}}]}"#,
        "\n"
    );
    assert_eq!(series.json(), expected);
}

#[test]
fn the_table_shows_flows_links_fairness_and_failures() {
    let document = ResultDocument::new(&scenario(), "sim", &observations());
    let expected = "\
small, seed 1, on sim: 3 s, averages without the first 1 s

flow           controller           throughput  goodput    CoV  retrans.  RTT min   p50   p95   p99
                                          Mb/s     Mb/s                %       ms    ms    ms    ms
a              vegas:alpha=<1&\"2\">       0.002    0.001  0.577     33.33     40.1  40.1  40.1  40.1
b [1 failed]   reno                      0.001    0.000  0.000         -        -     -     -     -
sum; mean CoV                            0.003    0.002  0.289     33.33        -     -     -     -

link         rate  utilized    queue  +-  p95  max  wait p95  arrived  dropped  loss
             Mb/s         %  packets                      ms  packets  packets     %
bottleneck  0.008      75.0      1.2   -    2    3      20.0      300        3  1.00
bottleneck: 2 packets lost behind the queue
bottleneck: 2 packets dropped early, 1 with a full queue
bottleneck: 4 packets marked

fairness: Jain 0.800, worst case 0.333, short term 0.900

a: 1 of 1 transfers complete, p50 2.346 s, p95 2.346 s, SHA-256 agrees
b failed: no server
";
    assert_eq!(table(&document), expected);
}

#[test]
fn the_averages_of_a_dead_flow_end_at_its_death_and_the_table_marks_it() {
    let mut observations = observations();
    let scenario = scenario();
    let dies = |flow: &mut FlowObservation, at_ms: u64| {
        flow.error = None;
        let at = Duration::from_millis(at_ms);
        flow.failed(&scenario.flows[0], at, "timed out".into());
    };
    dies(&mut observations.flows[0], 2000);
    let document = ResultDocument::new(&scenario, "sim", &observations);
    let a = &document.flows[0];
    assert_eq!((a.stop_s, a.died_s), (2.0, Some(2.0)));
    // 400 bytes in the second from the warm-up's end to its death, not 600 in 2 s.
    assert_eq!(a.throughput_bps, Some(3200));
    let failure = "a died at 2 s, its figures end there: timed out";
    assert_eq!(
        document.failures(),
        [failure.to_owned(), "b failed: no server".into()]
    );
    let text = table(&document);
    assert!(text.contains("\na [1 died]  "), "{text}");
    assert!(text.contains(failure), "{text}");

    // One that died in the warm-up was never measured, and nobody is compared with it.
    dies(&mut observations.flows[0], 900);
    let document = ResultDocument::new(&scenario, "sim", &observations);
    assert_eq!(document.flows[0].throughput_bps, None);
    assert_eq!(document.fairness.least.jain, None);

    // What fails after a flow has stopped is no death.
    let mut stopped = observations.flows[1].clone();
    stopped.error = None;
    stopped.failed(&scenario.flows[1], Duration::from_secs(4), "reset".into());
    assert_eq!((stopped.died, stopped.error), (None, None));
}

#[test]
fn a_flow_none_of_whose_data_arrived_makes_a_warning() {
    let mut observations = observations();
    let silent = &mut observations.flows[0];
    (silent.error, silent.sent_packets) = (None, 9);
    silent.app_delivered.fill(0);
    let warnings = ResultDocument::new(&scenario(), "sim", &observations).warnings;
    let line = format!(
        "flow {}: none of its data arrived",
        observations.flows[0].name
    );
    assert_eq!(warnings, [line]);
}

#[test]
fn a_rate_that_nobody_heeds_makes_one_warning_for_a_group() {
    let mut observations = observations();
    let warnings = |observations: &Observations| {
        ResultDocument::new(&scenario(), "sim", observations).warnings
    };
    for flow in &mut observations.flows {
        (flow.asked_for_rate, flow.group) = (true, "all".into());
    }
    assert!(warnings(&observations).is_empty(), "they are paced");
    for flow in &mut observations.flows {
        (flow.pacing, flow.controller) = (Pacing::Unpaced, "tfrc".into());
    }
    let warnings = warnings(&observations);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words = [
        "flows all: tfrc",
        "pacing = \"none\"",
        "pacing = \"controller\"",
    ];
    for word in words {
        assert!(warnings[0].contains(word), "{word} in {warnings:?}");
    }
}

#[test]
fn what_path_headers_told_is_in_result_series_table_and_plots() {
    let mut observations = observations();
    let sample = |at_s: f64, forward_ms: f64, grant_bps| SampleRecord {
        grant_bps,
        flows: Some(2),
        ..queueing_sample(at_s, Some(forward_ms))
    };
    observations.flows[0].path = Some(PathObservation {
        headers: HeaderReport {
            state: HeaderState::Confirmed,
            counts: HeaderCounters {
                sent: 9,
                echoes: 3,
                ..HeaderCounters::default()
            },
        },
        samples: vec![
            sample(0.7, 90.0, None),
            sample(1.2, 1.0004, None),
            sample(2.6, 3.0, Some(500_000)),
        ],
    });
    let sampling = toml! { interval_ms = 500
    path_samples = true };
    let scenario = builder().set("sampling", sampling).build().unwrap();
    let document = ResultDocument::new(&scenario, "sim", &observations);
    let path = serde_json::to_value(&document.flows[0].path).unwrap();
    assert_eq!(
        (&path["state"], &path["sent"]),
        (&"confirmed".into(), &9.into())
    );
    assert_eq!(path["samples"], 2, "the warm-up ends at 1 s");
    assert_eq!(
        path["forward_queueing_ms"],
        serde_json::json!({"last": 3.0, "mean": 2.0})
    );
    assert_eq!(path["backward_queueing_ms"], serde_json::Value::Null);
    assert_eq!(
        (&path["grant_bps"], &path["flows"]),
        (&500_000.into(), &2.into())
    );

    let series = serde_json::to_value(Series::new(&scenario, &observations)).unwrap();
    let path = &series["flows"][0]["path"];
    assert_eq!(
        path["forward_queueing_ms"],
        serde_json::json!([null, 90.0, 1.0, null, null, 3.0])
    );
    assert_eq!(path["samples"].as_array().unwrap().len(), 3);
    assert_eq!(path["samples"][1]["forward_queueing_ms"], 1.0);
    assert_eq!(series["flows"][1]["path"], serde_json::Value::Null);

    let line =
        "a: 3 path headers came back, queueing 2.00 ms there and - ms back, 0.500 Mb/s granted\n";
    assert!(table(&document).contains(line), "{}", table(&document));
    let plots = plot::all(&scenario, &observations);
    let names: Vec<_> = plots.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[3..], ["queueing.svg", "grant.svg", "rtt-cdf.svg"]);
}

fn queueing_sample(at_s: f64, forward_queueing_ms: Option<f64>) -> SampleRecord {
    SampleRecord {
        at_s,
        rtt_ms: 40.0,
        forward_queueing_ms,
        backward_queueing_ms: None,
        complete: true,
        grant_bps: None,
        window_change_bytes: None,
        congested: false,
        flows: None,
    }
}

#[test]
fn headers_to_which_no_router_added_anything_have_no_line() {
    let mut observations = observations();
    let headers = HeaderReport {
        state: HeaderState::Confirmed,
        counts: HeaderCounters::default(),
    };
    let samples = vec![queueing_sample(1.5, None)];
    observations.flows[0].path = Some(PathObservation { headers, samples });
    let document = ResultDocument::new(&scenario(), "sim", &observations);
    let text = table(&document);
    assert!(!text.contains("path headers came back"), "{text}");
}

#[test]
fn a_large_group_is_summarised_by_smallest_median_and_greatest() {
    let mut observations = observations();
    let template = observations.flows[0].clone();
    observations.flows = (1..=13)
        .map(|n| FlowObservation {
            name: format!("a-{n}"),
            delivered: vec![0, 0, n * 250_000, 0, 0, 0],
            path: Some(PathObservation {
                headers: HeaderReport {
                    state: HeaderState::Confirmed,
                    counts: HeaderCounters::default(),
                },
                samples: vec![queueing_sample(1.5, Some(2.0))],
            }),
            ..template.clone()
        })
        .collect();
    let document = ResultDocument::new(&scenario(), "sim", &observations);
    let text = table(&document);
    let throughput = |row: &str| {
        let line = text.lines().find(|line| line.starts_with(row)).unwrap();
        line.split_whitespace().nth(4).unwrap().to_owned()
    };
    assert_eq!(throughput("a x13 smallest"), "1.000");
    assert_eq!(throughput("a x13 median"), "7.000");
    assert_eq!(throughput("a x13 greatest"), "13.000");
    assert!(!text.contains("a-1 "), "{text}");
    assert_eq!(text.matches("path headers came back").count(), 1, "{text}");
    // Of an even number the median is the mean of the middle two.
    observations.flows.push(FlowObservation {
        delivered: vec![0, 0, 14 * 250_000, 0, 0, 0],
        ..observations.flows[0].clone()
    });
    let document = ResultDocument::new(&scenario(), "sim", &observations);
    let line = table(&document);
    let line = line.lines().find(|line| line.starts_with("a x14 median"));
    assert_eq!(line.unwrap().split_whitespace().nth(4), Some("7.500"));
}

#[test]
fn tables_and_documents_say_which_controllers_no_seed_repeats() {
    let written = |controller: &str| {
        let mut observations = observations();
        observations.flows[0].controller = controller.into();
        let scenario = scenario();
        let document = ResultDocument::new(&scenario, "sim", &observations);
        let directory = tempfile::tempdir().unwrap();
        let runs = [comparison::left(
            directory.path(),
            controller,
            1,
            &observations,
        )];
        let comparison = comparison::compared(directory.path(), &["a"], &runs);
        [
            (table(&document), json(&document)),
            (comparison_table(&comparison), json(&comparison)),
        ]
    };
    let note = "no seed repeats bbr: another run gives other figures\n";
    for (text, json) in written("bbr") {
        assert!(text.contains(note), "{text}");
        assert!(json.contains("\"unseeded\": [\n    \"bbr\"\n  ]"), "{json}");
    }
    for (text, json) in written("cubic") {
        assert!(!text.contains("no seed repeats"), "{text}");
        assert!(!json.contains("unseeded"), "{json}");
    }
}

#[test]
fn flows_in_opposite_directions_are_not_compared() {
    let back = |name: &str| {
        let flow = FlowBuilder::bulk(name, "reno");
        flow.set("from", "right").set("to", "left")
    };
    let scenario = builder().flow(back("c")).flow(back("d")).build().unwrap();
    let mut observations = observations();
    for bytes in [30, 10] {
        let mut flow = observations.flows[0].clone();
        flow.delivered = vec![bytes; 6];
        flow.name = format!("back {bytes}");
        observations.flows.push(flow);
    }
    let fairness = ResultDocument::new(&scenario, "sim", &observations).fairness;
    let sets = serde_json::to_value(&fairness.sets).unwrap();
    // There as without the way back; (1 + 3)^2 / (2 (1 + 9)) there and back.
    let expected = serde_json::json!([
        {"flows": ["a", "b"], "jain": 0.8, "worst_case": 0.333333, "short_term": 0.9},
        {"flows": ["back 30", "back 10"], "jain": 0.8, "worst_case": 0.333333, "short_term": 0.8},
    ]);
    assert_eq!(sets, expected);
    assert_eq!(fairness.least.short_term, Some(0.8));
}

#[test]
fn nothing_observed_makes_a_result_of_nulls() {
    let document = ResultDocument::new(&scenario(), "sim", &Observations::default());
    let text = json(&document);
    assert!(text.contains("\"jain\": null"), "{text}");
    assert!(!table(&document).is_empty());
}
