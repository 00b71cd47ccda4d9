//! Running the program: to its end, beside the test, or as a server.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The program with these arguments, and without the environment that changes it.
pub(crate) fn evenkeel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments);
    command.env_remove("RUST_LOG").env_remove("SSLKEYLOGFILE");
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    evenkeel(arguments).output().unwrap()
}

/// Runs a client of a server's to its end.
pub(crate) fn client(server: &Server, arguments: &[&str]) -> Output {
    server.client(arguments).output().unwrap()
}

/// Its standard output; it must have succeeded.
pub(crate) fn success(output: Output) -> String {
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

/// Its one line on standard error; it must have ended with this status and printed
/// nothing else.
pub(crate) fn failure(output: &Output, status: i32) -> String {
    let line = last_words(output, status);
    assert_eq!(output.stdout, b"");
    line
}

/// Its one line on standard error; it must have ended with this status, whatever it has printed.
pub(crate) fn last_words(output: &Output, status: i32) -> String {
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert_eq!(errors.lines().count(), 1, "not one line: {errors}");
    let line = errors.lines().next().unwrap();
    assert!(
        line.starts_with("evenkeel: ") && line.contains("; "),
        "{line}"
    );
    line.to_owned()
}

/// One document.
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// One document a line.
pub(crate) fn records(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

/// A process beside the test whose output is kept; killed when dropped.
pub(crate) struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Waits until it has printed another line: that line.
    pub(crate) fn line(&mut self) -> String {
        line(&mut self.stdout)
    }

    /// The same on standard error.
    pub(crate) fn complaint(&mut self) -> String {
        line(&mut self.stderr)
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let signal = match name {
            "CONT" => Signal::CONT,
            "INT" => Signal::INT,
            "KILL" => Signal::KILL,
            "STOP" => Signal::STOP,
            "TERM" => Signal::TERM,
            other => panic!("no test sends SIG{other}"),
        };
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it ends by itself: its status, and what of its output was not read yet.
    pub(crate) fn output(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.stdout.read_to_end(&mut stdout).unwrap();
        self.stderr.read_to_end(&mut stderr).unwrap();
        Output {
            status: self.child.wait().unwrap(),
            stdout,
            stderr,
        }
    }

    /// The same as a number and text.
    pub(crate) fn end(self) -> (Option<i32>, String, String) {
        let output = self.output();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server process that has said where it is; killed when dropped.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) pin: String,
    /// The client's command line as the server printed it, without the program.
    pub(crate) command: Vec<String>,
    /// The record in which it said so; null if it did in words.
    pub(crate) record: Value,
    process: Process,
}

impl Server {
    /// One for bulk transfers, on a free port of 127.0.0.1.
    pub(crate) fn bulk(arguments: &[&str]) -> Self {
        Self::bulk_on("127.0.0.1:0", arguments)
    }

    pub(crate) fn bulk_on(listen: &str, arguments: &[&str]) -> Self {
        let all = [&["bulk", "server", "--listen", listen], arguments].concat();
        Self::start(evenkeel(&all))
    }

    /// One for streams, on a free port of 127.0.0.1.
    pub(crate) fn stream(arguments: &[&str]) -> Self {
        Self::stream_on("127.0.0.1:0", arguments)
    }

    pub(crate) fn stream_on(listen: &str, arguments: &[&str]) -> Self {
        let all = [&["stream", "server", "--listen", listen], arguments].concat();
        Self::start(evenkeel(&all))
    }

    /// Any server's command, in whatever form it says where it is.
    pub(crate) fn start(command: Command) -> Self {
        let asked_for = |form: &str| command.get_args().any(|argument| argument == form);
        let (document, lines) = (asked_for("--json"), asked_for("--json-lines"));
        let mut process = Process::start(command);
        let (address, pin, command, record);
        if lines {
            record = json(&process.line());
            let field = |name: &str| record[name].as_str().unwrap().to_owned();
            address = field("address");
            pin = field("pin");
            command = field("client_command");
        } else {
            let mut said = |beginning: &str| {
                let line = match document {
                    true => line(&mut process.stderr),
                    false => line(&mut process.stdout),
                };
                let rest = line.strip_prefix(beginning);
                rest.unwrap_or_else(|| panic!("{line}")).to_owned()
            };
            let listening = said("listening on ");
            address = listening.split(", ").next().unwrap().to_owned();
            pin = said("certificate pin ");
            command = said("connect with: ");
            record = Value::Null;
        }
        let command = command.strip_prefix("evenkeel ").unwrap();
        Self {
            address,
            pin,
            command: command.split(' ').map(str::to_owned).collect(),
            record,
            process,
        }
    }

    /// A client that trusts it, with more arguments.
    pub(crate) fn client(&self, arguments: &[&str]) -> Command {
        let mut command = evenkeel(&[]);
        command.args(&self.command).args(arguments);
        command
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// As [`Process::line`].
    pub(crate) fn line(&mut self) -> String {
        self.process.line()
    }

    /// As [`Process::signal`].
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// As [`Process::output`].
    pub(crate) fn output(self) -> Output {
        self.process.output()
    }

    /// As [`Process::end`].
    pub(crate) fn end(self) -> (Option<i32>, String, String) {
        self.process.end()
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Waits in real time.
#[expect(
    clippy::disallowed_methods,
    reason = "the programs under test are processes of their own"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Bytes that look random and are the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
