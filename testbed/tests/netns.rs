//! Scenarios on real namespaces. Needs root, TUN, iproute2, and the workspace's programs.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// Tests that measure have the machine to themselves, as far as this program goes.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed has left the machine as usable as it was.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
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

/// On a dumbbell: router daemons, even on a kernel that has netem.
const ROUTERS: [&str; 2] = ["links.0.emulator=evenkeel", "access.emulator=evenkeel"];

#[test]
fn the_kernel_and_virtual_time_agree_and_two_runs_at_once_do_not_meet() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let name = scenario("dumbbell.toml");
    let controllers = ["vegas", "reno"];
    // A whole number of Reno's saws (7.4 s each) after the warm-up.
    let settings = |controller: &str| {
        let controller = format!("flows.0.controller={controller}");
        let [bottleneck, access] = ROUTERS.map(Into::into);
        [
            controller,
            "duration_s=32.2".into(),
            "warmup_s=10".into(),
            bottleneck,
            access,
        ]
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
fn path_headers_tell_on_the_kernel_what_they_tell_in_virtual_time() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let name = scenario("dumbbell.toml");
    let settings = [
        "duration_s=16",
        "warmup_s=6",
        "flows.0.count=2",
        "flows.0.pacing=true",
        "flows.0.path_headers=1",
        "links.0.stamps=[\"aqt\", \"flows\"]",
    ];
    let (child, directory) = start(&name, &settings);
    let kernel = result(child);
    let virtual_time = on_sim(&name, &settings);
    for result in [&kernel, &virtual_time] {
        let link = &result["links"][0];
        // Little's law: mean queue over packets per second, of 10 s.
        let forwarded = number(&link["forwarded"]);
        let wait = number(&link["queue_packets"]["mean"]) * 10_000.0 / forwarded;
        for flow in result["flows"].as_array().expect("flows") {
            assert_eq!(flow["pacing"], true);
            let path = &flow["path"];
            // A machine that is busy otherwise keeps an answer for longer than a probe timeout.
            assert_ne!(path["state"], "plain", "{path:#}");
            assert!(number(&path["echoes"]) > 100.0, "{path:#}");
            assert_eq!(path["unusable_echoes"], 0, "{path:#}");
            assert_eq!(path["forged"], 0, "{path:#}");
            let told = number(&path["forward_queueing_ms"]["mean"]);
            // Each flow's own packets: the mean of all within a packet's time, 5 ms.
            assert!((told - wait).abs() < 5.0, "{told} ms told of {wait}");
            assert_eq!(path["flows"], 2, "{path:#}");
        }
        let headers = &link["headers"];
        assert!(
            number(&headers["stamped"]) > 0.9 * forwarded,
            "{headers:#} of {forwarded}"
        );
        let counted = number(&link["stamps"]["flows"]["flows"]);
        assert!((1.9..=2.1).contains(&counted), "{counted} flows");
    }
    let told = |result: &serde_json::Value| {
        number(&result["flows"][0]["path"]["forward_queueing_ms"]["mean"])
    };
    let (here, there) = (told(&kernel), told(&virtual_time));
    assert!((here - there).abs() <= 10.0, "{here} ms and {there} ms");
    for file in ["queueing.svg", "series.json"] {
        assert!(directory.path().join(file).is_file(), "{file}");
    }
}

#[test]
fn ro_vegas_fills_the_link_on_the_kernel_where_half_of_the_acks_fit_and_vegas_gets_half_of_it() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    // RoVegas, Fig. 7: 200 packets a second there, 100 ACKs of 64 bytes a second back.
    let used = |settings: &[&str]| {
        let network = [
            "duration_s=30",
            "warmup_s=12",
            "flows.0.pacing=true",
            "links.0.reverse.rate_bps=51200",
            "links.0.reverse.queue_packets=10",
        ];
        let (child, _directory) = start(
            &scenario("asymmetric.toml"),
            &[&network[..], settings].concat(),
        );
        number(&result(child)["links"][0]["utilization"])
    };
    let vegas = used(&[]);
    assert!((0.45..=0.55).contains(&vegas), "Vegas: {vegas}");
    let ro_vegas = used(&[
        "flows.0.controller=ro-vegas",
        "links.0.stamps=['aqt']",
        "access.stamps=['aqt']",
    ]);
    assert!(ro_vegas >= 0.97, "RoVegas: {ro_vegas}");
}

