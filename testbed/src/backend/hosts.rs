//! The entry to runs in real time: hosts of either kind, and what runs on them.

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::kernel::{self, KernelError, Platform};
use super::{docker, netns};
use crate::metrics::Observations;
use crate::scenario::Scenario;

/// What the hosts of a run in real time are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Network namespaces of this machine's kernel.
    Namespaces,
    /// Containers of Docker.
    Containers,
}

impl Hosts {
    /// Whether this machine can run `scenario`; touches nothing.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn check(self, scenario: &Scenario) -> Result<(), KernelError> {
        match self {
            Self::Namespaces => netns::check(scenario),
            Self::Containers => docker::check(scenario),
        }
    }

    /// Runs `scenario` in real time. `progress` receives how far it has come, once per sampling
    /// interval; `interrupted` ends the run. Whatever ends it, nothing is left behind.
    ///
    /// # Errors
    /// See [`KernelError`]. A flow whose connection fails is not an error of the run: its
    /// observation says so.
    pub fn run(
        self,
        scenario: &Scenario,
        interrupted: &AtomicBool,
        progress: impl FnMut(Duration),
    ) -> Result<Observations, KernelError> {
        self.check(scenario)?;
        kernel::run(self.platform()?, scenario, interrupted, progress)
    }

    /// Runs `command` on a host of `scenario` (the first one if none is named), with all links and
    /// routers but without the scenario's traffic. Returns its exit status.
    ///
    /// The hosts' names are in /etc/hosts there. On namespaces, `EVENKEEL_NETNS_HOST` holds the
    /// name of each host's namespace, for programs that need a partner on another host
    /// (`ip netns exec`). In containers standard input is empty.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn exec(
        self,
        scenario: &Scenario,
        host: Option<&str>,
        command: &[String],
        interrupted: &AtomicBool,
    ) -> Result<ExitStatus, KernelError> {
        self.check(scenario)?;
        kernel::exec(self.platform()?, scenario, host, command, interrupted)
    }

    fn platform(self) -> Result<Arc<dyn Platform>, KernelError> {
        Ok(match self {
            Self::Namespaces => Arc::new(netns::Namespaces::new()?),
            Self::Containers => Arc::new(docker::Containers::new()?),
        })
    }
}
