//! Comparisons of controllers.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Process, Server, client, evenkeel, failure, json, last_words, run, success};

/// The options of a short comparison into `out`.
fn short<'a>(server: &'a Server, out: &'a Path) -> Vec<&'a str> {
    vec![
        // What the server is of.
        &server.command[0],
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
        out.to_str().unwrap(),
    ]
}

/// Those of a whole document, of which none has failed.
fn measured(document: &Value) -> Vec<Value> {
    let runs = document["runs"].as_array().unwrap();
    for run in runs {
        assert_eq!(run["error"], Value::Null, "{run}");
        let measured = &run["measured"];
        assert!(!measured["idle_ms"].as_array().unwrap().is_empty(), "{run}");
        assert!(!measured["delays"].as_array().unwrap().is_empty(), "{run}");
    }
    runs.clone()
}

/// Has a comparison end in the middle of a line of its sixth run, as after a crash.
fn break_off(out: &Path) {
    let path = out.join("runs.jsonl");
    let all = fs::read_to_string(&path).unwrap();
    let kept: String = all.split_inclusive('\n').take(5).collect();
    fs::write(&path, &all[..kept.len() + 30]).unwrap();
}

#[test]
fn a_comparison_keeps_every_run_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/out");
    let server = Server::bulk(&["--controllers", "cubic"]);
    let base = short(&server, &out);
    let options = ["--rounds", "2", "--direction", "both", "--json", "-q"];
    let compare = |seed: &[&str]| run(&[&base[..], &options, seed].concat());
    let whole = json(&success(compare(&["--seed", "7"])));
    assert_eq!(whole["record"], "comparison");
    assert_eq!(whole["plan"]["seed"], 7);
    let runs = measured(&whole);
    assert_eq!(runs.len(), 8);
    for run in &runs {
        let rate = &run["measured"]["receiver"]["goodput_bps"];
        assert!(rate.as_f64() > Some(0.0), "{run}");
    }
    let page = fs::read_to_string(out.join("compare.html")).unwrap();
    assert!(page.contains("<h2>Download</h2>"), "{page}");
    let table = fs::read_to_string(out.join("compare.txt")).unwrap();
    assert!(table.contains("fewer than 6 rounds"), "{table}");

    break_off(&out);
    let again = json(&success(compare(&[])));
    assert_eq!(again["runs"].as_array().unwrap()[..5], runs[..5]);
    assert_eq!(again["runs"].as_array().unwrap().len(), 8);
    let line = failure(&compare(&["--seed", "8"]), 1);
    assert!(
        line.contains("plan.json is of another comparison: its seed is 7, not 8; "),
        "{line}"
    );
}

#[test]
fn a_comparison_of_streams_goes_on_where_it_was_and_tells_of_frames() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let mut server = Server::stream(&["--controllers", "cubic", "--json-lines", "-i", "60"]);
    let base = short(&server, out);
    let compare = || run(&[&base[..], &["--rounds", "3", "--json", "-q"]].concat());
    let whole = json(&success(compare()));
    assert_eq!(whole["plan"]["application"], "stream");
    assert_eq!(whole["plan"]["buffer_ms"], 200);
    let runs = measured(&whole);
    assert_eq!(runs.len(), 6);
    for run in &runs {
        let frames = &run["measured"]["report"]["frames"];
        assert!(frames["received"].as_u64() > Some(5), "{run}");
    }
    let table = fs::read_to_string(out.join("compare.txt")).unwrap();
    assert!(table.contains("frame delay, p95, ms"), "{table}");
    break_off(out);
    let again = json(&success(compare()));
    assert_eq!(measured(&again)[..5], runs[..5]);
    for run in &runs {
        assert_eq!(
            json(&server.line())["controller"],
            run["controller"],
            "{run}"
        );
    }
    let bulk = Server::bulk(&[]);
    let mut other = short(&bulk, out);
    other.extend(["--rounds", "3"]);
    let line = failure(&run(&other), 1);
    assert!(
        line.contains(" its application is \"stream\", not \"bulk\"; "),
        "{line}"
    );
}

