//! Runs a scenario.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use evenkeel_testbed::backend::sim::{self, Options, SimError};
use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::report;
use evenkeel_testbed::scenario::{Scenario, ScenarioError as Unreadable};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ScenarioError;
use crate::results;
use crate::table::{self, Described, Known};

/// A scenario as Python hands it over: a file to read, or a text and what its errors call it; with
/// overrides.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Source {
    path: Option<PathBuf>,
    text: String,
    name: String,
    overrides: Vec<String>,
}

impl Source {
    pub(crate) fn load(&self, known: &Known) -> PyResult<Scenario> {
        let controllers = &known.controllers;
        let loaded = match &self.path {
            Some(path) => Scenario::load_with(path, &self.overrides, controllers),
            None => Scenario::parse_with(&self.text, &self.name, &self.overrides, controllers),
        };
        loaded.map_err(|error| match &error {
            Unreadable::Read(_, source) => from_io(source, &error),
            Unreadable::Invalid(..) => ScenarioError::new_err(error.to_string()),
        })
    }
}

/// Runs a scenario to its end; writes its results into `out`, if given, with the `command` that
/// makes them again but for its seed. `progress` is told the seconds of virtual time that are over;
/// `records` says whether qlogs are written, and whether each packet is kept.
#[pyfunction]
#[pyo3(signature = (source, described, progress, out, records, command))]
pub(crate) fn run(
    py: Python<'_>,
    source: Source,
    described: HashMap<String, Described>,
    progress: Option<Py<PyAny>>,
    out: Option<PathBuf>,
    records: (bool, bool),
    command: &str,
) -> PyResult<Py<PyDict>> {
    let known = Known::new(described)?;
    let scenario = source.load(&known)?;
    let (qlog, packets) = records;
    let options = Options {
        qlog: out.clone().filter(|_| qlog),
        packets,
        ..Options::default()
    };
    sim::check(&scenario, &options).map_err(refused)?;
    if let Some(out) = &out {
        create(out)?;
    }
    let watch = |seconds: f64| match &progress {
        Some(progress) => Python::attach(|py| progress.call1(py, (seconds,)).map(drop)),
        None => Ok(()),
    };
    let observations = py.detach(|| observe(&scenario, &options, watch))?;
    if let Some(out) = &out {
        let command = match command {
            "" => String::new(),
            // The program does not know them.
            _ if scenario
                .flows
                .iter()
                .any(|flow| known.is_own(&flow.controller)) =>
            {
                String::new()
            }
            command => format!("{command} --seed {}", scenario.seed),
        };
        let written = py.detach(|| report::write(out, &scenario, "sim", &observations, &command));
        written.map_err(|error| from_io(&error.1, &error))?;
    }
    results::of(py, &scenario, observations)
}

/// Checks a scenario; returns its name, its seed and its duration in seconds.
#[pyfunction]
pub(crate) fn check(
    source: Source,
    described: HashMap<String, Described>,
) -> PyResult<(String, u64, f64)> {
    let known = Known::new(described)?;
    let scenario = source.load(&known)?;
    sim::check(&scenario, &Options::default()).map_err(refused)?;
    let duration_s = scenario.duration.as_secs_f64();
    Ok((scenario.name, scenario.seed, duration_s))
}

/// Writes a scenario that is JSON as the TOML of a scenario file.
#[pyfunction]
pub(crate) fn to_toml(json: &str) -> PyResult<String> {
    let invalid = |error: String| ScenarioError::new_err(format!("scenario: {error}"));
    let value: toml::Value =
        serde_json::from_str(json).map_err(|error| invalid(error.to_string()))?;
    match value {
        toml::Value::Table(table) => toml::to_string(&table).map_err(|e| invalid(e.to_string())),
        value => Ok(value.to_string()),
    }
}

/// Runs a scenario on this thread until it ends, a controller in Python raises an error, or Ctrl-C
/// is pressed; without the GIL but for those controllers and `watch`, which is told the seconds
/// that are over.
pub(crate) fn observe(
    scenario: &Scenario,
    options: &Options,
    mut watch: impl FnMut(f64) -> PyResult<()>,
) -> PyResult<Observations> {
    table::enter()?;
    let progress = |epoch: Instant, at: Duration| {
        if at.is_zero() {
            table::begin(epoch);
        }
        let failure = table::take_failure().map_or(Ok(()), Err);
        let heard = failure
            .and_then(|()| Python::attach(|py| py.check_signals()))
            .and_then(|()| watch(at.as_secs_f64()));
        match heard {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    };
    match sim::run_until_broken(scenario, options, progress).map_err(refused)? {
        ControlFlow::Break(error) => Err(error),
        // What ends with the simulation may tell controllers so.
        ControlFlow::Continue(observations) => match table::take_failure() {
            Some(error) => Err(error),
            None => Ok(observations),
        },
    }
}

/// A directory for results.
pub(crate) fn create(path: &Path) -> PyResult<()> {
    let made = std::fs::create_dir_all(path);
    made.map_err(|error| {
        let path = path.display();
        let line = format!("cannot write to {path}: {error}; choose another place with out");
        from_io(&error, &line)
    })
}

fn refused(error: SimError) -> PyErr {
    match &error {
        SimError::File(_, _, source) => from_io(source, &error),
        _ => ScenarioError::new_err(error.to_string()),
    }
}

/// The error of a file: FileNotFoundError, PermissionError and so on, with our own line.
fn from_io(source: &std::io::Error, line: &impl ToString) -> PyErr {
    let line = line.to_string();
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, line)),
        None => PyOSError::new_err(line),
    }
}
