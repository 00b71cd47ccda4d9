//! A scenario on this machine's kernel: a network namespace for each host, a veth pair for each
//! link, router daemons over TUN, and the `evenkeel` program inside.

mod namespaces;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::kernel::{self, KernelError, PROGRAMS};
use crate::metrics::Observations;
use crate::scenario::Scenario;
use namespaces::Namespaces;

/// Whether this machine can run `scenario`; touches nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check(scenario: &Scenario) -> Result<(), KernelError> {
    check_scenario(scenario)?;
    namespaces::may_administer()?;
    if !Path::new("/dev/net/tun").exists() {
        return Err(KernelError::NoTun);
    }
    Ok(())
}

/// Whether any Linux could run `scenario` with the programs there are, whoever asks; touches
/// nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check_scenario(scenario: &Scenario) -> Result<(), KernelError> {
    kernel::check(scenario)?;
    program("evenkeel", "evenkeel-apps")?;
    program("evenkeel-router", "evenkeel-router").map(|_| ())
}

/// Runs `scenario` in real time. `progress` receives how far it has come, once per sampling
/// interval; `interrupted` ends the run. Whatever ends it, nothing is left behind.
///
/// # Errors
/// See [`KernelError`]. A flow whose connection fails is not an error of the run: its observation
/// says so.
pub fn run(
    scenario: &Scenario,
    interrupted: &AtomicBool,
    progress: impl FnMut(Duration),
) -> Result<Observations, KernelError> {
    check(scenario)?;
    kernel::run(Namespaces::new()?, scenario, interrupted, progress)
}

/// Runs `command` on a host of `scenario` (the first one if none is named), with all links and
/// routers but without the scenario's traffic. Returns its exit status.
///
/// The hosts' names are in /etc/hosts there. `EVENKEEL_NETNS_HOST` holds the name of each host's
/// namespace, for programs that need a partner on another host (`ip netns exec`).
///
/// # Errors
/// See [`KernelError`].
pub fn exec(
    scenario: &Scenario,
    host: Option<&str>,
    command: &[String],
    interrupted: &AtomicBool,
) -> Result<ExitStatus, KernelError> {
    check(scenario)?;
    kernel::exec(Namespaces::new()?, scenario, host, command, interrupted)
}

/// A program of ours, beside this one or where [`PROGRAMS`] says.
fn program(name: &str, package: &'static str) -> Result<PathBuf, KernelError> {
    let directory = match std::env::var_os(PROGRAMS) {
        Some(directory) => PathBuf::from(directory),
        None => {
            let own = std::env::current_exe().map_err(|_| KernelError::NoProc)?;
            own.parent().map(Path::to_owned).unwrap_or_default()
        }
    };
    let path = directory.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(KernelError::NoProgram { path, package })
    }
}
