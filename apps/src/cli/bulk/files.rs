//! Files as sources and sinks of transfers.

use std::fs::{File, Permissions};
use std::io::{self, Read, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use futures_util::future::BoxFuture;
use futures_util::stream::{StreamExt, try_unfold};
use rustix::fs::{OFlags, statvfs};
use tempfile::{NamedTempFile, PersistError};
use tokio::io::AsyncSeekExt;
use tokio::task::spawn_blocking;

use crate::bulk::{Attributes, Pieces, Readable, Source, Writable, Writer};
use crate::cli::failure::Failure;
use crate::cli::units::show_bytes;
use crate::lock::lock;

/// Bytes read from a file at once.
const PIECE: usize = 16 * 1024;

/// Bytes read from a pipe at once, at most: what Linux keeps in one (pipe(7)).
const PIPED_PIECE: usize = 64 * 1024;

/// What a mode says of reading, writing and running: neither setuid, setgid nor sticky.
const PERMISSIONS: u32 = 0o777;

/// What its owner may do with a file that is being received.
const OWNERS: u32 = 0o600;

/// A file to read. It is opened once: what a transfer reads is what was checked.
#[derive(Debug)]
pub(crate) struct FileSource {
    file: Arc<File>,
    length: u64,
    /// As of its opening.
    attributes: Attributes,
}

/// A file to write. Until it is complete it has a name of its own, `NAME.RANDOM.part`.
#[derive(Debug)]
pub(crate) struct FileSink {
    path: PathBuf,
    /// What the server says of its file, if it has one.
    attributes: Arc<Mutex<Option<Attributes>>>,
    /// Created for the first writer: when the server has accepted the transfer.
    part: Arc<Mutex<Option<NamedTempFile>>>,
}

/// Standard output, to which a download goes in its order.
#[derive(Debug)]
pub(crate) struct StandardOutput;

/// A directory whose files clients may read, and nothing outside it.
#[derive(Debug)]
pub(crate) struct Root(Arc<Dir>);

impl FileSource {
    /// # Errors
    /// If there is no readable regular file.
    pub(crate) async fn open(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        // A FIFO would otherwise wait for its writer.
        let without_waiting = OFlags::NONBLOCK.bits() as i32;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(without_waiting);
        blocking(move || Self::of(options.open(path)?)).await
    }

    fn of(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Self {
            file: Arc::new(file),
            length: metadata.len(),
            attributes: Attributes {
                mode: (metadata.permissions().mode() & PERMISSIONS) as u16,
                modified: metadata.modified()?,
            },
        })
    }
}

impl Readable for FileSource {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64) -> Pieces {
        let file = self.file.clone();
        let pieces = try_unfold(offset, move |offset| {
            let file = file.clone();
            blocking(move || {
                let mut piece = vec![0; PIECE];
                let length = file.read_at(&mut piece, offset)?;
                piece.truncate(length);
                Ok((length > 0).then(|| (Bytes::from(piece), offset + length as u64)))
            })
        });
        pieces.boxed()
    }

    fn attributes(&self) -> Option<Attributes> {
        Some(self.attributes)
    }

    fn unchanged(&self) -> BoxFuture<'_, io::Result<()>> {
        let (file, before) = (self.file.clone(), (self.length, self.attributes.modified));
        Box::pin(blocking(move || {
            let now = file.metadata()?;
            match (now.len(), now.modified()?) == before {
                true => Ok(()),
                false => Err(io::Error::other("the file changed while it was read")),
            }
        }))
    }
}

impl FileSink {
    /// Makes a sink for `path`, and no file yet.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let failure = Failure::unwritable(path, "--output");
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(failure(io::Error::other("it is not a regular file")));
        }
        directory(path).metadata().map_err(failure)?;
        Ok(Self {
            path: path.to_owned(),
            attributes: Arc::default(),
            part: Arc::default(),
        })
    }

    /// Gives the complete file its name.
    pub(crate) async fn keep(&self) -> Result<(), Failure> {
        let Some(part) = lock(&self.part).take() else {
            return Ok(());
        };
        let attributes = *lock(&self.attributes);
        let finished = finish(&part, &self.path, attributes);
        finished.map_err(Failure::unwritable(&self.path, "--output"))?;
        part.persist(&self.path).map(|_| ()).map_err(unkept)
    }

    /// Removes the incomplete file.
    pub(crate) async fn discard(&self) {
        lock(&self.part).take();
    }
}

