//! Where a scenario runs.

use std::time::Duration;

use clap::ValueEnum;
use evenkeel_testbed::backend::{Hosts, netns, sim, uml};
use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::scenario::Scenario;
use indicatif::ProgressBar;

use super::CliError;
use super::signals::interrupts;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Backend {
    /// Virtual time, in this process
    Sim,
    /// Network namespaces of this machine, with router daemons, in real time; needs root
    Netns,
    /// The same inside user-mode Linux: a kernel of its own, with netem; needs Debian packages, no root
    Uml,
    /// Containers and private networks of Docker, with router daemons, in real time; needs the image
    Docker,
}

/// The backends on which `exec` runs programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kernel {
    /// Network namespaces of this machine, with router daemons; needs root
    Netns,
    /// The same inside user-mode Linux, as root there; standard input is empty
    Uml,
    /// Containers of Docker, with what the image has; standard input is empty
    Docker,
}

impl Backend {
    /// Its name, in commands and results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Netns => "netns",
            Self::Uml => "uml",
            Self::Docker => "docker",
        }
    }

    /// Whether this process must start user-mode Linux, inside which the same command runs again.
    pub(super) fn starts_uml(self) -> bool {
        self == Self::Uml && !uml::is_inside()
    }

    /// Whether it can run `scenario`, and record what `options` ask for.
    pub(super) fn check(self, scenario: &Scenario, options: &sim::Options) -> Result<(), CliError> {
        match self {
            Self::Sim => sim::check(scenario, options)?,
            Self::Uml if self.starts_uml() => netns::check_scenario(scenario)?,
            Self::Netns | Self::Uml => Hosts::Namespaces.check(scenario)?,
            Self::Docker => Hosts::Containers.check(scenario)?,
        }
        Ok(())
    }

    /// Runs `scenario` to its end; moves `bar` along, then clears it.
    pub(super) fn run(
        self,
        scenario: &Scenario,
        options: &sim::Options,
        bar: &ProgressBar,
    ) -> Result<Observations, CliError> {
        let progress = |at: Duration| bar.set_position(at.as_millis() as u64);
        let observations = match self {
            Self::Sim => sim::run(scenario, options, progress)?,
            Self::Netns | Self::Uml => Hosts::Namespaces.run(scenario, interrupts()?, progress)?,
            Self::Docker => Hosts::Containers.run(scenario, interrupts()?, progress)?,
        };
        bar.finish_and_clear();
        Ok(observations)
    }
}