#[test]
fn a_server_that_does_not_allow_a_controller_ends_the_comparison_with_what_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    for (server, options) in [
        (Server::bulk(&[]), &["--direction", "down", "-q"][..]),
        (Server::stream(&[]), &["-q"]),
    ] {
        let out = directory.path().join(&server.command[0]);
        let line = failure(&run(&[&short(&server, &out), options].concat()), 1);
        assert!(line.contains("it sends only with keel"), "{line}");
        assert!(
            line.ends_with("restart the server with --controllers keel,cubic"),
            "{line}"
        );
    }
    let server = Server::bulk(&["--max-time", "0.1"]);
    let out = directory.path().join("short");
    let line = failure(&run(&[&short(&server, &out)[..], &["-q"]].concat()), 1);
    assert!(
        line.ends_with(
            "it sends for at most 0.1 s; ask for what it offers, or ask its owner to allow it"
        ),
        "{line}"
    );
}

#[test]
fn a_comparison_whose_server_dies_ends_and_repeats_what_failed() {
    let directory = tempfile::tempdir().unwrap();
    for server in [
        Server::bulk(&[]),
        Server::stream(&["--controllers", "cubic"]),
    ] {
        let out = directory.path().join(&server.command[0]);
        let options = ["--rounds", "4", "--seed", "1"];
        let mut running = Process::start(evenkeel(&[&short(&server, &out), &options[..]].concat()));
        assert!(running.complaint().contains(" of 8 runs to do"));
        assert!(running.complaint().starts_with("round 1, "));
        server.signal("KILL");
        let (status, _, errors) = running.end();
        assert_eq!(status, Some(1), "{errors}");
        let line = errors.lines().last().unwrap();
        assert!(
            line.contains("the last 2 runs failed: ") && line.ends_with(" goes on"),
            "{line}"
        );
        let listen = server.address.clone();
        let again = match &*server.command[0] {
            "bulk" => Server::bulk_on(&listen, &[]),
            _ => Server::stream_on(&listen, &["--controllers", "cubic"]),
        };
        let whole = run(&[&short(&again, &out), &options[..], &["--json", "-q"]].concat());
        assert_eq!(measured(&json(&success(whole))).len(), 8);
    }
}

#[test]
fn a_comparison_without_room_for_its_result_goes_on_when_there_is_some() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path();
    let server = Server::bulk(&[]);
    let compare = || run(&[&short(&server, out)[..], &["--rounds", "1", "-q"]].concat());
    let part = out.join("compare.json.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let line = failure(&compare(), 1);
    let goes_on = format!("the same command with --out {} goes on", out.display());
    assert!(
        line.ends_with(&format!(
            "compare.json: no space left on device; make room there, and {goes_on}"
        )),
        "{line}"
    );
    fs::remove_file(part).unwrap();
    let runs = || fs::read_to_string(out.join("runs.jsonl")).unwrap();
    let before = runs();
    success(compare());
    assert_eq!(before, runs());
}

#[test]
fn an_interrupted_comparison_says_how_it_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let server = Server::bulk(&[]);
    let mut command = evenkeel(&short(&server, directory.path()));
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
fn a_server_that_was_never_reached_ends_the_comparison_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::bulk(&[]);
    let pin = format!("sha256:{}", "0".repeat(64));
    let mut arguments = short(&server, directory.path());
    arguments[4] = &pin;
    let line = failure(&run(&[&arguments[..], &["-q"]].concat()), 1);
    assert!(
        line.contains("another server or an attacker answers"),
        "{line}"
    );
    let runs = fs::read_to_string(directory.path().join("runs.jsonl")).unwrap();
    assert_eq!(runs, "");
}

#[test]
fn two_comparisons_do_not_write_to_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::bulk(&[]);
    let arguments = short(&server, directory.path());
    let mut first = Process::start(evenkeel(&arguments));
    assert!(first.complaint().contains("runs to do"));
    let line = failure(&run(&arguments), 1);
    assert!(line.contains("another comparison writes to "), "{line}");
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
