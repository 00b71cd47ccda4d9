//! A directory of results: one file for each run, so that a second call resumes and shards can be
//! joined.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::report::{ReportError, ResultDocument, Series, save};

use crate::spec::league::LeagueError;
use crate::spec::runs::{Extent, Run};
use crate::spec::traces::{Bottleneck, Recordings, TRACES};

/// A directory of results that cannot be used. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] ReportError),
    /// A file cannot be read.
    #[error("cannot read {path}: {1}; name a directory that league or reproduce has written", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file is not what `reproduce` writes, for this reason.
    #[error("{path} is damaged: {1}; delete it and make the runs again", path = .0.display())]
    Damaged(PathBuf, String),
    /// Recorded networks cannot be read.
    #[error(transparent)]
    Traces(#[from] LeagueError),
    /// Two directories do not belong together: they differ in this.
    #[error("{first} and {second} differ in {2}; report only what belongs to one version and extent", first = .0.display(), second = .1.display())]
    Apart(PathBuf, PathBuf, String),
}

/// The program that made a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Build {
    /// Version of evenkeel-testbed.
    pub version: String,
    /// Beginning of the SHA-256 of its executable.
    pub executable: String,
    /// The commit that it was built from, if `EVENKEEL_COMMIT` said so to the build: `.ci/release`
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// What was asked for. It applies to all results of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The program.
    pub build: Build,
    /// Whether only the decisive points were run.
    pub quick: bool,
    /// What the runs ran on: `sim`, `netns`, `uml` or `docker`.
    pub backend: String,
    /// How many seeds every run is made with; `None` leaves it to the experiments.
    pub seeds: Option<u64>,
    /// The ids of the experiments, or of the league's cases.
    pub experiments: Vec<String>,
    /// The controllers that play in the league.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// Behind what recorded networks are played, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Bottleneck>,
}

/// One run and what came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The experiment's id.
    pub experiment: String,
    /// The group of runs.
    pub group: String,
    /// The value of every axis.
    pub axes: BTreeMap<String, String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// The program that made it.
    pub build: Build,
    /// The command that makes this run alone.
    pub command: String,
    /// `result.json`.
    pub result: Value,
    /// The series that the experiment reads; the rest of `series.json` is left out.
    pub series: Value,
}

/// A directory of results.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
}

impl Build {
    /// This program, whose executable is `path`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_executable(path: &Path) -> io::Result<Self> {
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            executable: digest(&fs::read(path)?),
            commit: option_env!("EVENKEEL_COMMIT").map(str::to_owned),
        })
    }
}

impl Plan {
    /// How much was run.
    pub fn extent(&self) -> Extent {
        match (self.on_kernel(), self.quick) {
            (true, _) => Extent::Kernel,
            (false, true) => Extent::Quick,
            (false, false) => Extent::Full,
        }
    }

    /// The first difference that keeps another plan's results out of the same report.
    pub(crate) fn apart(&self, other: &Self) -> Option<&'static str> {
        let same = [
            (self.quick == other.quick, "--quick"),
            (self.seeds == other.seeds, "--seeds"),
            (self.on_kernel() == other.on_kernel(), "--on"),
            (
                self.recorded.is_none()
                    || other.recorded.is_none()
                    || self.recorded == other.recorded,
                "the delay or the queue of recorded networks",
            ),
            (
                self.build.version == other.build.version,
                "the version of evenkeel-testbed",
            ),
            (
                self.build.commit == other.build.commit,
                "the commit of evenkeel-testbed",
            ),
        ];
        same.into_iter()
            .find(|(same, _)| !same)
            .map(|(_, what)| what)
    }

    /// Adds another plan's experiments and controllers.
    pub(crate) fn join(&mut self, other: &Self) {
        for name in &other.controllers {
            if !self.controllers.contains(name) {
                self.controllers.push(name.clone());
            }
        }
        self.recorded = self.recorded.or(other.recorded);
        self.experiments.extend(other.experiments.iter().cloned());
        self.experiments.sort();
        self.experiments.dedup();
    }

    /// Whether the runs are made in real time.
    pub fn on_kernel(&self) -> bool {
        self.backend != "sim"
    }
}

