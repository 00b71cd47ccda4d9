//! Shows what happens at a running router, each second.

mod view;

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::status::{self, Request};
use view::View;

/// How often to look.
const PERIOD: Duration = Duration::from_secs(1);

/// Columns where nothing tells how many there are. The last of 80 stays free: a terminal whose cursor
/// stands there erases it with the rest of the line.
const USUAL_COLUMNS: usize = 79;

/// Shows the figures of the router with this socket until SIGINT or SIGTERM.
///
/// # Errors
/// If the router ends, or standard output takes no more.
pub(crate) fn watch(socket: &Path) -> Result<(), Failure> {
    let system = |error| {
        Failure::new(format!(
            "cannot listen to signals: {error}; are there too many open files?"
        ))
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system)?;
    runtime.block_on(async {
        // First: from here on a signal does not leave the terminal as it is drawn.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
        let mut view = View::default();
        let mut status = status::ask(socket, Request::Status)?;
        let screen = Screen::open();
        loop {
            let (columns, rows) = screen.size();
            match screen.show(&view.draw(status, columns, rows, screen.is_coloured)) {
                // The reader has closed the pipe: it has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                shown => shown.map_err(Failure::output)?,
            }
            let signalled = async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            };
            if timeout(PERIOD, signalled).await.is_ok() {
                return Ok(());
            }
            status = status::ask(socket, Request::Status)?;
        }
    })
}

/// Standard output. A terminal shows each frame in the place of the one before, on a screen of its
/// own that goes when this is dropped. Any other output gets one frame after the other.
struct Screen {
    is_terminal: bool,
    is_coloured: bool,
}

impl Screen {
    fn open() -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_terminal = io::stdout().is_terminal() && !is_dumb;
        if is_terminal {
            // The other screen, without a cursor (xterm's control sequences 1049 and 25).
            let _ = put("\x1b[?1049h\x1b[?25l");
        }
        Self {
            is_terminal,
            is_coloured: is_terminal && !is_set("NO_COLOR"),
        }
    }

    /// Columns that a line may take, and rows if they are limited.
    fn size(&self) -> (usize, Option<usize>) {
        if !self.is_terminal {
            return (USUAL_COLUMNS, None);
        }
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((USUAL_COLUMNS, None), |size| {
            (usize::from(size.ws_col) - 1, Some(size.ws_row.into()))
        })
    }

    fn show(&self, lines: &[String]) -> io::Result<()> {
        if self.is_terminal {
            // From the top, each line over the earlier one and then the rest erased: nothing flickers.
            put(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
        } else {
            put(&format!("{}\n\n", lines.join("\n")))
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = put("\x1b[0m\x1b[?25h\x1b[?1049l");
        }
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
