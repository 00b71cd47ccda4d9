//! Prints messages for people on standard error.

use std::io::{self, Write};

/// Prints an error. Unlike `eprintln!`, it does not panic if standard error is on a full disk.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "evenkeel-router: {message}");
}
