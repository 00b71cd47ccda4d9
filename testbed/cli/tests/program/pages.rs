//! What runs leave in their directories, besides figures.

use std::fs;

use rustix::process::Signal;

use crate::support::{eventually, scenario, signal, spawn, testbed, text};

#[test]
fn a_page_shows_the_scenario_and_the_command_that_makes_it_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = [
        "--set",
        "duration_s=21",
        "--set",
        "description=A 'small' run",
    ];
    let mut command = testbed(&["run", &scenario("dumbbell.toml")]);
    let command = command.args(arguments).arg("--out").arg(directory.path());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = fs::read_to_string(directory.path().join("result.html")).expect("written");
    let command = format!(
        "<code>evenkeel-testbed run {} --set duration_s=21 --set 'description=A '\\''small'\\'' run' --seed 1</code>",
        scenario("dumbbell.toml")
    );
    assert!(page.contains(&command), "{command} in {page}");
    assert!(
        page.contains("A 'small' run") && page.contains("topology = "),
        "{page}"
    );
}

#[test]
fn an_interrupted_run_or_comparison_leaves_no_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("some/where");
    for verb in ["run", "compare"] {
        let mut command = testbed(&[verb, &scenario("dumbbell.toml")]);
        let command = command.args(["--set", "duration_s=90000", "--set", "flows.0.bytes=1GB"]);
        let command = command.args(["--set", "sampling.interval_ms=500"]);
        let mut child = spawn(command.arg("--out").arg(&out));
        // It has begun to simulate: 0.2 s of processor time, in hundredths.
        eventually("work", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
            let time = stat.split(' ').nth(13).and_then(|ticks| ticks.parse().ok());
            time.unwrap_or(0) >= 20
        });
        // A shell's background jobs ignore SIGINT, and so do the tests that one starts.
        signal(child.id(), Signal::TERM);
        let status = child.wait().expect("it ends");
        assert!(!status.success());
        let left = fs::read_dir(directory.path()).expect("it is there").count();
        assert_eq!(left, 0, "{verb}");
    }
}
