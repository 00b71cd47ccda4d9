//! Scenarios on real namespaces. Needs root, TUN, iproute2, and the workspace's programs.

mod endings;
mod exec;
mod runs;
use std::process::{Child, Command};

use crate::support::{eventually, text};

/// Starts `run SCENARIO --on netns --json` in a directory of its own.
fn start(path: &str, settings: &[&str]) -> (Child, tempfile::TempDir) {
    crate::support::start(path, "netns", settings)
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
    crate::support::processes_with(&format!("/run/evenkeel-testbed/{pid}-"))
}

fn assert_nothing_left(pid: u32) {
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
    eventually("the end of all processes", || processes_of(pid).is_empty());
}

/// On a dumbbell: router daemons, even on a kernel that has netem.
const ROUTERS: [&str; 2] = ["links.0.emulator=evenkeel", "access.emulator=evenkeel"];
