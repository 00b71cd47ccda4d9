//! Reports failures: one line on standard error and an exit status.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::{fmt, io};

use tokio::signal::unix::SignalKind;

use crate::error::is_deceptive;

/// Exit status of a transfer or stream that failed.
const FAILED: u8 = 1;

/// Exit status of a usage error, the same as clap's.
const USAGE: u8 = 2;

/// Exit status after a signal, less the signal's number, as in shells.
const SIGNALLED: u8 = 128;

/// Why the program ends with a status other than 0; displays as `cause; remedy`.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) cause: String,
    remedy: String,
}

impl Failure {
    pub(crate) fn usage(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::new(USAGE, cause, remedy)
    }

    pub(crate) fn failed(cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::new(FAILED, cause, remedy)
    }

    /// Reports what the system does not do, and its error.
    pub(crate) fn of_system(
        what: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> impl Fn(io::Error) -> Self {
        move |error| Self::failed(format!("{what}: {}", plain(&error)), &remedy)
    }

    /// Reports that a file given to `option` cannot be read.
    pub(crate) fn unreadable(path: &Path, option: &str) -> impl Fn(io::Error) -> Self {
        let remedy = format!("check the path given to {option}");
        Self::of_system(format!("cannot read {}", path.display()), remedy)
    }

    /// Reports that a file given to `option` cannot be written.
    pub(crate) fn unwritable(path: &Path, option: &str) -> impl Fn(io::Error) -> Self {
        let remedy = format!("choose another {option}");
        Self::of_system(format!("cannot write {}", path.display()), remedy)
    }

    /// Reports that a signal interrupted a client.
    pub(crate) fn interrupted(
        signal: SignalKind,
        cause: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> Self {
        // Signal numbers go up to 64 (signal(7)).
        Self::new(SIGNALLED + signal.as_raw_value() as u8, cause, remedy)
    }

    /// Returns a failure of the same status with other words.
    pub(crate) fn saying(&self, cause: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::new(self.status, cause, remedy)
    }

    pub(crate) fn is_interruption(&self) -> bool {
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

pub(crate) fn complain(failure: &Failure) {
    evenkeel_log::complain("evenkeel", &failure.to_string());
}

/// Prints a line on standard error. If that is on a full disk, the program goes on (`eprintln!`
/// would panic). On a terminal it replaces the live line, which goes on below.
pub(crate) fn say(line: &str) {
    let mut stderr = io::stderr();
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    let _ = writeln!(stderr, "{clear}{line}");
}

/// Formats a system error in lower case and without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// Replaces each run of white space by one space: foreign text must not break the line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || is_deceptive(c))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_whatever_it_is_made_of() {
        let failure = Failure::failed("a\nb\x1b[1m", "c\r\n\td");
        assert_eq!(failure.to_string(), "a b [1m; c d");
        let failure = Failure::failed("a\u{202e}b", "c");
        assert_eq!(failure.to_string(), "a b; c");
    }
}
