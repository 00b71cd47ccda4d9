//! `evenkeel-testbed`: run a scenario and see what happened. See `--help`.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    match cli::run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            cli::say(&format!("evenkeel-testbed: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}
