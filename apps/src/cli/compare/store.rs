//! The directory that keeps a comparison.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::plan::Plan;
use super::run::Run;
use crate::cli::failure::Failure;

/// The file of the plan.
const PLAN: &str = "plan.json";

/// The file of the runs, each on a line.
const RUNS: &str = "runs.jsonl";

/// A directory with a plan, and with the runs so far.
pub(super) struct Store {
    pub(super) directory: PathBuf,
    runs: File,
}

/// Begins the comparison of `plan` in a directory, by default one that bears its seed, or continues
/// the one that is there; `has_seed` says whether the user asks for this seed.
pub(super) fn open<K: DeserializeOwned>(
    mut plan: Plan,
    has_seed: bool,
    directory: Option<PathBuf>,
) -> Result<(Plan, Store, Vec<Run<K>>), Failure> {
    let directory = directory.unwrap_or_else(|| format!("compare-{}", plan.seed).into());
    let path = directory.join(PLAN);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let remedy = "choose another --out, or move it away";
            let before: Plan = serde_json::from_str(&text).map_err(|error| {
                Failure::failed(format!("{} is no plan: {error}", path.display()), remedy)
            })?;
            if !has_seed {
                plan.seed = before.seed;
            }
            if let Some(difference) = plan.difference(&before) {
                let cause = format!("{} is of another comparison: {difference}", path.display());
                return Err(Failure::failed(cause, remedy));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(&directory).map_err(Failure::unwritable(&directory, "--out"))?;
            save(&path, &json(&plan))?;
        }
        Err(error) => return Err(Failure::unreadable(&path, "--out")(error)),
    }
    let (mut runs, file) = runs(&directory.join(RUNS))?;
    // What failed is to be done again.
    runs.retain(|run: &Run<K>| run.measured.is_some());
    let store = Store {
        directory,
        runs: file,
    };
    Ok((plan, store, runs))
}

/// Reads the runs so far. What the last line lacks was never written: it is cut off.
fn runs<K: DeserializeOwned>(path: &Path) -> Result<(Vec<Run<K>>, File), Failure> {
    let failure = Failure::unwritable(path, "--out");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(&failure)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        let cause = format!("another comparison writes to {}", path.display());
        return Err(Failure::failed(
            cause,
            "wait for its end, or choose another --out",
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(&failure)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    file.set_len(whole as u64).map_err(&failure)?;
    file.seek(SeekFrom::End(0)).map_err(&failure)?;
    let runs = text[..whole].lines().enumerate().map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let cause = format!("{}:{}: {error}", path.display(), number + 1);
            Failure::failed(cause, "choose another --out, or remove that line")
        })
    });
    Ok((runs.collect::<Result<_, _>>()?, file))
}

impl Store {
    /// Keeps a run, so that it need not be made again.
    pub(super) fn keep<K: Serialize>(&mut self, run: &Run<K>) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(run).expect("a run has string keys only");
        line.push(b'\n');
        let path = self.directory.join(RUNS);
        let written = self
            .runs
            .write_all(&line)
            .and_then(|()| self.runs.sync_data());
        written.map_err(unwritable(&path))
    }

    /// Writes a file of the directory, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        save(&self.directory.join(name), text)
    }
}

/// Formats a document for its file.
pub(super) fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("documents have string keys only") + "\n"
}

fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(unwritable(path))
}

/// Reports that a file of the directory cannot be written.
fn unwritable(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| {
        let kind = error.kind();
        let failure = Failure::unwritable(path, "--out")(error);
        match (kind, path.parent()) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, Some(directory)) => {
                let remedy = format!("make room there, and {}", goes_on(directory));
                failure.saying(&failure.cause, remedy)
            }
            _ => failure,
        }
    }
}

/// Says how a comparison goes on.
pub(super) fn goes_on(directory: &Path) -> String {
    let directory = directory.display();
    format!("the same command with --out {directory} goes on")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_line_that_was_cut_off_is_forgotten_and_a_broken_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let run = Run {
            round: 1,
            direction: crate::bulk::Direction::Up,
            controller: "keel".into(),
            began_unix_s: 5.0,
            error: Some("no".into()),
            measured: None::<super::super::run::Measured<Value>>,
        };
        let line = serde_json::to_string(&run).unwrap();
        fs::write(&path, format!("{line}\n{}", &line[..20])).unwrap();
        let (read, mut file) = runs(&path).unwrap();
        assert_eq!(read, [run]);
        file.write_all(b"{}\n").unwrap();
        // With it the lock.
        drop(file);
        let told = runs::<Value>(&path).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("runs.jsonl:2: "), "{told}");
    }
}
