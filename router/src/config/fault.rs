//! Why a configuration is refused: one line with the place, the cause and the remedy.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use super::Place;

/// A configuration that cannot be read or makes no sense. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}; name a file with --config", path = OneLine(.path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{place}: {message}")]
    Invalid {
        /// Which one.
        place: Place,
        /// Cause and remedy.
        message: String,
    },
}

/// What is wrong, and where in the text: in bytes.
#[derive(Debug)]
pub(super) struct Fault {
    span: Range<usize>,
    message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
        }
    }

    pub(super) fn at(self, text: &str, file: &str) -> ConfigError {
        ConfigError::Invalid {
            place: Place {
                file: file.to_owned(),
                line: line_of(text, self.span.start),
            },
            message: OneLine(self.message).to_string(),
        }
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        Self::new(error.span().unwrap_or(0..0), error.message())
    }
}

/// The line, from 1, in which a byte of a text lies.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// Displays without line breaks and other control characters, which keys and names may hold.
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
