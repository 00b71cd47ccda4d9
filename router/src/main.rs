//! The program `evenkeel-router`: see [`evenkeel_router::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    evenkeel_router::cli::run(std::env::args_os())
}
