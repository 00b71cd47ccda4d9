//! The command line of `evenkeel-testbed`, as a user meets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn testbed(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../scenarios")
        .join(name);
    path.to_str().expect("a path in UTF-8").into()
}

fn repository() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the repository's root")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output in UTF-8")
}

/// Runs `run` with `arguments` and a scenario, into a directory of its own.
fn run_into(directory: &Path, name: &str, arguments: &[&str]) -> Output {
    let (scenario, out) = (scenario(name), directory.to_str().expect("a path in UTF-8"));
    let mut all = vec!["run", scenario.as_str(), "--out", out];
    all.extend(arguments);
    testbed(&all)
}

/// Asserts that the program refused with one line that has all of `words`.
fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(error.lines().count(), 1, "one line: {error}");
    assert_eq!(text(&output.stdout), "", "nothing on standard output");
    for word in words {
        assert!(error.contains(word), "{word:?} in: {error}");
    }
}

#[test]
fn a_run_prints_a_table_and_leaves_results_and_plots() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = run_into(
        directory.path(),
        "dumbbell.toml",
        &["--set", "duration_s=30"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(
        table.contains("bottleneck") && table.contains("vegas"),
        "{table}"
    );
    assert!(
        text(&output.stderr).contains("seed 1"),
        "{}",
        text(&output.stderr)
    );
    for file in [
        "result.json",
        "series.json",
        "rate.svg",
        "window.svg",
        "queue.svg",
    ] {
        assert!(directory.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn the_fixed_fields_of_the_result_are_there_and_json_prints_the_same_document() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "--set",
        "duration_s=30",
        "--set",
        "flows.0.count=2",
        "--json",
        "--seed",
        "9",
    ];
    let output = run_into(directory.path(), "dumbbell.toml", &arguments);
    let file = fs::read(directory.path().join("result.json")).expect("it was written");
    assert_eq!(text(&output.stdout), text(&file));
    let result: serde_json::Value = serde_json::from_slice(&file).expect("it is JSON");
    assert_eq!(result["seed"], 9);
    for key in [
        "scenario",
        "backend",
        "seed",
        "duration_s",
        "flows",
        "links",
        "fairness",
        "series",
    ] {
        assert!(!result[key].is_null(), "{key}");
    }
    for key in [
        "name",
        "controller",
        "throughput_bps",
        "goodput_bps",
        "cov",
        "retransmitted_ratio",
    ] {
        assert!(!result["flows"][1][key].is_null(), "flows.{key}");
    }
    for key in ["min", "p50", "p95", "p99"] {
        assert!(
            result["flows"][0]["rtt_ms"][key].is_number(),
            "rtt_ms.{key}"
        );
    }
    for key in [
        "name",
        "utilization",
        "queue_packets",
        "arrived",
        "forwarded",
        "dropped",
        "loss_rate",
    ] {
        assert!(!result["links"][0][key].is_null(), "links.{key}");
    }
    for key in ["mean", "sd", "p95", "max"] {
        assert!(
            result["links"][0]["queue_packets"][key].is_number(),
            "queue_packets.{key}"
        );
    }
    for key in ["jain", "worst_case", "short_term"] {
        assert!(result["fairness"][key].is_number(), "fairness.{key}");
    }
}

#[test]
fn two_processes_write_the_same_bytes_for_the_same_seed() {
    let directories = [tempfile::tempdir(), tempfile::tempdir()].map(|d| d.expect("a directory"));
    let arguments = [
        "--set",
        "duration_s=20",
        "--set",
        "warmup_s=2",
        "--seed",
        "5",
    ];
    for directory in &directories {
        let output = run_into(directory.path(), "short-flows.toml", &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for file in [
        "result.json",
        "series.json",
        "rate.svg",
        "window.svg",
        "queue.svg",
    ] {
        let [first, second] = directories
            .each_ref()
            .map(|d| fs::read(d.path().join(file)).expect("written"));
        assert!(first == second, "{file} differs");
    }
}

/// When the transfers of each flow of `onoff.toml` began, in seconds.
fn starts_of_transfers(arguments: &[&str]) -> Vec<Vec<f64>> {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [&["--set", "duration_s=60"], arguments].concat();
    let output = run_into(directory.path(), "onoff.toml", &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let series = fs::read(directory.path().join("series.json")).expect("written");
    let series: serde_json::Value = serde_json::from_slice(&series).expect("JSON");
    let flows = series["flows"].as_array().expect("an array");
    flows
        .iter()
        .map(|flow| {
            let transfers = flow["transfers"].as_array().expect("an array");
            let starts = transfers.iter().map(|transfer| &transfer["start_s"]);
            starts
                .map(|start| start.as_f64().expect("a number"))
                .collect()
        })
        .collect()
}

#[test]
fn users_that_begin_in_an_off_period_are_silent_for_at_least_the_least_of_them() {
    let first = |starts: &[Vec<f64>]| starts.iter().flatten().copied().fold(f64::MAX, f64::min);
    // Users start within 10 s, and connections take a round trip.
    let on = starts_of_transfers(&[]);
    assert!(
        on.iter()
            .all(|flow| flow.first().is_some_and(|start| *start < 11.0)),
        "{on:?}"
    );
    // Pareto with mean 60 s and shape 1.5: 20 s at least, 32 s in the median.
    for reconnect in ["true", "false"] {
        let reconnect = format!("flows.0.onoff.reconnect={reconnect}");
        let off = starts_of_transfers(&["--set", "flows.0.onoff.begins=off", "--set", &reconnect]);
        assert!(first(&off) >= 20.0, "{off:?}");
        assert!(
            off.iter().filter(|flow| !flow.is_empty()).count() > 2,
            "{off:?}"
        );
    }
    // A flow that is stopped before its first ON period sends nothing.
    let stopped = [
        "--set",
        "flows.0.onoff.begins=off",
        "--set",
        "flows.0.stop_s=15",
    ];
    assert!(starts_of_transfers(&stopped).iter().all(Vec::is_empty));
}

#[test]
fn a_capture_holds_the_links_packets_with_good_checksums() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "--pcap",
        "bottleneck",
        "--pcap",
        "bottleneck.reverse",
        "--set",
        "duration_s=21",
    ];
    let output = run_into(directory.path(), "dumbbell.toml", &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (file, largest) in [("bottleneck.pcap", 1228), ("bottleneck.reverse.pcap", 1228)] {
        let bytes = fs::read(directory.path().join(file)).expect("it was captured");
        let mut packets = 0;
        let mut last = std::time::Duration::ZERO;
        for (time, packet) in evenkeel_tests::capture::packets(&bytes) {
            assert!(time >= last, "time goes on");
            last = time;
            let ip = evenkeel_wire::Ipv4View::parse(packet).expect("an IPv4 packet");
            assert!(ip.checksum_holds());
            let udp = evenkeel_wire::UdpView::parse(ip.payload()).expect("a UDP datagram");
            let ports = [udp.source_port(), udp.destination_port()];
            assert!(ports.contains(&443), "tcpdump takes it for QUIC: {ports:?}");
            assert!(
                !ports.contains(&49152),
                "tcpdump takes it for another: {ports:?}"
            );
            assert!(packet.len() <= largest);
            packets += 1;
        }
        // 200 packets a second forward, half as many back, for 21 s.
        assert!(packets > 1900, "{file}: {packets}");
    }
}

/// Packets of a captured run are encrypted, those of any other have a checksum instead.
#[test]
fn a_capture_changes_no_figure() {
    let results = [vec![], vec!["--pcap", "bottleneck"]].map(|capture| {
        let directory = tempfile::tempdir().expect("a directory");
        let short = ["--set", "duration_s=21", "--set", "flows.0.count=3"];
        let arguments = [&short[..], &capture].concat();
        let output = run_into(directory.path(), "dumbbell.toml", &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        ["result.json", "series.json"].map(|file| {
            fs::read_to_string(directory.path().join(file)).expect("every run writes it")
        })
    });
    let [plain, captured] = &results;
    assert!(plain[0].contains("\"goodput_bps\""), "{}", plain[0]);
    assert_eq!(plain, captured);
}

#[test]
fn sslkeylogfile_gets_the_secrets_of_every_connection() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = directory.path().join("keys");
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"))
        .args(["run", &scenario("dumbbell.toml"), "--out"])
        .arg(directory.path())
        .args(["--set", "flows.0.count=2", "--set", "duration_s=21"])
        .env("SSLKEYLOGFILE", &keys)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = fs::read_to_string(&keys).expect("it was written");
    for label in ["CLIENT_TRAFFIC_SECRET_0 ", "SERVER_TRAFFIC_SECRET_0 "] {
        let lines = log.lines().filter(|line| line.starts_with(label));
        assert_eq!(lines.count(), 2, "one for each connection: {log}");
    }
}

#[test]
fn a_qlog_of_each_sender_is_written_on_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = run_into(
        directory.path(),
        "dumbbell.toml",
        &["--qlog", "--set", "duration_s=21"],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let qlogs: Vec<_> = fs::read_dir(directory.path())
        .expect("it is there")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "sqlog"))
        .collect();
    assert_eq!(qlogs.len(), 1, "{qlogs:?}");
    let log = fs::read_to_string(&qlogs[0]).expect("a text file");
    assert!(log.contains("congestion_window"), "it has the window");
}

#[test]
fn list_names_controllers_with_their_parameters_disciplines_scenarios_and_experiments() {
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"))
        .arg("list")
        .current_dir(repository())
        .output()
        .expect("the program starts");
    let list = text(&output.stdout);
    for word in [
        "reno",
        "gaimd",
        "vegas8",
        "beta=0.5",
        "cubic",
        "bbr",
        "drop-tail",
        "red",
        "max_p=0.1",
        "ecn=false",
        "aqt",
        "gamma=0.1",
        "testbed/scenarios/dumbbell.toml",
        "acp/capacity",
    ] {
        assert!(list.contains(word), "{word:?} in: {list}");
    }
}

#[test]
fn the_runs_that_the_help_shows_work_as_they_stand() {
    let output = testbed(&["--help"]);
    let help = text(&output.stdout);
    let examples = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("evenkeel-testbed run "))
        .filter(|line| !line.contains("--on") && !line.contains("--out"));
    let mut runs = 0;
    for example in examples {
        let directory = tempfile::tempdir().expect("a directory");
        let output = Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"))
            .arg("run")
            .args(example.split_whitespace())
            .arg("--out")
            .arg(directory.path())
            .current_dir(repository())
            .output()
            .expect("the program starts");
        assert!(
            output.status.success(),
            "{example}: {}",
            text(&output.stderr)
        );
        runs += 1;
    }
    assert!(runs >= 3, "{help}");
}

#[test]
fn quiet_prints_the_table_alone_and_verbose_adds_events_of_connections() {
    let directory = tempfile::tempdir().expect("a directory");
    let short = ["--set", "duration_s=21"];
    let run = |flag| {
        run_into(
            directory.path(),
            "dumbbell.toml",
            &[&short[..], &[flag]].concat(),
        )
    };
    let quiet = run("-q");
    assert!(quiet.status.success(), "{}", text(&quiet.stderr));
    assert!(text(&quiet.stdout).contains("bottleneck"));
    assert_eq!(text(&quiet.stderr), "");
    let verbose = run("-v");
    assert!(
        text(&verbose.stderr).contains("connection begins"),
        "{}",
        text(&verbose.stderr)
    );
}

#[test]
fn a_controller_whose_rate_nobody_heeds_makes_one_warning() {
    let directory = tempfile::tempdir().expect("a directory");
    for controller in ["tfrc", "acp"] {
        let set = format!("flows.0.controller={controller}");
        let stamps = "links.0.stamps=['acp']";
        let arguments = ["--set", "duration_s=21", "--set", stamps, "--set", &set];
        let warned = |pacing: &str| {
            let arguments = [&arguments[..], &["--set", pacing]].concat();
            let output = run_into(directory.path(), "dumbbell.toml", &arguments);
            assert!(output.status.success(), "{}", text(&output.stderr));
            let lines = text(&output.stderr).lines();
            let warned = lines.filter(|line| line.starts_with("warning: "));
            warned.map(str::to_owned).collect::<Vec<_>>()
        };
        let warnings = warned("flows.0.pacing=none");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(controller), "{warnings:?}");
        assert_eq!(warned("flows.0.pacing=controller"), [""; 0]);
    }
}

