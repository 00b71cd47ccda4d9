//! What a refusal says to do is what helps.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Host, Lab, Versions, link};

/// What a command says on standard error.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_file_that_is_no_text_or_too_long_is_told_to_be_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.toml");
    for (bytes, cause) in [
        (
            &b"name = \"r\"\n# caf\xe9\n"[..],
            "line 2 is not UTF-8; write it in UTF-8",
        ),
        (
            &vec![b'#'; 2_000_000],
            "it is longer than 1048576 bytes; is it the right file?",
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_evenkeel-router"));
        let line = said(check.args(["check", "--config"]).arg(&path));
        assert!(line.ends_with(&format!("{cause}\n")), "{line}");
    }
}

#[test]
fn whoever_asks_a_stopped_router_is_told_how_it_goes_on() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link(""));
    let pid = Pid::from_raw(router.pid() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let mut status = lab.evenkeel_router(&["status", "--socket"]);
    let line = said(status.arg(lab.socket()));
    kill_process(pid, Signal::CONT).unwrap();
    let remedy = format!("let it go on (kill -CONT {pid}), or restart it");
    assert!(line.contains(&remedy), "{line}");
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
    assert!(!lab.ip(Host::R, "rule").contains("ek-bn"));
}
