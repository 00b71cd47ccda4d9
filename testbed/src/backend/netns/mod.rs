//! A scenario on this machine's kernel: a network namespace for each host, a veth pair for each
//! link, router daemons over TUN, and the `evenkeel` program inside.

mod namespaces;

use std::path::{Path, PathBuf};

use super::kernel::{self, KernelError, PROGRAMS};
use crate::scenario::Scenario;

pub(super) use namespaces::Namespaces;

/// Whether this machine can run `scenario`; touches nothing.
pub(super) fn check(scenario: &Scenario) -> Result<(), KernelError> {
    check_scenario(scenario)?;
    namespaces::may_administer()?;
    if !Path::new("/dev/net/tun").exists() {
        return Err(KernelError::NoTun);
    }
    kernel::check_controllers(scenario)
}

/// Whether any Linux could run `scenario` with the programs there are, for any user; touches
/// nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check_scenario(scenario: &Scenario) -> Result<(), KernelError> {
    kernel::check(scenario)?;
    program("evenkeel")?;
    program("evenkeel-router").map(|_| ())
}

/// A program of ours, beside this one or where [`PROGRAMS`] says.
fn program(name: &str) -> Result<PathBuf, KernelError> {
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
        Err(KernelError::NoProgram(path))
    }
}
