//! Tells an encoder the rate to use.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quinn::{Runtime, TokioRuntime};

use crate::cli::failure::{Failure, plain, say};
use crate::time::sleep_until;

/// How often it is looked whether the rate has changed: every other frame of 50 a second.
const LOOK: Duration = Duration::from_millis(40);

/// Digits of a rate: it fits into 32 bits.
const DIGITS: usize = 10;

/// Where a rate goes whenever it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RateTarget {
    /// A file that holds the present rate.
    File(PathBuf),
    /// A socket that gets a line for each rate.
    Socket(PathBuf),
    /// A command of the shell that reads lines.
    Command(String),
}

/// The same, open.
pub(crate) enum RateSink {
    File(File),
    Socket(UnixStream),
    Command(ChildStdin),
}

impl FromStr for RateTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let target = match text.split_once(':') {
            Some(("unix", path)) => Self::Socket(path.into()),
            Some(("exec", command)) => Self::Command(command.to_owned()),
            _ => Self::File(text.into()),
        };
        let is_empty = match &target {
            Self::File(path) | Self::Socket(path) => path.as_os_str().is_empty(),
            Self::Command(command) => command.trim().is_empty(),
        };
        match is_empty {
            true => Err("write FILE, unix:PATH or exec:COMMAND".into()),
            false => Ok(target),
        }
    }
}

impl RateTarget {
    /// Opens the file, connects, or starts the command.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn open(&self) -> Result<RateSink, Failure> {
        let failed = |what: String, remedy: &'static str| {
            move |error: io::Error| {
                Failure::failed(format!("--encoder-rate: {what}: {}", plain(&error)), remedy)
            }
        };
        match self {
            Self::File(path) => File::create(path).map(RateSink::File).map_err(failed(
                format!("cannot write {}", path.display()),
                "name a file that may be written",
            )),
            Self::Socket(path) => UnixStream::connect(path)
                .map(RateSink::Socket)
                .map_err(failed(
                    format!("cannot connect to {}", path.display()),
                    "start first who listens there",
                )),
            Self::Command(command) => Command::new("sh")
                .args(["-c", command])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .map(|child| RateSink::Command(child.stdin.expect("it was asked for")))
                .map_err(failed(
                    "cannot start the command".into(),
                    "install sh, or name a file",
                )),
        }
    }
}

impl RateSink {
    /// Tells the rate, in bits per second, whenever it changes; never ends. Nobody waits for a reader
    /// that is slow: it gets the newest rate.
    pub(crate) async fn follow(self, rate: impl Fn() -> Option<u64>) {
        let (newest, rates) = mpsc::channel::<u64>();
        thread::spawn(move || self.write_all(&rates));
        let mut told = None;
        loop {
            if let Some(now) = rate()
                && told.replace(now) != Some(now)
            {
                // Who has stopped reading was named.
                let _ = newest.send(now);
            }
            sleep_until(&TokioRuntime, TokioRuntime.now() + LOOK).await;
        }
    }

    fn write_all(mut self, rates: &mpsc::Receiver<u64>) {
        while let Ok(first) = rates.recv() {
            let newest = rates.try_iter().last().unwrap_or(first);
            if let Err(error) = self.write(newest) {
                say(&format!(
                    "evenkeel: the encoder's rate reaches nobody any more: {}; start it again",
                    plain(&error)
                ));
                return;
            }
        }
    }

    fn write(&mut self, rate_bps: u64) -> io::Result<()> {
        match self {
            // One write of one length: a reader sees no half of it.
            Self::File(file) => file.write_all_at(format!("{rate_bps:0DIGITS$}\n").as_bytes(), 0),
            Self::Socket(socket) => socket.write_all(format!("{rate_bps}\n").as_bytes()),
            Self::Command(stdin) => stdin.write_all(format!("{rate_bps}\n").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_target_is_a_file_a_socket_or_a_command() {
        let parse = |text: &str| text.parse::<RateTarget>();
        assert_eq!(parse("rate"), Ok(RateTarget::File("rate".into())));
        assert_eq!(parse("unix:/r"), Ok(RateTarget::Socket("/r".into())));
        assert_eq!(parse("exec:a b:c"), Ok(RateTarget::Command("a b:c".into())));
        assert!(parse("").is_err() && parse("exec: ").is_err() && parse("unix:").is_err());
    }

    #[test]
    fn each_target_has_the_newest_rate() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let tell = |target: RateTarget| {
            let mut sink = target.open().map_err(|failure| failure.cause).unwrap();
            sink.write(1_000_000).unwrap();
            sink.write(500_000).unwrap();
            sink
        };
        tell(RateTarget::File(path("file")));
        let text = std::fs::read_to_string(path("file")).unwrap();
        assert_eq!(text.trim().parse(), Ok(500_000));

        let listener = UnixListener::bind(path("socket")).unwrap();
        drop(tell(RateTarget::Socket(path("socket"))));
        let lines = BufReader::new(listener.accept().unwrap().0).lines();
        let lines: Vec<String> = lines.map(Result::unwrap).collect();
        assert_eq!(lines, ["1000000", "500000"]);

        let command = format!("exec cat > {}", path("command").display());
        drop(tell(RateTarget::Command(command)));
        // It ends when it has read all.
        let text = loop {
            let text = std::fs::read_to_string(path("command")).unwrap_or_default();
            if text.ends_with("500000\n") {
                break text;
            }
            thread::yield_now();
        };
        assert_eq!(text, "1000000\n500000\n");
    }

    #[test]
    fn nobody_who_listens_is_an_error_with_what_to_do() {
        let failure = RateTarget::Socket("/nonexistent".into())
            .open()
            .err()
            .unwrap();
        assert!(failure.cause.contains("/nonexistent"), "{}", failure.cause);
    }
}
