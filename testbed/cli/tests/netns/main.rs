//! Scenarios on real namespaces. Needs root, TUN, iproute2, and the workspace's programs.

mod endings;
mod exec;
mod runs;
#[path = "../support/mod.rs"]
mod support;

use std::process::{Child, Command, Stdio};

use support::{eventually, text};

/// Starts `run SCENARIO --on netns --json` in a directory of its own.
fn start(name: &str, settings: &[&str]) -> (Child, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let child = support::run(name, "netns", directory.path(), settings)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    (child, directory)
}

fn result(child: Child) -> serde_json::Value {
    support::result(&child.wait_with_output().expect("it ends"))
}

fn on_sim(name: &str, settings: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = support::run(name, "sim", directory.path(), settings);
    support::result(&command.output().expect("the program starts"))
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
    support::processes_with(&format!("/run/evenkeel-testbed/{pid}-"))
}

fn assert_nothing_left(pid: u32) {
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
    eventually("the end of all processes", || processes_of(pid).is_empty());
}

/// On a dumbbell: router daemons, even on a kernel that has netem.
const ROUTERS: [&str; 2] = ["links.0.emulator=evenkeel", "access.emulator=evenkeel"];
