//! What `kernel.rs` has, where no backend on a kernel can run: nothing of each.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Subcommand;
use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::scenario::{Controllers, Scenario};

use super::CliError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {}

impl Kernel {
    pub(super) const ALL: &[Self] = &[];

    pub(super) fn name(self) -> &'static str {
        match self {}
    }

    pub(super) fn summary(self) -> &'static str {
        match self {}
    }

    pub(super) fn check(self, _: &Scenario) -> Result<(), Failure> {
        match self {}
    }

    pub(super) fn check_inside(self, _: &[&Path]) -> Result<(), Failure> {
        match self {}
    }

    pub(super) fn run_inside(
        self,
        _: &[&Path],
        _: Option<Duration>,
    ) -> Result<Option<ExitCode>, CliError> {
        match self {}
    }

    pub(super) fn run(
        self,
        _: &Scenario,
        _: &AtomicBool,
        _: impl FnMut(Duration),
    ) -> Result<Observations, Failure> {
        match self {}
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Commands {}

impl Commands {
    pub(super) fn has_own_log(&self) -> bool {
        match *self {}
    }

    pub(super) fn run(&self, _: &Controllers) -> Result<ExitCode, CliError> {
        match *self {}
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {}

impl Failure {
    pub(super) fn exit_code(&self) -> u8 {
        match *self {}
    }
}
