//! What people and programs get of runs.

use std::time::Duration;

use serde_json::json;

use super::args::Directions;
use super::machine::Machine;
use super::page::page;
use super::plan::Plan;
use super::report::{Comparison, title};
use crate::cli::bulk::compare::Transfer;
use crate::cli::stream::compare::Watched;

type Measured = super::run::Measured<Transfer>;
type Run = super::run::Run<Transfer>;

fn plan(controllers: &[&str]) -> Plan {
    Plan {
        version: "0".into(),
        application: "bulk".into(),
        server: "host.example:4433".into(),
        controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
        direction: Directions::Both,
        rounds: 8,
        time: Duration::from_secs(10),
        buffer_ms: 0,
        pause: Duration::from_secs(2),
        seed: 1,
    }
}

fn measured(rate_bps: f64, rtt_ms: f64) -> Measured {
    let report: crate::bulk::Report = serde_json::from_value(json!({
        "bytes": 1000, "duration_s": 10.0, "goodput_bps": rate_bps, "first_1mb_s": 1e6 / rate_bps,
        "first_10mb_s": null, "packets_sent": 10, "packets_lost": 0, "retransmitted_ratio": 0.0,
        "rtt_min_ms": 1.0, "rtt_smoothed_ms": 1.0, "window_bytes": 1, "congestion_events": 0,
        "udp_bytes_sent": 1, "udp_bytes_received": 1, "checksum": null,
    }))
    .unwrap();
    Measured {
        of: Transfer {
            sender: report.clone(),
            receiver: report,
            pings_lost: 0,
        },
        idle_ms: vec![20.0; 20],
        delays: (0..200)
            .map(|n| (f64::from(n) * 0.05, rtt_ms + f64::from(n % 3)))
            .collect(),
        progress: (1..100)
            .map(|n| (f64::from(n) * 0.1, (rate_bps / 80.0) as u64 * n as u64))
            .collect(),
        machine: Machine {
            others: Some(0.1),
            late_ms: 3.0,
        },
    }
}

/// Runs in which the last controller is twice as fast, and the others are the same.
fn runs(plan: &Plan) -> Vec<Run> {
    let last = plan.controllers.len() - 1;
    plan.turns()
        .iter()
        .map(|turn| {
            let share = if turn.controller == last { 2.0 } else { 1.0 };
            let noise = f64::from(turn.round % 3) * 0.02 + turn.controller as f64 * 1e-4;
            let measured = measured(1e7 * share * (1.0 + noise), 40.0 - 10.0 * share);
            Run::measured(turn, plan, 0.0, measured)
        })
        .collect()
}

