//! The command line of `evenkeel`: arguments, terminal, files, exit status.

mod address;
mod args;
mod bulk;
mod client;
mod compare;
mod confinement;
mod controllers;
mod cpu;
mod ecn;
mod failure;
mod live;
mod net;
mod output;
mod series;
mod server;
mod signals;
mod stream;
mod units;

use std::{ffi::OsString, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

use bulk::args::BulkSide;
use bulk::memories::Memories;
use compare::args::{BulkCompareArgs, Directions, StreamCompareArgs};
use evenkeel::Controllers;
use evenkeel_log::LogArgs;
use failure::{Failure, complain};
use futures_util::FutureExt;
use stream::args::StreamSide;

/// Smooth, low-delay transfers over QUIC, and what they measure.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version)]
struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send as fast as the controller allows, and report what both sides measured.
    Bulk {
        #[command(subcommand)]
        side: BulkSide,
    },
    /// Send live media as real senders do, and report what viewers would have seen.
    Stream {
        #[command(subcommand)]
        side: StreamSide,
    },
}

/// Describes the command line, for its manual.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line, whose `--controller` names one of `controllers`; reports a failure as one
/// line on standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>, controllers: &Controllers) -> ExitCode {
    match try_run(arguments, controllers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            ExitCode::from(failure.status)
        }
    }
}

fn try_run(
    arguments: impl IntoIterator<Item = OsString>,
    controllers: &Controllers,
) -> Result<(), Failure> {
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
    cli.log.start().map_err(|error| {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, ""));
        Failure::usage(cause, remedy)
    })?;
    let live = !cli.log.quiet;
    // What a server does not need it gives up before there are other threads.
    let running = match cli.command {
        Command::Bulk { side } => match side {
            BulkSide::Server(args) => {
                let memories = args.remember.as_deref().map(Memories::open).transpose()?;
                confinement::confine(&args.at, &args.output, args.root.as_deref())?;
                bulk::server::run(*args, memories, controllers).boxed_local()
            }
            BulkSide::Client(args) => bulk::client::run(*args, live, controllers).boxed_local(),
            BulkSide::Compare(args) => async move {
                let BulkCompareArgs { common, direction } = *args;
                compare::run::<bulk::compare::Transfer>(&common, direction, 0, live, controllers)
                    .await
            }
            .boxed_local(),
        },
        Command::Stream { mut side } => {
            side.settle()?;
            match side {
                StreamSide::Server(args) | StreamSide::Publish(args) => {
                    let rate = args
                        .encoder_rate
                        .as_ref()
                        .map(|rate| rate.open())
                        .transpose()?;
                    confinement::confine(&args.at, &args.output, args.input.as_deref())?;
                    stream::server::run(*args, rate, controllers).boxed_local()
                }
                StreamSide::Client(args) | StreamSide::Play(args) => {
                    stream::client::run(*args, live, controllers).boxed_local()
                }
                StreamSide::Compare(args) => async move {
                    let StreamCompareArgs { common, buffer } = *args;
                    let down = Directions::Down;
                    compare::run::<stream::compare::Watched>(
                        &common,
                        down,
                        buffer,
                        live,
                        controllers,
                    )
                    .await
                }
                .boxed_local(),
            }
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::of_system(
            "cannot start worker threads",
            "raise the limit on threads (ulimit -u)",
        ))?;
    let result = runtime.block_on(running);
    // Do not wait for a thread that reads standard input.
    runtime.shutdown_background();
    result
}

/// Puts clap's first paragraph and its suggestion on one line, with the help to consult.
fn usage_failure(error: &clap::Error, arguments: &[OsString]) -> Failure {
    let text = error.to_string();
    let cause = match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "a subcommand is missing"
        }
        _ => text.split("\n\n").next().unwrap_or(&text),
    };
    let mut cause = cause.trim_start_matches("error:").to_owned();
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        match error.get(kind) {
            Some(ContextValue::String(name)) => cause += &format!(" (did you mean {name}?)"),
            Some(ContextValue::Strings(names)) => {
                cause += &format!(" (did you mean {}?)", names.join(" or "));
            }
            _ => {}
        }
    }
    // Name the subcommands that the user gave.
    let mut command = Cli::command();
    let mut named = "evenkeel".to_owned();
    for argument in arguments.iter().skip(1).filter_map(|a| a.to_str()) {
        if let Some(subcommand) = command.find_subcommand(argument) {
            named += &format!(" {argument}");
            command = subcommand.clone();
        }
    }
    Failure::usage(cause, format!("see `{named} --help`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
