//! A scenario on Docker: a container for each host, a private network for each link, the
//! repository's image.
//!
//! Containers are namespaces of the engine's making. They have the same addresses, routes, routers
//! and programs as those of the `netns` backend.

mod client;
mod containers;

use super::kernel::{self, IMAGE, KernelError, needing_netem};
use crate::scenario::Scenario;

pub(super) use containers::Containers;

/// Whether this machine's Docker can run `scenario`; touches nothing.
pub(super) fn check(scenario: &Scenario) -> Result<(), KernelError> {
    kernel::check(scenario)?;
    if let Some(link) = needing_netem(scenario).next() {
        return Err(KernelError::NetemInContainers(link.name.clone()));
    }
    let refused = |error, why: fn(String) -> KernelError| match error {
        KernelError::Docker(_, reason) => why(reason),
        error => error,
    };
    client::ask(&["version", "--format", "{{.Server.Version}}"], "")
        .map_err(|error| refused(error, KernelError::NoEngine))?;
    client::ask(&["image", "inspect", "--format", "{{.Id}}", IMAGE], "")
        .map_err(|error| refused(error, |_| KernelError::NoImage))?;
    // Containers share this machine's kernel.
    kernel::check_controllers(scenario)
}