#[test]
fn the_table_names_the_winner_of_each_figure_and_no_other() {
    let plan = plan(&["keel", "cubic", "vegas:alpha=2,beta=4,gamma=1.25"]);
    let runs = runs(&plan);
    let comparison = Comparison::new(&plan, &runs);
    // Seven judged figures, three pairs, two directions.
    assert_eq!(comparison.comparisons, 42);
    let verdicts: Vec<_> = comparison
        .results
        .iter()
        .map(|r| comparison.verdict(r))
        .collect();
    let winner = Some("vegas:alpha=2,beta=4,gamma=1.25".to_owned());
    let same = Some("no difference".to_owned());
    let few = Some("fewer than 6 rounds".to_owned());
    let expected = [
        &winner, &None, &winner, &winner, &winner, &same, &winner, &few,
    ];
    assert_eq!(
        verdicts.iter().collect::<Vec<_>>(),
        [expected, expected].concat()
    );
    let text = comparison.text();
    assert!(
        text.contains("upload: 8 rounds of 10 s each, seed 1\n"),
        "{text}"
    );
    let line = format!("  {:<38}no difference\n", "packets lost, %");
    assert!(text.contains(&line), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn failures_and_disturbances_are_told_with_their_run() {
    let plan = plan(&["keel", "cubic"]);
    let mut runs = runs(&plan);
    runs[3].measured = None;
    runs[3].error = Some("connection lost: timed out".into());
    let with = |run: &mut Run, change: fn(&mut Measured)| change(run.measured.as_mut().unwrap());
    with(&mut runs[5], |run| run.idle_ms = vec![35.0; 20]);
    with(&mut runs[6], |run| run.machine.others = Some(0.8));
    with(&mut runs[7], |run| run.machine.late_ms = 250.0);
    let text = Comparison::new(&plan, &runs).text();
    assert!(text.contains("7 of 8 rounds"), "{text}");
    for (run, what) in [
        (&runs[3], ": connection lost: timed out\n"),
        (
            &runs[5],
            ": the round trip before it was 35.0 ms, 20.0 usually: another flow?\n",
        ),
        (&runs[6], ": other programs took 80 % of the processors\n"),
        (&runs[7], ": this program was woken 250 ms late\n"),
    ] {
        assert!(text.contains(&format!("{}{what}", title(run))), "{text}");
    }
    assert_eq!(text.matches("disturbed, ").count(), 3, "{text}");
}

#[test]
fn the_page_holds_all_it_shows_and_the_document_all_runs() {
    let plan = plan(&["keel", "<b>"]);
    let runs = runs(&plan);
    let comparison = Comparison::new(&plan, &runs);
    let page = page(&comparison);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("<b>"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.matches("<svg").count() >= 6, "{page}");
    let document = serde_json::to_value(&comparison).unwrap();
    assert_eq!(document["record"], "comparison");
    let read: Vec<Run> = serde_json::from_value(document["runs"].clone()).unwrap();
    assert_eq!(read, runs);
    assert_eq!(document["results"][0]["best"], json!([1]));
}

#[test]
fn streams_are_judged_by_their_frames_delays_stalls_losses_and_rate() {
    let mut plan = plan(&["keel", "cubic"]);
    (plan.application, plan.direction) = ("stream".into(), Directions::Down);
    let measured = |turn: &super::plan::Turn| -> super::run::Measured<Watched> {
        let slow = 1.0 + turn.controller as f64 + f64::from(turn.round % 3) * 0.01;
        let lost = 10 * turn.controller as u64;
        let report = json!({
            "duration_s": 10.0, "bytes": 1000, "throughput_bps": 2e6 / slow, "startup_s": 0.3,
            "frames": {"received": 300, "on_time": 300, "late": 0, "skipped": 0, "lost": lost,
                "damaged": 0, "preroll": 0},
            "causes": {"encoder": 0, "own_queue": 0, "window": 0, "others_queue": 0, "hop": 0,
                "loss": 0, "viewer": 0},
            "delay_ms": {"min": 20.0, "p50": 30.0 * slow, "p95": 60.0 * slow, "p99": 90.0 * slow,
                "max": 99.0},
            "jitter_ms": null, "stalls": {"count": 1, "total_s": slow, "longest_s": 1.0},
            "playout_delay_ms": null, "variation": [], "bitrate": null,
            "clock": {"kind": "shared"},
        });
        let run = json!({
            "report": report, "idle_ms": [20.0], "delays": [[0.1, 30.0]], "progress": [[1.0, 1000]],
            "machine": {"others": 0.1, "late_ms": 3.0},
        });
        serde_json::from_value(run).unwrap()
    };
    let run = |turn| super::run::Run::measured(turn, &plan, 0.0, measured(turn));
    let runs: Vec<_> = plan.turns().iter().map(run).collect();
    let comparison = Comparison::new(&plan, &runs);
    assert_eq!(comparison.comparisons, 6);
    let found = comparison.results.iter();
    let verdicts: Vec<_> = found
        .map(|result| (result.figure, &result.best[..]))
        .collect();
    let expected: [(_, &[usize]); 7] = [
        ("rate", &[0]),
        ("round trip, idle", &[]),
        ("frame delay, p50", &[0]),
        ("frame delay, p95", &[0]),
        ("frame delay, p99", &[0]),
        ("stalled", &[0]),
        ("frames lost", &[0]),
    ];
    assert_eq!(verdicts, expected);
    let text = comparison.text();
    assert!(
        text.starts_with("stream: 8 rounds of 10 s each, seed 1\n"),
        "{text}"
    );
    assert!(page(&comparison).contains("Delay of frames, median of all rounds"));
    let document = serde_json::to_value(&comparison).unwrap();
    let read: Vec<super::run::Run<Watched>> =
        serde_json::from_value(document["runs"].clone()).unwrap();
    assert_eq!(read, runs);
}

#[test]
fn a_comparison_without_any_run_is_all_dashes() {
    let plan = plan(&["keel", "cubic"]);
    let comparison = Comparison::<Transfer>::new(&plan, &[]);
    assert!(comparison.text().contains(&format!("{:<36}-\n", "keel")));
    assert!(!page(&comparison).is_empty());
}
