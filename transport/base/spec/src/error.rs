//! Says why a spec is refused.

/// Why a spec, or a list of specs, is refused. Displays as one line with the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

impl SpecError {
    /// Makes an error with this `message`: one line with the cause and the remedy.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
