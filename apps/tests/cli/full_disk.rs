//! What happens where there is no room for what the program writes.

use std::{
    net::UdpSocket,
    path::Path,
    process::{Command, Output},
};

use crate::program::{Process, Server, client, evenkeel, json, last_words, run, success};

/// A command as this script changes it; `exec "$@"` is the command.
fn through_a_shell(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", script, "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .env_remove("SSLKEYLOGFILE");
    shell
}

/// No file of the program may have more than some kilobytes; the signal that goes with it is ignored.
const LIMITED: &str = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";

/// A client whose trace, in this directory, cannot grow.
fn with_short_trace(directory: &Path, mut command: Command) -> Output {
    command.args(["--qlog", directory.to_str().unwrap()]);
    through_a_shell(LIMITED, &command).output().unwrap()
}

fn assert_told(output: &Output) {
    let line = last_words(output, 1);
    assert!(
        line.contains(".sqlog: file too large; choose another --qlog directory"),
        "{line}"
    );
}

#[test]
fn a_client_whose_qlog_cannot_grow_says_so_and_keeps_its_result() {
    let server = Server::bulk(&[]);
    let directory = tempfile::tempdir().unwrap();
    let client = server.client(&["--bytes", "1MB", "--json"]);
    let output = with_short_trace(directory.path(), client);
    assert_told(&output);
    let result = json(str::from_utf8(&output.stdout).unwrap());
    assert_eq!(result["verified"], true, "{result:#}");
}

#[test]
fn a_viewer_whose_qlog_cannot_grow_says_so_and_prints_what_it_saw() {
    let server = Server::stream(&["--fixed"]);
    let directory = tempfile::tempdir().unwrap();
    let viewer = server.client(&["--time", "1", "--json"]);
    let output = with_short_trace(directory.path(), viewer);
    assert_told(&output);
    let result = json(str::from_utf8(&output.stdout).unwrap());
    assert!(result.is_object(), "{result:#}");
}

#[test]
fn a_server_whose_qlogs_cannot_grow_serves_on_and_says_so_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let command = evenkeel(&["bulk", "server", "--listen", "127.0.0.1:0", "--qlog", path]);
    let server = Server::start(through_a_shell(LIMITED, &command));
    for _ in 0..2 {
        success(client(&server, &["--bytes", "1MB"]));
    }
    server.signal("INT");
    let line = last_words(&server.output(), 1);
    assert!(line.contains(".sqlog: file too large; "), "{line}");
}

#[test]
fn a_server_whose_messages_find_the_disk_full_serves_on() {
    let command = evenkeel(&["bulk", "server", "--listen", "127.0.0.1:0"]);
    let server = Server::start(through_a_shell("exec \"$@\" 2>/dev/full", &command));
    // It offers no files, and says so.
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("absent");
    let arguments = [
        "-R",
        "--file",
        "absent",
        "--output",
        output.to_str().unwrap(),
    ];
    let refused = client(&server, &arguments);
    assert_eq!(refused.status.code(), Some(1));
    success(client(&server, &["--bytes", "10kB"]));
    server.signal("INT");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_server_whose_records_find_the_disk_full_says_so_once_and_serves_on() {
    // Nobody can be told where it listens.
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let arguments = ["bulk", "server", "--listen", &address, "--json-lines"];
    let command = evenkeel(&[&arguments[..], &["--interval", "0.01"]].concat());
    let mut server = Process::start(through_a_shell("exec \"$@\" >/dev/full", &command));
    let line = server.complaint();
    assert_eq!(
        line,
        "evenkeel: cannot write to standard output: no space left on device; \
         make room there: the server goes on, and records get lost"
    );
    for _ in 0..2 {
        success(run(&[
            "bulk",
            "client",
            &address,
            "--insecure",
            "-q",
            "--bytes",
            "1MB",
        ]));
    }
    // It ends only when it is told to; that its last record is lost too is an error.
    server.signal("INT");
    let line = last_words(&server.output(), 1);
    assert!(line.contains("no space left on device"), "{line}");
}

#[test]
fn a_failure_that_nobody_can_be_told_of_still_has_its_exit_status() {
    let command = evenkeel(&["bulk", "client", "127.0.0.1:1", "--nonsense"]);
    let output = through_a_shell("exec \"$@\" 2>/dev/full", &command).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}
