//! Experiments as a whole: read, run, judged, reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use tempfile::TempDir;

use super::*;

mod claims;
mod mistakes;

const SCENARIO: &str = r#"name = "s"
duration_s = 2
topology = "dumbbell"
[[links]]
name = "bottleneck"
rate_bps = 1_000_000
delay_ms = 5
[[flows]]
name = "f"
app = "bulk"
controller = "reno"
"#;

const EXPERIMENT: &str = r#"title = "t"
source = "section 1"
open = ["nothing"]
scenario = "scenarios/s.toml"
set = ["flows.0.controller=$(protocol.controller)", "flows.0.count=$(n)", "links.0.rate_bps=$(n*(500000+500000))"]
[axes]
n = [1, 2]
protocol = [
  { name = "reno", controller = "reno" },
  { name = "smooth", title = "Smooth & more", controller = "smooth-aimd" },
]
[[runs]]
quick = { n = [1] }
[[runs]]
name = "slow"
only = { n = [1] }
set = ["links.0.delay_ms=50"]
quick = { protocol = [] }
[metrics]
goodput.of = "totals.goodput_bps"
share.formula = "goodput/goodput[protocol=reno]"
[metrics.rise]
series = "flows.f*.rate_bps"
across = "sum"
bin_s = 0.5
reduce = "rises"
level = "1"
[[figures]]
figure = "Fig. 1"
title = "a < b"
x = "n"
y = "goodput"
y_label = "b/s"
lines = "protocol"
paper.reno = [1, nan]
[[figures]]
figure = "Fig. 2"
title = "over time"
kind = "time"
at = { n = 1, protocol = "reno" }
series = [{ of = "flows.f.rate_bps", label = "f" }]
[[claims]]
figure = "Fig. 1"
claim = "much"
each = ["n"]
at = { protocol = "reno" }
value = "goodput/n"
paper = 10
within = 2
ns2 = 11
[claims.differs]
reason = "it is fast"
at = { runs = "slow" }
[[claims]]
figure = "Fig. 1"
claim = "more"
at = { n = 1 }
order = ["goodput[protocol=reno]", "goodput[protocol=smooth]"]
note = "who knows"
"#;

/// A directory with one experiment, `paper/e`.
fn papers(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let scenarios = directory.path().join("paper/scenarios");
    fs::create_dir_all(&scenarios).unwrap();
    fs::write(scenarios.join("s.toml"), SCENARIO).unwrap();
    let path = directory.path().join("paper/e.toml");
    fs::write(&path, text).unwrap();
    (directory, path)
}

