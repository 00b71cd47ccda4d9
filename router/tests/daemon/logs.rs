use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::raw::forwards;
use crate::support::{Host, Lab, Versions, eventually, link};

#[test]
fn a_router_whose_log_nobody_reads_goes_on() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    // Standard error is a pipe of 64 KiB.
    let router = lab.start_with(&["-v"], &link("rate_bps = 10e6"));
    for _ in 0..1000 {
        router.ask(r#"{"request":"reload"}"#);
    }
    forwards(&lab);
    let (status, text) = router.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert!(text.len() > 60_000, "the pipe was not full: {}", text.len());
}

#[test]
fn a_router_logs_what_happens_as_text_or_as_json_on_request() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let logged = |arguments: &[&str]| {
        let router = lab.start_with(arguments, &link("rate_bps = 1e6"));
        let is_degraded = || router.link()["degraded"] != Value::Null;
        lab.ip(Host::R, "link set vb down");
        eventually("degraded", is_degraded);
        lab.ip(Host::R, "link set vb up");
        lab.ip(Host::R, "-6 addr add fd00:9::1/64 dev vb nodad");
        eventually("well again", || !is_degraded());
        router.ask(r#"{"request":"reload"}"#);
        let (status, text) = router.stop(Signal::TERM);
        assert_eq!(status.code(), Some(0));
        text
    };
    let text = logged(&[]);
    let said = |level: &str, what: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.contains(level) && line.contains(what))
    };
    assert!(said(" WARN ", "link bottleneck is degraded: "), "{text}");
    assert!(
        said(" INFO ", "link bottleneck has everything again"),
        "{text}"
    );
    assert!(said(" INFO ", "reloaded "), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");

    let text = logged(&["--log-format", "json"]);
    let events = text.lines().map(serde_json::from_str::<Value>);
    let events: Vec<_> = events.map(Result::unwrap).collect();
    let degraded = events
        .iter()
        .find(|event| event["level"] == "WARN")
        .unwrap();
    assert_eq!(degraded["link"], "bottleneck");
    assert_eq!(degraded["target"], "evenkeel_router::daemon");
    assert!(
        degraded["message"]
            .as_str()
            .unwrap()
            .contains("is degraded: ")
    );
    assert!(degraded["timestamp"].is_string());

    let text = logged(&["-q"]);
    assert!(
        text.contains("is degraded") && !text.contains("everything again"),
        "{text}"
    );
}

/// Runs `check` of a file that does not exist, with its standard error in a file that
/// `JOURNAL_STREAM` names, or in another one; returns what is in the file.
fn failure(arguments: &[&str], is_journal: bool) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stderr");
    let file = File::create(&path).unwrap();
    let metadata = file.metadata().unwrap();
    let inode = metadata.ino() + u64::from(!is_journal);
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-router"));
    command
        .args(arguments)
        .args(["check", "--config", "/nowhere/r.toml"]);
    command.env("JOURNAL_STREAM", format!("{}:{inode}", metadata.dev()));
    let status = command.stderr(file).status().unwrap();
    assert_eq!(status.code(), Some(2));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_journal_gets_levels_and_other_files_do_not() {
    const FAILURE: &str = "cannot read the configuration /nowhere/r.toml";
    let text = failure(&[], false);
    assert!(
        text.starts_with(&format!("evenkeel-router: {FAILURE}")),
        "{text}"
    );
    let text = failure(&[], true);
    assert!(text.starts_with("<3>") && text.contains(FAILURE), "{text}");
    assert_eq!(text.lines().count(), 1);
    let text = failure(&["--log-format", "json"], true);
    let event: Value = serde_json::from_str(text.strip_prefix("<3>").unwrap()).unwrap();
    assert_eq!(event["level"], "ERROR");
    let text = failure(&["--log-format", "json"], false);
    let event: Value = serde_json::from_str(&text).unwrap();
    assert!(
        event["message"].as_str().unwrap().starts_with(FAILURE),
        "{text}"
    );
}

#[test]
fn a_malformed_selection_of_events_is_a_usage_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-router"));
    let command = command
        .args(["status", "--name", "none"])
        .env("RUST_LOG", "a=b=c");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("evenkeel-router: RUST_LOG cannot be read"),
        "{stderr}"
    );
}
