//! Why something did not work: in a line for each cause, with its remedy.

use std::fmt;
use std::io;

/// Why a command, a router or a request did not do what it should. Displays as one line for each
/// cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    causes: Vec<String>,
    is_usage: bool,
}

impl Failure {
    /// The host, or another program, is in the way.
    pub(crate) fn new(cause: impl ToString) -> Self {
        Self {
            causes: cause.to_string().lines().map(str::to_owned).collect(),
            is_usage: false,
        }
    }

    /// Another command line or another configuration mends it.
    pub(crate) fn usage(cause: impl ToString) -> Self {
        Self {
            is_usage: true,
            ..Self::new(cause)
        }
    }

    /// The error of a router that cannot start, or not go on, without something that the system
    /// normally grants.
    pub(crate) fn system(what: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            Self::new(format!(
                "cannot start {what}: {source}; are there too many open files or processes?"
            ))
        }
    }

    /// The error of output that nobody takes.
    pub(crate) fn output(source: io::Error) -> Self {
        Self::new(format!(
            "cannot write to standard output: {source}; is the disk full?"
        ))
    }

    /// Returns an error if there are problems, of all of them.
    pub(crate) fn of(problems: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut all = Self {
            causes: Vec::new(),
            is_usage: false,
        };
        for problem in problems {
            all.is_usage |= problem.is_usage;
            all.causes.extend(problem.causes);
        }
        all.causes.dedup();
        if all.causes.is_empty() {
            Ok(())
        } else {
            Err(all)
        }
    }

    /// The same with `words` at the beginning of each line.
    pub(crate) fn beginning_with(mut self, words: &str) -> Self {
        for cause in &mut self.causes {
            cause.insert_str(0, words);
        }
        self
    }

    /// The lines.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// Whether another command line or another configuration mends it.
    pub fn is_usage(&self) -> bool {
        self.is_usage
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.causes.join("\n"))
    }
}

impl std::error::Error for Failure {}
