//! The command line of `evenkeel`: arguments, terminal, files, exit status.

mod args;
mod client;
mod files;
mod listen;
mod live;
mod net;
mod output;
mod reach;
mod series;
mod server;
mod signals;
mod stream_args;
mod stream_client;
mod stream_output;
mod stream_server;
mod units;

use std::{
    ffi::OsString,
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, error::ErrorKind};
use tokio::signal::unix::SignalKind;

use args::{BulkSide, Cli, Command};
use stream_args::StreamSide;

/// Exit status when the transfer failed.
const FAILED: u8 = 1;

/// Exit status when the command line was wrong, as clap has it.
const USAGE: u8 = 2;

/// Exit status after a signal, without the signal's number, as shells have it.
const SIGNALLED: u8 = 128;

/// Runs the command line; what went wrong is one line on standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match try_run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// Says what is wrong, on standard error; where that has no room there is nobody to tell.
fn complain(failure: &Failure) {
    say(&format!("evenkeel: {failure}"));
}

/// A line on standard error. A full disk behind it must not end what works (`eprintln!` panics).
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Why the program ends with another status than 0; prints as `cause; remedy`.
#[derive(Debug)]
struct Failure {
    status: u8,
    cause: String,
    remedy: String,
}

impl Failure {
    fn usage(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::new(USAGE, cause, remedy)
    }

    fn failed(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::new(FAILED, cause, remedy)
    }

    /// A client's, which a signal ended.
    fn interrupted(
        signal: SignalKind,
        cause: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> Self {
        // Signals have numbers up to 64 (signal(7)).
        Self::new(SIGNALLED + signal.as_raw_value() as u8, cause, remedy)
    }

    fn is_interruption(&self) -> bool {
        self.status > SIGNALLED
    }

    fn new(status: u8, cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self {
            status,
            cause: one_line(&cause.to_string()),
            remedy: one_line(&remedy.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.remedy)
    }
}

fn try_run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            ) =>
        {
            // Help into a closed pipe is no failure.
            let _ = error.print();
            return Ok(());
        }
        Err(error) => return Err(usage_failure(&error, &arguments)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::failed(
                format!("cannot start worker threads: {error}"),
                "raise the limit on threads (ulimit -u)",
            )
        })?;
    let result = runtime.block_on(async {
        match cli.command {
            Command::Bulk { side } => match side {
                BulkSide::Server(args) => server::run(*args).await,
                BulkSide::Client(args) => client::run(*args).await,
            },
            Command::Stream { side } => match side {
                StreamSide::Server(args) => stream_server::run(*args).await,
                StreamSide::Client(args) => stream_client::run(*args).await,
            },
        }
    });
    // A thread that waits for standard input must not keep the program.
    runtime.shutdown_background();
    result
}

/// clap's first paragraph on one line, and where to read on.
fn usage_failure(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let text = error.to_string();
    let cause = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a subcommand is missing",
        _ => text.split("\n\n").next().unwrap_or(&text),
    };
    let cause = cause.trim_start_matches("error:");
    let named = |word: &str| arguments.iter().skip(1).take(2).any(|a| a == word);
    let command = ["server", "client"].into_iter().find(|side| named(side));
    let application = if named("stream") { "stream" } else { "bulk" };
    let command = command.map_or_else(
        || application.to_owned(),
        |side| format!("{application} {side}"),
    );
    Failure::usage(cause, format!("see `evenkeel {command} --help`"))
}

/// Runs of white space become one space: texts of others must not break the line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_failure_is_one_line_whatever_it_is_made_of() {
        let failure = Failure::failed("a\nb\x1b[1m", "c\r\n\td");
        assert_eq!(failure.to_string(), "a b [1m; c d");
    }
}
