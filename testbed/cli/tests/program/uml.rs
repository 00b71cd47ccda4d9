//! Scenarios inside user-mode Linux. Needs Debian's packages user-mode-linux and kmod, iproute2,
//! and the workspace's programs; no rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use evenkeel_tests::one_of_three_tries;
use evenkeel_tests::skip::{self, Need};
use rustix::process::Signal;

use crate::support::{alone, eventually, number, scenario, signal, testbed, text};

/// Whether the tests of this file can run; says why if not.
#[track_caller]
fn can_run() -> bool {
    let installed = |name: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .any(|directory| Path::new(directory).join(name).is_file())
    };
    let needs = [
        ("linux.uml", "user-mode-linux"),
        ("modprobe", "kmod"),
        ("tc", "iproute2"),
        ("ping", "iputils-ping"),
    ]
    .map(|(program, package)| {
        let how = format!("apt-get install {package}");
        Need::new(program, &how, installed(program))
    });
    skip::can_run(&needs)
}

/// A command whose temporary files are all in a directory of its own.
struct Inside {
    directory: tempfile::TempDir,
}

impl Inside {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().expect("a path in UTF-8")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = testbed(arguments);
        command
            .env("TMPDIR", self.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a shell script on the client of a link without rate or loss.
    fn exec(&self, script: &str) -> Command {
        let lossy = scenario("lossy.toml");
        self.command(&[
            "exec",
            &lossy,
            "--on",
            "uml",
            "--set",
            "links.0.loss=0",
            "--",
            "sh",
            "-c",
            script,
        ])
    }

    /// The processes that know of the directory: guard and kernel.
    fn processes(&self) -> String {
        crate::support::processes_with(self.path())
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).expect("it is there");
        entries
            .map(|entry| entry.expect("readable").path())
            .collect()
    }

    fn assert_nothing_left(&self) {
        eventually("the end of all processes", || self.processes().is_empty());
        eventually("the end of all files", || self.files().is_empty());
    }
}

/// Waits until the script that writes `up` into the directory has begun; then takes it away.
fn wait_for_start(inside: &Inside) {
    let up = inside.directory.path().join("up");
    eventually("the command inside", || up.exists());
    assert!(inside.processes().contains("uml-guard"), "it is held");
    fs::remove_file(up).expect("it was made");
}

fn output(mut command: Command) -> Output {
    command.output().expect("the program starts")
}

#[test]
fn output_and_exit_status_come_out_and_the_user_is_root_of_a_kernel_with_netem() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let inside = Inside::new();
    let mark = PathBuf::from(format!("/etc/evenkeel-uml-{}", std::process::id()));
    let script = "id -u; echo error >&2; modprobe -n sch_netem 2>/dev/null; \
                  tc qdisc add dev lo root netem delay 1ms && tc qdisc show dev lo | cut -d' ' -f2; \
                  ping -c 1 -q server > /dev/null && echo reached; exit 7";
    let script = format!("touch {} && {script}", mark.display());
    let result = output(inside.exec(&script));
    assert_eq!(text(&result.stdout), "0\nnetem\nreached\n");
    assert_eq!(text(&result.stderr), "error\n");
    assert_eq!(result.status.code(), Some(7));
    inside.assert_nothing_left();
    assert!(!mark.exists(), "what is written to /etc stays inside");
}

#[test]
fn what_is_wrong_inside_is_told_outside_with_its_own_status() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let inside = Inside::new();
    let signalled = output(inside.exec("kill -9 $$"));
    assert_eq!(
        signalled.status.code(),
        Some(137),
        "{}",
        text(&signalled.stderr)
    );
    // Refused before anything boots.
    let lossy = scenario("lossy.toml");
    let refused = output(inside.command(&["run", &lossy, "--on", "uml", "--out", "/run/evenkeel"]));
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("its own /run"), "{error}");
    assert!(!Path::new("/run/evenkeel/result.json").exists());
}