#[test]
fn acp_users_have_their_max_min_shares_of_two_routers_on_the_kernel() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let link = |name| {
        format!(
            "[[links]]\nname = '{name}'\nrate_bps = 20000000\ndelay_ms = 10\nqueue_packets = 200\n\
             stamps = ['aqt', 'acp']\n"
        )
    };
    let flow = |name, ends, count| {
        format!(
            "[[flows]]\nname = '{name}'\napp = 'bulk'\ncontroller = 'acp'\ncount = {count}\n\
             stagger_s = 0.3\n{ends}\n"
        )
    };
    let text = [
        "name = 'two-routers'\nduration_s = 30\nwarmup_s = 20\ntopology = 'chain'\n".into(),
        link("one"),
        link("two"),
        flow("both", "", 1),
        flow("first", "from = 'r0'\nto = 'r1'", 1),
        flow("second", "from = 'r1'\nto = 'r2'", 2),
    ];
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("two-routers.toml");
    fs::write(&path, text.concat()).expect("it can be written");
    let (child, _results) = start(path.to_str().expect("a path in UTF-8"), &[]);
    let result = result(child);
    // Three share the second link; the other user of the first takes what they leave there.
    let third = 0.99 * 20e6 / 3.0;
    let shares = [
        ("both", third),
        ("first", 2.0 * third),
        ("second-0", third),
        ("second-1", third),
    ];
    for (flow, (name, share)) in result["flows"]
        .as_array()
        .expect("flows")
        .iter()
        .zip(shares)
    {
        assert_eq!(flow["name"], name);
        let got = number(&flow["throughput_bps"]) / share;
        assert!((0.96..=1.04).contains(&got), "{name}: {got} of its share");
    }
    for link in result["links"].as_array().expect("links") {
        assert_eq!(number(&link["dropped"]), 0.0, "{}", link["name"]);
    }
}

#[test]
fn a_file_of_twenty_megabytes_arrives_identical_over_a_lossy_link() {
    if !can_run() {
        return;
    }
    let _alone = alone();
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
    let _alone = alone();
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
    let other = exec(&[
        "sh",
        "-c",
        "ip netns exec $EVENKEEL_NETNS_server ip -brief address show lo",
    ]);
    assert!(
        text(&other.stdout).contains("10.0.0.2/32"),
        "{}",
        text(&other.stdout)
    );
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
fn udp_and_tcp_are_shaped_to_the_configured_rate_of_ip_packets() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    for rate in [1e6, 10e6, 100e6] {
        // iperf3 counts payload: 1200 of 1228 bytes of an IP packet.
        assert_shaped("UDP", rate, || {
            let udp = iperf3(rate, &format!("-u -b {} -l 1200 -t 5 -O 1", rate * 1.5));
            number(&udp["end"]["sum_received"]["bits_per_second"]) * 1228.0 / 1200.0
        });
        assert_shaped("TCP", rate, || {
            let tcp = iperf3(rate, "-t 6 -O 2");
            number(&tcp["end"]["sum_received"]["bits_per_second"]) * TCP_PACKET
        });
    }
}

/// Bytes of an IP packet per byte of TCP payload: 1448 and 52 of headers with timestamps.
const TCP_PACKET: f64 = 1500.0 / 1448.0;

/// Never more than 1 % above the rate; not less than 1 % below it in one of three tries, because a
/// machine that is busy otherwise cannot send at any rate.
fn assert_shaped(what: &str, rate: f64, measure: impl Fn() -> f64) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let ratio = measure() / rate;
        assert!(ratio <= 1.01, "{what} at {rate}: {ratio} of it");
        if ratio >= 0.99 {
            return;
        }
        seen.push(ratio);
    }
    panic!("{what} at {rate}: {seen:?} of it");
}

/// iperf3 from client to server over a link of `rate` bits per second and 5 ms.
fn iperf3(rate: f64, options: &str) -> serde_json::Value {
    let script = format!(
        "ip netns exec $EVENKEEL_NETNS_server iperf3 -s -1 -D && sleep 0.5 && iperf3 -c server -J {options}"
    );
    serde_json::from_str(&on_client(rate, &script)).expect("iperf3's JSON")
}

