//! Diagnostics of all programs of evenkeel: `-v`, `-q` and `RUST_LOG` decide which `tracing` events
//! go to standard error.

use std::env;
use std::io::{self, IsTerminal};

use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// The options of a program's command line; flatten them into it.
#[derive(Debug, Clone, Default, Args)]
pub struct LogArgs {
    /// Print diagnostics on standard error; -vv prints every detail. RUST_LOG selects others, such
    /// as RUST_LOG=quinn=debug
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Print neither diagnostics nor progress on standard error, only failures
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// `RUST_LOG` is malformed: a usage error.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG cannot be read: {0}; write for example RUST_LOG=quinn=debug")]
pub struct LogError(#[from] ParseError);

impl LogArgs {
    /// The same options for a program that this one starts.
    pub fn flag(&self) -> Option<&'static str> {
        match (self.quiet, self.verbose) {
            (true, _) => Some("-q"),
            (false, 0) => None,
            (false, 1) => Some("-v"),
            (false, _) => Some("-vv"),
        }
    }

    /// Prints the events that were asked for from now on: none without `-v` and `RUST_LOG`.
    ///
    /// # Errors
    /// If `RUST_LOG` is malformed.
    pub fn start(&self) -> Result<(), LogError> {
        let ours = match self.verbose {
            0 => "",
            1 => ",evenkeel=debug",
            _ => ",evenkeel=trace",
        };
        let events = env::var("RUST_LOG").unwrap_or_default() + ours;
        if !self.quiet && !events.is_empty() {
            let filter = EnvFilter::try_new(events.trim_start_matches(','))?;
            let output = tracing_subscriber::fmt().with_writer(io::stderr);
            // Fails only where a program that calls ours has a subscriber already.
            let _ = output
                .with_env_filter(filter)
                .with_ansi(io::stderr().is_terminal())
                .log_internal_errors(false)
                .try_init();
        }
        Ok(())
    }
}