fn refused(text: &str) -> String {
    let (_directory, path) = papers(text);
    let error = Experiment::load(&path)
        .expect_err("it makes no sense")
        .to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn plan(quick: bool, seeds: u64) -> Plan {
    Plan {
        build: Build {
            version: "0".into(),
            executable: "test".into(),
            commit: None,
        },
        quick,
        backend: "sim".into(),
        seeds: Some(seeds),
        experiments: vec!["paper/e".into()],
        controllers: Vec::new(),
        recorded: None,
    }
}

/// A record of a run whose goodput is `goodput` and whose flow begins to send in the second bin.
fn record(run: &Run, plan: &Plan, goodput: f64) -> Record {
    Record {
        experiment: run.experiment.clone(),
        group: run.point.group.clone(),
        axes: run.point.axes.clone(),
        seed: run.seed,
        build: plan.build.clone(),
        command: run.command("sim"),
        result: json!({
            "flows": [{ "name": "f", "error": null }],
            "totals": { "goodput_bps": goodput },
        }),
        series: json!({
            "interval_s": 0.25,
            "flows": [{ "name": "f", "rate_bps": [0, 0, 0, 4, 4, 4, 4, 4] }],
        }),
    }
}

/// The report's document when runs have these goodputs; `None` leaves a run out.
fn judged(text: &str, quick: bool, seeds: u64, goodput: impl Fn(&Run) -> Option<f64>) -> Document {
    let (directory, path) = papers(text);
    let experiment = Experiment::load(&path).unwrap_or_else(|error| panic!("{error}"));
    let plan = plan(quick, seeds);
    let store = Store::new(&directory.path().join("out"));
    for run in experiment.runs(plan.extent(), plan.seeds).unwrap() {
        if let Some(goodput) = goodput(&run) {
            store
                .keep(&run, &plan, &record(&run, &plan, goodput))
                .unwrap();
        }
    }
    store
        .begin(&plan, directory.path(), &experiment.files())
        .unwrap();
    let report =
        Report::new(&[store.directory().to_owned()], "c").unwrap_or_else(|e| panic!("{e}"));
    report.write(store.directory()).unwrap();
    let html = fs::read_to_string(store.directory().join("report.html")).unwrap();
    let page = html.strip_prefix("<!doctype html>\n").expect("a doctype");
    roxmltree::Document::parse(page).expect("well-formed");
    report.document().clone()
}

#[test]
fn a_run_over_eight_busy_links_weighs_as_much_as_eight_over_one() {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
    let weight = |id: &str, axis: Option<(&str, &str)>| {
        let experiments = find(&papers, Some(id)).unwrap_or_else(|error| panic!("{error}"));
        let mut runs = experiments[0].runs(Extent::Full, Some(1)).unwrap();
        runs.retain(|run| axis.is_none_or(|(name, value)| run.point.axes[name] == value));
        runs[0].weight()
    };
    let one = weight("acp/capacity", Some(("capacity", "155")));
    // Seven links of the same rate, and a slower one.
    let eight = weight("acp/parking-lot", None) / one;
    assert!((7.0..8.0).contains(&eight), "{eight}");
}

#[test]
fn every_experiment_in_the_repository_can_be_run() {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
    for experiment in find(&papers, None).unwrap_or_else(|error| panic!("{error}")) {
        for extent in [Extent::Full, Extent::Quick] {
            let runs = experiment
                .runs(extent, Some(1))
                .unwrap_or_else(|error| panic!("{error}"));
            assert!(!runs.is_empty(), "{}", experiment.id);
            let judged = experiment
                .claims
                .iter()
                .filter(|claim| !claim.planned(&experiment.scope, extent).is_empty());
            assert!(
                judged.count() > 0,
                "{}: no claim has its runs ({extent:?})",
                experiment.id
            );
        }
    }
}

#[test]
fn runs_are_the_combinations_of_the_axes_with_their_values_filled_in() {
    let (_directory, path) = papers(EXPERIMENT);
    let experiment = Experiment::load(&path).unwrap();
    let runs = experiment.runs(Extent::Full, Some(2)).unwrap();
    assert_eq!(runs.len(), 2 * (4 + 2));
    let run = runs
        .iter()
        .find(|run| run.label().contains("n=2 protocol=smooth seed 2"));
    let overrides = &run.expect("the run is there").overrides;
    assert_eq!(
        overrides,
        &[
            "flows.0.controller=smooth-aimd",
            "flows.0.count=2",
            "links.0.rate_bps=2000000"
        ]
    );
    assert_eq!(experiment.runs(Extent::Quick, Some(1)).unwrap().len(), 2);
}

#[test]
fn shards_together_are_the_whole_and_share_nothing() {
    let (_directory, path) = papers(EXPERIMENT);
    let experiment = Experiment::load(&path).unwrap();
    let runs = experiment.runs(Extent::Full, Some(3)).unwrap();
    let labels = |runs: Vec<Run>| -> Vec<String> { runs.iter().map(Run::label).collect() };
    for count in [1, 2, 5, 40] {
        let parts = (1..=count).flat_map(|index| labels(shard(runs.clone(), index, count)));
        let mut joined: Vec<String> = parts.collect();
        let mut whole = labels(runs.clone());
        joined.sort();
        whole.sort();
        assert_eq!(joined, whole, "{count} shards");
    }
}

#[test]
fn a_run_that_was_made_is_found_again_and_any_change_makes_it_another() {
    let (directory, path) = papers(EXPERIMENT);
    let experiment = Experiment::load(&path).unwrap();
    let store = Store::new(&directory.path().join("out"));
    let plan = plan(false, 1);
    let mut runs = experiment.runs(Extent::Quick, Some(1)).unwrap();
    runs.truncate(1);
    let interrupt = Arc::new(AtomicBool::new(false));
    let mut finished = Vec::new();
    let outcome = run(runs.clone(), &plan, &store, 2, &interrupt, |event| {
        if let Event::Finished(run) = event {
            finished.push(run.label());
        }
    });
    assert_eq!(outcome.unwrap().finished, 1);
    assert_eq!(finished, [runs[0].label()]);
    let kept = store.find(&runs[0], &plan).unwrap().expect("it was kept");
    assert!(kept.result["totals"]["goodput_bps"].as_u64().unwrap() > 500_000);
    assert_eq!(
        kept.series["flows"][0]["rate_bps"]
            .as_array()
            .unwrap()
            .len(),
        20
    );
    assert!(
        kept.series["flows"][0].get("window_bytes").is_none(),
        "only what is read is kept"
    );

    let other_seed = experiment
        .runs(Extent::Quick, Some(2))
        .unwrap()
        .swap_remove(1);
    assert!(store.find(&other_seed, &plan).unwrap().is_none());
    // A file that somebody copied over another's holds another run.
    let copied = record(&runs[0], &plan, 1.0);
    store.keep(&other_seed, &plan, &copied).unwrap();
    assert!(store.find(&other_seed, &plan).unwrap().is_none());
    let other_build = Plan {
        build: Build {
            version: "0".into(),
            executable: "newer".into(),
            commit: None,
        },
        ..plan
    };
    assert!(store.find(&runs[0], &other_build).unwrap().is_none());
}

#[test]
fn an_interrupt_ends_the_work_and_keeps_what_is_finished() {
    let (directory, path) = papers(EXPERIMENT);
    let experiment = Experiment::load(&path).unwrap();
    let store = Store::new(&directory.path().join("out"));
    let plan = plan(false, 1);
    let runs = experiment.runs(Extent::Full, Some(1)).unwrap();
    let interrupt = Arc::new(AtomicBool::new(false));
    let outcome = run(runs.clone(), &plan, &store, 1, &interrupt, |event| {
        if matches!(event, Event::Finished(_)) {
            interrupt.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(outcome.interrupted);
    let kept = runs
        .iter()
        .filter(|run| store.find(run, &plan).unwrap().is_some());
    assert_eq!((kept.count(), outcome.finished), (1, 1));
}

#[test]
fn shards_are_joined_from_their_files_alone() {
    let (directory, path) = papers(EXPERIMENT);
    let experiment = Experiment::load(&path).unwrap();
    let plan = plan(false, 1);
    let mut parts = Vec::new();
    for index in [1, 2] {
        let store = Store::new(&directory.path().join(format!("part{index}")));
        let runs = experiment.runs(Extent::Full, Some(1)).unwrap();
        for run in shard(runs, index, 2) {
            store.keep(&run, &plan, &record(&run, &plan, 10.0)).unwrap();
        }
        store
            .begin(&plan, directory.path(), &experiment.files())
            .unwrap();
        parts.push(store.directory().to_owned());
    }
    fs::remove_dir_all(directory.path().join("paper")).unwrap();
    let alone = Report::new(&parts[..1], "c").unwrap();
    let alone = alone.document();
    assert_eq!(alone.runs[0].missing, 3);
    let joined = Report::new(&parts, "c").unwrap();
    let joined = joined.document();
    assert_eq!((joined.runs[0].made, joined.runs[0].missing), (6, 0));
    assert!(joined.not_run.is_empty());

    fs::write(
        parts[1].join("papers/paper/e.toml"),
        EXPERIMENT.replace("much", "little"),
    )
    .unwrap();
    let error = Report::new(&parts, "c").unwrap_err().to_string();
    assert!(
        error.contains("differ in the experiment paper/e"),
        "{error}"
    );
}

#[test]
fn a_report_names_the_commit_of_the_program_and_holds_runs_of_no_other() {
    let (directory, path) = papers(EXPERIMENT);
    let experiment = Experiment::load(&path).unwrap();
    let made_at = |commit: Option<&str>| {
        let mut plan = plan(false, 1);
        plan.build.commit = commit.map(str::to_owned);
        let store = Store::new(&directory.path().join(commit.unwrap_or("unknown")));
        for run in experiment.runs(Extent::Full, Some(1)).unwrap() {
            store.keep(&run, &plan, &record(&run, &plan, 10.0)).unwrap();
        }
        store
            .begin(&plan, directory.path(), &experiment.files())
            .unwrap();
        store.directory().to_owned()
    };
    let parts = [made_at(Some("abc")), made_at(None)];
    let written = |parts: &[PathBuf]| {
        let report = Report::new(parts, "c").unwrap();
        report.write(directory.path()).unwrap();
        let read = |name| fs::read_to_string(directory.path().join(name)).unwrap();
        (read("report.json"), read("report.html"))
    };
    let (json, page) = written(&parts[..1]);
    assert!(json.starts_with("{\n\"version\": \"0\",\n\"commit\": \"abc\",\n"));
    assert!(page.contains("evenkeel-testbed 0, commit <code>abc</code>."));
    let (json, page) = written(&parts[1..]);
    assert!(!json.contains("\"commit\""));
    assert!(page.contains("evenkeel-testbed 0.</p>"));
    let error = Report::new(&parts, "c").unwrap_err().to_string();
    assert!(error.contains("differ in the commit"), "{error}");
}

/// The experiment with runs for the kernel, and a reason for what differs there.
fn with_kernel() -> String {
    let kernel =
        "[kernel]\nmetrics = [\"goodput\"]\nbecause.goodput = \"real time\"\n[[figures]]\n";
    EXPERIMENT
        .replacen("quick = { n = [1] }", "kernel = { n = [2] }", 1)
        .replacen("[[figures]]\n", kernel, 1)
}

#[test]
fn runs_on_the_kernel_stand_beside_those_in_virtual_time() {
    let (directory, path) = papers(&with_kernel());
    let experiment = Experiment::load(&path).unwrap_or_else(|error| panic!("{error}"));
    let simulated = plan(false, 1);
    let kernel = Plan {
        backend: "netns".into(),
        seeds: None,
        ..simulated.clone()
    };
    assert_eq!(experiment.runs(kernel.extent(), Some(1)).unwrap().len(), 2);
    let mut directories = Vec::new();
    // Reno has 4 % more on the kernel, the other one twice as much.
    for (plan, smooth, reno) in [(&kernel, 40.0, 20.8), (&simulated, 20.0, 20.0)] {
        let store = Store::new(&directory.path().join(&plan.backend));
        for run in experiment.runs(plan.extent(), Some(1)).unwrap() {
            let goodput = if run.point.axes["protocol"] == "reno" {
                reno
            } else {
                smooth
            };
            store
                .keep(&run, plan, &record(&run, plan, goodput))
                .unwrap();
        }
        store
            .begin(plan, directory.path(), &experiment.files())
            .unwrap();
        directories.push(store.directory().to_owned());
    }
    let report = Report::new(&directories, "c").unwrap_or_else(|error| panic!("{error}"));
    report.write(directory.path()).unwrap();
    let html = fs::read_to_string(directory.path().join("report.html")).unwrap();
    let page = html.strip_prefix("<!doctype html>\n").expect("a doctype");
    roxmltree::Document::parse(page).expect("well-formed");
    let document = report.document();
    assert_eq!(document.plan.backend, "sim");
    let rows: Vec<_> = document.kernel.iter().collect();
    assert_eq!(rows.len(), 2);
    let reno = &rows[0];
    assert_eq!(reno.run, "n=2 protocol=reno");
    assert_eq!(
        (&reno.simulated, &reno.kernel),
        (&json!(20.0), &json!(20.8))
    );
    assert_eq!(reno.difference_percent, json!(4.0));
    assert_eq!((reno.notable, &reno.reason), (false, &None));
    assert_eq!(rows[1].difference_percent, json!(100.0));
    assert_eq!(rows[1].reason.as_deref(), Some("real time"));
    // Of a claim at two points the kernel has one: it is judged there.
    let much = &document.claims[0];
    assert_eq!(much.kernel_value, json!(10.4));
    assert_eq!(much.kernel_verdict, Some(Verdict::Holds));
    assert_eq!(document.claims[1].kernel_verdict, None);
}

#[test]
fn an_experiment_says_how_many_seeds_it_wants_where_and_the_command_may_say_otherwise() {
    let seeds = "seeds = 3\nseeds_at = { protocol = [\"smooth\"] }\nquick =";
    let text = EXPERIMENT.replacen("quick =", seeds, 1);
    let (_directory, path) = papers(&text);
    let experiment = Experiment::load(&path).unwrap();
    let count = |extent, seeds| experiment.runs(extent, seeds).unwrap().len();
    // Two points of four have three seeds; the two of the other group have one.
    assert_eq!(count(Extent::Full, None), 2 + 2 * 3 + 2);
    assert_eq!(count(Extent::Full, Some(2)), (4 + 2) * 2);
    assert_eq!(count(Extent::Quick, None), 2);
    let none = refused(&EXPERIMENT.replacen("quick =", "seeds = 0\nquick =", 1));
    assert!(none.contains("seeds must be at least 1"), "{none}");
}
