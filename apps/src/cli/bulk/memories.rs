//! What paths carried, in the file of `--remember`: a line for each peer.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use evenkeel::{Context, ResumeToken};
use quinn::Connection;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use tracing::debug;

use crate::cli::failure::{Failure, plain};
use crate::lock::lock;

/// The most bytes of the file, 64 KiB.
const MOST_BYTES: usize = 64 * 1024;

/// Lines that are kept, the newest: at most 74 bytes each.
const MOST_LINES: usize = 512;

/// The file, which stays open: a server that has given up its rights cannot open it again.
#[derive(Debug)]
pub(crate) struct Memories {
    path: PathBuf,
    file: Mutex<File>,
}

impl Memories {
    /// Opens the file, and makes it if there is none, for this user alone.
    ///
    /// # Errors
    /// If it is no regular file of memories, or others may write to it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let unwritable = Failure::unwritable(path, "--remember");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // Does not wait for the other end of a pipe.
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)
            .map_err(&unwritable)?;
        let metadata = file.metadata().map_err(&unwritable)?;
        if !metadata.is_file() {
            return Err(unwritable(io::Error::other("it is not a regular file")));
        }
        if writable_by_others(&metadata.permissions()) {
            let shown = path.display();
            return Err(Failure::failed(
                format!("other users may write to {shown}"),
                format!("run: chmod 600 {shown}"),
            ));
        }
        read(&file, path)?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// Returns what the path to `peer` carried. What has become unreadable meanwhile is not there.
    pub(crate) fn of(&self, peer: IpAddr) -> Option<ResumeToken> {
        let file = lock(&self.file);
        let memories = read(&file, &self.path).ok()?;
        drop(file);
        let memory = memories
            .into_iter()
            .find(|memory| memory.is_for(peer, now()))?;
        debug!(%memory, "the path is remembered");
        Some(memory)
    }

    /// Keeps what the path of `connection` carried, in place of what it carried before, if this side
    /// sent the data.
    pub(crate) fn keep(&self, connection: &Connection) -> Result<(), Failure> {
        let stats = connection.stats();
        if stats.udp_tx.bytes < stats.udp_rx.bytes {
            return Ok(());
        }
        let peer = connection.remote_address().ip();
        let context = Context::of(connection);
        match context.and_then(|context| context.resume_token(peer, now())) {
            Some(memory) => self.replace(memory),
            None => Ok(()),
        }
    }

    fn replace(&self, memory: ResumeToken) -> Result<(), Failure> {
        let file = lock(&self.file);
        let unwritable = Failure::unwritable(&self.path, "--remember");
        let locked = |how| fcntl_lock(&*file, how).map_err(io::Error::from);
        locked(FlockOperation::LockExclusive).map_err(&unwritable)?;
        // Another program may have added to it.
        let mut memories = read(&file, &self.path)?;
        memories.retain(|old| old.peer != memory.peer && old.is_for(old.peer, memory.at));
        let superfluous = (memories.len() + 1).saturating_sub(MOST_LINES);
        memories.drain(..superfluous);
        memories.push(memory);
        let lines: String = memories
            .iter()
            .map(|memory| format!("{memory}\n"))
            .collect();
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all_at(lines.as_bytes(), 0));
        written
            .and_then(|()| locked(FlockOperation::Unlock))
            .map_err(unwritable)
    }
}

/// Reads all lines.
fn read(file: &File, path: &Path) -> Result<Vec<ResumeToken>, Failure> {
    let mut bytes = vec![0; MOST_BYTES + 1];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let cause = format!("cannot read {}: {}", path.display(), plain(&error));
                return Err(Failure::failed(cause, "choose another --remember"));
            }
        }
    }
    if length > MOST_BYTES {
        return Err(Failure::failed(
            format!("{} is longer than 64 KiB", path.display()),
            "give --remember a file that evenkeel has written, or remove it",
        ));
    }
    let text = String::from_utf8_lossy(&bytes[..length]);
    let lines = text.lines().zip(1..);
    let memories = lines.map(|(line, number)| {
        line.parse().map_err(|_| {
            Failure::failed(
                format!(
                    "line {number} of {} is not what a path carried",
                    path.display()
                ),
                "write ADDRESS BYTES-PER-SECOND MICROSECONDS UNIX-SECONDS, or remove the file",
            )
        })
    });
    memories.collect()
}

fn writable_by_others(permissions: &Permissions) -> bool {
    permissions.mode() & 0o022 != 0
}

#[expect(
    clippy::disallowed_methods,
    reason = "memories of paths have an age, also when the program was not running"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    fn memory(host: u8, rate: u64) -> ResumeToken {
        let peer = Ipv4Addr::new(192, 0, 2, host).into();
        ResumeToken::new(peer, rate, Duration::from_millis(100), now())
    }

    #[test]
    fn a_file_of_this_user_alone_has_one_line_for_each_peer_and_none_that_is_old() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths");
        let memories = Memories::open(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for (host, rate) in [(1, 1_000_000), (2, 2_000_000), (1, 3_000_000)] {
            memories.replace(memory(host, rate)).unwrap();
        }
        let rate = |host: u8| {
            let memories = Memories::open(&path).unwrap();
            let found = memories.of(Ipv4Addr::new(192, 0, 2, host).into());
            found.map(|memory| memory.rate)
        };
        assert_eq!(
            [1, 2, 3].map(rate),
            [Some(3_000_000), Some(2_000_000), None]
        );
        // Of 1970.
        fs::write(&path, "192.0.2.3 1000000 100000 7\n").unwrap();
        assert_eq!(rate(3), None);
        memories.replace(memory(1, 5_000_000)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().count(), rate(1)), (1, Some(5_000_000)));
    }

    #[test]
    fn the_newest_512_lines_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("paths");
        let memories = Memories::open(&path).unwrap();
        let peer = |n: u16| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        let line = |n| ResumeToken::new(peer(n), 1_000_000, Duration::from_millis(100), now());
        let lines: String = (0..600).map(|n| format!("{}\n", line(n))).collect();
        fs::write(&path, lines).unwrap();
        memories.replace(line(600)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), MOST_LINES);
        assert!(memories.of(peer(88)).is_none() && memories.of(peer(89)).is_some());
    }
}
