//! Diagnostics on standard error: `-v`, `-q` and `RUST_LOG`.

use std::io::{self, IsTerminal};

use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;

use super::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Print diagnostics on standard error; -vv prints every detail. RUST_LOG selects others, such
    /// as RUST_LOG=quinn=debug
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Print neither diagnostics nor a live view on standard error, only failures
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl LogArgs {
    /// Collects the events that were asked for; without `-v` and `RUST_LOG` there are none.
    ///
    /// # Errors
    /// If `RUST_LOG` is malformed.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        let ours = match self.verbose {
            0 => "",
            1 => "evenkeel=debug",
            _ => "evenkeel=trace",
        };
        let asked = std::env::var("RUST_LOG").unwrap_or_default();
        let directives = [asked.as_str(), ours].join(",");
        if self.quiet || directives == "," {
            return Ok(());
        }
        let filter = EnvFilter::try_new(directives.trim_matches(',')).map_err(|error| {
            Failure::usage(
                format!("RUST_LOG cannot be read: {error}"),
                "write for example RUST_LOG=quinn=debug",
            )
        })?;
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .log_internal_errors(false);
        // Only a program that calls us twice has a subscriber already: it stays.
        let _ = subscriber.try_init();
        Ok(())
    }
}
