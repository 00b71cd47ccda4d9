//! Serves the status socket: reads requests and writes answers, one per line.

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::umask;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;
use tracing::{debug, trace};

use super::client::not_permitted;
use super::{Answer, Request};
use crate::clients;
use crate::failure::Failure;

/// The longest request in bytes; only a path can be that long.
const MAX_REQUEST: u64 = 1024;

/// How long a client may be silent.
const IDLE: Duration = Duration::from_secs(30);

/// How long a client may take to read its answer before another client gets its place.
const PATIENCE: Duration = Duration::from_secs(5);

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    file: SocketFile,
}

/// A socket in the file system, removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Server {
    /// Binds the socket, for its owner only; replaces one that nobody serves any more. Call it
    /// within a tokio runtime.
    pub(crate) fn bind(path: &Path) -> Result<Self, Failure> {
        let (listener, file) = bind(path, "socket")?;
        let listener = UnixListener::from_std(listener);
        let server = Self {
            listener: listener.map_err(failed(path.display(), "socket"))?,
            file,
        };
        debug!(path = %path.display(), "status socket bound");
        Ok(server)
    }

    /// Answers requests, for ever. Call it within a `LocalSet`.
    pub(crate) async fn serve<F>(&self, answer: impl Fn(Request) -> F + 'static)
    where
        F: Future<Output = Answer> + 'static,
    {
        let answer = Rc::new(answer);
        let next = async || Ok(self.listener.accept().await?.0);
        clients::serve(&self.file.0.display().to_string(), next, |client, seat| {
            let answer = Rc::clone(&answer);
            async move {
                let answer = |request| {
                    seat.heard();
                    answer(request)
                };
                // A client that goes away has what it wanted.
                if let Err(error) = converse(client, answer, IDLE).await {
                    debug!(%error, "status client lost");
                }
            }
        })
        .await;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Binds a socket in the file system, for its owner only; replaces one that nobody serves any more.
/// `key` of the configuration names it.
pub(crate) fn bind(path: &Path, key: &str) -> Result<(net::UnixListener, SocketFile), Failure> {
    let failed = failed(path.display(), key);
    check_vacant(path, key)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(&failed)?;
    }
    // From its first moment on nobody else may connect. Only this thread makes files now.
    let before = umask(Mode::from_raw_mode(0o177));
    let listener = net::UnixListener::bind(path);
    umask(before);
    let listener = listener.map_err(&failed)?;
    listener.set_nonblocking(true).map_err(&failed)?;
    Ok((listener, SocketFile(path.to_owned())))
}

/// Returns what is in the way of a socket that `key` of the configuration names.
pub(crate) fn check_vacant(path: &Path, key: &str) -> Result<(), Failure> {
    match is_served(path, key)? {
        true => Err(Failure::new(format!(
            "a router is running on {}; stop it, or choose another name or {key}",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// The error of a socket that the system does not give, which the configuration names by `key`.
pub(crate) fn failed(at: impl Display, key: &str) -> impl Fn(io::Error) -> Failure {
    move |source| {
        Failure::new(format!(
            "cannot make the socket {at}: {source}; choose another with {key} = ..."
        ))
    }
}

/// Returns true if somebody listens on a socket, which `key` of the configuration names.
pub(crate) fn is_served(path: &Path, key: &str) -> Result<bool, Failure> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(Failure::new(format!(
                "{} exists and is no socket; remove it, or choose another {key}",
                path.display()
            )));
        }
        _ => {}
    }
    match net::UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) if source.kind() == ErrorKind::PermissionDenied => Err(not_permitted(path)),
        Err(source) => Err(failed(path.display(), key)(source)),
    }
}

/// Answers a client until it leaves, or is silent for so long.
async fn converse<F: Future<Output = Answer>>(
    client: UnixStream,
    answer: impl Fn(Request) -> F,
    idle: Duration,
) -> io::Result<()> {
    let (reader, mut writer) = client.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let mut request = (&mut reader).take(MAX_REQUEST);
        let length = timeout(idle, request.read_until(b'\n', &mut line)).await??;
        if length == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let answer = match read_request(&line) {
            _ if !is_whole && length as u64 == MAX_REQUEST => error(format!(
                "the request is longer than {MAX_REQUEST} bytes; send one line of JSON"
            )),
            Ok(request) => {
                trace!(?request, "status");
                answer(request).await
            }
            Err(message) => {
                debug!(message, "status refused");
                error(message)
            }
        };
        let mut text = serde_json::to_vec(&answer).expect("answers hold nothing that JSON cannot");
        text.push(b'\n');
        timeout(PATIENCE, writer.write_all(&text)).await??;
        if !is_whole {
            return Ok(());
        }
    }
}

fn read_request(line: &[u8]) -> Result<Request, String> {
    serde_json::from_slice(line).map_err(|error| {
        format!(
            "no request: {error}; send {{\"request\": \"status\"}}, \"restart-measurement\", \"sample\", \"reload\" or \"check\""
        )
    })
}

fn error(error: String) -> Answer {
    Answer::Error {
        error,
        configuration: false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_known_by_name() {
        let request = |text: &str| read_request(text.as_bytes());
        assert_eq!(request("{\"request\": \"status\"}\n"), Ok(Request::Status));
        assert_eq!(request("{\"request\":\"sample\"}"), Ok(Request::Sample));
        assert_eq!(
            request("{\"request\":\"restart-measurement\"}"),
            Ok(Request::RestartMeasurement)
        );
        assert_eq!(
            request("{\"request\":\"check\",\"config\":\"/r.toml\"}"),
            Ok(Request::Check("/r.toml".into()))
        );
        for wrong in [
            "",
            "{}",
            "{\"request\":\"check\"}",
            "[]",
            "{\"request\":\"stop\"}",
            "{\"request\":\"status\",\"x\":1}",
            "status",
        ] {
            assert!(
                request(wrong).unwrap_err().contains("restart-measurement"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_client_that_is_silent_too_long_is_put_out() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            for said in [&b""[..], b"{\"request\":"] {
                let (mut client, ours) = UnixStream::pair().unwrap();
                client.write_all(said).await.unwrap();
                let answer = async |_| error("nobody asked".to_owned());
                let ended = converse(ours, answer, Duration::from_millis(20)).await;
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
                let mut heard = Vec::new();
                client.read_to_end(&mut heard).await.unwrap();
                assert_eq!(heard, b"");
            }
        });
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_request_panic(bytes: Vec<u8>) {
            let _ = read_request(&bytes);
        }
    }
}
