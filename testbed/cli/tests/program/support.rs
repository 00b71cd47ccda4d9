//! What the tests that run the program share.

#![allow(dead_code, reason = "each of the test programs uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_tests::skip::{Need, can_run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The path of a scenario in `testbed/scenarios`.
pub(crate) fn scenario(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../scenarios")
        .join(name);
    path.to_str().expect("a path in UTF-8").into()
}

/// The program under test with these arguments.
pub(crate) fn testbed(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"));
    command.args(arguments);
    command
}

/// A program of the workspace, beside the testbed's.
pub(crate) fn program(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_BIN_EXE_evenkeel-testbed")).parent();
    directory.expect("a directory").join(name)
}

/// `run SCENARIO --on BACKEND --json --out DIRECTORY` with these settings.
pub(crate) fn run(path: &str, on: &str, directory: &Path, settings: &[&str]) -> Command {
    let out = directory.to_str().expect("a path in UTF-8");
    let mut command = testbed(&["run", path, "--on", on, "--json", "--out", out]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
}

/// Starts a command with its output kept.
pub(crate) fn spawn(command: &mut Command) -> Child {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Starts `run SCENARIO --on BACKEND --json` in a directory of its own.
pub(crate) fn start(path: &str, on: &str, settings: &[&str]) -> (Child, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let child = spawn(&mut run(path, on, directory.path(), settings));
    (child, directory)
}

/// The result of a run that was started and succeeds.
pub(crate) fn result_of(child: Child) -> Value {
    result(&child.wait_with_output().expect("it ends"))
}

/// The result of a run in virtual time.
pub(crate) fn on_sim(path: &str, settings: &[&str]) -> Value {
    let (child, _directory) = start(path, "sim", settings);
    result_of(child)
}

/// The result of a run that has succeeded.
pub(crate) fn result(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a result in JSON")
}

/// What a program has printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A number in a result.
pub(crate) fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("a number, not {value}"))
}

/// The least round trip in what ping has printed, in milliseconds.
pub(crate) fn least_round_trip_ms(said: &str) -> f64 {
    // rtt min/avg/max/mdev = 20.2/20.3/20.5/0.1 ms
    let summary = said.split("mdev = ").nth(1);
    let least = summary.and_then(|rest| rest.split('/').next()?.parse().ok());
    least.unwrap_or_else(|| panic!("no summary of ping's: {said}"))
}

/// Whether there can be namespaces and routers; says why if not.
#[track_caller]
pub(crate) fn has_namespaces() -> bool {
    has_namespaces_and(&[])
}

/// The same, and these programs: the name and the Debian package of each.
#[track_caller]
pub(crate) fn has_namespaces_and(programs: &[(&str, &str)]) -> bool {
    let mut needs = vec![Need::root(), Need::tun()];
    let programs = [("ip", "iproute2")].iter().chain(programs);
    needs.extend(programs.map(|(name, package)| Need::program(name, package)));
    can_run(&needs)
}

/// Tests that measure have the machine to themselves, as far as their program goes.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed has left the machine as usable as it was.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a condition, which a loaded machine may need time for: two minutes at most.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..4800 {
        if condition() {
            return;
        }
        pause(Duration::from_millis(25));
    }
    panic!("{what} did not come true");
}

#[expect(clippy::disallowed_methods, reason = "waits for other processes")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The number and the command line of each process that has this text in it, a line each.
pub(crate) fn processes_with(text: &str) -> String {
    let entries = fs::read_dir("/proc").expect("procfs is mounted");
    let commands = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let number = entry.file_name();
        let is_wanted = command.contains(text);
        is_wanted.then(|| format!("{} {command}\n", number.to_string_lossy()))
    });
    commands.collect()
}

/// Sends a signal to a process that is there.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("not zero");
    kill_process(pid, signal).expect("it is there");
}

/// A link that lets one packet in four jump its 10 ms, on the way there.
pub(crate) const REORDERING: &str = "name = 'reordering'\nduration_s = 15\n\
    [[links]]\nname = 'link'\nfrom = 'client'\nto = 'server'\ndelay_ms = 10\nreorder = 0.25\n\
    reverse = { reorder = 0 }\n\
    [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'cubic'\nfrom = 'client'\nto = 'server'\n\
    bytes = 500000\nverify = true\n";

