//! Child processes inside nodes, which end with the handle that holds them.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::place::{Handle, Place};
use super::{KernelError, pause, wall_clock};

/// A program that runs in a node; killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    /// What it is, for messages.
    what: String,
    child: Child,
    handle: Handle,
    lines: Receiver<Line>,
    errors: Option<JoinHandle<String>>,
}

/// A line of standard output and when it was read.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) at: Instant,
    pub(super) text: String,
}

/// Longest standard error that is kept, in bytes: the reason of a failure is one line.
const MAX_ERROR: u64 = 64 * 1024;

impl Process {
    /// Starts `program` in `place`.
    pub(super) fn start(
        what: impl Into<String>,
        place: &Place,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self, KernelError> {
        let what = what.into();
        let (mut command, handle) = place.command(program);
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(KernelError::NoIp)?;
        let output = child.stdout.take().expect("it was piped");
        let errors = child.stderr.take().expect("it was piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(output).lines().map_while(Result::ok) {
                let line = Line {
                    at: wall_clock(),
                    text,
                };
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut errors = errors;
            let _ = errors.by_ref().take(MAX_ERROR).read_to_end(&mut text);
            // What comes beyond is read too, or the program would block on it.
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self {
            what,
            child,
            handle,
            lines,
            errors: Some(errors),
        })
    }

    /// The next line of standard output; `None` when there will be no more.
    ///
    /// # Errors
    /// If nothing comes for `patience`.
    pub(super) fn line(&self, patience: Duration) -> Result<Option<Line>, KernelError> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(KernelError::Silent {
                what: self.what.clone(),
            }),
        }
    }

    /// The lines that have come since the last call.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> {
        self.lines.try_iter()
    }

    /// Standard input, once.
    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Asks the program to stop, as Ctrl-C does.
    pub(super) fn interrupt(&self) {
        self.handle.interrupt(&self.child);
    }

    /// How the program ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the program's end, for at most `patience`; whether it has come.
    pub(super) fn ends_within(&mut self, patience: Duration) -> bool {
        let deadline = wall_clock() + patience;
        while self.ended().is_none() && wall_clock() < deadline {
            pause(Duration::from_millis(5));
        }
        self.ended().is_some()
    }

    /// Waits for the program's end, for at most `patience`; then kills it.
    pub(super) fn end(&mut self, patience: Duration) {
        self.ends_within(patience);
        self.kill();
    }

    /// The error of a program that must not have ended.
    pub(super) fn failure(&mut self) -> KernelError {
        self.kill();
        KernelError::Died {
            what: self.what.clone(),
            reason: self.reason(),
        }
    }

    /// The last line of standard error of a program that has ended.
    pub(super) fn reason(&mut self) -> String {
        let text = self
            .errors
            .take()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        last.unwrap_or("it said nothing").trim().into()
    }

    fn kill(&mut self) {
        if let Handle::Inner(inner) = &self.handle
            && self.child.try_wait().is_ok_and(|ended| ended.is_none())
        {
            inner.signal("KILL");
            self.ends_within(Duration::from_secs(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
