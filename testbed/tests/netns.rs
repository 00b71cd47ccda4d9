//! Scenarios on real namespaces. Needs root, TUN, iproute2, and the workspace's programs.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("scenarios")
        .join(name);
    path.to_str().expect("a path in UTF-8").into()
}

fn testbed(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the tests of this file can run; says why if not.
fn can_run() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root || !Path::new("/dev/net/tun").exists() {
        eprintln!("skipped: namespaces need root and /dev/net/tun");
        return false;
    }
    true
}

/// Starts `run SCENARIO --on netns --json` in a directory of its own.
fn start(name: &str, settings: &[&str]) -> (Child, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let mut arguments = vec!["run", name, "--on", "netns", "--json", "--out", out];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let child = testbed(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    (child, directory)
}

fn result(child: Child) -> serde_json::Value {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a result in JSON")
}

fn on_sim(name: &str, settings: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let mut arguments = vec!["run", name, "--json", "--out", out];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let output = testbed(&arguments).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a result in JSON")
}

fn number(value: &serde_json::Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Namespaces of the run with this process number.
fn namespaces_of(pid: u32) -> Vec<String> {
    let output = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("iproute2");
    let prefix = format!("ek{pid}-");
    text(&output.stdout)
        .lines()
        .filter(|line| line.starts_with(&prefix))
        .map(Into::into)
        .collect()
}

fn processes_of(pid: u32) -> String {
    let pattern = format!("/run/evenkeel-testbed/{pid}-");
    text(
        &Command::new("pgrep")
            .args(["-af", &pattern])
            .output()
            .expect("procps")
            .stdout,
    )
}

/// Waits for a condition, which a loaded machine may need time for.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..400 {
        if condition() {
            return;
        }
        pause(Duration::from_millis(25));
    }
    panic!("{what} did not come true");
}

fn assert_nothing_left(pid: u32) {
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
    eventually("the end of all processes", || processes_of(pid).is_empty());
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill")
        .args([name, pid])
        .status()
        .expect("kill");
    assert!(sent.success());
}

#[expect(clippy::disallowed_methods, reason = "waits for other processes")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn the_kernel_and_virtual_time_agree_and_two_runs_at_once_do_not_meet() {
    if !can_run() {
        return;
    }
    let name = scenario("dumbbell.toml");
    let controllers = ["vegas", "reno"];
    // A whole number of Reno's saws (7.4 s each) after the warm-up.
    let settings = |controller: &str| {
        let controller = format!("flows.0.controller={controller}");
        [controller, "duration_s=32.2".into(), "warmup_s=10".into()]
    };
    let runs = controllers.map(|controller| {
        let settings = settings(controller);
        start(&name, &settings.each_ref().map(String::as_str))
    });
    for ((child, _directory), controller) in runs.into_iter().zip(controllers) {
        let pid = child.id();
        let kernel = result(child);
        let virtual_time = on_sim(&name, &settings(controller).each_ref().map(String::as_str));
        assert_eq!(kernel["backend"], "netns");
        let throughput = |result: &serde_json::Value| number(&result["flows"][0]["throughput_bps"]);
        let ratio = throughput(&kernel) / throughput(&virtual_time);
        assert!(
            (0.95..=1.05).contains(&ratio),
            "{controller}: throughput ratio {ratio}"
        );
        let queue =
            |result: &serde_json::Value| number(&result["links"][0]["queue_packets"]["mean"]);
        let (here, there) = (queue(&kernel), queue(&virtual_time));
        assert!(
            (here - there).abs() <= 2.0,
            "{controller}: queue {here} and {there}"
        );
        assert_eq!(kernel["flows"][0]["error"], serde_json::Value::Null);
        assert_nothing_left(pid);
    }
}

#[test]
fn a_file_of_twenty_megabytes_arrives_identical_over_a_lossy_link() {
    if !can_run() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("data.bin");
    let mut bytes = Vec::new();
    let mut random = fs::File::open("/dev/urandom")
        .expect("a kernel")
        .take(20_000_000);
    random.read_to_end(&mut bytes).expect("random bytes");
    fs::write(&file, bytes).expect("a writable directory");
    // The scenario's transfer has a length; this one has a file instead.
    let text = fs::read_to_string(scenario("lossy.toml")).expect("it is there");
    let with_file = text.replace(
        "bytes = 20_000_000",
        &format!("file = {:?}", file.display().to_string()),
    );
    assert_ne!(text, with_file);
    let path = directory.path().join("file.toml");
    fs::write(&path, with_file).expect("a writable directory");
    let controller = "flows.0.controller=cubic";
    let (child, _out) = start(
        path.to_str().expect("UTF-8"),
        &["duration_s=45", controller],
    );
    let result = result(child);
    let transfers = &result["flows"][0]["transfers"];
    assert_eq!(transfers["completed"], 1, "{result:#}");
    assert_eq!(transfers["bytes"], 20_000_000);
    assert_eq!(transfers["sha256_verified"], true);
    assert!(
        number(&result["links"][0]["lost"]) > 50.0,
        "the link lost packets"
    );
}