/// The link of `blackout.toml` is away for longer than its flow waits.
const DEADLY: [&str; 4] = [
    "--set",
    "flows.0.idle_timeout_s=5",
    "--set",
    "duration_s=35",
];

#[test]
fn a_flow_that_dies_is_named_and_makes_the_status_one_unless_that_is_allowed() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = run_into(directory.path(), "blackout.toml", &DEADLY);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let last = text(&output.stderr).lines().last().expect("a line");
    for word in ["bulk died at 1", "timed out", "--allow-dead-flows"] {
        assert!(last.contains(word), "{word:?} in: {last}");
    }
    let table = text(&output.stdout);
    assert!(table.contains("bulk [1 died]"), "{table}");
    let result = fs::read_to_string(directory.path().join("result.json")).expect("it is there");
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    let flow = &result["flows"][0];
    assert_eq!(flow["died_s"], flow["stop_s"]);
    let died_s = flow["died_s"].as_f64().expect("a time");
    assert!((15.0..16.0).contains(&died_s), "{died_s}");

    let allowed = [&DEADLY[..], &["--allow-dead-flows"]].concat();
    let output = run_into(directory.path(), "blackout.toml", &allowed);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn compare_names_flows_that_died_and_ends_with_status_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let scenario = scenario("blackout.toml");
    let compare = [
        "compare",
        &scenario,
        "--controllers",
        "vegas,reno",
        "--out",
        out,
    ];
    let output = testbed(&[&compare[..], &DEADLY].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("vegas [1 died]"), "{table}");
    assert!(table.contains("reno, seed 1: bulk died at"), "{table}");
}

