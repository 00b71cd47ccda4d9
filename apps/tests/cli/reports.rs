//! What scripts read: JSON, traces, TLS secrets.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use crate::initials::initials;
use crate::program::{Process, Server, client, evenkeel, json, records, success};

/// Every field of a side's report, as `docs/bulk.md` lists them.
const REPORT: [&str; 16] = [
    "bytes",
    "duration_s",
    "goodput_bps",
    "first_1mb_s",
    "first_10mb_s",
    "packets_sent",
    "packets_lost",
    "retransmitted_ratio",
    "rtt_min_ms",
    "rtt_smoothed_ms",
    "window_bytes",
    "congestion_events",
    "udp_bytes_sent",
    "udp_bytes_received",
    "checksum",
    "cpu",
];

#[test]
fn json_is_one_document_with_the_documented_fields() {
    let server = Server::bulk(&["--controller", "vegas"]);
    let printed = success(client(
        &server,
        &["--bytes", "1MB", "-P", "2", "--json", "--reverse"],
    ));
    assert_eq!(printed.lines().count(), 1);
    let result = json(&printed);
    assert_eq!(
        fields(&result),
        [
            "record",
            "version",
            "server",
            "controller",
            "pacing",
            "path_headers",
            "direction",
            "connection",
            "streams",
            "omit_s",
            "interrupted",
            "bytes_sent",
            "bytes_received",
            "path",
            "ecn",
            "pings",
            "verified",
            "sender",
            "receiver",
        ]
        .into()
    );
    assert_eq!(result["record"], "result");
    assert_eq!(result["direction"], "down");
    // The server sent.
    assert_eq!(result["controller"], "vegas");
    assert_eq!(result["pacing"], "controller");
    assert_eq!(result["bytes_received"], 1_000_000);
    for side in ["sender", "receiver"] {
        assert_eq!(fields(&result[side]), REPORT.into());
        let cpu = &result[side]["cpu"];
        assert_eq!(fields(cpu), ["user_s", "system_s", "s_per_gb"].into());
        assert!(cpu["s_per_gb"].as_f64() > Some(0.0), "{cpu}");
    }
    assert_eq!(result["pings"]["idle_ms"]["samples"], 20);
    assert!(result["receiver"]["goodput_bps"].as_f64().unwrap() > 0.0);
    assert!(result["sender"]["rtt_smoothed_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn pings_tell_the_delay_without_load_and_under_it_unless_they_are_not_wanted() {
    let server = Server::bulk(&[]);
    let result = |arguments: &[&str]| {
        let all = [&["--time", "1", "--json"], arguments].concat();
        json(&success(client(&server, &all)))
    };
    for direction in [&[][..], &["--reverse"]] {
        let pings = &result(direction)["pings"];
        for when in ["idle_ms", "loaded_ms"] {
            let figure = |name: &str| pings[when][name].as_f64().unwrap();
            assert!(figure("samples") >= 1.0, "{pings}");
            let quantiles = ["p50", "p95", "p99"].map(figure);
            assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{pings}");
        }
    }
    assert_eq!(result(&["--no-pings"])["pings"], Value::Null);

    let table = success(client(&server, &["--time", "0.2"]));
    assert!(table.contains("\nping, idle        p50 "), "{table}");
    assert!(table.contains("\nping, loaded      p50 "), "{table}");
    assert!(table.contains("\nCPU for 1 GB "), "{table}");
    let several = success(client(&server, &["--time", "0.2", "-C", "2"]));
    assert_eq!(several.matches("ping, idle").count(), 1, "{several}");
    assert!(several.contains("\nup 1      ping, loaded"), "{several}");
}

#[test]
fn json_lines_are_a_record_a_second_and_the_result() {
    let server = Server::bulk(&[]);
    let printed = success(client(
        &server,
        &["--time", "2.5", "--json-lines", "--no-verify"],
    ));
    let records = records(&printed);
    let (result, intervals) = records.split_last().unwrap();
    assert_eq!(result["record"], "result");
    assert_eq!(result["verified"], false);
    assert!(!intervals.is_empty());
    let mut end = Value::from(0.0);
    for interval in intervals {
        assert_eq!(
            fields(interval),
            [
                "record",
                "direction",
                "connection",
                "start_s",
                "end_s",
                "bytes",
                "throughput_bps",
                "rtt_ms",
                "window_bytes",
                "slow_start_threshold_bytes",
                "pacing_rate_bps",
                "packets_sent",
                "packets_lost",
                "path",
            ]
            .into()
        );
        assert_eq!(interval["record"], "interval");
        assert_eq!(interval["start_s"], end);
        end = interval["end_s"].clone();
    }
    assert!(intervals.len() as f64 <= end.as_f64().unwrap() + 1.0);
    assert_eq!(Some(sum(intervals, "bytes")), result["bytes_sent"].as_u64());
    assert!(sum(intervals, "packets_sent") >= result["sender"]["packets_sent"].as_u64().unwrap());
}

#[test]
fn short_intervals_leave_nothing_out_on_either_side() {
    let server = Server::bulk(&["--once", "--json-lines", "--interval", "0.02"]);
    let intervals = ["--json-lines", "--interval", "0.02"];
    let rest = ["--time", "0.5", "--rtt-samples", "--controller", "vegas"];
    let ours = records(&success(client(&server, &[&intervals[..], &rest].concat())));
    let (result, ours) = ours.split_last().unwrap();
    let end = ours.last().unwrap()["end_s"].as_f64().unwrap();
    assert!((2.0..=end / 0.02 + 1.0).contains(&(ours.len() as f64)));
    let samples = ours
        .iter()
        .flat_map(|interval| interval["rtt_samples_ms"].as_array().unwrap());
    let samples: Vec<f64> = samples.map(|sample| sample.as_f64().unwrap()).collect();
    assert!(samples.len() > 10, "{} samples", samples.len());
    // 0 happens: quinn reads the clock once for all datagrams that it takes from a socket.
    assert!(
        samples
            .iter()
            .all(|sample| (0.0..end * 1e3).contains(sample))
    );
    assert_eq!(Some(sum(ours, "bytes")), result["bytes_sent"].as_u64());
    assert!(ours.iter().all(|i| i["window_bytes"].as_u64() > Some(0)));

    let theirs = records(&success(server.output()));
    let (stopped, theirs) = theirs.split_last().unwrap();
    let theirs: Vec<Value> = theirs
        .iter()
        .filter(|record| record["record"] == "server_interval")
        .cloned()
        .collect();
    assert!(theirs.len() > 1, "{} intervals", theirs.len());
    for pair in theirs.windows(2) {
        assert!(pair[0]["end_s"].as_f64() <= pair[1]["start_s"].as_f64());
    }
    assert_eq!(
        fields(&theirs[0]),
        [
            "record",
            "start_s",
            "end_s",
            "bytes_sent",
            "bytes_received",
            "udp_datagrams_received",
            "udp_bytes_received",
        ]
        .into()
    );
    for name in ["bytes_sent", "bytes_received"] {
        assert_eq!(Some(sum(&theirs, name)), stopped[name].as_u64(), "{name}");
    }
    let receiver = &stopped["last"]["receiver"];
    let udp = sum(&theirs, "udp_bytes_received");
    assert!(udp >= receiver["udp_bytes_received"].as_u64().unwrap());
    // quinn's path MTU discovery stops at 1452 bytes; 20 bytes are less than any packet.
    let datagrams = sum(&theirs, "udp_datagrams_received");
    assert!(
        (udp / 1500..udp / 20).contains(&datagrams),
        "{datagrams} of {udp} bytes"
    );
}

#[test]
fn a_servers_datagrams_count_over_all_connections() {
    let mut server = Server::bulk(&["--json-lines", "--interval", "0.05"]);
    for _ in 0..3 {
        success(client(&server, &["--bytes", "200kB"]));
    }
    // The client is done a little before the server is.
    let mut printed = String::new();
    while printed.matches("\"transfer\"").count() < 3 {
        printed += &server.line();
        printed += "\n";
    }
    server.signal("INT");
    printed += &success(server.output());
    let records = records(&printed);
    let all = |kind: &str| -> Vec<Value> {
        let of_kind = records.iter().filter(|record| record["record"] == kind);
        of_kind.cloned().collect()
    };
    let transfers = all("transfer");
    let reported: u64 = transfers
        .iter()
        .map(|transfer| transfer["receiver"]["udp_bytes_received"].as_u64().unwrap())
        .sum();
    let counted = sum(&all("server_interval"), "udp_bytes_received");
    // Handshakes and what follows a report are not in the reports, and are some kilobytes each.
    assert!(
        (reported..reported + 3 * 20_000).contains(&counted),
        "{counted} bytes, {reported} of them in the reports"
    );
}

#[test]
fn an_interval_in_which_nothing_moves_has_a_record() {
    let server = Server::bulk(&[]);
    let arguments = ["--time", "20", "--json-lines", "--interval", "0.01"];
    let mut running = Process::start(server.client(&arguments));
    running.line();
    server.signal("STOP");
    // The sender's probes become rarer and rarer (RFC 9002, section 6.2.1).
    let still = (0..1000).any(|_| {
        let interval = json(&running.line());
        assert_eq!(interval["record"], "interval");
        interval["bytes"] == 0 && interval["packets_sent"] == 0
    });
    assert!(still);
}

#[test]
fn a_server_reports_in_json_lines_or_one_document() {
    for form in ["--json-lines", "--json"] {
        let server = Server::bulk(&["--once", form]);
        if form == "--json-lines" {
            assert_eq!(
                fields(&server.record),
                [
                    "record",
                    "version",
                    "address",
                    "controller",
                    "pacing",
                    "path_headers",
                    "pin",
                    "client_command"
                ]
                .into()
            );
        }
        success(client(&server, &["--bytes", "10kB"]));
        let records = records(&success(server.output()));
        let stopped = records.last().unwrap();
        assert_eq!(stopped["record"], "stopped");
        assert_eq!(
            (&stopped["transfers"], &stopped["failed"]),
            (&1.into(), &0.into())
        );
        assert_eq!(stopped["last"]["receiver"]["bytes"], 10_000);
        let transfers = records.iter().filter(|r| r["record"] == "transfer").count();
        assert_eq!(
            (records.len() == 1, transfers),
            (form == "--json", usize::from(form != "--json"))
        );
    }
}

#[test]
fn each_connection_has_a_qlog_trace_on_both_sides() {
    let directory = tempfile::tempdir().unwrap();
    let traces = directory.path().join("new/traces");
    let path = traces.to_str().unwrap();
    let server = Server::bulk(&["--qlog", path]);
    for _ in 0..2 {
        success(client(&server, &["--bytes", "100kB", "--qlog", path]));
    }
    server.signal("INT");
    assert_eq!(server.end().0, Some(0));
    let mut sides = Vec::new();
    for entry in fs::read_dir(&traces).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert!(name.ends_with(".sqlog"), "{name}");
        sides.push(name.split('-').next().unwrap().to_owned());
        let text = fs::read_to_string(entry.path()).unwrap();
        // A JSON text sequence (RFC 7464): each record begins with 0x1e.
        let records = text.split('\u{1e}').filter(|record| !record.is_empty());
        let records: Vec<Value> = records.map(json).collect();
        assert!(records[0]["qlog_version"].is_string(), "{}", records[0]);
        let vantage = &records[0]["trace"]["vantage_point"]["type"];
        assert!(name.starts_with(vantage.as_str().unwrap()), "{vantage}");
        assert!(records.len() > 10, "{name} has {} records", records.len());
    }
    sides.sort();
    assert_eq!(sides, ["client", "client", "server", "server"]);
}

#[test]
fn a_connection_attempt_that_does_not_go_on_leaves_no_qlog_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let server = Server::bulk(&["--qlog", path]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let packets = runtime.block_on(initials(evenkeel_apps::bulk::ALPN, 3));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for packet in packets {
        socket.send_to(&packet, &server.address).unwrap();
        socket.recv(&mut [0; 2048]).unwrap();
    }
    success(client(&server, &["--bytes", "1kB"]));
    server.signal("INT");
    assert_eq!(server.end().0, Some(0));
    let names: Vec<_> = fs::read_dir(path).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn tls_secrets_go_to_the_file_the_environment_names() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (
        directory.path().join("client"),
        directory.path().join("server"),
    );
    let mut command = evenkeel(&["bulk", "server", "--listen", "127.0.0.1:0"]);
    command.env("SSLKEYLOGFILE", &theirs);
    let server = Server::start(command);
    let mut command = server.client(&["--bytes", "1kB"]);
    command.env("SSLKEYLOGFILE", &ours);
    success(command.output().unwrap());
    let ours = fs::read_to_string(ours).unwrap();
    for label in ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"] {
        assert!(ours.contains(label), "{ours}");
    }
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&ours), sorted(&fs::read_to_string(theirs).unwrap()));
}

/// The sum of a field.
fn sum(records: &[Value], field: &str) -> u64 {
    let values = records.iter().map(|record| record[field].as_u64());
    values.map(Option::unwrap).sum()
}

fn fields(document: &Value) -> BTreeSet<&str> {
    document
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}
