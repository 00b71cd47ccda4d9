//! Says why a spec is refused.

use std::fmt;

/// Why a spec, or a list of specs, is refused. Displays as one line with the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError(String);

impl SpecError {
    /// Makes an error with this `message`: one line with the cause and the remedy.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}
