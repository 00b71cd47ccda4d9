//! Directories of results that carry out one plan together.

use std::path::PathBuf;

use crate::run::store::{Plan, Record, Store, StoreError};
use crate::spec::runs::Run;
use crate::spec::traces::Recordings;

/// A directory of results with its plan.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) store: Store,
    pub(super) plan: Plan,
}

/// The parts that carry out one plan together.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) plan: Plan,
    pub(super) parts: Vec<Part>,
}

/// The directories with their plans.
pub(super) fn read(directories: &[PathBuf]) -> Result<Vec<Part>, StoreError> {
    let read = |path: &PathBuf| {
        let store = Store::new(path);
        let plan = store.plan()?;
        Ok(Part { store, plan })
    };
    directories.iter().map(read).collect()
}

impl Whole {
    /// The parts' common plan.
    pub(super) fn new(parts: Vec<Part>) -> Result<Self, StoreError> {
        let mut plan = parts[0].plan.clone();
        for part in &parts[1..] {
            if let Some(what) = plan.apart(&part.plan) {
                return Err(parts[0].apart(part, what));
            }
            plan.join(&part.plan);
        }
        Ok(Self { plan, parts })
    }

    /// The recorded networks of all parts.
    pub(super) fn recordings(&self) -> Result<Recordings, StoreError> {
        let mut all = Recordings::default();
        for part in self
            .parts
            .iter()
            .filter(|part| part.plan.recorded.is_some())
        {
            let own = part.store.kept_traces()?;
            all.join(own)
                .map_err(|name| self.parts[0].apart(part, &format!("the recording {name}")))?;
        }
        Ok(all)
    }

    /// Those of `runs` that were made, and how many were not.
    pub(super) fn records(&self, runs: &[Run]) -> Result<(Vec<Record>, usize), StoreError> {
        let mut records = Vec::new();
        let mut missing = 0;
        for run in runs {
            let mut found = None;
            for part in &self.parts {
                found = part.store.find(run, &part.plan)?;
                if found.is_some() {
                    break;
                }
            }
            missing += usize::from(found.is_none());
            records.extend(found);
        }
        Ok((records, missing))
    }
}

impl Part {
    fn apart(&self, other: &Self, what: &str) -> StoreError {
        let [first, second] = [self, other].map(|part| part.store.directory().to_owned());
        StoreError::Apart(first, second, what.to_owned())
    }

    /// The text of an experiment's file as it was run.
    fn file(&self, id: &str) -> Option<Vec<u8>> {
        std::fs::read(self.store.papers().join(format!("{id}.toml"))).ok()
    }
}

/// Checks that parts which share an experiment have the same file of it.
pub(super) fn same_experiments(parts: &[Part]) -> Result<(), StoreError> {
    for (index, part) in parts.iter().enumerate() {
        for id in &part.plan.experiments {
            let before = parts[..index].iter();
            let mut holders = before.filter(|other| other.plan.experiments.contains(id));
            if let Some(other) = holders.find(|other| other.file(id) != part.file(id)) {
                return Err(other.apart(part, &format!("the experiment {id}")));
            }
        }
    }
    Ok(())
}
