//! Serves the status socket: reads requests and writes answers, one per line.

use std::fs;
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::timeout;
use tracing::{debug, trace};

use super::{Answer, Request, RequestLine};

/// The longest request in bytes; the longest sensible one has thirty.
const MAX_REQUEST: u64 = 1024;

/// How many clients are served at a time; more wait.
const MAX_CLIENTS: usize = 16;

/// How long a client may take to read its answer before another client gets its place.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no status socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// Somebody answers at this path.
    #[error("a router is running on {}; stop it, or choose another name or socket", .0.display())]
    Taken(PathBuf),
    /// The path exists and is no socket.
    #[error("{} exists and is no socket; remove it, or choose another socket", .0.display())]
    NoSocket(PathBuf),
    /// The system does not allow it.
    #[error("cannot make the status socket {}: {source}; choose another place with socket = PATH", .path.display())]
    Bind {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A bound socket, removed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Binds the socket, for its owner only; replaces one that nobody serves any more. Call it
    /// within a tokio runtime.
    pub(crate) fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Bind {
            path: path.to_owned(),
            source,
        };
        if is_served(path)? {
            return Err(SocketError::Taken(path.to_owned()));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let server = Self {
            listener,
            path: path.to_owned(),
        };
        debug!(path = %path.display(), "status socket bound");
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(server)
    }

    /// Answers requests, for ever. Call it within a `LocalSet`.
    pub(crate) async fn serve(&self, answer: Rc<dyn Fn(Request) -> Answer>) -> io::Error {
        let clients = Arc::new(Semaphore::new(MAX_CLIENTS));
        loop {
            let place = Arc::clone(&clients).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            let client = match self.listener.accept().await {
                Ok((client, _)) => client,
                Err(error) => return error,
            };
            let answer = Rc::clone(&answer);
            spawn_local(async move {
                // A client that goes away has what it wanted.
                if let Err(error) = converse(client, &*answer).await {
                    debug!(%error, "status client lost");
                }
                drop(place);
            });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns true if somebody listens on a socket.
pub(crate) fn is_served(path: &Path) -> Result<bool, SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NoSocket(path.to_owned()));
        }
        _ => {}
    }
    match net::UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(SocketError::Bind {
            path: path.to_owned(),
            source,
        }),
    }
}

async fn converse(client: UnixStream, answer: &dyn Fn(Request) -> Answer) -> io::Result<()> {
    let (reader, mut writer) = client.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let length = (&mut reader)
            .take(MAX_REQUEST)
            .read_until(b'\n', &mut line)
            .await?;
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
                answer(request)
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
    let line = serde_json::from_slice::<RequestLine>(line);
    line.map(|line| line.request).map_err(|error| {
        format!(
            "no request: {error}; send {{\"request\": \"status\"}}, \"restart-measurement\" or \"sample\""
        )
    })
}

fn error(error: String) -> Answer {
    Answer::Error { error }
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
        for wrong in [
            "",
            "{}",
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

    proptest! {
        #[test]
        fn no_bytes_make_a_request_panic(bytes: Vec<u8>) {
            let _ = read_request(&bytes);
        }
    }
}
