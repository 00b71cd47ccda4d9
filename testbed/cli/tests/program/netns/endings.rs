//! Ends before the time, and runs that do not begin: what is said, and that nothing is left.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::Signal;

use super::{ROUTERS, assert_nothing_left, namespaces_of, processes_of, start};
use crate::support::{
    alone, eventually, has_namespaces, has_namespaces_and, scenario, signal, spawn, testbed, text,
};

/// What ends a run, and its exit status then.
const ENDINGS: [(Signal, i32); 2] = [(Signal::INT, 130), (Signal::TERM, 143)];

#[test]
fn an_interrupt_or_a_termination_ends_a_run_and_leaves_nothing_behind() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    for (ending, status) in ENDINGS {
        let (child, _out) = start(&scenario("dumbbell.toml"), &ROUTERS);
        let pid = child.id();
        eventually("traffic", || processes_of(pid).lines().count() >= 4);
        signal(pid, ending);
        assert_interrupted(child, pid, status);
    }
}

/// `child` ends with this status, and nothing is left of the run of the process `pid`.
fn assert_interrupted(child: Child, pid: u32, status: i32) {
    let output = child.wait_with_output().expect("it ends");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert!(error.contains("interrupted"), "{error}");
    assert_nothing_left(pid);
}

#[test]
fn an_interrupt_or_a_termination_of_exec_ends_the_program_and_the_network() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    for (ending, status) in ENDINGS {
        // What it leaves in the background ends, too.
        let script = "sleep 1000 & sleep 1000";
        let lossy = scenario("lossy.toml");
        let child = spawn(&mut testbed(&["exec", &lossy, "--", "sh", "-c", script]));
        let pid = child.id();
        let programs = || {
            let namespaces = namespaces_of(pid);
            let inside = |name: &String| {
                let pids = Command::new("ip").args(["netns", "pids", name]).output();
                text(&pids.expect("iproute2").stdout).lines().count()
            };
            namespaces.iter().map(inside).max()
        };
        eventually("the programs", || programs() >= Some(3));
        signal(pid, ending);
        assert_interrupted(child, pid, status);
    }
}

#[test]
fn a_termination_of_a_comparison_ends_the_run_under_way_and_all_that_would_follow() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let dumbbell = scenario("dumbbell.toml");
    let controllers = ["--controllers", "vegas,reno"];
    let mut compare = testbed(&["compare", &dumbbell, "--on", "netns", "--out", out]);
    let child = spawn(compare.args(controllers));
    let pid = child.id();
    eventually("traffic", || processes_of(pid).lines().count() >= 4);
    signal(pid, Signal::TERM);
    assert_interrupted(child, pid, 143);
    assert!(!directory.path().join("reno").exists());
}

#[test]
fn a_termination_of_a_run_on_several_backends_ends_the_one_under_way() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = crate::support::run(
        &scenario("dumbbell.toml"),
        "netns,sim",
        directory.path(),
        &ROUTERS,
    );
    let child = spawn(&mut command);
    let parent = child.id().to_string();
    let run = || {
        let children = format!("/proc/{parent}/task/{parent}/children");
        fs::read_to_string(children).ok()?.trim().parse().ok()
    };
    eventually("traffic", || {
        run().is_some_and(|pid| processes_of(pid).lines().count() >= 4)
    });
    let run = run().expect("it runs");
    signal(child.id(), Signal::TERM);
    assert_interrupted(child, run, 143);
    assert!(!directory.path().join("sim").exists());
}

#[test]
fn an_interrupt_or_a_termination_of_the_papers_runs_takes_the_network_down_first() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    for (ending, status) in ENDINGS {
        let directory = tempfile::tempdir().expect("a directory");
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/papers");
        let arguments = [papers.as_path(), Path::new("--out"), directory.path()];
        let mut reproduce = testbed(&["reproduce", "acp/two-links", "--on", "netns", "--papers"]);
        let child = spawn(reproduce.args(arguments));
        let pid = child.id();
        eventually("three routers", || processes_of(pid).lines().count() >= 3);
        signal(pid, ending);
        assert_interrupted(child, pid, status);
    }
}

#[test]
fn a_router_that_dies_ends_the_run_with_its_name_and_leaves_nothing_behind() {
    if !has_namespaces() {
        return;
    }
    let _alone = alone();
    let (child, _out) = start(&scenario("dumbbell.toml"), &ROUTERS);
    let pid = child.id();
    eventually("routers", || processes_of(pid).lines().count() >= 4);
    let processes = processes_of(pid);
    let router = processes.split_whitespace().next().expect("a router");
    signal(router.parse().expect("a number"), Signal::KILL);
    let output = child.wait_with_output().expect("it ends");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the router of"), "{error}");
    assert_nothing_left(pid);
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next_one() {
    if !has_namespaces() {
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
    if !has_namespaces_and(&[("setpriv", "util-linux")]) {
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