#[test]
fn compare_takes_the_usual_controllers_without_being_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let (scenario, out) = (scenario("dumbbell.toml"), directory.path().to_str());
    let output = testbed(&[
        "compare",
        &scenario,
        "--set",
        "duration_s=22",
        "--out",
        out.expect("a path in UTF-8"),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in ["cubic", "bbr", "vegas", "keel"] {
        assert!(text(&output.stdout).contains(name), "{name}");
    }
}

#[test]
fn wrong_scenarios_and_overrides_are_refused_in_one_line_with_exit_code_two() {
    let dumbbell = scenario("dumbbell.toml");
    let run = |extra: &[&str]| {
        let mut arguments = vec![
            "run",
            dumbbell.as_str(),
            "--out",
            "/tmp/evenkeel-never-made",
        ];
        arguments.extend(extra);
        testbed(&arguments)
    };
    for (set, words) in [
        ("flows.0.controler=reno", &["controler", "controller"][..]),
        ("flows.3.controller=reno", &["flows"]),
        ("links.0.rate_bps=-1", &["rate_bps"]),
        ("links.0.rate_bps=fast", &["rate_bps"]),
        ("flows.0.controller=renno", &["renno", "reno", "vegas"]),
        ("flows.0.controller=vegas:alpah=1", &["alpah", "alpha"]),
        ("flows.0.controller=vegas:alpha=9", &["alpha"]),
        ("links.0.discipline=red-tail", &["red-tail", "drop-tail"]),
        ("links.0.discipline=red:mni=5", &["mni", "min"]),
        ("links.0.discipline=red:max_p=2", &["bottleneck", "max_p"]),
        ("links.0.discipline=red:min=30", &["min=30", "max=25"]),
        ("flows.0.path_headers=-1", &["path_headers"]),
        ("flows.0.verify=1", &["verify", "true or false"]),
        ("links.0.stamps=aqt", &["stamps", "array of strings"]),
        ("links.0.stamps=[\"aqt\", \"apc\"]", &["apc", "acp"]),
        ("links.0.stamps=[\"acp:gamma=7\"]", &["bottleneck", "gamma"]),
        ("access.stamps=[\"aqt\", \"aqt\"]", &["aqt", "twice"]),
        ("duration_s=0", &["duration_s"]),
        ("nonsense", &["nonsense"]),
    ] {
        assert_refused(&run(&["--set", set]), 2, words);
    }
    assert_refused(
        &run(&["--pcap", "bottelneck"]),
        2,
        &["bottelneck", "bottleneck.reverse"],
    );
    assert_refused(
        &testbed(&["run", "/nonexistent.toml"]),
        2,
        &["/nonexistent.toml"],
    );
    assert!(
        !Path::new("/tmp/evenkeel-never-made").exists(),
        "a refused run leaves nothing"
    );
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("typo.toml");
    let good = fs::read_to_string(scenario("dumbbell.toml")).expect("it is there");
    let bad = good.replace("queue_packets", "qeue_packets");
    let line = 1 + bad
        .lines()
        .position(|line| line.starts_with("qeue"))
        .expect("it is there");
    fs::write(&path, bad).expect("a writable directory");
    let output = testbed(&["run", path.to_str().expect("a path in UTF-8")]);
    let place = format!("typo.toml:{line}: ");
    assert_refused(&output, 2, &[&place, "qeue_packets", "queue_packets"]);
}

#[test]
fn a_place_that_cannot_be_written_is_a_failure_with_exit_code_one() {
    let dumbbell = scenario("dumbbell.toml");
    let output = testbed(&[
        "run",
        &dumbbell,
        "--set",
        "duration_s=21",
        "--out",
        "/proc/nowhere",
    ]);
    assert_refused(&output, 1, &["/proc/nowhere", "--out"]);
}

#[test]
fn what_cannot_be_run_on_several_backends_is_refused_before_the_first_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = run_into(directory.path(), "dumbbell.toml", arguments);
        assert_refused(&output, 2, words);
    };
    refused(&["--on", "sim,sim"], &["sim twice"]);
    refused(&["--on", "sim,netns", "--qlog"], &["--qlog", "--on sim"]);
    refused(&["--on", "netns,sim", "--pcap", "bottleneck"], &["--pcap"]);
    let left = fs::read_dir(directory.path()).expect("it is there").count();
    assert_eq!(left, 0, "nothing ran");
}

#[test]
fn a_single_backend_has_its_results_where_they_always_were_and_no_report_beside() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["--on", "sim", "--set", "duration_s=21"];
    let output = run_into(directory.path(), "dumbbell.toml", &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(directory.path().join("result.json").is_file());
    assert!(!directory.path().join("backends.json").exists());
}
