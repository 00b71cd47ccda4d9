//! Programs: those that run on hosts and end with the handle that holds them, and those that this
//! process runs to their end.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tracing::{debug, trace};

use super::super::clock::{pause, wall_clock};
use super::error::KernelError;
use super::network::Network;
use super::plan::Host;
use super::platform::Platform;
use crate::scenario::NodeIndex;

/// How long a program may take to start, to answer or to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs on a host; killed when dropped.
#[derive(Debug)]
pub(super) struct Running {
    platform: Arc<dyn Platform>,
    host: Host,
    number: u64,
    child: Child,
}

impl Running {
    /// Starts `program` on `host`; `set_up` completes its command.
    pub(super) fn start(
        platform: &Arc<dyn Platform>,
        host: &Host,
        program: &Path,
        set_up: impl FnOnce(&mut Command) -> Result<(), KernelError>,
    ) -> Result<Self, KernelError> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mut command = platform.command(host, number, program);
        set_up(&mut command)?;
        debug!(host = host.name, number, ?command, "starts");
        let child = command.spawn();
        let child =
            child.map_err(|error| KernelError::Start(program.display().to_string(), error))?;
        Ok(Self {
            platform: platform.clone(),
            host: host.clone(),
            number,
            child,
        })
    }

    /// Sends a signal, unless the program has ended.
    fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            debug!(host = self.host.name, number = self.number, ?signal);
            let Self { host, child, .. } = self;
            self.platform.signal(host, self.number, child, signal);
        }
    }

    /// How the program ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the program's end, for at most `patience`, and returns whether it has come.
    pub(super) fn ends_within(&mut self, patience: Duration) -> bool {
        let deadline = wall_clock() + patience;
        while self.ended().is_none() && wall_clock() < deadline {
            pause(Duration::from_millis(5));
        }
        self.ended().is_some()
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        // Where the child only stands for the program, it may outlive it.
        if !self.ends_within(Duration::from_secs(1)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let status = self.ended();
        debug!(
            host = self.host.name,
            number = self.number,
            ?status,
            "ended"
        );
    }
}

/// A program on a host whose output this process reads; killed when dropped.
#[derive(Debug)]
pub(super) struct Process {
    /// What it is, for messages.
    what: String,
    pub(super) running: Running,
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
    /// Starts `program` on a host; `what` it is, for messages.
    pub(super) fn start(
        network: &Network,
        what: String,
        node: NodeIndex,
        program: &Path,
        arguments: &[String],
    ) -> Result<Self, KernelError> {
        let host = &network.plan.hosts[node.0];
        let mut running = Running::start(&network.platform, host, program, |command| {
            command
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            Ok(())
        })?;
        let output = running.child.stdout.take().expect("it was piped");
        let mut errors = running.child.stderr.take().expect("it was piped");
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for text in BufReader::new(output).lines().map_while(Result::ok) {
                trace!(text, "line of output");
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
            let _ = errors.by_ref().take(MAX_ERROR).read_to_end(&mut text);
            // The rest is read too, or the program would block on it.
            let _ = io::copy(&mut errors, &mut io::sink());
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self {
            what,
            running,
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
            Err(RecvTimeoutError::Timeout) => Err(KernelError::Silent(self.what.clone())),
        }
    }

    /// The lines that have come since the last call.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> {
        self.lines.try_iter()
    }

    /// Standard input, once.
    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.running.child.stdin.take()
    }

    /// Stops the program, or lets it go on.
    pub(super) fn pause(&mut self, pauses: bool) {
        self.running.signal(match pauses {
            true => Signal::STOP,
            false => Signal::CONT,
        });
    }

    /// Interrupts the program, as Ctrl-C does, and waits for its end. A program that takes too
    /// long is killed.
    pub(super) fn interrupt(&mut self) {
        self.running.signal(Signal::INT);
        self.end();
    }

    /// Waits for the program's end. A program that takes too long is killed.
    pub(super) fn end(&mut self) {
        self.running.ends_within(PATIENCE);
        self.running.kill();
    }

    /// Fails if the program has ended.
    pub(super) fn check(&mut self) -> Result<(), KernelError> {
        match self.running.ended() {
            Some(_) => Err(self.failure()),
            None => Ok(()),
        }
    }

    /// Fails if the program ends within `patience`.
    pub(super) fn check_for(&mut self, patience: Duration) -> Result<(), KernelError> {
        self.running.ends_within(patience);
        self.check()
    }

    /// The error of a program that must not have ended.
    pub(super) fn failure(&mut self) -> KernelError {
        self.running.kill();
        KernelError::Died(self.what.clone(), self.reason())
    }

    /// The last line of standard error of a program that has ended.
    pub(super) fn reason(&mut self) -> String {
        let thread = self.errors.take();
        let text = thread.and_then(|thread| thread.join().ok());
        let text = text.unwrap_or_default();
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        last.unwrap_or("it said nothing").trim().into()
    }
}

/// Runs `command` with `input` to its end. Returns its standard output, or the first line of its
/// standard error if it failed.
///
/// # Errors
/// If it cannot be started.
pub(in crate::backend) fn output_of(
    command: &mut Command,
    input: &str,
) -> io::Result<Result<String, String>> {
    debug!(?command, "runs");
    trace!(input);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("it was piped");
    // A program that has given up closes the pipe; its own message says why.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8_lossy(&output.stdout).into_owned()));
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().find(|line| !line.trim().is_empty());
    let reason = first.unwrap_or("it said nothing").trim().to_owned();
    debug!(reason, "failed");
    Ok(Err(reason))
}
