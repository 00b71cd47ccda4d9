//! Says why a configuration is refused: in a line for each mistake, with the place, the cause and
//! the remedy.

use std::fmt;

use evenkeel_spec::document::{Fault, Node};

use super::Place;
use super::file::WHOLE;
use crate::failure::Failure;

/// The failure for these errors of the document below `root`.
pub(super) fn failure(root: &Node, faults: Vec<Fault>, file: &str) -> Failure {
    let mistakes = faults.into_iter().map(|fault| {
        let place = Place {
            file: file.to_owned(),
            line: fault.origin.line(),
        };
        let message = OneLine(beginning_with(&root.path(&fault.origin), &fault.message));
        format!("{place}: {message}")
    });
    Failure::usage(mistakes.collect::<Vec<_>>().join("\n"))
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
