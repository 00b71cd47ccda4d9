//! Says why a configuration is refused: in a line for each mistake, with the place, the cause and
//! the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use evenkeel_spec::document::{Fault, Node};

use super::Place;
use super::file::WHOLE;

/// A configuration that cannot be read or is wrong. Displays as one line for each mistake.
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
    /// Something in the file is wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Mistake>),
}

/// What is wrong in a line. Displays as one line.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Mistake {
    /// The line.
    pub place: Place,
    /// The path to the value, the cause and the remedy.
    pub message: String,
}

impl ConfigError {
    /// The errors of the document below `root`.
    pub(super) fn from_faults(root: &Node, faults: Vec<Fault>, file: &str) -> Self {
        let mistakes = faults.into_iter().map(|fault| Mistake {
            place: Place {
                file: file.to_owned(),
                line: fault.origin.line(),
            },
            message: OneLine(beginning_with(&root.path(&fault.origin), &fault.message)).to_string(),
        });
        Self::Invalid(mistakes.collect())
    }
}

/// Puts the path to a value before a message, which may begin with the value's key. What is said
/// of the whole file is at its first line, but not about what is there.
fn beginning_with(path: &str, message: &str) -> String {
    let key = path.rsplit('.').next().unwrap_or_default();
    match message.strip_prefix(key) {
        _ if path.is_empty() || message.starts_with(WHOLE) => message.to_owned(),
        Some(rest) if rest.starts_with([' ', ':']) => format!("{path}{rest}"),
        _ => format!("{path}: {message}"),
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
