//! The league, with controllers in Python beside those that ship.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_experiments::{
    Build, Case, League as Played, Plan, Record, Run, Store, heaviest_first, league,
};
use evenkeel_testbed::backend::sim::Options;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use sha2::{Digest, Sha256};

use crate::ScenarioError;
use crate::run::{create, observe};
use crate::table::{Described, Known};

/// A league that is played run by run, in any process that has a copy of it.
#[pyclass(frozen, module = "evenkeel._native")]
pub(crate) struct League {
    plan: Plan,
    store: Store,
    /// The heaviest first.
    runs: Vec<Run>,
}

#[pymethods]
impl League {
    /// Plans a league of `names` on the cases that match `patterns`. `program` is the file that
    /// this is in, and what the controllers in Python are: runs of others are not
    /// theirs.
    #[new]
    fn new(
        described: HashMap<String, Described>,
        names: Vec<String>,
        patterns: Vec<String>,
        extent: (bool, u64),
        out: PathBuf,
        program: (PathBuf, String),
    ) -> PyResult<Self> {
        let ((quick, seeds), (program, fingerprint)) = (extent, program);
        let known = Known::new(described)?;
        let groups = league(&patterns).map_err(refused)?;
        let cases: Vec<&Case> = groups.iter().flat_map(|group| &group.cases).collect();
        let plan = Plan {
            build: build(&program, &fingerprint)?,
            quick,
            backend: "sim".into(),
            seeds: Some(seeds),
            experiments: cases.iter().map(|case| case.id.clone()).collect(),
            controllers: names,
            recorded: None,
        };
        let mut all = Vec::new();
        for case in cases {
            let seeds = case.seeds(seeds, quick);
            let runs = case.runs(&plan.controllers, seeds, &known.controllers);
            all.extend(runs.map_err(refused)?);
        }
        if let Some(run) = all.iter().find(|run| run.scenario.needs_kernel()) {
            return Err(ScenarioError::new_err(format!(
                "{} needs a kernel; play it with evenkeel-testbed league --on netns",
                run.experiment
            )));
        }
        Ok(Self {
            plan,
            store: Store::new(&out),
            runs: heaviest_first(all),
        })
    }

    /// Begins it, or goes on with it; returns the numbers of the runs that have not been made yet.
    fn begin(&self) -> PyResult<Vec<usize>> {
        let out = self.store.directory();
        create(out)?;
        self.store.begin(&self.plan, out, &[]).map_err(failed)?;
        let mut open = Vec::new();
        for (number, run) in self.runs.iter().enumerate() {
            if self.store.find(run, &self.plan).map_err(failed)?.is_none() {
                open.push(number);
            }
        }
        Ok(open)
    }

    /// Makes a run and keeps its record; returns a line for each flow that died.
    fn make(
        &self,
        py: Python<'_>,
        described: HashMap<String, Described>,
        number: usize,
    ) -> PyResult<Vec<String>> {
        let _known = Known::new(described)?;
        let run = &self.runs[number];
        let observations = py.detach(|| observe(&run.scenario, &Options::default(), |_| Ok(())))?;
        let record = Record::new(run, &self.plan, &observations);
        self.store.keep(run, &self.plan, &record).map_err(failed)?;
        Ok(record.failures(run))
    }

    /// Writes league.html and league.json; returns the table and the page's path.
    fn write(&self, described: HashMap<String, Described>) -> PyResult<(String, PathBuf)> {
        let known = Known::new(described)?;
        let out = self.store.directory().to_owned();
        let played = Played::new(std::slice::from_ref(&out), &known.controllers);
        let played = played.map_err(failed)?;
        played.write(&out).map_err(failed)?;
        Ok((played.table(), out.join("league.html")))
    }
}

/// This program with these controllers.
fn build(program: &Path, fingerprint: &str) -> PyResult<Build> {
    let mut build = Build::of_executable(program)?;
    let hash = Sha256::new()
        .chain_update(fs::read(program)?)
        .chain_update(fingerprint)
        .finalize();
    build.executable = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(build)
}

fn refused(error: impl ToString) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

fn failed(error: impl ToString) -> PyErr {
    PyOSError::new_err(error.to_string())
}
