//! `reproduce` and `report`, as a user meets them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

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

const EXPERIMENT: &str = r#"title = "Two rates"
source = "section 1"
open = []
scenario = "scenarios/s.toml"
set = ["links.0.rate_bps=$(rate)"]
[axes]
rate = [1000000, 2000000]
[[runs]]
[metrics]
goodput.of = "totals.goodput_bps"
[[figures]]
figure = "Fig. 1"
title = "Goodput"
x = "rate"
y = "goodput"
y_label = "b/s"
[[claims]]
figure = "Fig. 1"
claim = "twice the rate is twice the goodput"
value = "goodput[rate=2000000]/goodput[rate=1000000]"
paper = 2
tolerance = 0.1
"#;

/// A directory with `papers/paper/rates.toml`.
fn papers() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let paper = directory.path().join("papers/paper");
    fs::create_dir_all(paper.join("scenarios")).unwrap();
    fs::write(paper.join("scenarios/s.toml"), SCENARIO).unwrap();
    fs::write(paper.join("rates.toml"), EXPERIMENT).unwrap();
    directory
}

fn testbed(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"))
        .current_dir(directory)
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn reproduce(directory: &Path, arguments: &[&str]) -> Output {
    let mut all = vec!["reproduce", "--papers", "papers"];
    all.extend(arguments);
    testbed(directory, &all)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output in UTF-8")
}

fn document(path: PathBuf) -> Value {
    let text = fs::read_to_string(path).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_report_is_made_and_a_second_call_runs_nothing_again() {
    let directory = papers();
    let first = reproduce(directory.path(), &["--out", "out"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(
        text(&first.stdout).contains("holds          Fig. 1: twice the rate"),
        "{}",
        text(&first.stdout)
    );
    assert!(
        text(&first.stderr).contains("[2/2]"),
        "{}",
        text(&first.stderr)
    );
    let report = document(directory.path().join("out/report.json"));
    let claim = &report["claims"][0];
    assert_eq!(claim["verdict"], "holds");
    assert_eq!(claim["paper_value"], 2.0);
    assert!(directory.path().join("out/report.html").is_file());

    let second = reproduce(directory.path(), &["--out", "out"]);
    assert!(
        text(&second.stderr).contains("2 of 2 runs were made before"),
        "{}",
        text(&second.stderr)
    );
    assert_eq!(first.stdout, second.stdout);
    let again = document(directory.path().join("out/report.json"));
    assert_eq!(report["claims"], again["claims"]);
}

#[test]
fn shards_and_their_report_are_the_same_as_one_call() {
    let directory = papers();
    let whole = reproduce(directory.path(), &["--out", "whole", "--seeds", "2"]);
    for part in ["1/2", "2/2"] {
        let out = format!("part{}", &part[..1]);
        let output = reproduce(
            directory.path(),
            &["--out", &out, "--seeds", "2", "--shard", part],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("join the parts"),
            "{}",
            text(&output.stderr)
        );
    }
    let joined = testbed(
        directory.path(),
        &["report", "part1", "part2", "--out", "joined"],
    );
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    assert_eq!(text(&joined.stdout), text(&whole.stdout));
    let claims =
        |name: &str| document(directory.path().join(name).join("report.json"))["claims"].clone();
    assert_eq!(claims("joined"), claims("whole"));
}

#[test]
fn a_report_takes_experiments_that_were_not_run_again_from_an_earlier_one() {
    let directory = papers();
    let place = directory.path();
    let other = EXPERIMENT.replace("Two rates", "Two rates <again>");
    fs::write(place.join("papers/paper/others.toml"), other).unwrap();
    let all = reproduce(place, &["--out", "all"]);
    let one = reproduce(place, &["rates", "--out", "one"]);
    assert!(all.status.success() && one.status.success());
    let merged = testbed(
        place,
        &["report", "one", "--earlier", "all", "--out", "merged"],
    );
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    assert_eq!(text(&merged.stdout), text(&all.stdout));
    let [all, mut merged] =
        ["all", "merged"].map(|name| document(place.join(name).join("report.json")));
    assert_eq!(merged["taken_over"], serde_json::json!(["paper/others"]));
    merged["taken_over"] = all["taken_over"].clone();
    merged["command"] = all["command"].clone();
    assert_eq!(merged, all);
    let [all, merged] = ["all", "merged"].map(|name| {
        let page = fs::read_to_string(place.join(name).join("report.html")).unwrap();
        let (_, rest) = page.split_once("<h2 id=\"paper\">").expect("sections");
        rest.to_owned()
    });
    assert_eq!(merged, all);

    // What was taken over can be taken over once more.
    let again = testbed(
        place,
        &["report", "one", "--earlier", "merged", "--out", "again"],
    );
    assert!(again.status.success(), "{}", text(&again.stderr));
    let page = fs::read_to_string(place.join("again/report.html")).unwrap();
    assert!(page.ends_with(&merged));
}

#[test]
fn experiments_of_another_version_are_taken_over_and_say_so() {
    let directory = papers();
    let place = directory.path();
    let other = EXPERIMENT.replace("Two rates", "Others");
    fs::write(place.join("papers/paper/others.toml"), other).unwrap();
    for arguments in [["rates", "--out", "one"], ["paper", "--out", "all"]] {
        assert!(reproduce(place, &arguments).status.success());
    }
    // As 0.2.0 and before wrote it: one version for all.
    let path = place.join("all/report.json");
    let mut all = document(path.clone());
    all["plan"]["build"]["version"] = "0.0.9".into();
    for row in all["runs"].as_array_mut().unwrap() {
        row.as_object_mut().unwrap().remove("version");
    }
    fs::write(&path, all.to_string()).unwrap();
    for (earlier, out) in [("all", "merged"), ("merged", "again")] {
        let output = testbed(
            place,
            &["report", "one", "--earlier", earlier, "--out", out],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        let merged = document(place.join(out).join("report.json"));
        let rows = merged["runs"].as_array().unwrap().iter();
        let versions: Vec<&str> = rows.map(|row| row["version"].as_str().unwrap()).collect();
        assert_eq!(versions, ["0.0.9", env!("CARGO_PKG_VERSION")]);
    }
}

#[test]
fn a_report_of_another_extent_or_without_its_page_is_not_taken_over() {
    let directory = papers();
    let place = directory.path();
    let other = EXPERIMENT.replace("Two rates", "Others");
    fs::write(place.join("papers/paper/others.toml"), other).unwrap();
    let run = |arguments: &[&str]| assert!(reproduce(place, arguments).status.success());
    run(&["rates", "--out", "one"]);
    run(&["--quick", "--out", "quick"]);
    run(&["--out", "damaged"]);
    fs::write(place.join("damaged/report.html"), "<html></html>").unwrap();
    for (earlier, words) in [
        ("quick", "one and quick differ in --quick"),
        (
            "damaged",
            "damaged/report.html is damaged: it does not have paper/others",
        ),
        ("nowhere", "cannot read nowhere/report.json"),
    ] {
        let output = testbed(
            place,
            &["report", "one", "--earlier", earlier, "--out", "new"],
        );
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(words), "{words:?} in {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_one_line() {
    let directory = papers();
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = testbed(directory.path(), arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(words), "{words:?} in {error}");
    };
    refused(
        &["reproduce"],
        2,
        "testbed/experiments/papers holds no experiments; run this in the repository's root",
    );
    refused(
        &["reproduce", "ACP", "--papers", "papers"],
        2,
        "there are paper/rates",
    );
    refused(
        &["reproduce", "--papers", "papers", "--shard", "3/2"],
        2,
        "write I/N",
    );
    refused(&["report", "nowhere"], 1, "cannot read nowhere/plan.json");
}
