//! A scenario on Docker: a container per node, a private network per link, the repository's image.
//!
//! Containers are namespaces of the engine's making, and what happens in them is the `netns`
//! backend's: the same addresses, routes, routers and programs.

mod client;
mod container;
mod engine;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(super) use container::{Container, Inner};

use super::kernel::{KernelError, check_plan, exec_on, run_on};
use crate::metrics::Observations;
use crate::scenario::{Emulator, Scenario};
use engine::Engine;

/// The image, as the repository's Dockerfile makes it of this version.
const IMAGE: &str = concat!("evenkeel:", env!("CARGO_PKG_VERSION"));

/// Why containers could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// There is no client.
    #[error("cannot run docker: {0}; install Docker (Debian's docker.io), or use --on sim")]
    NoClient(io::Error),
    /// There is no engine, or this user may not use it.
    #[error("Docker's engine cannot be used: {reason}; start it (dockerd), or use --on sim")]
    NoEngine {
        /// What the client said.
        reason: String,
    },
    /// The image was not built.
    #[error(
        "the image {IMAGE} is missing; build it in the repository: docker build -t {IMAGE} . (and before that testbed/compose/base, where no registry can be reached)"
    )]
    NoImage,
    /// A link is to be netem's.
    #[error(
        "link {link}: containers queue with evenkeel-router; leave out emulator = \"netem\", or use --on netns"
    )]
    Netem {
        /// The link's name.
        link: String,
    },
    /// The engine refused something.
    #[error("docker {what} failed: {reason}")]
    Refused {
        /// The client's command.
        what: String,
        /// What it said, in one line.
        reason: String,
    },
}

impl DockerError {
    /// Whether the scenario is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Netem { .. })
    }
}

/// Whether this machine's Docker and `scenario` can do it; touches nothing.
///
/// # Errors
/// See [`KernelError`].
pub fn check(scenario: &Scenario) -> Result<(), KernelError> {
    check_plan(scenario)?;
    let mut links = scenario.links.iter();
    if let Some(link) = links.find(|link| link.emulator == Emulator::Netem) {
        let link = link.name.clone();
        return Err(DockerError::Netem { link }.into());
    }
    match client::ask(&["version", "--format", "{{.Server.Version}}"], "") {
        Ok(_) => {}
        Err(DockerError::Refused { reason, .. }) => {
            return Err(DockerError::NoEngine { reason }.into());
        }
        Err(error) => return Err(error.into()),
    }
    match client::ask(&["image", "inspect", "--format", "{{.Id}}", IMAGE], "") {
        Ok(_) => Ok(()),
        Err(DockerError::Refused { .. }) => Err(DockerError::NoImage.into()),
        Err(error) => Err(error.into()),
    }
}

/// As [`super::netns::run`], on containers.
///
/// # Errors
/// See [`KernelError`].
pub fn run(
    scenario: &Scenario,
    interrupted: &Arc<AtomicBool>,
    progress: impl FnMut(Duration),
) -> Result<Observations, KernelError> {
    check(scenario)?;
    run_on(&Engine::new()?, scenario, interrupted, progress)
}

/// As [`super::netns::exec`], in the container of a host: the hosts' names are in /etc/hosts there, but there is no
/// other host to be reached by its namespace; standard input is empty.
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
        &Engine::new()?,
        scenario,
        host,
        command,
        interrupted,
        |plan, node, command| {
            let container = &plan.namespaces[node].name;
            let write = ["exec", "-i", container, "sh", "-c", "cat >>/etc/hosts"];
            client::ask(&write, &plan.hosts())?;
            // The client is no part of the terminal's foreground and must not read from it.
            command.stdin(Stdio::null());
            Ok(())
        },
    )
}
