//! The commands that run many runs: the papers' experiments and the league.

mod league;
mod reproduce;
mod runs;

use std::process::ExitCode;

use clap::Subcommand;
use evenkeel::Controllers;

use super::CliError;

/// Which of them.
#[derive(Debug, Subcommand)]
pub(super) enum Experiments {
    /// Run the papers' experiments; write a report of what came out
    Reproduce(reproduce::ReproduceArguments),
    /// Write the report on what `reproduce` has run, in one or several parts
    Report(reproduce::ReportArguments),
    /// Run each controller on each network of the league; write one page of scores and figures
    League(league::LeagueArguments),
}

impl Experiments {
    /// Carries it out. Scenarios may name `controllers`.
    pub(super) fn run(&self, controllers: &Controllers) -> Result<ExitCode, CliError> {
        match self {
            Self::Reproduce(arguments) => reproduce::reproduce(arguments, controllers),
            Self::Report(arguments) => reproduce::report(arguments),
            Self::League(arguments) => league::league(arguments, controllers),
        }
    }
}
