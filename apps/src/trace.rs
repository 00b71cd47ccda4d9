//! Writes qlog files and reports write errors. quinn only logs a warning: on a full disk the
//! program would leave half a trace and say nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use serde::Serialize;
use serde_json::{Value, json};

use crate::lock::lock;

/// The most of a trace that waits in memory, 64 KiB: a handshake takes a few. The trace of a peer
/// that makes it longer before there is a file has none.
const MAX_WAITING: usize = 64 * 1024;

/// The traces in a directory, one for each connection.
#[derive(Debug, Clone)]
pub struct Traces {
    directory: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Traces that are being written.
    open: Vec<Weak<Mutex<Trace>>>,
    /// How many files of each name have been tried.
    tried: BTreeMap<String, u64>,
    /// The first write error.
    error: Option<TraceError>,
}

/// Whose view of a connection a trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// The client's.
    Client,
    /// The server's.
    Server,
}

/// A trace that has no file yet, and never gets one if this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Mutex<Trace>>);

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
    pub fn create(
        &self,
        name: &str,
        vantage: Vantage,
    ) -> Result<Box<dyn Write + Send + Sync>, TraceError> {
        let path = self.directory.join(name);
        match File::create(&path) {
            Ok(file) => Ok(Box::new(self.writer(Some((path, file)), vantage))),
            Err(source) => Err(TraceError { path, source }),
        }
    }

    /// Creates a client's trace in a file that did not exist: `NAME.sqlog`, or `NAME-2.sqlog` and so on.
    ///
    /// # Errors
    /// If no file can be created.
    pub(crate) fn create_new(
        &self,
        name: &str,
    ) -> Result<Box<dyn Write + Send + Sync>, TraceError> {
        let file = self.new_file(name)?;
        Ok(Box::new(self.writer(Some(file), Vantage::Client)))
    }

    /// Creates a server's trace that gets its file later, if at all.
    pub(crate) fn create_later(&self) -> (Box<dyn Write + Send + Sync>, Waiting) {
        let writer = self.writer(None, Vantage::Server);
        let waiting = Waiting(writer.0.clone());
        (Box::new(writer), waiting)
    }

    /// Writes what remains in memory of all traces. Call it when the connections have ended.
    ///
    /// # Errors
    /// The first error of any trace, now or earlier. The file stays as it was at that moment.
    pub fn finish(&self) -> Result<(), TraceError> {
        let open = std::mem::take(&mut lock(&self.state).open);
        for trace in open.iter().filter_map(Weak::upgrade) {
            let mut trace = lock(&trace);
            trace.flush();
            // Connections that linger may still write.
            trace.is_finished = true;
        }
        lock(&self.state).error.take().map_or(Ok(()), Err)
    }

    fn writer(&self, file: Option<(PathBuf, File)>, vantage: Vantage) -> TraceWriter {
        let trace = Arc::new(Mutex::new(Trace {
            traces: self.clone(),
            file,
            waiting: Vec::new(),
            vantage: Some(vantage),
            is_finished: false,
            is_lost: false,
        }));
        let mut state = lock(&self.state);
        state.open.retain(|trace| trace.strong_count() > 0);
        state.open.push(Arc::downgrade(&trace));
        TraceWriter(trace)
    }

    /// Creates a file that did not exist, without following links.
    fn new_file(&self, name: &str) -> Result<(PathBuf, File), TraceError> {
        loop {
            let number = {
                let mut state = lock(&self.state);
                let tried = state.tried.entry(name.to_owned()).or_default();
                *tried += 1;
                *tried
            };
            let path = self.directory.join(match number {
                1 => format!("{name}.sqlog"),
                _ => format!("{name}-{number}.sqlog"),
            });
            match File::create_new(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(TraceError { path, source }),
            }
        }
    }
}

impl Waiting {
    /// Gives the trace its file, as [`Traces::create_new`].
    ///
    /// # Errors
    /// If no file can be created.
    pub(crate) fn begin(self, name: &str) -> Result<(), TraceError> {
        let mut trace = lock(&self.0);
        if !trace.is_lost {
            trace.file = Some(trace.traces.new_file(name)?);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Trace {
    traces: Traces,
    file: Option<(PathBuf, File)>,
    /// What is not in the file yet.
    waiting: Vec<u8>,
    /// Until the first record tells it.
    vantage: Option<Vantage>,
    /// No bytes stay in memory any more.
    is_finished: bool,
    /// After a write error, or without a file for too long.
    is_lost: bool,
}

impl Trace {
    fn add(&mut self, bytes: &[u8]) {
        if self.is_lost {
            return;
        }
        self.waiting.extend_from_slice(bytes);
        if bytes.contains(&b'\n')
            && let Some(vantage) = self.vantage.take()
            && let Some(first) = with_vantage(&self.waiting, vantage)
        {
            self.waiting = first;
        }
        let is_full = self.waiting.len() > MAX_WAITING;
        match self.file {
            Some(_) if is_full || self.is_finished => self.flush(),
            None if is_full => self.lose(),
            _ => {}
        }
    }

    fn flush(&mut self) {
        let Some((path, file)) = &mut self.file else {
            return;
        };
        match file.write_all(&self.waiting) {
            Ok(()) => self.waiting.clear(),
            Err(source) => {
                let path = path.clone();
                let error = TraceError { path, source };
                lock(&self.traces.state).error.get_or_insert(error);
                self.lose();
            }
        }
    }

    fn lose(&mut self) {
        (self.file, self.waiting, self.is_lost) = (None, Vec::new(), true);
    }
}

/// The writer that quinn gets.
struct TraceWriter(Arc<Mutex<Trace>>);

impl Write for TraceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0).flush();
        Ok(())
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        lock(&self.0).flush();
    }
}