impl Record {
    /// The record of a run that was observed.
    pub fn new(run: &Run, plan: &Plan, observations: &Observations) -> Self {
        let document = ResultDocument::new(&run.scenario, &plan.backend, observations);
        let result = serde_json::to_value(document).expect("a document has string keys only");
        let series = Series::new(&run.scenario, observations);
        let series = serde_json::to_value(series).expect("series have string keys only");
        Self {
            experiment: run.experiment.clone(),
            group: run.point.group.clone(),
            axes: run.point.axes.clone(),
            seed: run.seed,
            build: plan.build.clone(),
            command: run.command(&plan.backend),
            result,
            series: kept(&series, &run.kept_series),
        }
    }

    /// A line for each flow of `run`, whose record this is, that died or failed.
    pub fn failures(&self, run: &Run) -> Vec<String> {
        let errors = self.errors().into_iter();
        errors
            .map(|error| format!("{}: {error}", run.label()))
            .collect()
    }

    /// The flows that died or failed, and why.
    pub(crate) fn errors(&self) -> Vec<String> {
        let flows = self.result.get("flows").and_then(Value::as_array);
        let failed = flows.into_iter().flatten().filter_map(|flow| {
            let error = flow.get("error")?.as_str()?;
            Some(format!("{}: {error}", flow.get("name")?.as_str()?))
        });
        failed.collect()
    }
}

impl Store {
    /// The results in `directory`, which need not exist yet.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Stores the plan and copies `files`, which are below `root`, so that the report can be made
    /// from this directory alone.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn begin(&self, plan: &Plan, root: &Path, files: &[PathBuf]) -> Result<(), StoreError> {
        for path in files {
            let inside = path.strip_prefix(root).unwrap_or(path);
            self.write(&Path::new("papers").join(inside), &read(path)?)?;
        }
        self.write(Path::new("plan.json"), pretty(plan).as_bytes())
    }

    /// Copies the traces of `folder`, so that runs and the report can be made from this directory
    /// alone, in place of those of an earlier plan. Returns a line for each file that is none, too.
    ///
    /// # Errors
    /// If they cannot be read or written, or there is none.
    pub fn take_traces(&self, folder: &Path) -> Result<(Recordings, Vec<String>), StoreError> {
        let (found, broken) = Recordings::read(folder).map_err(LeagueError::Traces)?;
        match fs::remove_dir_all(self.traces()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ReportError(self.traces(), error).into());
            }
            _ => self.keep_traces(&found)?,
        }
        Ok((self.kept_traces()?, broken))
    }

    /// The traces that were stored.
    ///
    /// # Errors
    /// If there is none, or one is damaged.
    pub(crate) fn kept_traces(&self) -> Result<Recordings, StoreError> {
        let (kept, _) = Recordings::read(&self.traces()).map_err(LeagueError::Traces)?;
        Ok(kept)
    }

    /// Stores traces beside the scenarios that name them.
    pub(crate) fn keep_traces(&self, recordings: &Recordings) -> Result<(), StoreError> {
        let inside = Path::new("cases").join(TRACES);
        for trace in recordings.files() {
            self.write(&inside.join(&trace.name), trace.contents.as_bytes())?;
        }
        Ok(())
    }

    fn traces(&self) -> PathBuf {
        self.directory.join("cases").join(TRACES)
    }

    /// The plan that was stored.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn plan(&self) -> Result<Plan, StoreError> {
        read_json(&self.directory.join("plan.json"))
    }

    /// The experiments as they were when they were run.
    pub fn papers(&self) -> PathBuf {
        self.directory.join("papers")
    }

    /// The record of this very run: same effective scenario, seed, kept series, backend and
    /// build. `None` if it has not been made, or its file holds another run.
    ///
    /// # Errors
    /// If its file is damaged.
    pub fn find(&self, run: &Run, plan: &Plan) -> Result<Option<Record>, StoreError> {
        let path = self.directory.join(file_name(run, plan));
        if !path.exists() {
            return Ok(None);
        }
        let record: Record = read_json(&path)?;
        let is_its_own = record.experiment == run.experiment
            && record.group == run.point.group
            && record.axes == run.point.axes
            && record.seed == run.seed;
        Ok(is_its_own.then_some(record))
    }

    /// Keeps a record. It appears under its name when it is complete.
    ///
    /// # Errors
    /// If its file cannot be written.
    pub fn keep(&self, run: &Run, plan: &Plan, record: &Record) -> Result<(), StoreError> {
        let text = serde_json::to_string(record).expect("a record has string keys only");
        self.write(&file_name(run, plan), text.as_bytes())
    }

    /// Writes a file below the directory, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &Path, contents: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.map_err(|error| ReportError(path.clone(), error))?;
        Ok(save(&path, contents)?)
    }
}