#[test]
fn an_interrupt_or_a_termination_ends_the_kernel_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    for (ending, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let inside = Inside::new();
        let script = format!("touch {}/up; sleep 600", inside.path());
        let child = inside.exec(&script).spawn().expect("the program starts");
        wait_for_start(&inside);
        signal(child.id(), ending);
        let result = child.wait_with_output().expect("it ends");
        let error = text(&result.stderr);
        assert_eq!(result.status.code(), Some(status), "{error}");
        inside.assert_nothing_left();
    }
}

#[test]
fn a_caller_that_is_killed_takes_the_kernel_with_it() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let inside = Inside::new();
    let script = format!("touch {}/up; sleep 600", inside.path());
    let mut child = inside.exec(&script).spawn().expect("the program starts");
    wait_for_start(&inside);
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    inside.assert_nothing_left();
}

/// Runs a scenario on a backend; its result.
fn run(inside: &Inside, name: &str, on: &str, settings: &[&str]) -> serde_json::Value {
    let path = scenario(name);
    run_file(inside, &path, on, settings)
}

/// The same with a scenario at any path.
fn run_file(inside: &Inside, path: &str, on: &str, settings: &[&str]) -> serde_json::Value {
    let results = inside.directory.path().join(format!("results-{on}"));
    let mut command = crate::support::run(path, on, &results, settings);
    command.env("TMPDIR", inside.path());
    let result = crate::support::result(&output(command));
    assert!(
        results.join("series.json").is_file(),
        "{on} wrote its series"
    );
    result
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn virtual_time_and_kernels_with_and_without_netem_agree_on_throughput() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let inside = Inside::new();
        // A whole number of Reno's saws (7.4 s each) after the warm-up.
        let settings = ["flows.0.controller=reno", "duration_s=32.2", "warmup_s=10"];
        let throughput = |result: &serde_json::Value| number(&result["flows"][0]["throughput_bps"]);
        let expected = throughput(&run(&inside, "dumbbell.toml", "sim", &settings));
        let mut backends = vec![("uml", 0.10)];
        if rustix::process::geteuid().is_root() {
            backends.push(("netns", 0.05));
        }
        for (on, tolerance) in backends {
            let result = run(&inside, "dumbbell.toml", on, &settings);
            assert_eq!(result["backend"], on);
            if on == "uml" {
                assert_eq!(result["links"][0]["emulator"], "netem");
                assert_eq!(result["links"][1]["emulator"], "netem");
            }
            assert_eq!(result["flows"][0]["error"], serde_json::Value::Null);
            let ratio = throughput(&result) / expected;
            assert!((ratio - 1.0).abs() <= tolerance, "{on}: {ratio} of sim's");
            let link = &result["links"][0];
            let used = number(&link["utilization"]);
            assert!((0.90..=1.01).contains(&used), "{on}: {used} of the link");
        }
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn netem_delays_loses_and_queues_single_packets_as_the_scenario_says() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let inside = Inside::new();
        let settings = [
            "duration_s=14",
            "warmup_s=2",
            "links.0.rate_bps=8000000",
            "links.0.queue_packets=60",
            "links.0.loss=0.01",
            "links.0.jitter_ms=2",
            "links.0.reverse.loss=0",
            "links.0.reverse.emulator=evenkeel",
            "flows.0.bytes=1000000000",
            "flows.0.verify=false",
            "flows.0.controller=reno",
        ];
        let result = run(&inside, "lossy.toml", "uml", &settings);
        let [there, back] = [0, 1].map(|index| &result["links"][index]);
        assert_eq!(there["emulator"], "netem");
        assert_eq!(back["emulator"], "evenkeel", "each direction has its own");
        let forwarded = number(&there["forwarded"]);
        assert!(forwarded > 1000.0, "{there:#}");
        // Large packets of the sender's kernel came as those of the wire.
        let mean = number(&there["forwarded_bytes"]) / forwarded;
        assert!((500.0..=1228.0).contains(&mean), "{mean} bytes a packet");
        // 12 s at 1 %: five standard deviations around it.
        let share = number(&there["lost"]) / (forwarded + number(&there["lost"]));
        let band = 5.0 * (0.01 * 0.99 / forwarded).sqrt();
        assert!((share - 0.01).abs() < band, "{share} lost of {forwarded}");
        assert!(number(&there["queue_packets"]["max"]) <= 60.0, "{there:#}");
        // 10 ms there and back, at most 2 ms of jitter: the smallest of many is near 20 ms.
        let least = number(&result["flows"][0]["rtt_ms"]["min"]);
        assert!((20.0..30.0).contains(&least), "{least} ms");
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn our_codel_and_fq_codel_share_and_delay_as_linuxs_do() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    for discipline in ["codel", "fq-codel"] {
        one_of_three_tries(|| {
            let inside = Inside::new();
            // Ten times as slow as the Internet's: the kernel's own delays are a few milliseconds.
            let slow = format!("links.0.discipline={discipline}:target_ms=50,interval_ms=1000");
            let settings = [
                "links.0.rate_bps=4000000",
                "links.0.delay_ms=100",
                slow.as_str(),
            ];
            let [ours, linux] = ["sim", "uml"].map(|on| run(&inside, "aqm.toml", on, &settings));
            assert_eq!(ours["links"][0]["emulator"], "evenkeel");
            assert_eq!(linux["links"][0]["emulator"], "netem");
            let round_trip = |result: &serde_json::Value| {
                let of = |flow: usize| number(&result["flows"][flow]["rtt_ms"]["p50"]);
                (0..4).map(of).sum::<f64>() / 4.0
            };
            let median = round_trip(&linux) / round_trip(&ours);
            assert!(
                (median - 1.0).abs() <= 0.1,
                "{discipline}: {median} of our round trip"
            );
            let rates = |result: &serde_json::Value| {
                [0, 1, 2, 3].map(|flow| number(&result["flows"][flow]["throughput_bps"]))
            };
            let [ours, linux] = [rates(&ours), rates(&linux)];
            let all = linux.iter().sum::<f64>() / ours.iter().sum::<f64>();
            assert!((all - 1.0).abs() <= 0.1, "{discipline}: {all} of our rate");
            if discipline == "fq-codel" {
                for (ours, linux) in ours.iter().zip(linux) {
                    let share = linux / ours;
                    assert!((share - 1.0).abs() <= 0.1, "{share} of our share");
                }
            }
        });
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn netem_lets_the_share_that_was_asked_for_overtake_and_a_transfer_arrives_intact() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let inside = Inside::new();
        let path = inside.directory.path().join("reordering.toml");
        fs::write(&path, crate::support::REORDERING).expect("it can be written");
        let path = path.to_str().expect("a path in UTF-8");
        let mut exec = inside.command(&["exec", path, "--on", "uml", "--host", "client", "--"]);
        exec.args(crate::support::PINGS);
        crate::support::assert_reordered(&text(&output(exec).stdout));
        crate::support::assert_transferred(&run_file(&inside, path, "uml", &[]), "netem");
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn both_versions_of_ip_pass_a_router_that_stamps_them_and_netem_on_the_way_back() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let inside = Inside::new();
    let path = inside.directory.path().join("both.toml");
    fs::write(&path, crate::support::BOTH_VERSIONS).expect("it can be written");
    let path = path.to_str().expect("a path in UTF-8");
    let result = run_file(&inside, path, "uml", &["links.1.reverse.stamps=[]"]);
    assert_eq!(result["links"][3]["emulator"], "netem");
    crate::support::assert_both_versions(&result);
}

#[test]
fn a_link_that_must_be_netems_and_cannot_is_refused_with_the_reason() {
    let inside = Inside::new();
    let lossy = scenario("lossy.toml");
    for (setting, reason) in [
        ("links.0.discipline=red", "discipline"),
        ("links.0.reorder=0.1", "reorder beside rate_bps"),
    ] {
        let mut arguments = vec!["run", lossy.as_str(), "--on", "uml", "--out", inside.path()];
        arguments.extend(["--set", "links.0.emulator=netem", "--set", setting]);
        let result = output(inside.command(&arguments));
        let error = text(&result.stderr);
        assert_eq!(result.status.code(), Some(2), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("radio") && error.contains(reason), "{error}");
    }
}
