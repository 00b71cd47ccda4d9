//! Docker's own client, as a child process: what it reaches, the user's settings decide.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use super::DockerError;

/// The client. A terminal's Ctrl-C is for this program, which then removes what there is.
pub(super) fn docker() -> Command {
    let mut command = Command::new("docker");
    command.process_group(0);
    command
}

/// Runs the client with `arguments` and `input`; what it printed.
pub(super) fn ask<S: AsRef<str>>(arguments: &[S], input: &str) -> Result<String, DockerError> {
    let output = call(arguments, input).map_err(DockerError::NoClient)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().find(|line| !line.trim().is_empty());
    Err(DockerError::Refused {
        what: arguments.first().map_or("", AsRef::as_ref).into(),
        reason: first.unwrap_or("it said nothing").trim().into(),
    })
}

fn call<S: AsRef<str>>(arguments: &[S], input: &str) -> io::Result<Output> {
    let mut child = docker()
        .args(arguments.iter().map(AsRef::as_ref))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("it was piped");
    // A client that has given up closes the pipe; its own message says why.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output()
}
