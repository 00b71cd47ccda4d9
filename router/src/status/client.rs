//! Asks a router for its figures, over its status socket.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Answer, Request, Status};
use crate::config::SOCKET_DIRECTORY;

/// A router answers within a batch of packets; only one stopped in a debugger takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer in bytes: enough for a thousand links.
const MAX_ANSWER: u64 = 4 << 20;

/// Why there is no status. Displays as one line for each cause.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// There is no socket in the default directory.
    #[error(
        "no router is running here (no socket in {SOCKET_DIRECTORY}); start one, or name its socket with --socket"
    )]
    None,
    /// There are several sockets.
    #[error("several routers have sockets in {SOCKET_DIRECTORY}; choose one with --name: {}", .0.join(", "))]
    Several(Vec<String>),
    /// Nobody answers, or the answer makes no sense.
    #[error("no answer from {}: {source}; is that router running?", .path.display())]
    Unanswered {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The router answered with an error.
    #[error("{}", .error.lines().map(|line| format!("the router refuses: {line}")).collect::<Vec<_>>().join("\n"))]
    Refused {
        /// What it says, in a line for each cause.
        error: String,
        /// Whether another configuration mends it.
        configuration: bool,
    },
}

impl StatusError {
    /// Returns true if another command line or another configuration mends it.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Several(_) => true,
            Self::Refused { configuration, .. } => *configuration,
            _ => false,
        }
    }
}

/// Finds the socket of the router with this name, or of the only router if there is no name.
///
/// # Errors
/// [`StatusError`] if there is none, or more than one to choose from.
pub fn find_socket(name: Option<&str>) -> Result<PathBuf, StatusError> {
    if let Some(name) = name {
        return Ok(Path::new(SOCKET_DIRECTORY).join(format!("{name}.sock")));
    }
    let names = fs::read_dir(SOCKET_DIRECTORY)
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<_> = names
        .filter_map(|entry| {
            Some(
                entry
                    .file_name()
                    .to_str()?
                    .strip_suffix(".sock")?
                    .to_owned(),
            )
        })
        .collect();
    names.sort();
    match &names[..] {
        [] => Err(StatusError::None),
        [name] => Ok(Path::new(SOCKET_DIRECTORY).join(format!("{name}.sock"))),
        _ => Err(StatusError::Several(names)),
    }
}

/// Sends a request to a router.
///
/// # Errors
/// [`StatusError`] if it does not answer, or answers with an error.
pub fn ask(socket: &Path, request: Request) -> Result<Status, StatusError> {
    match exchange(socket, &request) {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(Answer::Error {
            error,
            configuration,
        }) => Err(StatusError::Refused {
            error,
            configuration,
        }),
        Err(source) => Err(StatusError::Unanswered {
            path: socket.to_owned(),
            source,
        }),
    }
}

fn exchange(socket: &Path, request: &Request) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream)
        .take(MAX_ANSWER)
        .read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
