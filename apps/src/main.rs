//! The program `evenkeel`: see [`evenkeel_apps::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    evenkeel_apps::cli::run(std::env::args_os(), &evenkeel::Controllers::shipped())
}
