//! The command line of the testbed, for any table of controllers.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use evenkeel::Controllers;

/// Carries out what the program's arguments ask for. Scenarios may name `controllers`: a controller
/// of your own enters `run`, `compare`, `reproduce` and `list` by its row there
/// (`testbed/cli/examples/own_controller.rs`).
pub fn main(controllers: &Controllers) -> ExitCode {
    let arguments = cli::Arguments::parse();
    match cli::run(&arguments, controllers) {
        Ok(code) => code,
        Err(error) => {
            evenkeel_log::complain("evenkeel-testbed", &error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}
