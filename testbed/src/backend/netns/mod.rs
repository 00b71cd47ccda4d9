//! A scenario on this machine's kernel: namespaces, veth pairs, router daemons over TUN, and the
//! `evenkeel` program inside.

mod sandbox;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::kernel::{KernelError, PROGRAMS, check_plan, exec_on, run_on};
use crate::metrics::Observations;
use crate::scenario::Scenario;
pub(super) use sandbox::Sandbox;

pub(super) use sandbox::{SETTINGS, batch, inside, ip, is_alive, node_commands, own_identity};

/// Whether this machine and `scenario` can do it; touches nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check(scenario: &Scenario) -> Result<(), KernelError> {
    check_scenario(scenario)?;
    sandbox::may_administer()?;
    if !Path::new("/dev/net/tun").exists() {
        return Err(KernelError::NoTun);
    }
    Ok(())
}

/// Whether any Linux could run `scenario` with the programs there are, whoever asks; touches nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check_scenario(scenario: &Scenario) -> Result<(), KernelError> {
    check_plan(scenario)?;
    program("evenkeel", "evenkeel-apps")?;
    program("evenkeel-router", "evenkeel-router").map(|_| ())
}

/// Runs `scenario` in real time. `progress` is told how far it has come, once per sampling
/// interval; `interrupted` ends the run. Whatever ends it, nothing is left behind.
///
/// # Errors
/// See [`KernelError`]. A flow whose connection fails is not an error of the run: its
/// observation says so.
pub fn run(
    scenario: &Scenario,
    interrupted: &Arc<AtomicBool>,
    progress: impl FnMut(Duration),
) -> Result<Observations, KernelError> {
    check(scenario)?;
    run_on(&Sandbox::new()?, scenario, interrupted, progress)
}

/// Runs `command` on a host of the scenario (the first one if none is named), with all links and
/// routers but without the scenario's traffic; its exit status.
///
/// The hosts' names are in /etc/hosts there, and `EVENKEEL_NETNS_HOST` holds the name of each host's
/// namespace, for programs that need a partner on another host (`ip netns exec`).
///
/// # Errors
/// See [`KernelError`].
pub fn exec(
    scenario: &Scenario,
    host: Option<&str>,
    command: &[String],
    interrupted: &Arc<AtomicBool>,
) -> Result<ExitStatus, KernelError> {
    check(scenario)?;
    exec_on(
        &Sandbox::new()?,
        scenario,
        host,
        command,
        interrupted,
        |plan, _, command| {
            let namespaces = plan.namespaces.iter().map(|n| (variable(&n.host), &n.name));
            command.envs(namespaces);
            Ok(())
        },
    )
}

/// The environment variable that names a host's namespace: letters and digits of its name stay.
fn variable(host: &str) -> String {
    let name = host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    "EVENKEEL_NETNS_".chars().chain(name).collect()
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
