//! A scenario on Docker: a container for each host, a private network for each link, the
//! repository's image.
//!
//! Containers are namespaces of the engine's making. They have the same addresses, routes, routers
//! and programs as those of the `netns` backend.

mod client;
mod containers;

use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::kernel::{self, IMAGE, KernelError, needing_netem};
use crate::metrics::Observations;
use crate::scenario::Scenario;
use containers::Containers;

/// Whether this machine's Docker can run `scenario`; touches nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check(scenario: &Scenario) -> Result<(), KernelError> {
    kernel::check(scenario)?;
    if let Some(link) = needing_netem(scenario).next() {
        return Err(KernelError::NetemInContainers {
            link: link.name.clone(),
        });
    }
    let refused = |error, why: fn(String) -> KernelError| match error {
        KernelError::Docker { reason, .. } => why(reason),
        error => error,
    };
    client::ask(&["version", "--format", "{{.Server.Version}}"], "")
        .map_err(|error| refused(error, |reason| KernelError::NoEngine { reason }))?;
    client::ask(&["image", "inspect", "--format", "{{.Id}}", IMAGE], "")
        .map_err(|error| refused(error, |_| KernelError::NoImage))?;
    Ok(())
}

/// As [`netns::run`](super::netns::run), on containers.
///
/// # Errors
/// See [`KernelError`].
pub fn run(
    scenario: &Scenario,
    interrupted: &AtomicBool,
    progress: impl FnMut(Duration),
) -> Result<Observations, KernelError> {
    check(scenario)?;
    kernel::run(Containers::new()?, scenario, interrupted, progress)
}

/// As [`netns::exec`](super::netns::exec), in the container of a host. Standard input is empty, and
/// no other host can be reached by its namespace.
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
    kernel::exec(Containers::new()?, scenario, host, command, interrupted)
}
