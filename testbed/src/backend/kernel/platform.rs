//! What makes the hosts of a run and starts programs on them.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;

use super::error::KernelError;
use super::plan::{Host, Plan};
use crate::scenario::Scenario;

/// Makes the hosts and links of one run. Dropping it removes them and everything in them.
pub(in crate::backend) trait Platform: Debug + Send + Sync {
    /// The directory of the run's files. Hosts see it at the same path.
    fn directory(&self) -> &Path;

    /// Creates the hosts and every link that needs no router.
    ///
    /// # Errors
    /// If something is refused, or `interrupted` is set.
    fn create(&self, scenario: &Scenario, interrupted: &AtomicBool) -> Result<Plan, KernelError>;

    /// The path at which hosts find a program of this workspace.
    ///
    /// # Errors
    /// If it is missing.
    fn program(&self, name: &str) -> Result<PathBuf, KernelError>;

    /// A command that runs `program` on a host. `number` identifies the process in
    /// [`signal`](Self::signal).
    fn command(&self, host: &Host, number: u64, program: &Path) -> Command;

    /// Sends a signal to the process `number` on a host. `child` runs its command.
    fn signal(&self, host: &Host, number: u64, child: &Child, signal: Signal);

    /// Prepares a host and the command of a user's program on it, before the command starts.
    ///
    /// # Errors
    /// If the host refuses.
    fn prepare(&self, plan: &Plan, host: &Host, command: &mut Command) -> Result<(), KernelError>;

    /// Writes a file into the run's directory and returns its path.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&self, name: &str, contents: &str) -> Result<PathBuf, KernelError> {
        let path = self.directory().join(name);
        match fs::write(&path, contents) {
            Ok(()) => Ok(path),
            Err(error) => Err(KernelError::Directory(path, error)),
        }
    }
}
