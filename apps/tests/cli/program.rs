//! Running the program, and a server of it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

/// The program with these arguments, and without the environment that changes it.
pub(crate) fn evenkeel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(arguments).env_remove("SSLKEYLOGFILE");
    command
}

/// Runs a client to its end.
pub(crate) fn client(server: &Server, arguments: &[&str]) -> Output {
    let mut all = vec!["bulk", "client", &server.address, "--pin", &server.pin];
    all.extend(arguments);
    evenkeel(&all).output().unwrap()
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
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert_eq!(errors.lines().count(), 1, "not one line: {errors}");
    let line = errors.lines().next().unwrap();
    assert!(
        line.starts_with("evenkeel: ") && line.contains("; "),
        "{line}"
    );
    assert_eq!(output.stdout, b"");
    line.to_owned()
}

/// A server process; killed when dropped.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) pin: String,
    /// The client's command line as the server printed it, without the program.
    pub(crate) command: Vec<String>,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    /// A server on a free port of 127.0.0.1 that printed where it is.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", arguments)
    }

    pub(crate) fn start_on(listen: &str, arguments: &[&str]) -> Self {
        let mut command = evenkeel(&["bulk", "server", "--listen", listen]);
        command.args(arguments);
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let address = line();
        let address = address.strip_prefix("listening on ").unwrap();
        let address = address.split(", ").next().unwrap().to_owned();
        let pin = line();
        let pin = pin.strip_prefix("certificate pin ").unwrap().to_owned();
        let command = line();
        let command = command.strip_prefix("connect with: evenkeel ").unwrap();
        let command = command.split(' ').map(str::to_owned).collect();
        Self {
            address,
            pin,
            command,
            child,
            stdout,
        }
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits until it ends by itself; its status, further output and errors.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        let mut errors = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        std::io::Read::read_to_string(stderr, &mut errors).unwrap();
        (status.code(), rest, errors)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a process a signal by name.
pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-s", name, &id]).status();
    assert!(killed.unwrap().success());
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
