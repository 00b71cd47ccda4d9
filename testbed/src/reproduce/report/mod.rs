//! The report: every claim with its verdict, every figure drawn from our runs.

mod chart;
mod document;
mod html;
mod table;

use std::path::{Path, PathBuf};

pub use document::{ClaimRow, Document, NotRun, RunsRow};

use super::claim::{Finding, Verdict};
use super::experiment::{Experiment, ExperimentError, find};
use super::figure::Drawing;
use super::metric::{Dataset, MetricError};
use super::store::{Build, Plan, Record, Store, StoreError, pretty};

/// A report that cannot be made. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A directory of results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An experiment is wrong.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// An experiment reads what results do not have.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

/// All that a report tells.
#[derive(Debug)]
pub struct Report {
    plan: Plan,
    builds: Vec<Build>,
    command: String,
    sections: Vec<Section>,
}

/// An experiment with what came out.
#[derive(Debug)]
struct Section {
    experiment: Experiment,
    findings: Vec<Finding>,
    drawings: Vec<Option<Drawing>>,
    runs: Vec<RunLine>,
    /// Runs of the plan that were not made.
    missing: usize,
}

/// A run in the report's appendix.
#[derive(Debug)]
struct RunLine {
    label: String,
    command: String,
    errors: Vec<String>,
}

impl Report {
    /// The report on the results in `directories`, made by `command`; several directories are
    /// shards of the same whole.
    ///
    /// # Errors
    /// If they cannot be read, do not belong together, or lack what an experiment reads.
    pub fn new(directories: &[PathBuf], command: &str) -> Result<Self, ReportError> {
        let stores: Vec<Store> = directories.iter().map(|path| Store::new(path)).collect();
        let plans: Vec<Plan> = stores.iter().map(Store::plan).collect::<Result<_, _>>()?;
        let mut plan = joined(&stores, &plans)?;
        let mut builds: Vec<Build> = Vec::new();
        let mut sections = Vec::new();
        plan.experiments.sort();
        for id in &plan.experiments {
            // Any of the directories has the experiment's file as it was run.
            let has = |(_, plan): &(&Store, &Plan)| plan.experiments.contains(id);
            let holder = stores.iter().zip(&plans).find(has);
            let (store, _) = holder.expect("the ids come from the plans");
            let experiment = exactly(&store.papers(), id)?;
            let section = Section::new(experiment, &plan, &stores, &plans)?;
            sections.push(section.0);
            builds.extend(section.1);
        }
        builds.sort();
        builds.dedup();
        Ok(Self {
            plan,
            builds,
            command: command.to_owned(),
            sections,
        })
    }

    /// Writes `report.html` and `report.json` into `directory`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), ReportError> {
        let store = Store::new(directory);
        store.write(
            Path::new("report.json"),
            pretty(&self.document()).as_bytes(),
        )?;
        store.write(Path::new("report.html"), html::page(self).as_bytes())?;
        Ok(())
    }

    /// The contents of `report.json`.
    pub fn document(&self) -> Document {
        Document::new(self)
    }

    /// The claims as a table for a terminal.
    pub fn table(&self) -> String {
        table::table(&self.document())
    }
}

impl Section {
    fn new(
        experiment: Experiment,
        plan: &Plan,
        stores: &[Store],
        plans: &[Plan],
    ) -> Result<(Self, Vec<Build>), ReportError> {
        let mut records: Vec<Record> = Vec::new();
        let mut missing = 0;
        for run in experiment.runs(plan.extent(), &plan.seeds)? {
            let mut found = None;
            for (store, plan) in stores.iter().zip(plans) {
                found = store.find(&run, plan)?;
                if found.is_some() {
                    break;
                }
            }
            missing += usize::from(found.is_none());
            records.extend(found);
        }
        let data = Dataset::new(&experiment, records.iter().collect());
        let findings = experiment
            .claims
            .iter()
            .map(|claim| claim.judge(&data, &plan.seeds, plan.quick))
            .collect();
        let drawings = experiment.figures.iter().map(|figure| {
            figure
                .draw(&data, &plan.seeds)
                .map_err(|message| MetricError {
                    experiment: experiment.id.clone(),
                    message: format!("figure {:?}: {message}", figure.figure),
                })
        });
        let drawings = drawings.collect::<Result<_, _>>()?;
        if let Some(error) = data.error() {
            return Err(error.into());
        }
        let builds = records.iter().map(|record| record.build.clone()).collect();
        let runs = records.iter().map(RunLine::new).collect();
        let section = Self {
            experiment,
            findings,
            drawings,
            runs,
            missing,
        };
        Ok((section, builds))
    }

    fn count(&self, verdict: Verdict) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.verdict == Some(verdict))
            .count()
    }
}

impl RunLine {
    fn new(record: &Record) -> Self {
        let group = (record.group != "main").then(|| record.group.clone());
        let axes = record
            .axes
            .iter()
            .map(|(axis, value)| format!("{axis}={value}"));
        let mut parts: Vec<_> = group.into_iter().chain(axes).collect();
        parts.push(format!("seed {}", record.seed));
        Self {
            label: parts.join(" "),
            command: record.command.clone(),
            errors: record.errors(),
        }
    }
}

/// The experiment of this very id below `papers`.
fn exactly(papers: &Path, id: &str) -> Result<Experiment, ExperimentError> {
    let mut found = find(papers, Some(id))?;
    found.retain(|experiment| experiment.id == id);
    found.pop().ok_or_else(|| ExperimentError::NoMatch {
        directory: papers.to_owned(),
        pattern: id.to_owned(),
        known: "others".into(),
    })
}

/// The plan that several directories carry out together.
fn joined(stores: &[Store], plans: &[Plan]) -> Result<Plan, StoreError> {
    let mut all = plans[0].clone();
    for (store, plan) in stores.iter().zip(plans).skip(1) {
        let apart = |what: &str| StoreError::Apart {
            first: stores[0].directory().to_owned(),
            second: store.directory().to_owned(),
            what: what.to_owned(),
        };
        if plan.quick != all.quick {
            return Err(apart("--quick"));
        }
        if plan.backend != all.backend {
            return Err(apart("--on"));
        }
        if plan.build.version != all.build.version {
            return Err(apart("the version of evenkeel-testbed"));
        }
        for id in &plan.experiments {
            let file = format!("{id}.toml");
            let theirs = std::fs::read(store.papers().join(&file));
            let before = stores
                .iter()
                .zip(plans)
                .take_while(|(other, _)| other.directory() != store.directory());
            for (other, other_plan) in before {
                let same = || {
                    std::fs::read(other.papers().join(&file)).ok() == theirs.as_ref().ok().cloned()
                };
                if other_plan.experiments.contains(id) && !same() {
                    return Err(apart(&format!("the experiment {id}")));
                }
            }
        }
        all.seeds.extend(&plan.seeds);
        all.experiments.extend(plan.experiments.iter().cloned());
    }
    all.seeds.sort_unstable();
    all.seeds.dedup();
    all.experiments.sort();
    all.experiments.dedup();
    Ok(all)
}