/// Puts the vantage into the first record of a trace: quinn calls each unknown.
fn with_vantage(first: &[u8], vantage: Vantage) -> Option<Vec<u8>> {
    let text = first.strip_prefix(b"\x1e").unwrap_or(first);
    let mut record: Value = serde_json::from_slice(text).ok()?;
    *record.pointer_mut("/trace/vantage_point/type")? = json!(vantage);
    Some(format!("\x1e{record}\n").into_bytes())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_written_is_in_the_file_after_the_finish_even_of_a_trace_that_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let traces = Traces::new(directory.path());
        let mut trace = traces.create("one", Vantage::Client).unwrap();
        trace.write_all(b"early\n").unwrap();
        assert!(traces.finish().is_ok());
        trace.write_all(b"late\n").unwrap();
        let text = fs::read_to_string(directory.path().join("one")).unwrap();
        assert_eq!(text, "early\nlate\n");
    }

    #[test]
    fn a_new_trace_overwrites_nothing_and_follows_no_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("victim"), "precious").unwrap();
        symlink("victim", path("server.sqlog")).unwrap();
        symlink("absent", path("server-2.sqlog")).unwrap();
        let traces = Traces::new(directory.path());
        for _ in 0..2 {
            traces
                .create_new("server")
                .unwrap()
                .write_all(b"x\n")
                .unwrap();
        }
        assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
        assert!(!path("absent").exists());
        for name in ["server-3.sqlog", "server-4.sqlog"] {
            assert_eq!(fs::read_to_string(path(name)).unwrap(), "x\n");
        }
    }

    #[test]
    fn a_trace_has_no_file_before_it_begins_and_then_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let files = || fs::read_dir(directory.path()).unwrap().count();
        let traces = Traces::new(directory.path());
        let (mut begun, waiting) = traces.create_later();
        let (mut never, dropped) = traces.create_later();
        let (mut too_long, bloated) = traces.create_later();
        for writer in [&mut begun, &mut never, &mut too_long] {
            writer.write_all(b"early\n").unwrap();
        }
        for _ in 0..100 {
            too_long.write_all(&[b'x'; 1000]).unwrap();
        }
        drop((never, dropped));
        assert_eq!(files(), 0);
        waiting.begin("server").unwrap();
        bloated.begin("server").unwrap();
        begun.write_all(b"late\n").unwrap();
        traces.finish().unwrap();
        assert_eq!(files(), 1);
        let text = fs::read_to_string(directory.path().join("server.sqlog")).unwrap();
        assert_eq!(text, "early\nlate\n");
    }

    #[test]
    fn a_full_disk_is_told_once_and_the_writer_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let traces = Traces::new(directory.path());
        symlink("/dev/full", directory.path().join("full")).unwrap();
        let mut full = traces.create("full", Vantage::Client).unwrap();
        let mut other = traces.create("other", Vantage::Client).unwrap();
        for _ in 0..10 {
            full.write_all(&[b'\n'; 10_000]).unwrap();
        }
        other.write_all(b"whole\n").unwrap();
        drop(full);
        let error = traces.finish().unwrap_err().to_string();
        assert!(error.contains("/full: No space left on device"), "{error}");
        assert!(traces.finish().is_ok());
        drop(other);
        let text = fs::read_to_string(directory.path().join("other")).unwrap();
        assert_eq!(text, "whole\n");
    }

    #[test]
    fn what_fits_in_memory_is_told_too_when_it_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let traces = Traces::new(directory.path());
        symlink("/dev/full", directory.path().join("full")).unwrap();
        let mut trace = traces.create("full", Vantage::Client).unwrap();
        trace.write_all(b"little\n").unwrap();
        assert!(traces.finish().is_err());
        let mut dropped = traces.create("full", Vantage::Client).unwrap();
        dropped.write_all(b"little\n").unwrap();
        drop(dropped);
        assert!(traces.finish().is_err());
    }
}
