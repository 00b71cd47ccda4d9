//! Path headers over loopback: who sends and who answers them, and what is told of them.

use serde_json::Value;

use crate::program::{Server, client, json, records, success};

/// The client's `result` of a transfer of a megabyte over a server with `theirs`, and that
/// server's `transfer`.
fn transfer(theirs: &[&str], ours: &[&str]) -> (Value, Value) {
    let server = Server::bulk(&[&["--once", "--json"], theirs].concat());
    let arguments = [&["--bytes", "1MB", "--json"], ours].concat();
    let result = json(&success(client(&server, &arguments)));
    let stopped = json(&success(server.output()));
    assert_eq!(result["verified"], true);
    (result, stopped["last"].clone())
}

fn count(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn the_server_answers_the_headers_of_an_upload_unasked() {
    let (result, transfer) = transfer(&[], &["--path-headers", "1"]);
    assert_eq!(result["path_headers"], "1");
    let (ours, theirs) = (&result["path"], &transfer["path"]);
    assert_eq!(ours["state"], "confirmed");
    assert!(count(ours, "sent") > 10, "{ours}");
    assert!(count(ours, "echoes") > 0, "{ours}");
    assert_eq!(count(ours, "samples"), count(ours, "echoes"));
    // The client sends a few more after its report, so its `sent` is no bound.
    assert!(count(theirs, "accepted") >= count(ours, "echoes"));
    assert_eq!(
        [count(theirs, "forged"), count(theirs, "old")],
        [0, 0],
        "{theirs}"
    );
    // Nobody stamps on loopback.
    assert_eq!(ours["forward_queueing_ms"], Value::Null);
    assert_eq!(ours["congested_share"], 0.0);
    assert_eq!(ours["grant_bps"], Value::Null);
}

#[test]
fn the_client_answers_the_headers_of_a_download_unasked() {
    let (result, transfer) = transfer(&["--path-headers", "2"], &["-R"]);
    assert_eq!(result["path_headers"], "1");
    let (ours, theirs) = (&result["path"], &transfer["path"]);
    assert_eq!(theirs["state"], "confirmed");
    assert!(count(theirs, "sent") > 10, "{theirs}");
    assert!(count(theirs, "echoes") > 0, "{theirs}");
    assert!(count(ours, "accepted") > 0, "{ours}");
}

#[test]
fn headers_are_off_unless_the_controller_uses_them_or_somebody_asks() {
    for (theirs, ours) in [
        (&[][..], &[][..]),
        (&["--path-headers", "off"], &["-R"]),
        (&["--path-headers", "0"], &["--path-headers", "1"]),
        (&["--path-headers", "1"], &["--path-headers", "off", "-R"]),
    ] {
        let vegas = ["--controller", "vegas"];
        let by_us: &[&str] = if ours.contains(&"-R") { &[] } else { &vegas };
        let theirs_in_all = [theirs, &vegas].concat();
        let (result, transfer) = transfer(&theirs_in_all, &[ours, by_us].concat());
        assert_eq!(result["path"], Value::Null, "{theirs:?} {ours:?}");
        assert_eq!(transfer["path"], Value::Null, "{theirs:?} {ours:?}");
    }
    for row in evenkeel::controllers() {
        let (result, _) = transfer(&[], &["--controller", row.name]);
        let uses_path = evenkeel::uses_path_headers(row.name).unwrap();
        let expected = if uses_path { "1" } else { "off" };
        assert_eq!(result["path_headers"], expected, "{}", row.name);
        assert_eq!(result["path"].is_null(), !uses_path, "{}", row.name);
    }
}

#[test]
fn every_header_that_came_back_is_listed_on_request() {
    let server = Server::bulk(&[]);
    let printed = success(client(
        &server,
        &[
            "--bytes",
            "2MB",
            "--path-headers",
            "1",
            "--json-lines",
            "--interval",
            "0.02",
            "--path-samples",
        ],
    ));
    let records = records(&printed);
    let (result, intervals) = records.split_last().unwrap();
    let mut at = -1.0;
    let mut listed = 0;
    for interval in intervals {
        for sample in interval["path_samples"].as_array().unwrap() {
            let when = sample["at_s"].as_f64().unwrap();
            assert!(when >= at, "{when} s after {at} s");
            at = when;
            assert!(sample["rtt_ms"].as_f64().unwrap() < 10_000.0);
            assert_eq!(sample["congested"], false);
            assert_eq!(sample["flows"], Value::Null);
            listed += 1;
        }
        assert!(interval["path"]["sent"].is_u64(), "{interval}");
    }
    assert!(listed > 0);
    assert_eq!(listed, count(&result["path"], "samples"));
}

#[test]
fn people_are_told_of_headers_in_one_line() {
    let server = Server::bulk(&[]);
    let table = success(client(
        &server,
        &["--bytes", "1MB", "--path-headers", "1", "--pacing", "none"],
    ));
    let lines = table
        .lines()
        .filter(|line| line.starts_with("path headers: "));
    assert_eq!(lines.count(), 1, "{table}");
}
