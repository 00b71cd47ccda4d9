//! The program `evenkeel`: see `evenkeel_apps::cli`.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    evenkeel_apps::cli::run(std::env::args_os(), &evenkeel::Controllers::shipped())
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("evenkeel: this program confines itself as Linux does; run it there");
    ExitCode::FAILURE
}
