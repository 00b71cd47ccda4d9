//! What goes wrong in the middle of a run. Needs root, TUN, iproute2, and the workspace's programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_tests::one_of_three_tries;
use evenkeel_tests::skip::{Need, can_run};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    alone, eventually, has_namespaces, has_namespaces_and, number, pause, program, scenario,
    testbed, text,
};

/// `client -- mid -- server`, mere veth pairs; gone when dropped.
struct Line {
    exec: Child,
    directory: tempfile::TempDir,
}

const LINE: &str = "name = 'line'\nduration_s = 1\n\
    [[links]]\nname = 'near'\nfrom = 'client'\nto = 'mid'\n\
    [[links]]\nname = 'far'\nfrom = 'mid'\nto = 'server'\n\
    [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'client'\nto = 'server'\n";

impl Line {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let scenario = directory.path().join("line.toml");
        fs::write(&scenario, LINE).expect("it can be written");
        let names = directory.path().join("names");
        let script = format!(
            "env | grep ^EVENKEEL_NETNS > {0}.new; mv {0}.new {0}; exec sleep 600",
            names.display()
        );
        let scenario = scenario.to_str().expect("a path in UTF-8");
        let exec = testbed(&["exec", scenario, "--", "sh", "-c", &script])
            .spawn()
            .expect("the program starts");
        eventually("the namespaces", || names.exists());
        Self { exec, directory }
    }

    /// A command on one of the hosts.
    fn on(&self, host: &str, program: impl AsRef<Path>) -> Command {
        let names = fs::read_to_string(self.directory.path().join("names")).expect("it is there");
        let prefix = format!("EVENKEEL_NETNS_{host}=");
        let name = names.lines().find_map(|line| line.strip_prefix(&prefix));
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", name.expect("a host")])
            .arg(program.as_ref());
        command
    }

    /// A router in the middle, for packets to the server; forwards when it is returned.
    fn router(&self, link: &str) -> Child {
        let config = self.directory.path().join("mid.toml");
        let socket = self.directory.path().join("mid.sock");
        let contents = format!(
            "name = 'mid'\nsocket = {socket:?}\n[[links]]\nname = 'there'\ntun = 'ek-there'\n{link}\n\
             routes = [{{ to = '10.0.0.3/32', via = '10.128.0.3', dev = 'link1' }}]\n"
        );
        fs::write(&config, contents).expect("it can be written");
        // The router's own route is to be the only one: without the router there is no way. A
        // router that was killed has left none.
        let removed = self
            .on("mid", "ip")
            .args(["route", "delete", "10.0.0.3/32"])
            .stderr(Stdio::null())
            .status();
        removed.expect("iproute2");
        let mut router = self
            .on("mid", program("evenkeel-router"))
            .args(["run", "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the router starts");
        let mut ready = String::new();
        BufReader::new(router.stdout.take().expect("it was piped"))
            .read_line(&mut ready)
            .expect("a line");
        assert!(ready.starts_with("ready "), "{ready}");
        router
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.exec);
        let _ = kill_process(pid, Signal::INT);
        let _ = self.exec.wait();
    }
}

