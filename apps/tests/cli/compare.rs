//! Comparisons of controllers.

use std::fs;

use crate::program::{Process, Server, client, failure, json, last_words, run, success};

/// The options of a short comparison into `out`.
fn short<'a>(server: &'a Server, out: &'a str) -> Vec<&'a str> {
    vec![
        "bulk",
        "compare",
        &server.address,
        "--pin",
        &server.pin,
        "--controllers",
        "keel,cubic",
        "--time",
        "0.5",
        "--pause",
        "0",
        "--out",
        out,
    ]
}

#[test]
fn a_comparison_keeps_every_run_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/out");
    let server = Server::bulk(&["--controllers", "cubic"]);
    let base = short(&server, out.to_str().unwrap());
    let options = ["--rounds", "2", "--direction", "both", "--json", "-q"];
    let compare = |seed: &[&str]| run(&[&base[..], &options, seed].concat());
    let whole = json(&success(compare(&["--seed", "7"])));
    assert_eq!(whole["record"], "comparison");
    assert_eq!(whole["plan"]["seed"], 7);
    let runs = whole["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8);
    for run in runs {
        assert_eq!(run["error"], serde_json::Value::Null, "{run}");
        let measured = &run["measured"];
        assert!(
            measured["receiver"]["goodput_bps"].as_f64() > Some(0.0),
            "{run}"
        );
        assert!(!measured["idle_ms"].as_array().unwrap().is_empty(), "{run}");
    }
    let page = fs::read_to_string(out.join("compare.html")).unwrap();
    assert!(page.contains("<h2>Download</h2>"), "{page}");
    let table = fs::read_to_string(out.join("compare.txt")).unwrap();
    assert!(table.contains("fewer than 6 rounds"), "{table}");

    // As after Ctrl-C, in the middle of a line.
    let path = out.join("runs.jsonl");
    let all = fs::read_to_string(&path).unwrap();
    let kept: String = all.split_inclusive('\n').take(5).collect();
    fs::write(&path, &all[..kept.len() + 30]).unwrap();
    let again = json(&success(compare(&[])));
    assert_eq!(again["runs"].as_array().unwrap()[..5], runs[..5]);
    assert_eq!(again["runs"].as_array().unwrap().len(), 8);
    let line = failure(&compare(&["--seed", "8"]), 1);
    assert!(line.contains("is of another comparison"), "{line}");
}

#[test]
fn a_server_that_does_not_allow_a_controller_ends_the_comparison_with_what_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::bulk(&[]);
    let base = short(&server, directory.path().to_str().unwrap());
    let line = failure(
        &run(&[&base[..], &["--direction", "down", "-q"]].concat()),
        1,
    );
    assert!(
        line.contains("it sends with keel, as its --controllers says"),
        "{line}"
    );
    assert!(
        line.ends_with("restart the server with --controllers keel,cubic"),
        "{line}"
    );
}

#[test]
fn an_interrupted_comparison_says_how_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let server = Server::bulk(&[]);
    let mut command = crate::program::evenkeel(&short(&server, out));
    command.args(["--rounds", "100"]);
    let mut running = Process::start(command);
    // After what is to be done and the first run.
    assert!(running.complaint().contains(" of 200 runs to do"));
    assert!(running.complaint().starts_with("round 1, upload, "));
    running.signal("INT");
    let line = last_words(&running.output(), 130);
    assert!(
        line.contains(&format!("with --out {out} goes on")),
        "{line}"
    );
    success(client(&server, &["--bytes", "1kB"]));
}

#[test]
fn every_run_of_the_first_round_failing_ends_the_comparison() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::bulk(&[]);
    let out = directory.path().to_str().unwrap();
    let pin = format!("sha256:{}", "0".repeat(64));
    let mut arguments = short(&server, out);
    arguments[4] = &pin;
    let line = failure(&run(&[&arguments[..], &["-q"]].concat()), 1);
    assert!(
        line.contains("every run of the first round failed: "),
        "{line}"
    );
    let runs = fs::read_to_string(directory.path().join("runs.jsonl")).unwrap();
    assert_eq!(runs.matches("\"error\":\"").count(), 2, "{runs}");
}

#[test]
fn a_comparison_of_one_or_of_unknown_controllers_is_a_usage_error() {
    for (names, word) in [
        ("keel", "names 1, not 2 to 10"),
        ("keel,warp", "unknown controller"),
        ("cubic,cubic", "cubic stands there twice"),
    ] {
        let line = failure(&run(&["bulk", "compare", "h", "--controllers", names]), 2);
        assert!(line.contains(word), "{line}");
    }
}