#[test]
fn exec_runs_a_program_on_a_host_and_passes_its_status_on() {
    if !can_run() {
        return;
    }
    let lossy = scenario("lossy.toml");
    let exec = |command: &[&str]| -> Output {
        let mut arguments = vec![
            "exec",
            lossy.as_str(),
            "--set",
            "links.0.loss=0",
            "--host",
            "client",
            "--",
        ];
        arguments.extend(command);
        testbed(&arguments).output().expect("the program starts")
    };
    assert_eq!(exec(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(exec(&["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let ping = exec(&["ping", "-c", "5", "-i", "0.2", "server"]);
    let summary = text(&ping.stdout);
    assert!(ping.status.success(), "{summary}{}", text(&ping.stderr));
    // rtt min/avg/max/mdev = 20.2/20.3/20.5/0.1 ms: 10 ms there and back.
    let least = summary
        .split("mdev = ")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    let least: f64 = least
        .and_then(|least| least.parse().ok())
        .expect("ping's summary");
    assert!((20.0..=20.5).contains(&least), "{least} ms");
    let unknown = testbed(&["exec", &lossy, "--host", "nobody", "--", "true"])
        .output()
        .expect("it starts");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("client, server"),
        "{}",
        text(&unknown.stderr)
    );
}

#[test]
fn an_interrupt_ends_a_run_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let (child, _out) = start(&scenario("dumbbell.toml"), &[]);
    let pid = child.id();
    eventually("traffic", || processes_of(pid).lines().count() >= 4);
    signal("-INT", &pid.to_string());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_nothing_left(pid);
}

#[test]
fn a_router_that_dies_ends_the_run_with_its_name_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let (child, _out) = start(&scenario("dumbbell.toml"), &[]);
    let pid = child.id();
    eventually("routers", || processes_of(pid).lines().count() >= 4);
    let router = processes_of(pid)
        .split_whitespace()
        .next()
        .expect("a router")
        .to_owned();
    signal("-KILL", &router);
    let output = child.wait_with_output().expect("it ends");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the router of"), "{error}");
    assert_nothing_left(pid);
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next_one() {
    if !can_run() {
        return;
    }
    let (mut child, _out) = start(&scenario("dumbbell.toml"), &[]);
    let pid = child.id();
    eventually("routers", || processes_of(pid).lines().count() >= 4);
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    assert_ne!(
        namespaces_of(pid),
        Vec::<String>::new(),
        "SIGKILL gives no time to clean up"
    );
    let next = testbed(&["exec", &scenario("lossy.toml"), "--", "true"])
        .output()
        .expect("it starts");
    assert!(next.status.success(), "{}", text(&next.stderr));
    assert_nothing_left(pid);
}

#[test]
fn cross_traffic_and_short_flows_run_on_the_kernel_too() {
    if !can_run() {
        return;
    }
    let (cross, _first) = start(
        &scenario("vbr.toml"),
        &["duration_s=12", "warmup_s=2", "cross.0.start_s=1"],
    );
    let (short, _second) = start(
        &scenario("short-flows.toml"),
        &["duration_s=10", "warmup_s=1"],
    );
    let cross = result(cross);
    let load = number(&cross["links"][1]["arrived"]) * 1228.0 * 8.0 / 10.0 / 1_964_800.0;
    // 80 ON/OFF periods: a wide band around 0.9, ACKs on top.
    assert!((0.4..=1.5).contains(&load), "load {load}");
    let short = result(short);
    let web = &short["flows"][1];
    assert_eq!(web["error"], serde_json::Value::Null);
    assert!(number(&web["transfers"]["completed"]) >= 40.0, "{web:#}");
}

#[test]
fn without_the_rights_one_line_says_what_to_do() {
    if !can_run() {
        return;
    }
    // Another user: neither root nor capabilities.
    let program = env!("CARGO_BIN_EXE_evenkeel-testbed");
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--",
        ])
        .args([
            program,
            "run",
            &scenario("dumbbell.toml"),
            "--on",
            "netns",
            "--out",
            "/tmp/evenkeel-none",
        ])
        .output()
        .expect("util-linux");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("root") && error.contains("--on sim"),
        "{error}"
    );
}
