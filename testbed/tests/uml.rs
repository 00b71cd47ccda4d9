//! Scenarios inside user-mode Linux. Needs Debian's packages user-mode-linux and kmod, iproute2,
//! and the workspace's programs; no rights.

use std::fs;
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

/// Whether the tests of this file can run; says why if not.
fn can_run() -> bool {
    let installed = |name: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            .iter()
            .any(|directory| Path::new(directory).join(name).is_file())
    };
    let missing: Vec<_> = [
        ("linux.uml", "user-mode-linux"),
        ("modprobe", "kmod"),
        ("tc", "iproute2"),
    ]
    .into_iter()
    .filter(|(program, _)| !installed(program))
    .map(|(_, package)| package)
    .collect();
    if !missing.is_empty() {
        eprintln!("skipped: install {}", missing.join(" "));
    }
    missing.is_empty()
}

/// One kernel at a time: each takes a processor, and some tests measure.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed has left the machine as usable as it was.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-testbed"));
        command
            .args(arguments)
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
        let output = Command::new("pgrep")
            .args(["-af", self.path()])
            .output()
            .expect("procps");
        text(&output.stdout)
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

/// Waits for a condition, which a loaded machine may need time for.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..4000 {
        if condition() {
            return;
        }
        pause(Duration::from_millis(25));
    }
    panic!("{what} did not come true");
}

#[expect(clippy::disallowed_methods, reason = "waits for other processes")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Waits until the script that writes `up` into the directory has begun.
fn wait_for_start(inside: &Inside, child: &mut Child) {
    eventually("the command inside", || {
        inside.directory.path().join("up").exists() || !inside.files().iter().any(|f| f.is_dir())
    });
    assert!(child.try_wait().expect("it is our child").is_none());
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
    let script = "id -u; echo error >&2; modprobe -n sch_netem 2>/dev/null; \
                  tc qdisc add dev lo root netem delay 1ms && tc qdisc show dev lo | cut -d' ' -f2; \
                  ping -c 1 -q server > /dev/null && echo reached; exit 7";
    let result = output(inside.exec(script));
    assert_eq!(text(&result.stdout), "0\nnetem\nreached\n");
    assert_eq!(text(&result.stderr), "error\n");
    assert_eq!(result.status.code(), Some(7));
    inside.assert_nothing_left();
    assert!(
        !fs::exists("/etc/netns").expect("/etc can be read")
            || fs::read_dir("/etc/netns")
                .expect("it can be read")
                .next()
                .is_none(),
        "the namespaces' files stayed inside"
    );
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
fn an_interrupt_ends_the_kernel_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let _alone = alone();
    let inside = Inside::new();
    let script = format!("touch {}/up; sleep 600", inside.path());
    let mut child = inside.exec(&script).spawn().expect("the program starts");
    wait_for_start(&inside, &mut child);
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill").success());
    let result = child.wait_with_output().expect("it ends");
    assert_eq!(result.status.code(), Some(130), "{}", text(&result.stderr));
    fs::remove_file(inside.directory.path().join("up")).expect("it was made");
    inside.assert_nothing_left();
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
    wait_for_start(&inside, &mut child);
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    fs::remove_file(inside.directory.path().join("up")).expect("it was made");
    inside.assert_nothing_left();
}