impl Writable for FileSink {
    fn room(&self, bytes: u64) -> BoxFuture<'_, io::Result<()>> {
        let directory = directory(&self.path).to_owned();
        Box::pin(blocking(move || {
            let disk = statvfs(&directory)?;
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            if bytes <= free {
                return Ok(());
            }
            let (bytes, free) = (show_bytes(bytes), show_bytes(free));
            let cause = format!("{bytes} are to come, and {free} are free there");
            Err(io::Error::new(io::ErrorKind::StorageFull, cause))
        }))
    }

    fn describe(&self, attributes: Attributes) {
        *lock(&self.attributes) = Some(attributes);
    }

    fn writer(&self, offset: u64) -> BoxFuture<'_, io::Result<Writer>> {
        let (path, part) = (self.path.clone(), self.part.clone());
        let attributes = *lock(&self.attributes);
        Box::pin(async move {
            let open = move || {
                let mut part = lock(&part);
                let part = match &mut *part {
                    Some(part) => part,
                    none => none.insert(create(&path, attributes)?),
                };
                part.reopen()
            };
            let mut file = tokio::fs::File::from_std(blocking(open).await?);
            file.seek(SeekFrom::Start(offset)).await?;
            Ok(Box::new(file) as _)
        })
    }
}

impl Writable for StandardOutput {
    fn writer(&self, _: u64) -> BoxFuture<'_, io::Result<Writer>> {
        Box::pin(async {
            let output = io::stdout().as_fd().try_clone_to_owned()?;
            Ok(Box::new(tokio::fs::File::from_std(output.into())) as _)
        })
    }
}

/// Returns standard input as a source.
pub(crate) fn standard_input() -> io::Result<Source> {
    let input = Arc::new(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    let pieces = try_unfold(input, |input| {
        blocking(move || {
            let mut piece = vec![0; PIPED_PIECE];
            let length = (&*input).read(&mut piece)?;
            piece.truncate(length);
            Ok((length > 0).then(|| (Bytes::from(piece), input)))
        })
    });
    Ok(Source::piped(pieces.boxed()))
}

/// Returns whether a path stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

impl Root {
    pub(crate) async fn new(directory: &Path) -> io::Result<Self> {
        let directory = directory.to_owned();
        let dir = blocking(move || Dir::open_ambient_dir(directory, ambient_authority())).await?;
        Ok(Self(Arc::new(dir)))
    }

    /// Opens the file of this name below the directory. Refuses a name that is absolute, steps up,
    /// or leads outside through a symbolic link, whatever others change meanwhile. Trusts those who
    /// may write to the directory itself.
    ///
    /// # Errors
    /// Words for the client, without local paths.
    pub(crate) async fn open(&self, name: &str) -> Result<Source, String> {
        let steps_down = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !steps_down || name.contains('\0') {
            return Err("the file name must be relative and without `..`".into());
        }
        let (root, name) = (self.0.clone(), name.to_owned());
        let opened = blocking(move || {
            let mut options = OpenOptions::new();
            // A FIFO would otherwise wait for its writer.
            let without_waiting = OFlags::NONBLOCK.bits() as i32;
            options.read(true).custom_flags(without_waiting);
            FileSource::of(root.open_with(&name, &options)?.into_std())
        });
        match opened.await {
            Ok(source) => Ok(Source::Stored(Arc::new(source))),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err("it is not a regular file".into())
            }
            Err(_) => Err("there is no such file that can be read".into()),
        }
    }
}

/// Creates a file beside `path`. Its name is random and was not taken: no link is followed, and
/// nothing overwritten.
fn create(path: &Path, attributes: Option<Attributes>) -> io::Result<NamedTempFile> {
    // Meanwhile nobody may read more than they might of the file before, or of the server's.
    let mode = match (path.metadata(), attributes) {
        (Ok(before), _) => before.permissions().mode(),
        (Err(_), Some(attributes)) => attributes.mode.into(),
        (Err(_), None) => 0o666,
    };
    let mode = mode & PERMISSIONS | OWNERS;
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory(path))
}

/// Gives a complete file what it keeps: of a file that was there before the mode, else that of the
/// server's file less what the umask takes away; and the time of the server's.
fn finish(part: &NamedTempFile, path: &Path, attributes: Option<Attributes>) -> io::Result<()> {
    let file = part.as_file();
    if let Ok(before) = path.metadata() {
        file.set_permissions(before.permissions())?;
    } else if let Some(attributes) = attributes {
        // The umask took its part when the file was created.
        let created = file.metadata()?.permissions().mode();
        let mode = created & u32::from(attributes.mode) & PERMISSIONS;
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    attributes.map_or(Ok(()), |attributes| file.set_modified(attributes.modified))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

/// Keeps a complete file that cannot be renamed.
fn unkept(failed: PersistError) -> Failure {
    let PersistError { error, file } = failed;
    match file.keep() {
        Ok((_, part)) => Failure::failed(
            format!("cannot rename {}: {error}", part.display()),
            "rename it by hand: it is complete",
        ),
        Err(kept) => Failure::failed(
            format!("cannot keep the received file: {kept}"),
            "choose another --output",
        ),
    }
}

/// Does what may wait for a disk on a thread for that.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests;