/// Where a run's record belongs: a directory per build, then experiment and digest.
fn file_name(run: &Run, plan: &Plan) -> PathBuf {
    let mut identity = json!({
        "experiment": run.experiment,
        "group": run.point.group,
        "axes": run.point.axes,
        "scenario": run.scenario.to_toml(),
        "series": run.kept_series,
        "backend": plan.backend,
    });
    let traces = run
        .scenario
        .links
        .iter()
        .filter_map(|link| link.trace.as_ref());
    let traces: Vec<_> = traces
        .map(|trace| digest(trace.contents.as_bytes()))
        .collect();
    if !traces.is_empty() {
        identity["traces"] = json!(traces);
    }
    let name = format!(
        "{}-{}.json",
        run.experiment.replace('/', "-"),
        digest(identity.to_string().as_bytes())
    );
    Path::new("runs")
        .join(format!("{}+{}", plan.build.version, plan.build.executable))
        .join(name)
}

/// The first 16 digits of SHA-256, in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The series with no fields but the names and those that a path of `kept` leads to or through,
/// such as `flows.user-*.rate_bps`.
fn kept(series: &Value, kept: &[String]) -> Value {
    if kept.is_empty() {
        return Value::Null;
    }
    let mut reduced = serde_json::Map::new();
    for (key, value) in series.as_object().into_iter().flatten() {
        let Some(elements) = value.as_array() else {
            reduced.insert(key.clone(), value.clone());
            continue;
        };
        let paths = kept.iter().filter_map(|path| path.strip_prefix(key));
        let paths: Vec<&str> = paths.filter(|path| path.starts_with('.')).collect();
        let wanted = |field: &str| {
            let through = |path: &&str| format!("{path}.").contains(&format!(".{field}."));
            field == "name" || paths.iter().any(through)
        };
        let elements = elements.iter().map(|element| {
            let fields = element.as_object().into_iter().flatten();
            let fields = fields.filter(|(field, _)| wanted(field));
            Value::Object(fields.map(|(k, v)| (k.clone(), v.clone())).collect())
        });
        if !paths.is_empty() {
            reduced.insert(key.clone(), elements.collect());
        }
    }
    Value::Object(reduced)
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(|error| StoreError::Read(path.to_owned(), error))
}

/// Reads a file of JSON.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, StoreError> {
    let text = read(path)?;
    serde_json::from_slice(&text)
        .map_err(|error| StoreError::Damaged(path.to_owned(), error.to_string()))
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("string keys only") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_series_that_are_read_are_kept() {
        let series = json!({
            "interval_s": 0.1,
            "flows": [{ "name": "a", "rate_bps": [1], "window_bytes": [2] }],
            "links": [{ "name": "one", "dropped": [0], "stamps": { "acp": { "users": [3] } } }],
        });
        assert_eq!(kept(&series, &[]), Value::Null);
        let paths = ["flows.*.rate_bps".to_owned()];
        let expected = json!({ "interval_s": 0.1, "flows": [{ "name": "a", "rate_bps": [1] }] });
        assert_eq!(kept(&series, &paths), expected);
        let paths = ["links.one.stamps.acp.users".to_owned()];
        let expected = json!({
            "interval_s": 0.1,
            "links": [{ "name": "one", "stamps": { "acp": { "users": [3] } } }],
        });
        assert_eq!(kept(&series, &paths), expected);
    }
}
