//! Where a scenario runs.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::scenario::Scenario;

use super::CliError;
use super::kernel::Kernel;
use super::signals::interrupts;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// Virtual time, in this process.
    Sim,
    /// Real time, on a kernel.
    Kernel(Kernel),
}

/// Those that this system has.
const ALL: [Backend; 1 + Kernel::ALL.len()] = {
    let mut all = [Backend::Sim; 1 + Kernel::ALL.len()];
    let mut kernels = Kernel::ALL;
    while let [others @ .., last] = kernels {
        all[kernels.len()] = Backend::Kernel(*last);
        kernels = others;
    }
    all
};

impl ValueEnum for Backend {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let summary = match self {
            Self::Sim => "Virtual time, in this process",
            Self::Kernel(kernel) => kernel.summary(),
        };
        Some(PossibleValue::new(self.name()).help(summary))
    }
}

impl Backend {
    /// Its name, in commands and results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Kernel(kernel) => kernel.name(),
        }
    }

    /// Whether it can run `scenario`, and record what `options` ask for.
    pub(super) fn check(self, scenario: &Scenario, options: &sim::Options) -> Result<(), CliError> {
        match self {
            Self::Sim => sim::check(scenario, options)?,
            Self::Kernel(kernel) => kernel.check(scenario)?,
        }
        Ok(())
    }

    /// Whether this very command could run inside user-mode Linux and see `files`, if it must.
    pub(super) fn check_inside(self, files: &[&Path]) -> Result<(), CliError> {
        match self {
            Self::Sim => Ok(()),
            Self::Kernel(kernel) => Ok(kernel.check_inside(files)?),
        }
    }

    /// Runs this very command inside user-mode Linux, if it must, for `limit` at most.
    pub(super) fn run_inside(
        self,
        files: &[&Path],
        limit: Option<Duration>,
    ) -> Result<Option<ExitCode>, CliError> {
        match self {
            Self::Sim => Ok(None),
            Self::Kernel(kernel) => kernel.run_inside(files, limit),
        }
    }

    /// Runs `scenario` to its end; tells `progress` how far its time has come.
    pub(super) fn run(
        self,
        scenario: &Scenario,
        options: &sim::Options,
        progress: impl FnMut(Duration),
    ) -> Result<Observations, CliError> {
        Ok(match self {
            Self::Sim => sim::run(scenario, options, progress)?,
            Self::Kernel(kernel) => kernel.run(scenario, interrupts()?, progress)?,
        })
    }
}