/// Four hundred pings over [`REORDERING`], one in 3 ms. While a reply is due, ping waits for it up to
/// 10 ms (iputils' MININTERVAL), as long as what jumps gains: it makes up for that with up to four at once.
pub(crate) const PINGS: [&str; 8] = ["ping", "-c", "400", "-i", "0.003", "-l", "4", "server"];

/// That of [`PINGS`] one in four overtook others, and none was lost or doubled.
pub(crate) fn assert_reordered(said: &str) {
    let field = |line: &str, name: &str| -> Option<f64> {
        let rest = line.split_once(name)?.1;
        rest.split_whitespace().next()?.parse().ok()
    };
    let replies: Vec<_> = said
        .lines()
        .filter_map(|line| Some((field(line, "icmp_seq=")?, field(line, "time=")?)))
        .collect();
    let mut numbers: Vec<_> = replies.iter().map(|(number, _)| *number).collect();
    assert!(!numbers.is_sorted(), "{said}");
    numbers.sort_by(f64::total_cmp);
    assert!(numbers.into_iter().eq((1..=400).map(f64::from)), "{said}");
    // 10 ms back in any case; 10 ms there only for those that do not jump.
    let jumped = replies.iter().filter(|(_, time)| *time < 17.0).count();
    // Binomial(400, 0.25): mean 100, standard deviation 8.7; four of them either way.
    assert!((65..=135).contains(&jumped), "{jumped}: {said}");
}

/// A run of [`REORDERING`] whose link `emulator` made moved all bytes, and its sender saw the disorder.
pub(crate) fn assert_transferred(result: &Value, emulator: &str) {
    assert_eq!(result["links"][0]["emulator"], emulator);
    let flow = &result["flows"][0];
    assert_eq!(flow["transfers"]["bytes"], 500_000, "{flow:#}");
    assert_eq!(flow["transfers"]["sha256_verified"], true, "{flow:#}");
    assert_eq!(number(&result["links"][0]["lost"]), 0.0);
    // QUIC takes a packet for lost that three others have overtaken.
    assert!(number(&flow["lost_packets"]) > 0.0, "{flow:#}");
}

/// A flow of each version of IP, and UDP over IPv6, by a router that stamps.
pub(crate) const BOTH_VERSIONS: &str = "name = 'both'\nduration_s = 8\n\
    [[links]]\nname = 'access'\nfrom = 'client'\nto = 'router'\n\
    [[links]]\nname = 'link'\nfrom = 'router'\nto = 'server'\nrate_bps = 10000000\ndelay_ms = 5\n\
    stamps = ['aqt', 'flows']\n\
    [[flows]]\nname = 'four'\napp = 'bulk'\ncontroller = 'ro-vegas'\nfrom = 'client'\n\
    to = 'server'\nbytes = 100000\nverify = true\n\
    [[flows]]\nname = 'six'\napp = 'bulk'\ncontroller = 'ro-vegas'\nfrom = 'client'\n\
    to = 'server'\nbytes = 100000\nverify = true\nip_version = 6\n\
    [[cross]]\nname = 'udp'\nkind = 'cbr'\nrate_bps = 100000\nfrom = 'client'\nto = 'server'\n\
    ip_version = 6\n";

/// A run of [`BOTH_VERSIONS`] moved the bytes of both flows, with path headers that came back.
pub(crate) fn assert_both_versions(result: &Value) {
    for (flow, name) in result["flows"]
        .as_array()
        .expect("flows")
        .iter()
        .zip(["four", "six"])
    {
        assert_eq!(flow["name"], name);
        assert_eq!(flow["transfers"]["bytes"], 100_000, "{flow:#}");
        assert_eq!(flow["transfers"]["sha256_verified"], true, "{flow:#}");
        let path = &flow["path"];
        assert!(number(&path["echoes"]) > 0.0, "{path:#}");
        assert_eq!(path["unusable_echoes"], 0, "{path:#}");
        assert_eq!(path["forged"], 0, "{path:#}");
        // Only a stamp tells a time.
        let told = &path["forward_queueing_ms"]["mean"];
        assert!(told.is_number(), "{path:#}");
    }
}
