//! What a scenario's nodes and links are made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::NetnsError;
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
    fn build(&self, scenario: &Scenario, interrupted: &AtomicBool) -> Result<Plan, NetnsError>;

    /// Where the nodes find a program of ours, which belongs to the crate `package`.
    ///
    /// # Errors
    /// If it is missing.
    fn program(&self, name: &str, package: &'static str) -> Result<PathBuf, NetnsError>;

    /// Writes a file of the run; its path.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&self, name: &str, contents: &str) -> Result<PathBuf, NetnsError> {
        let path = self.directory().join(name);
        match fs::write(&path, contents) {
            Ok(()) => Ok(path),
            Err(source) => Err(NetnsError::Directory { path, source }),
        }
    }
}
