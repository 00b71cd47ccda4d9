//! Draws a line on a terminal that changes in place while something runs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use quinn::{Runtime, TokioRuntime};
use rustix::termios::tcgetwinsize;

use crate::time::sleep_until;

/// Columns that stay free: a terminal shows an interrupt as `^C` at the cursor, which would
/// otherwise push the line out of its row.
const FREE: usize = 3;

/// The fewest and the most columns of a bar; without room for it there is none.
const BAR: (usize, usize) = (12, 32);

/// Columns assumed if the terminal's width is unknown.
const USUAL_COLUMNS: usize = 80;

/// A line on standard error, redrawn in place and erased when dropped.
struct LiveLine {
    drawn: bool,
}

/// Shows `first`, and then what `view` returns in each `period`, until dropped: a text, and the
/// completed share of the work. Shows nothing if nobody wants it (`wanted`), or standard error is no
/// terminal that can go back in a line.
pub(crate) async fn follow<T>(
    wanted: bool,
    first: &str,
    period: Duration,
    mut view: impl FnMut() -> Option<(String, Option<f64>)>,
) -> T {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if !wanted || !std::io::stderr().is_terminal() || dumb {
        return std::future::pending().await;
    }
    let mut line = LiveLine { drawn: false };
    if !first.is_empty() {
        line.show(first, None);
    }
    loop {
        sleep_until(&TokioRuntime, TokioRuntime.now() + period).await;
        if let Some((text, done)) = view() {
            line.show(&text, done);
        }
    }
}

impl LiveLine {
    /// Shows `text`, followed by a bar for the completed share of the work, if there is room.
    fn show(&mut self, text: &str, done: Option<f64>) {
        let columns = tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col.into());
        let columns = if columns == 0 { USUAL_COLUMNS } else { columns };
        let line = fitted(text, done, columns.saturating_sub(FREE));
        // Write the text first, then clear the rest of the row: nothing flickers.
        put(&format!("\r{line}\x1b[K"));
        self.drawn = true;
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        if self.drawn {
            put("\r\x1b[K");
        }
    }
}

/// Writes to the terminal; if that is gone, the program goes on.
fn put(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// Returns as much of `text` as fits into `columns`, with a bar in the rest.
fn fitted(text: &str, done: Option<f64>, columns: usize) -> String {
    let mut line: String = text.chars().take(columns).collect();
    let left = columns - line.chars().count();
    if let Some(done) = done.filter(|_| left >= BAR.0) {
        // Leave room for two spaces and two brackets.
        let length = left.min(BAR.1) - 4;
        let full = (done.clamp(0.0, 1.0) * length as f64) as usize;
        line += &format!("  [{}{}]", "=".repeat(full), " ".repeat(length - full));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_needs_more_columns_than_there_are() {
        let text = "50 %  1.00 MB  8.00 Mb/s";
        assert_eq!(fitted(text, Some(0.5), 10), "50 %  1.00");
        assert_eq!(fitted(text, Some(0.5), 24), text);
        assert_eq!(fitted(text, Some(0.5), 36), format!("{text}  [====    ]"));
        assert_eq!(fitted(text, None, 200), text);
        for done in [-1.0, 0.0, 0.3, 1.0, 7.0, f64::NAN] {
            for columns in 0..120 {
                let line = fitted(text, Some(done), columns);
                assert!(line.chars().count() <= columns, "{columns}: {line:?}");
            }
        }
    }
}
