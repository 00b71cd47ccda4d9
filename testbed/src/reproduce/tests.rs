//! Experiments as a whole: read, run, judged, reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;

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
        },
        quick,
        backend: "sim".into(),
        seeds: Some(seeds),
        experiments: vec!["paper/e".into()],
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
    store.begin(&plan, &[experiment]).unwrap();
    let report =
        Report::new(&[store.directory().to_owned()], "c").unwrap_or_else(|e| panic!("{e}"));
    report.write(store.directory()).unwrap();
    let html = fs::read_to_string(store.directory().join("report.html")).unwrap();
    let page = html.strip_prefix("<!doctype html>\n").expect("a doctype");
    roxmltree::Document::parse(page).expect("well-formed");
    report.document()
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
                .filter(|claim| claim.is_planned(&experiment, extent));
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
    let other_build = Plan {
        build: Build {
            version: "0".into(),
            executable: "newer".into(),
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
fn a_claim_holds_at_the_median_over_seeds() {
    // Seeds 1 to 3 have 9, 11 and 30: the median is within 10 plus or minus 2, the mean is not.
    let goodputs = [9.0, 11.0, 30.0];
    let document = judged(EXPERIMENT, false, 3, |run| {
        let n: f64 = run.point.axes["n"].parse().unwrap();
        Some(n * goodputs[run.seed as usize - 1])
    });
    let claim = &document.claims[0];
    assert_eq!(claim.verdict, Verdict::Holds);
    assert_eq!(claim.value, json!([11.0, 11.0]), "one for each n");
    assert_eq!(claim.spread, json!([[9.0, 30.0], [9.0, 30.0]]));
    assert_eq!(claim.criterion, "8 to 12");
    let order = "goodput[protocol=reno] < goodput[protocol=smooth]";
    assert_eq!(document.claims[1].criterion, order);
    assert_eq!(
        (&claim.paper_value, &claim.ns2_value),
        (&json!(10.0), &json!(11.0))
    );
}

#[test]
fn a_claim_differs_only_if_the_run_without_the_cause_bears_it_out() {
    let only_n1 = EXPERIMENT.replace(
        "each = [\"n\"]\nat = { protocol = \"reno\" }",
        "at = { protocol = \"reno\", n = 1 }",
    );
    let verdict = |slow: f64| {
        let document = judged(&only_n1, false, 1, |run| {
            Some(if run.point.group == "slow" {
                slow
            } else {
                50.0
            })
        });
        document.claims[0].clone()
    };
    let differs = verdict(10.0);
    assert_eq!(differs.verdict, Verdict::Differs);
    assert_eq!(differs.reason.as_deref(), Some("it is fast"));
    assert_eq!(differs.value_without_cause, json!(10.0));
    assert!(
        differs.commands[0].contains("--set links.0.delay_ms=50"),
        "{:?}",
        differs.commands
    );

    let unexplained = verdict(50.0);
    assert_eq!(unexplained.verdict, Verdict::DoesNotHold);
    assert!(unexplained.reason.unwrap().starts_with("Not explained"));
}

#[test]
fn a_cause_must_explain_every_point_that_fails() {
    // There is no slow run with n = 2.
    let document = judged(EXPERIMENT, false, 1, |run| {
        Some(if run.point.group == "slow" {
            10.0
        } else {
            50.0
        })
    });
    assert_eq!(document.claims[0].verdict, Verdict::DoesNotHold);
}

#[test]
fn an_order_holds_if_every_value_is_less_than_the_next() {
    let order = |reno: f64, smooth: f64| {
        let document = judged(EXPERIMENT, false, 1, |run| {
            Some(if run.point.axes["protocol"] == "reno" {
                reno
            } else {
                smooth
            })
        });
        document.claims[1].clone()
    };
    assert_eq!(order(1.0, 2.0).verdict, Verdict::Holds);
    assert_eq!(order(1.0, 2.0).value, json!([1.0, 2.0]));
    assert_eq!(order(2.0, 2.0).verdict, Verdict::DoesNotHold);
    assert_eq!(order(3.0, 2.0).reason.as_deref(), Some("who knows"));
}

#[test]
fn a_claim_whose_runs_were_not_made_is_not_judged() {
    let document = judged(EXPERIMENT, false, 2, |run| {
        let absent = run.seed == 2 && run.point.axes["n"] == "2";
        (!absent).then_some(10.0)
    });
    let words: Vec<_> = document
        .not_run
        .iter()
        .map(|row| row.claim.as_str())
        .collect();
    assert_eq!(
        words,
        ["much"],
        "n = 2 lacks a seed; the other claim needs n = 1 only"
    );
    assert_eq!(document.runs[0].missing, 2);
    // The quick runs have n = 1 alone, and that is all that is asked of the claim then.
    let quick = judged(EXPERIMENT, true, 1, |_| Some(10.0));
    assert_eq!(quick.claims[0].value, json!(10.0));
    assert!(quick.not_run.is_empty());
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
            .begin(&plan, std::slice::from_ref(&experiment))
            .unwrap();
        parts.push(store.directory().to_owned());
    }
    fs::remove_dir_all(directory.path().join("paper")).unwrap();
    let alone = Report::new(&parts[..1], "c").unwrap().document();
    assert_eq!(alone.runs[0].missing, 3);
    let joined = Report::new(&parts, "c").unwrap().document();
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
fn results_that_lack_what_an_experiment_reads_are_an_error_and_no_verdict() {
    let text = EXPERIMENT.replace("totals.goodput_bps", "totals.badput_bps");
    let (directory, path) = papers(&text);
    let experiment = Experiment::load(&path).unwrap();
    let plan = plan(true, 1);
    let store = Store::new(&directory.path().join("out"));
    for run in experiment.runs(Extent::Quick, Some(1)).unwrap() {
        store.keep(&run, &plan, &record(&run, &plan, 1.0)).unwrap();
    }
    store.begin(&plan, &[experiment]).unwrap();
    let error = Report::new(&[store.directory().to_owned()], "c").unwrap_err();
    assert_eq!(
        error.to_string(),
        "paper/e: metric goodput: the results have no totals.badput_bps"
    );
}

#[test]
fn a_mistake_in_an_experiment_is_one_line_that_names_it() {
    let cases = [
        (
            "title = \"t\"",
            "titel = \"t\"",
            "line 1: unknown field `titel`",
        ),
        ("figure = \"Fig. 1\"\ntitle", "figure = 1\ntitle", "line"),
        ("$(n)\"", "$(m)\"", "no number of an axis"),
        (
            "quick = { n = [1] }",
            "quick = { n = [3] }",
            "n has no value 3 here; it has 1, 2",
        ),
        (
            "[[claims]]",
            "[kernel]\nmetrics = [\"badput\"]\n[[claims]]",
            "kernel.metrics: there is no metric badput",
        ),
        (
            "[[claims]]",
            "[kernel]\nmetrics = [\"goodput\"]\n[[claims]]",
            "kernel points of [[runs]] and kernel.metrics need each other",
        ),
        (
            "protocol=smooth]\"]",
            "protocol=smoth]\"]",
            "protocol has no value smoth; it has reno, smooth",
        ),
        (
            "share.formula = \"goodput",
            "share.formula = \"share",
            "metric share needs itself",
        ),
        (
            "y = \"goodput\"",
            "y = \"badput\"",
            "there is no metric or axis badput",
        ),
        (
            "within = 2",
            "",
            "it needs a number of the paper with tolerance or within",
        ),
        (
            "paper.reno = [1, nan]",
            "paper.reno = [1]",
            "one for each of the 2 values of n",
        ),
        (
            "at = { n = 1 }\norder",
            "order",
            "no [[runs]] have the points",
        ),
        (
            "reduce = \"rises\"\nlevel = \"1\"",
            "reduce = \"mean\"\nlevel = \"1\"",
            "level goes with",
        ),
        ("name = \"slow\"\n", "", "two [[runs]] are called \"main\""),
    ];
    for (right, wrong, message) in cases {
        assert!(EXPERIMENT.contains(right), "{right}");
        let error = refused(&EXPERIMENT.replacen(right, wrong, 1));
        assert!(error.contains(message), "{message:?} in {error}");
    }
}

#[test]
fn an_unknown_pattern_is_answered_with_the_experiments_there_are() {
    let (directory, _path) = papers(EXPERIMENT);
    let error = find(directory.path(), Some("nothing"))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("there are paper/e"), "{error}");
    let error = find(&directory.path().join("absent"), None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--papers"), "{error}");
}

/// Pieces of experiment files, so that random documents come near to real ones.
fn piece() -> impl Strategy<Value = String> {
    let mut words: Vec<String> = EXPERIMENT
        .split_inclusive([' ', '\n', '"', '=', '.', ',', '[', ']', '{', '}'])
        .map(str::to_owned)
        .collect();
    words.sort();
    words.dedup();
    prop::sample::select(words)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_an_experiment_or_an_error_of_one_line(
        pieces in prop::collection::vec(piece(), 0..8),
        line in 0..EXPERIMENT.lines().count(),
        replace in any::<bool>(),
    ) {
        // A file with a line put in, or replaced.
        let mut lines: Vec<String> = EXPERIMENT.lines().map(str::to_owned).collect();
        let odd = pieces.concat();
        if replace {
            lines[line] = odd;
        } else {
            lines.insert(line, odd);
        }
        let parsed = Experiment::parse(&lines.join("\n"), Path::new("papers/paper/e.toml"));
        if let Err(error) = parsed {
            let message = error.to_string();
            prop_assert_eq!(message.lines().count(), 1, "{}", message);
        }
    }
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
            .begin(plan, std::slice::from_ref(&experiment))
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

#[test]
fn values_are_compared_though_one_has_more_seeds_than_the_other() {
    let seeds = "seeds = 3\nseeds_at = { protocol = [\"smooth\"] }\nquick =";
    let text = EXPERIMENT.replacen("quick =", seeds, 1);
    let (directory, path) = papers(&text);
    let experiment = Experiment::load(&path).unwrap();
    let plan = Plan {
        seeds: None,
        ..plan(false, 1)
    };
    let store = Store::new(&directory.path().join("out"));
    for run in experiment.runs(plan.extent(), plan.seeds).unwrap() {
        // Smooth has less than Reno with seed 1, and more with the others.
        let smooth = run.point.axes["protocol"] == "smooth";
        let goodput = if smooth { 5.0 * run.seed as f64 } else { 9.0 };
        store
            .keep(&run, &plan, &record(&run, &plan, goodput))
            .unwrap();
    }
    store.begin(&plan, &[experiment]).unwrap();
    let report = Report::new(&[store.directory().to_owned()], "c").unwrap();
    let document = report.document();
    let more = &document.claims[1];
    assert_eq!(more.value, json!([9.0, 10.0]));
    assert_eq!(more.spread, json!([[9.0, 9.0], [5.0, 15.0]]));
    assert_eq!(more.verdict, Verdict::Holds);
    assert_eq!(document.runs[0].seeds, 3);
}
