//! Asks a router for its figures, over its status socket.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use super::{Answer, Request, Status};
use crate::config::SOCKET_DIRECTORY;
use crate::failure::Failure;

/// A router answers within a batch of packets; only one stopped in a debugger takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer in bytes: enough for a thousand links.
const MAX_ANSWER: u64 = 4 << 20;

/// Finds the socket of the router with this name, or of the only router if there is no name.
///
/// # Errors
/// If there is none, or more than one to choose from.
pub fn find_socket(name: Option<&str>) -> Result<PathBuf, Failure> {
    if let Some(name) = name {
        return Ok(Path::new(SOCKET_DIRECTORY).join(format!("{name}.sock")));
    }
    let entries = match fs::read_dir(SOCKET_DIRECTORY) {
        Err(source) if source.kind() == ErrorKind::PermissionDenied => {
            return Err(not_permitted(Path::new(SOCKET_DIRECTORY)));
        }
        entries => entries.into_iter().flatten(),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names
        .filter_map(|name| Some(name.strip_suffix(".sock")?.to_owned()))
        .collect();
    names.sort();
    match &names[..] {
        [] => Err(Failure::new(format!(
            "no router is running here (no socket in {SOCKET_DIRECTORY}); start one, or name its \
             socket with --socket"
        ))),
        [name] => Ok(Path::new(SOCKET_DIRECTORY).join(format!("{name}.sock"))),
        _ => Err(Failure::usage(format!(
            "several routers have sockets in {SOCKET_DIRECTORY}; choose one with --name: {}",
            names.join(", ")
        ))),
    }
}

/// Sends a request to a router.
///
/// # Errors
/// If it does not answer, or answers with an error.
pub fn ask(socket: &Path, request: Request) -> Result<Status, Failure> {
    match exchange(socket, &request) {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(Answer::Error {
            error,
            configuration,
        }) => {
            let lines = error
                .lines()
                .map(|line| format!("the router refuses: {line}"));
            let lines = lines.collect::<Vec<_>>().join("\n");
            Err(match configuration {
                true => Failure::usage(lines),
                false => Failure::new(lines),
            })
        }
        Err(source) if source.kind() == ErrorKind::PermissionDenied => Err(not_permitted(socket)),
        Err(source) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&source.kind()) => {
            Err(Failure::new(format!(
                "the router at {} has not answered for {} s: it is stopped, or stuck; let it go on \
                 (kill -CONT {}), or restart it",
                socket.display(),
                PATIENCE.as_secs(),
                server(socket).map_or("PID".to_owned(), |pid| pid.to_string())
            )))
        }
        Err(source) => Err(Failure::new(format!(
            "no answer from {}: {source}; is that router running?",
            socket.display()
        ))),
    }
}

/// The process that has made a socket.
fn server(socket: &Path) -> Option<i32> {
    let stream = UnixStream::connect(socket).ok()?;
    let pid = socket_peercred(&stream).ok()?.pid;
    Some(pid.as_raw_nonzero().get())
}

/// The error of a user who may not use a socket or its directory.
pub(super) fn not_permitted(path: &Path) -> Failure {
    Failure::new(format!(
        "this user may not use {}; run as root, or as the user that runs the router",
        path.display()
    ))
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
