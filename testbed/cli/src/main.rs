//! `evenkeel-testbed`: run a scenario and see what happened. See `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    evenkeel_testbed_cli::main(&evenkeel_testbed::controllers())
}
