//! Files as sources and sinks of transfers.

use std::io::{self, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncSeekExt;

use crate::bulk::{Readable, Reader, Source, Writable, Writer};
use crate::cli::failure::Failure;

/// A file to read.
#[derive(Debug)]
pub(crate) struct FileSource {
    path: PathBuf,
    length: u64,
}

/// A file to write. It is called `NAME.part` until it is complete.
#[derive(Debug)]
pub(crate) struct FileSink {
    path: PathBuf,
    part: PathBuf,
}

/// A directory whose files clients may read, and nothing outside it.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl FileSource {
    /// # Errors
    /// If there is no readable regular file.
    pub(crate) async fn open(path: &Path) -> io::Result<Self> {
        // Opens it: a missing permission should show before a transfer begins.
        let metadata = File::open(path).await?.metadata().await?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            length: metadata.len(),
        })
    }
}

impl Readable for FileSource {
    fn length(&self) -> u64 {
        self.length
    }

    fn reader(&self, offset: u64) -> BoxFuture<'_, io::Result<Reader>> {
        Box::pin(async move {
            let mut file = File::open(&self.path).await?;
            file.seek(SeekFrom::Start(offset)).await?;
            Ok(Box::new(file) as _)
        })
    }
}

impl FileSink {
    pub(crate) async fn create(path: &Path) -> Result<Self, Failure> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let failure = |error| Failure::unwritable(path, &error, "--output");
        if fs::metadata(path).await.is_ok_and(|m| !m.is_file()) {
            return Err(failure(io::Error::other("it is not a regular file")));
        }
        File::create(&part).await.map_err(failure)?;
        Ok(Self {
            path: path.to_owned(),
            part,
        })
    }

    /// Gives the complete file its name.
    pub(crate) async fn keep(&self) -> Result<(), Failure> {
        fs::rename(&self.part, &self.path).await.map_err(|error| {
            Failure::failed(
                format!("cannot rename {}: {error}", self.part.display()),
                "rename it by hand: it is complete",
            )
        })
    }

    /// Removes the incomplete file.
    pub(crate) async fn discard(&self) {
        // It may be gone already; either way there is nothing to do.
        let _ = fs::remove_file(&self.part).await;
    }
}

impl Writable for FileSink {
    fn writer(&self, offset: u64) -> BoxFuture<'_, io::Result<Writer>> {
        Box::pin(async move {
            let mut file = OpenOptions::new().write(true).open(&self.part).await?;
            file.seek(SeekFrom::Start(offset)).await?;
            Ok(Box::new(file) as _)
        })
    }
}

impl Root {
    pub(crate) async fn new(directory: &Path) -> io::Result<Self> {
        let root = fs::canonicalize(directory).await?;
        if !fs::metadata(&root).await?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(root))
    }

    /// Opens the file of this name below the directory. Refuses a name that is absolute, steps up,
    /// or leads outside through a symbolic link. Trusts those who may write to the directory
    /// itself.
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
        let missing = |_| "there is no such file".to_owned();
        let path = fs::canonicalize(self.0.join(name)).await.map_err(missing)?;
        if !path.starts_with(&self.0) {
            return Err("there is no such file".into());
        }
        // Check before opening: opening a FIFO would wait for its writer.
        if !fs::metadata(&path).await.map_err(missing)?.is_file() {
            return Err("it is not a regular file".into());
        }
        let source = FileSource::open(&path)
            .await
            .map_err(|_| "the file cannot be read".to_owned())?;
        Ok(Source::Stored(Arc::new(source)))
    }
}

#[cfg(test)]
mod tests;
