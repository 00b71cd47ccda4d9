//! Diagnostics of all programs of evenkeel: `-v`, `-q` and `RUST_LOG` decide which `tracing` events
//! go to standard error, `--log-format` and systemd's journal in which form.
//!
//! Internal to evenkeel's programs: no promise, the API may change with every version.

mod form;
mod impatient;

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::{ArgAction, Args, ValueEnum};
use tracing::{Level, enabled, error, info, warn};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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
    /// The form of diagnostics and failures
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    log_format: LogFormat,
}

/// The form of what a program prints on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// A line of text
    #[default]
    Human,
    /// A line with one JSON object
    Json,
}

/// `RUST_LOG` is malformed: a usage error.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG cannot be read: {0}; write for example RUST_LOG=quinn=debug")]
pub struct LogError(#[from] ParseError);

/// The targets of failures and remarks, which only forms for programs print as events.
const FAILURE: &str = "failure";
const REMARK: &str = "remark";

impl LogArgs {
    /// The same options for a program that this one starts.
    pub fn flags(&self) -> Vec<&'static str> {
        let amount = match (self.quiet, self.verbose) {
            (true, _) => Some("-q"),
            (false, 0) => None,
            (false, 1) => Some("-v"),
            (false, _) => Some("-vv"),
        };
        let form = (self.log_format == LogFormat::Json).then_some("--log-format=json");
        amount.into_iter().chain(form).collect()
    }

    /// Prints the events that were asked for from now on: none without `-v` and `RUST_LOG`.
    ///
    /// # Errors
    /// If `RUST_LOG` is malformed.
    pub fn start(&self) -> Result<(), LogError> {
        self.start_with(None)
    }

    /// As [`LogArgs::start`] for a program that stays: it always prints evenkeel's events of level
    /// INFO and above, with `-q` of level WARN and above. On Unix it does not wait for their
    /// reader: where there is no room for a line, the line is lost, and a later one tells how many were.
    ///
    /// # Errors
    /// If `RUST_LOG` is malformed.
    pub fn start_service(&self) -> Result<(), LogError> {
        self.start_with(Some(match self.quiet {
            true => "evenkeel=warn",
            false => "evenkeel=info",
        }))
    }

    fn start_with(&self, usual: Option<&str>) -> Result<(), LogError> {
        let is_journal = form::goes_to_journal(env::var_os("JOURNAL_STREAM"));
        let is_for_programs = self.log_format == LogFormat::Json || is_journal;
        let failures = is_for_programs.then(|| format!("{FAILURE}=error,{REMARK}=info"));
        let always: Vec<_> = failures.as_deref().into_iter().chain(usual).collect();
        let always = always.join(",");
        let asked_for = match (self.quiet, self.verbose) {
            (true, _) => String::new(),
            (false, verbose) => {
                let ours = ["", "evenkeel=debug", "evenkeel=trace"][usize::from(verbose.min(2))];
                format!("{},{ours}", env::var("RUST_LOG").unwrap_or_default())
            }
        };
        let parts = always.split(',').chain(asked_for.split(','));
        let events: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        if events.is_empty() {
            return Ok(());
        }
        let (filter, error) = match events.join(",").parse::<Targets>() {
            Ok(filter) => (filter, None),
            Err(error) if always.is_empty() => return Err(error.into()),
            Err(error) => {
                let ours = always.parse().expect("our own directives are well-formed");
                (ours, Some(error))
            }
        };
        let printer = form::printer(self.log_format, is_journal, is_coloured(), usual.is_none());
        // Fails only where a program that calls ours has a subscriber already.
        let _ = tracing_subscriber::registry()
            .with(filter)
            .with(printer)
            .try_init();
        error.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Says on standard error, in one line, what has failed. It does not panic if that is on a full disk.
pub fn complain(program: &str, failure: &str) {
    if enabled!(target: FAILURE, Level::ERROR) {
        error!(target: FAILURE, "{failure}");
    } else {
        let _ = writeln!(io::stderr(), "{program}: {failure}");
    }
}

/// Says on standard error what is no failure.
pub fn remark(text: &str) {
    if enabled!(target: REMARK, Level::INFO) {
        info!(target: REMARK, "{text}");
    } else {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Warns on standard error of what is no failure.
pub fn caution(text: &str) {
    if enabled!(target: REMARK, Level::WARN) {
        warn!(target: REMARK, "{text}");
    } else {
        let _ = writeln!(io::stderr(), "warning: {text}");
    }
}

fn is_coloured() -> bool {
    // https://no-color.org: set and not empty.
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !is_unwanted
}
