//! Docker's own client, as a child process: the user's settings decide which engine it reaches.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::backend::kernel::{KernelError, output_of};

/// The client. A terminal's Ctrl-C is for this program, which then removes what there is.
pub(super) fn docker() -> Command {
    let mut command = Command::new("docker");
    command.process_group(0);
    command
}

/// Runs the client with `arguments` and `input`. Returns what it printed.
pub(super) fn ask<S: AsRef<str>>(arguments: &[S], input: &str) -> Result<String, KernelError> {
    let mut command = docker();
    command.args(arguments.iter().map(AsRef::as_ref));
    let output = output_of(&mut command, input).map_err(KernelError::NoDocker)?;
    let what = arguments.first().map_or("", AsRef::as_ref);
    output.map_err(|reason| KernelError::Docker(what.into(), reason))
}
