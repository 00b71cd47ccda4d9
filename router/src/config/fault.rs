//! Says why a configuration is refused: one line with the place, the cause and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use evenkeel_spec::document::Fault;

use super::Place;

/// A configuration that cannot be read or is wrong. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}; name a file with --config", path = OneLine(.path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{place}: {message}")]
    Invalid {
        /// The line.
        place: Place,
        /// The cause and the remedy.
        message: String,
    },
}

impl ConfigError {
    pub(super) fn from_fault(fault: Fault, file: &str) -> Self {
        Self::Invalid {
            place: Place {
                file: file.to_owned(),
                line: fault.origin.line(),
            },
            message: OneLine(fault.message).to_string(),
        }
    }
}

/// Displays without line breaks and other control characters, which keys and names may contain.
pub(super) struct OneLine<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.to_string().trim().chars() {
            match character {
                '\n' => f.write_str("; ")?,
                other if other.is_control() || ['\u{2028}', '\u{2029}'].contains(&other) => {
                    write!(f, "{}", other.escape_default())?;
                }
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}
