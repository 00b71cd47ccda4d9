//! What a scenario's nodes and links are made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::KernelError;
use super::plan::Plan;
use crate::scenario::Scenario;

/// Nodes and links for one run; dropped, they and all in them are gone.
pub(in crate::backend) trait Site {
    /// For configurations and sockets; the nodes see it at the same path.
    fn directory(&self) -> &Path;

    /// Sets up the nodes and all links but the routers'.
    ///
    /// # Errors
    /// If something is refused, or `interrupted` is set.
    fn build(&self, scenario: &Scenario, interrupted: &AtomicBool) -> Result<Plan, KernelError>;

    /// Where the nodes find a program of ours, which belongs to the crate `package`.
    ///
    /// # Errors
    /// If it is missing.
    fn program(&self, name: &str, package: &'static str) -> Result<PathBuf, KernelError>;

    /// Writes a file of the run; its path.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&self, name: &str, contents: &str) -> Result<PathBuf, KernelError> {
        let path = self.directory().join(name);
        match fs::write(&path, contents) {
            Ok(()) => Ok(path),
            Err(source) => Err(KernelError::Directory { path, source }),
        }
    }
}
