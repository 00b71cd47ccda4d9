//! Why a scenario cannot be run: one line with the place, the cause and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use evenkeel_spec::document::Fault;

/// A scenario that cannot be read or makes no sense. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read the scenario {path}: {1}", path = OneLine(&.0.display()))]
    Read(PathBuf, #[source] io::Error),
    /// A line of the file (`FILE:LINE`), or an override (`--set PATH=VALUE`), that is wrong: cause and
    /// remedy.
    #[error("{}: {}", OneLine(.0), OneLine(.1))]
    Invalid(String, String),
}

impl ScenarioError {
    /// Whether another command line or another scenario mends it.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Read(_, source) => source.kind() == io::ErrorKind::NotFound,
            Self::Invalid(..) => true,
        }
    }

    pub(super) fn from_fault(file_name: &str, fault: Fault) -> Self {
        Self::Invalid(fault.place(file_name), fault.message)
    }
}

/// Displays without line breaks and other control characters, which keys and file names may hold.
pub(super) struct OneLine<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for c in self.0.to_string().chars() {
            if c.is_control() || c == '\u{2028}' || c == '\u{2029}' {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_spec::document::Origin;

    use super::*;

    #[test]
    fn an_error_stays_on_one_line_whatever_the_names_hold() {
        let error = ScenarioError::from_fault(
            "a\nb.toml",
            Fault::new(&Origin::Line(3), "unknown key \"x\r\n\u{1b}[31m\""),
        );
        assert_eq!(
            error.to_string(),
            "a\\nb.toml:3: unknown key \"x\\r\\n\\u{1b}[31m\""
        );
    }
}