/// Runs a shell script on the client of a link of `rate` bits per second and 5 ms.
fn on_client(rate: f64, script: &str) -> String {
    let rate = format!("links.0.rate_bps={rate}");
    let settings = [
        "links.0.loss=0",
        "links.0.delay_ms=5",
        "links.0.queue_packets=100",
        &rate,
    ];
    let lossy = scenario("lossy.toml");
    let mut arguments = vec!["exec", lossy.as_str(), "--host", "client"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    arguments.extend(["--", "sh", "-c", script]);
    let output = testbed(&arguments).output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn the_wire_rates_of_a_tcp_and_a_quic_flow_add_up_to_the_links() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let programs = Path::new(env!("CARGO_BIN_EXE_evenkeel-testbed"))
        .parent()
        .expect("a directory");
    let evenkeel = programs.join("evenkeel");
    let evenkeel = evenkeel.display();
    // Both start within half a second and last 12 s; seconds 3 to 10 of each are compared.
    let script = format!(
        "ip netns exec $EVENKEEL_NETNS_server iperf3 -s -1 -J > $DIR/tcp & \
         ip netns exec $EVENKEEL_NETNS_server {evenkeel} bulk server --listen 10.0.0.2:5000 --once --json-lines > $DIR/quic & \
         sleep 1; iperf3 -c server -t 12 > /dev/null & \
         {evenkeel} bulk client 10.0.0.2:5000 --insecure --controller reno --time 12 --no-mtu-discovery > /dev/null; \
         wait; cat $DIR/tcp; echo; echo ======; cat $DIR/quic"
    );
    let script = format!("DIR=$(mktemp -d); {script}; rm -r $DIR");
    let output = on_client(20e6, &script);
    let (tcp, quic) = output.split_once("======").expect("both parts");
    let tcp: serde_json::Value = serde_json::from_str(tcp).expect("iperf3's JSON");
    let tcp_bytes: f64 = tcp["intervals"].as_array().expect("intervals")[3..10]
        .iter()
        .map(|interval| number(&interval["sum"]["bytes"]) * TCP_PACKET)
        .sum();
    let intervals: Vec<serde_json::Value> = quic
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|record: &serde_json::Value| record["record"] == "server_interval")
        .collect();
    let quic_bytes: f64 = intervals[3..10]
        .iter()
        .map(|record| {
            number(&record["udp_bytes_received"]) + 28.0 * number(&record["udp_datagrams_received"])
        })
        .sum();
    let rate = (tcp_bytes + quic_bytes) * 8.0 / 7.0;
    // The two sevens of seconds are up to half a second apart: 3 % is what a change of the
    // shares within it can make of the sum, at most.
    assert!(
        (0.97..=1.03).contains(&(rate / 20e6)),
        "TCP {tcp_bytes} and QUIC {quic_bytes} bytes: {rate} bit/s"
    );
    assert!(
        tcp_bytes > 0.02 * quic_bytes && quic_bytes > 0.02 * tcp_bytes,
        "both send"
    );
}

#[test]
fn an_interrupt_ends_a_run_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let (child, _out) = start(&scenario("dumbbell.toml"), &ROUTERS);
    let pid = child.id();
    eventually("traffic", || processes_of(pid).lines().count() >= 4);
    signal("-INT", &pid.to_string());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_nothing_left(pid);
}

#[test]
fn an_interrupt_of_the_papers_runs_takes_the_network_down_first() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers");
    let child = testbed(&["reproduce", "acp/two-links", "--on", "netns", "--papers"])
        .args([papers.as_path(), Path::new("--out"), directory.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id();
    eventually("three routers", || processes_of(pid).lines().count() >= 3);
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
    let _alone = alone();
    let (child, _out) = start(&scenario("dumbbell.toml"), &ROUTERS);
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
    let _alone = alone();
    let (mut child, _out) = start(&scenario("dumbbell.toml"), &ROUTERS);
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
    let _alone = alone();
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
fn a_discipline_that_does_not_exist_is_refused_before_anything_is_touched() {
    let arguments = [
        "run",
        &scenario("dumbbell.toml"),
        "--on",
        "netns",
        "--set",
        "links.0.discipline=rde",
    ];
    let output = testbed(&arguments).output().expect("the program starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("bottleneck") && error.contains("drop-tail"),
        "{error}"
    );
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