/// Kills and waits.
fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn flows_are_back_two_seconds_after_a_killed_router_is_and_nothing_is_corrupt() {
    if !has_namespaces() {
        return;
    }
    one_of_three_tries(|| {
        let line = Line::new();
        let link = "rate_bps = 4e6\ndelay_ms = 10\nqueue_packets = 30";
        let router = line.router(link);
        let mut server = line
            .on("server", program("evenkeel"))
            .args(["bulk", "server", "--listen", "10.0.0.3:5000", "--once"])
            .args(["--json-lines", "--interval", "0.25"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let records = Arc::new(Mutex::new(Vec::new()));
        let mut output = BufReader::new(server.stdout.take().expect("it was piped"));
        let mut listening = String::new();
        output.read_line(&mut listening).expect("a first record");
        let seen = records.clone();
        let reader = std::thread::spawn(move || {
            for text in output.lines().map_while(Result::ok) {
                let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                if record["record"] == "server_interval" {
                    let [start, end, bytes] = ["start_s", "end_s", "udp_bytes_received"]
                        .map(|name| record[name].as_f64().expect("a number"));
                    seen.lock().expect("no panic").push((start, end, bytes));
                }
            }
        });
        // 4 Mb/s for 14 s, less headers and the time without a router.
        let client = line
            .on("client", program("evenkeel"))
            .args(["bulk", "client", "10.0.0.3:5000", "--insecure"])
            .args(["--controller", "reno", "--bytes", "6MB", "--json-lines"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the client starts");
        let count = || records.lock().expect("no panic").len();
        eventually("five seconds of traffic", || count() >= 20);
        let killed_at = count();
        end(router);
        pause(Duration::from_millis(700));
        let router = line.router(link);
        let result = client.wait_with_output().expect("it ends");
        let lines = text(&result.stdout);
        assert!(result.status.success(), "{lines}{}", text(&result.stderr));
        let last = lines.lines().last().expect("a result");
        let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(last["verified"], true, "{last:#}");
        server.wait().expect("it ends after one client");
        reader.join().expect("no panic");
        end(router);
        let records = records.lock().expect("no panic");
        // Times are the server's, which leaves out intervals in which nothing came.
        let killed_s = records[killed_at - 1].1;
        let bytes = |from: f64, to: f64| {
            let shares = records.iter().map(|(start, end, bytes)| {
                let overlap = (end.min(to) - start.max(from)).max(0.0);
                bytes * overlap / (end - start).max(1e-3)
            });
            shares.sum::<f64>() / (to - from)
        };
        let before = bytes(killed_s - 2.0, killed_s);
        let outage = bytes(killed_s, killed_s + 0.75);
        assert!(
            outage < 0.7 * before,
            "the router was missed: {outage} of {before}: {records:?}"
        );
        // It was back within a second; from two seconds after that on.
        let after = bytes(killed_s + 3.0, killed_s + 5.0);
        assert!(after >= 0.9 * before, "{after} of {before}: {records:?}");
    });
}

/// Runs a scenario of one link on `netns`, with a router; its result.
fn through_a_router(text_of_traffic: &str, settings: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mtu.toml");
    let scenario = format!(
        "name = 'mtu'\nduration_s = 6\nwarmup_s = 2\n\
         [[links]]\nname = 'link'\nfrom = 'client'\nto = 'server'\nrate_bps = 8000000\ndelay_ms = 5\n\
         emulator = 'evenkeel'\n{text_of_traffic}"
    );
    fs::write(&path, scenario).expect("it can be written");
    let path = path.to_str().expect("a path in UTF-8");
    let out = directory.path().join("out");
    let mut command = crate::support::run(path, "netns", &out, settings);
    crate::support::result(&command.output().expect("the program starts"))
}

/// Mean size of the packets that the first link forwarded, in bytes.
fn packet_size(result: &serde_json::Value) -> f64 {
    let link = &result["links"][0];
    number(&link["forwarded_bytes"]) / number(&link["forwarded"])
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_flow_that_searches_the_mtu_fills_a_link_of_1280_bytes_and_one_of_9000() {
    if !has_namespaces() {
        return;
    }
    one_of_three_tries(|| {
        let flow = "[[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nmtu_discovery = true\n\
                    from = 'client'\nto = 'server'\n";
        for (mtu, sizes) in [("mtu=1280", 1228.0..=1280.0), ("mtu=9000", 1300.0..=9000.0)] {
            let result = through_a_router(flow, &[mtu]);
            assert_eq!(
                result["flows"][0]["error"],
                serde_json::Value::Null,
                "{mtu}"
            );
            let used = number(&result["links"][0]["utilization"]);
            assert!(used > 0.9, "{mtu}: {used} of the link");
            let size = packet_size(&result);
            assert!(sizes.contains(&size), "{mtu}: {size} bytes a packet");
        }
    });
}

#[test]
fn jumbo_packets_pass_a_router_whole_and_fragments_pass_one_by_one() {
    if !has_namespaces_and(&[("ping", "iputils-ping")]) {
        return;
    }
    let cross = "[[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'server'\nto = 'client'\n\
                 [[cross]]\nname = 'c'\nkind = 'cbr'\nfrom = 'client'\nto = 'server'\nrate_bps = 4000000\npacket_bytes = 9000\n";
    let result = through_a_router(cross, &["mtu=9000", "flows.0.stop_s=0.1"]);
    let size = packet_size(&result);
    // Among them are some small packets of the flow, and fragments would have 1500 at most.
    assert!(size > 8000.0, "{size} bytes a packet");
    let line = Line::new();
    let router = line.router("mtu = 1280\nrate_bps = 8e6\ndelay_ms = 5");
    // 4028 bytes of an IP packet are four fragments on a device of 1280 bytes.
    let ping = line
        .on("client", "ping")
        .args([
            "-c", "5", "-i", "0.2", "-s", "4000", "-M", "dont", "10.0.0.3",
        ])
        .output()
        .expect("iputils");
    end(router);
    let said = text(&ping.stdout);
    assert!(said.contains("5 received"), "{said}{}", text(&ping.stderr));
}

#[test]
fn results_that_find_the_disk_full_end_a_run_with_one_line_and_leave_no_half_result() {
    if !can_run(&[Need::root(), Need::program("unshare", "util-linux")]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().display();
    let scenario = scenario("dumbbell.toml");
    let script = format!(
        "mount -t tmpfs -o size=8k tmpfs {place} && \
         {} run {} --set duration_s=5 --set warmup_s=1 --out {place}; \
         status=$?; ls {place} >&2; exit $status",
        env!("CARGO_BIN_EXE_evenkeel-testbed"),
        scenario
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output()
        .expect("util-linux");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let first = error.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("evenkeel-testbed: ") && first.contains("No space left"),
        "{error}"
    );
    assert!(
        !error.lines().any(|line| line == "result.json"),
        "half a result looks like one: {error}"
    );
}

#[test]
fn a_qlog_that_finds_the_disk_full_ends_a_run_with_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let qlog = directory.path().join("one.sqlog");
    std::os::unix::fs::symlink("/dev/full", &qlog).expect("a link");
    let settings = ["duration_s=5", "warmup_s=1", "flows.0.name=one"];
    let name = scenario("dumbbell.toml");
    let mut command = crate::support::run(&name, "sim", directory.path(), &settings);
    let output = command.arg("--qlog").output().expect("the program starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("one.sqlog: No space left on device"),
        "{error}"
    );
    assert!(!directory.path().join("result.json").exists());
}

#[test]
fn a_program_whose_messages_find_the_disk_full_keeps_its_exit_status() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full");
    let directory = tempfile::tempdir().expect("a directory");
    let name = scenario("dumbbell.toml");
    let settings = ["duration_s=5", "warmup_s=1"];
    let mut command = crate::support::run(&name, "sim", directory.path(), &settings);
    let status = command
        .stdout(Stdio::null())
        .stderr(full().expect("Linux has it"))
        .status();
    assert_eq!(status.expect("it starts").code(), Some(0));
    let mut refused = testbed(&["run", "absent.toml"]);
    let status = refused.stderr(full().expect("Linux has it")).status();
    assert_eq!(status.expect("it starts").code(), Some(2));
}

#[test]
fn a_result_that_standard_output_has_no_room_for_is_a_failure_and_in_its_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let scenario = scenario("dumbbell.toml");
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    let output = testbed(&[
        "run",
        "--set",
        "duration_s=5",
        "--set",
        "warmup_s=1",
        "--json",
    ])
    .arg(&scenario)
    .arg("--out")
    .arg(directory.path())
    .stdout(full.expect("Linux has it"))
    .output()
    .expect("the program starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let (first, rest) = error.split_once('\n').expect("a line");
    assert!(first.contains("standard output: No space left"), "{error}");
    assert_eq!(rest, "", "{error}");
    assert!(directory.path().join("result.json").exists());
}

/// The same scenario with each of these controllers, at the same time, on `netns`; what is in their
/// results and series.
fn with_each(controllers: &[&str], keys: &str, flow: &str) -> Vec<[serde_json::Value; 2]> {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = controllers.iter().map(|controller| {
        let path = directory.path().join(format!("{controller}.toml"));
        let out = directory.path().join(controller);
        let scenario = format!(
            "name = 'faults'\n{keys}\n\
             [[flows]]\nname = 'f'\napp = 'bulk'\nfrom = 'client'\nto = 'server'\nverify = true\n\
             controller = '{controller}'\n{flow}\n"
        );
        fs::write(&path, scenario).expect("it can be written");
        let path = path.to_str().expect("a path in UTF-8");
        let child = crate::support::spawn(&mut crate::support::run(path, "netns", &out, &[]));
        (child, out)
    });
    let runs: Vec<_> = runs.collect();
    let end = |(child, out): (Child, std::path::PathBuf)| {
        let result = crate::support::result_of(child);
        let series = fs::read_to_string(out.join("series.json")).expect("it was written");
        [result, serde_json::from_str(&series).expect("JSON")]
    };
    runs.into_iter().map(end).collect()
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn connections_outlive_blackouts_on_the_kernel_and_notice_within_a_second_that_they_are_over() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let controllers = ["reno", "cubic", "vegas"];
        let blackouts = [(5.0, 0.1), (10.0, 1.0), (17.0, 10.0), (33.0, 30.0)];
        let listed = blackouts
            .map(|(start, length)| format!("{{ start_s = {start:.1}, length_s = {length:.1} }}"));
        let keys = format!(
            "duration_s = 69\n[sampling]\ninterval_ms = 50\n\
             [[links]]\nname = 'link'\nfrom = 'client'\nto = 'server'\nrate_bps = 4000000\ndelay_ms = 20\n\
             queue_packets = 30\nblackouts = [{}]",
            listed.join(", ")
        );
        let flow = "idle_timeout_s = 120\nprobe_interval_s = 0.8";
        let runs = with_each(&controllers, &keys, flow);
        for (start, length) in blackouts {
            let mut longest = (0.0, "");
            for ([result, series], controller) in runs.iter().zip(controllers) {
                let error = &result["flows"][0]["error"];
                assert_eq!(*error, serde_json::Value::Null, "{controller}");
                let rates = series["flows"][0]["rate_bps"].as_array().expect("rates");
                let index = |at: f64| (at / 0.05_f64).round() as usize;
                // It comes some ten milliseconds early, as routers start before the run does.
                let early = f64::min(0.2, length / 2.0);
                // A short one hardly shows: what was under way at its beginning still arrives.
                let silent = rates.get(index(start + 0.25)..index(start + length - early));
                let mut silent = silent.unwrap_or_default().iter();
                assert!(
                    silent.all(|rate| number(rate) == 0.0),
                    "{controller}: {rates:?}"
                );
                let after = &rates[index(start + length - early)..];
                let silent = after.iter().position(|rate| number(rate) > 0.0);
                let after = (silent.expect("it is back") + 1) as f64 * 0.05 - early;
                assert!(after <= 1.2, "{controller}: {after} s after {length} s");
                if after > longest.0 {
                    longest = (after, controller);
                }
            }
            println!("{length} s: {:.2} s at most ({})", longest.0, longest.1);
        }
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_route_on_the_kernel_that_flips_every_second_corrupts_nothing_and_costs_as_in_virtual_time() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let controllers = ["reno", "cubic", "vegas"];
        let changes: Vec<String> = (1..40)
            .map(|second| {
                let delay_ms = if second % 2 == 1 { 80 } else { 20 };
                format!("{{ at_s = {second}, delay_ms = {delay_ms} }}")
            })
            .collect();
        let keys = format!(
            "duration_s = 40\n\
             [[links]]\nname = 'link'\nfrom = 'client'\nto = 'server'\nrate_bps = 4000000\ndelay_ms = 20\n\
             queue_packets = 30\nchanges = [{}]\nreverse = {{ changes = [] }}",
            changes.join(", ")
        );
        let runs = with_each(&controllers, &keys, "bytes = 6000000");
        for ([result, _], controller) in runs.iter().zip(controllers) {
            let flow = &result["flows"][0];
            assert_eq!(flow["error"], serde_json::Value::Null, "{controller}");
            assert_eq!(flow["transfers"]["bytes"], 6_000_000, "{flow:#}");
            assert_eq!(flow["transfers"]["sha256_verified"], true, "{flow:#}");
            let seconds = number(&flow["transfers"]["completion_s"]["p50"]);
            println!(
                "{controller}: {seconds:.1} s, {} lost",
                number(&flow["lost_packets"])
            );
            // 12.4 s at the link's rate with headers.
            assert!(seconds < 30.0, "{controller}: {seconds} s");
        }
    });
}

#[test]
fn failures_have_the_form_that_the_log_has() {
    let missing = ["run", "nowhere.toml", "--log-format", "json"];
    let output = testbed(&missing).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    let event: serde_json::Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(event["level"], "ERROR");
    let message = event["message"].as_str().expect("a text");
    assert!(message.contains("nowhere.toml"), "{message}");
}

#[test]
fn a_run_none_of_whose_packets_pass_is_warned_of_in_the_form_that_the_log_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let lossy = scenario("lossy.toml");
    let nothing = ["--set", "links.0.loss=1", "--set", "duration_s=12"];
    let arguments = ["run", &lossy, "--out", out, "--log-format", "json"];
    let mut command = testbed(&arguments);
    let command = command.args(nothing).args(["--set", "warmup_s=1"]);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    let events = told.lines().map(serde_json::from_str::<serde_json::Value>);
    let events: Vec<_> = events.collect::<Result<_, _>>().expect("JSON");
    let is_warning = |event: &&serde_json::Value| event["level"] == "WARN";
    let warning = events.iter().find(is_warning).expect("a warning");
    let message = warning["message"].as_str().expect("a text");
    assert!(message.ends_with("none of its data arrived"), "{message}");
}
