//! Writes qlog files and reports write errors. quinn only logs a warning: on a full disk the
//! program would leave half a trace and say nothing.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use crate::lock::lock;

/// The traces in a directory, one for each connection.
#[derive(Debug, Clone)]
pub struct Traces {
    directory: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Traces that are being written.
    open: Vec<Weak<Mutex<TraceFile>>>,
    /// The first write error.
    error: Option<TraceError>,
}

/// A trace that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {source}", path = .path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl Traces {
    /// Writes traces to `directory`, which must exist before the first trace is created.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            state: Arc::default(),
        }
    }

    /// Creates a trace in the file `name`. Its writer never fails; [`Traces::finish`] does.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(&self, name: &str) -> Result<Box<dyn Write + Send + Sync>, TraceError> {
        let path = self.directory.join(name);
        let file = File::create(&path).map_err(|source| TraceError {
            path: path.clone(),
            source,
        })?;
        let file = Arc::new(Mutex::new(TraceFile {
            path,
            file: Some(BufWriter::new(file)),
            is_finished: false,
        }));
        let mut state = lock(&self.state);
        state.open.retain(|file| file.strong_count() > 0);
        state.open.push(Arc::downgrade(&file));
        Ok(Box::new(TraceWriter {
            file,
            state: self.state.clone(),
        }))
    }

    /// Writes what remains in memory of all traces. Call it when the connections have ended.
    ///
    /// # Errors
    /// The first error of any trace, now or earlier. The file stays as it was at that moment.
    pub fn finish(&self) -> Result<(), TraceError> {
        let open = std::mem::take(&mut lock(&self.state).open);
        for file in open.iter().filter_map(Weak::upgrade) {
            let mut file = lock(&file);
            let flushed = file.attempt(BufWriter::flush);
            // Connections that linger may still write.
            file.is_finished = true;
            note(&self.state, flushed);
        }
        lock(&self.state).error.take().map_or(Ok(()), Err)
    }
}

#[derive(Debug)]
struct TraceFile {
    path: PathBuf,
    /// `None` after a write error.
    file: Option<BufWriter<File>>,
    /// No bytes stay in memory any more.
    is_finished: bool,
}

impl TraceFile {
    fn attempt(
        &mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), TraceError> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        write(file).map_err(|source| {
            // Do not try again to write what is in memory.
            if let Some(file) = self.file.take() {
                let _ = file.into_parts();
            }
            TraceError {
                path: self.path.clone(),
                source,
            }
        })
    }
}

/// The writer that quinn gets.
struct TraceWriter {
    file: Arc<Mutex<TraceFile>>,
    state: Arc<Mutex<State>>,
}

impl Write for TraceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = lock(&self.file);
        let mut written = file.attempt(|file| file.write_all(bytes));
        if file.is_finished && written.is_ok() {
            written = file.attempt(BufWriter::flush);
        }
        drop(file);
        note(&self.state, written);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = lock(&self.file).attempt(BufWriter::flush);
        note(&self.state, flushed);
        Ok(())
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        // A flush never fails.
        let _ = self.flush();
    }
}

fn note(state: &Mutex<State>, result: Result<(), TraceError>) {
    if let Err(error) = result {
        lock(state).error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_written_is_in_the_file_after_the_finish_even_of_a_trace_that_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let traces = Traces::new(directory.path());
        let mut trace = traces.create("one").unwrap();
        trace.write_all(b"early ").unwrap();
        assert!(traces.finish().is_ok());
        trace.write_all(b"late").unwrap();
        let text = fs::read_to_string(directory.path().join("one")).unwrap();
        assert_eq!(text, "early late");
    }

    #[test]
    fn a_full_disk_is_told_once_and_the_writer_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let traces = Traces::new(directory.path());
        symlink("/dev/full", directory.path().join("full")).unwrap();
        let mut full = traces.create("full").unwrap();
        let mut other = traces.create("other").unwrap();
        for _ in 0..10 {
            full.write_all(&[b'x'; 10_000]).unwrap();
        }
        other.write_all(b"whole").unwrap();
        drop(full);
        let error = traces.finish().unwrap_err().to_string();
        assert!(error.contains("/full: No space left on device"), "{error}");
        assert!(traces.finish().is_ok());
        drop(other);
        let text = fs::read_to_string(directory.path().join("other")).unwrap();
        assert_eq!(text, "whole");
    }

    #[test]
    fn what_fits_in_memory_is_told_too_when_it_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let traces = Traces::new(directory.path());
        symlink("/dev/full", directory.path().join("full")).unwrap();
        let mut trace = traces.create("full").unwrap();
        trace.write_all(b"little").unwrap();
        assert!(traces.finish().is_err());
        let mut dropped = traces.create("full").unwrap();
        dropped.write_all(b"little").unwrap();
        drop(dropped);
        assert!(traces.finish().is_err());
    }
}
