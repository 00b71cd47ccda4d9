//! Diagnostics on standard error: `-v`, `-q` and `RUST_LOG`.

use std::env;
use std::io;

use clap::{ArgAction, Args};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Print diagnostics on standard error; -vv prints each dropped packet too. RUST_LOG selects
    /// others, such as RUST_LOG=evenkeel_router::plumbing=debug
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Print failures alone on standard error, whatever RUST_LOG says
    #[arg(short, long, global = true)]
    quiet: bool,
}

impl LogArgs {
    /// Prints the events that were asked for: none without `-v` and `RUST_LOG`.
    ///
    /// # Errors
    /// If `RUST_LOG` is malformed.
    pub(crate) fn start(&self) -> Result<(), ParseError> {
        let ours = match self.verbose {
            0 => "",
            1 => ",evenkeel=debug",
            _ => ",evenkeel=trace",
        };
        let events = env::var("RUST_LOG").unwrap_or_default() + ours;
        if !self.quiet && !events.is_empty() {
            let filter = EnvFilter::try_new(events.trim_start_matches(','))?;
            let output = tracing_subscriber::fmt().with_writer(io::stderr);
            // Fails only where a program that calls the router has a subscriber already.
            let _ = output
                .with_env_filter(filter)
                .with_ansi(false)
                .log_internal_errors(false)
                .try_init();
        }
        Ok(())
    }
}
