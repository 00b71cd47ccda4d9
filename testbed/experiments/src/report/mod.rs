//! The report: every claim with its verdict, every figure drawn from our runs.

mod chart;
mod command;
mod document;
mod earlier;
mod html;
mod kernel;
mod table;

use std::path::{Path, PathBuf};

pub use command::Commands;
pub use document::{ClaimRow, Document, KernelRow, NotRun, RunsRow};

use super::claim::Finding;
use super::dataset::{Dataset, MetricError};
use super::experiment::{Experiment, ExperimentError, find};
use super::figure::Drawing;
use super::store::{Build, Plan, Record, Store, StoreError};
use earlier::Earlier;
use kernel::{Comparison, OnKernel};

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
    /// What was run on the kernel beside it.
    kernel: Option<Plan>,
    builds: Vec<Build>,
    command: String,
    sections: Vec<Section>,
    /// The first directory of results.
    directory: PathBuf,
    /// The rest, from a report that was made before.
    earlier: Option<Earlier>,
}

/// An experiment with what came out.
#[derive(Debug)]
struct Section {
    experiment: Experiment,
    /// The most seeds that a run was made with.
    seeds: u64,
    findings: Vec<Finding>,
    drawings: Vec<Option<Drawing>>,
    runs: Vec<RunLine>,
    /// Runs of the plan that were not made.
    missing: usize,
    kernel: Option<OnKernel>,
}

/// A run in the report's appendix.
#[derive(Debug)]
struct RunLine {
    label: String,
    command: String,
    errors: Vec<String>,
}

/// A directory of results with its plan.
#[derive(Debug)]
struct Part {
    store: Store,
    plan: Plan,
}

/// The parts that carry out one plan together.
#[derive(Debug)]
struct Whole {
    plan: Plan,
    parts: Vec<Part>,
}

impl Report {
    /// The report on the results in `directories`, made by `command`; several directories are
    /// shards of the same whole, and those of runs on the kernel stand beside the others.
    ///
    /// # Errors
    /// If they cannot be read, do not belong together, or lack what an experiment reads.
    pub fn new(directories: &[PathBuf], command: &str) -> Result<Self, ReportError> {
        let read = |path: &PathBuf| {
            let store = Store::new(path);
            let plan = store.plan()?;
            Ok(Part { store, plan })
        };
        let parts: Vec<Part> = directories
            .iter()
            .map(read)
            .collect::<Result<_, StoreError>>()?;
        same_experiments(&parts)?;
        let mut ids: Vec<String> = parts
            .iter()
            .flat_map(|part| part.plan.experiments.clone())
            .collect();
        ids.sort();
        ids.dedup();
        // Any of the directories has the experiment's file as it was run.
        let experiments = ids.iter().map(|id| {
            let holder = parts.iter().find(|part| part.plan.experiments.contains(id));
            let holder = holder.expect("the ids come from the plans");
            exactly(&holder.store.papers(), id)
        });
        let experiments: Vec<Experiment> = experiments.collect::<Result<_, _>>()?;
        let (kernel, simulated): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.plan.on_kernel());
        let mut wholes = [simulated, kernel]
            .into_iter()
            .filter(|parts| !parts.is_empty())
            .map(Whole::new);
        let main = wholes.next().expect("there is a directory")?;
        let beside = wholes.next().transpose()?;
        let mut builds: Vec<Build> = Vec::new();
        let mut sections = Vec::new();
        for experiment in experiments {
            let section = Section::new(experiment, &main, beside.as_ref())?;
            sections.push(section.0);
            builds.extend(section.1);
        }
        builds.sort();
        builds.dedup();
        Ok(Self {
            plan: main.plan,
            kernel: beside.map(|whole| whole.plan),
            builds,
            command: command.to_owned(),
            sections,
            directory: main.parts[0].store.directory().to_owned(),
            earlier: None,
        })
    }

    /// Takes over the experiments that it does not have from the report in `directory`, as that tells them.
    ///
    /// # Errors
    /// If there is no report, or one of another version, extent or kind of backend.
    pub fn take_over(&mut self, directory: &Path) -> Result<(), ReportError> {
        let mut earlier = Earlier::read(directory)?;
        earlier.check(&self.plan, &self.directory)?;
        let ids: Vec<&str> = self
            .sections
            .iter()
            .map(|section| section.experiment.id.as_str())
            .collect();
        earlier.without(&ids);
        self.earlier = Some(earlier);
        Ok(())
    }

    /// Writes `report.html` and `report.json` into `directory`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), ReportError> {
        let store = Store::new(directory);
        let json = self.document().json();
        store.write(Path::new("report.json"), json.as_bytes())?;
        store.write(Path::new("report.html"), html::page(self)?.as_bytes())?;
        Ok(())
    }

    /// The contents of `report.json`.
    pub fn document(&self) -> Document {
        let mut document = Document::new(self);
        if let Some(earlier) = &self.earlier {
            document.take_over(&earlier.document);
        }
        document
    }

    /// The claims as a table for a terminal.
    pub fn table(&self) -> String {
        table::table(&self.document())
    }
}

impl Section {
    fn new(
        experiment: Experiment,
        main: &Whole,
        beside: Option<&Whole>,
    ) -> Result<(Self, Vec<Build>), ReportError> {
        let (records, missing) = main.records(&experiment)?;
        let (beside_records, _) = match beside {
            Some(whole) => whole.records(&experiment)?,
            None => (Vec::new(), 0),
        };
        let data = Dataset::new(&experiment, &main.plan, records.iter().collect());
        let findings = judged(&data);
        let drawings = drawn(&data)?;
        let mut kernel = None;
        if let Some(whole) = beside.filter(|_| !beside_records.is_empty()) {
            let records = beside_records.iter().collect();
            let beside_data = Dataset::new(&experiment, &whole.plan, records);
            let mut drawings = drawn(&beside_data)?;
            for drawing in &mut drawings {
                drawing.take_if(|drawing| matches!(drawing, Drawing::Graph(_)));
            }
            kernel = Some(OnKernel {
                findings: judged(&beside_data),
                drawings,
                comparisons: Comparison::all(&data, &beside_data),
            });
            if let Some(error) = beside_data.error() {
                return Err(error.into());
            }
        }
        if let Some(error) = data.error() {
            return Err(error.into());
        }
        let seeds = records.iter().map(|record| record.seed).max();
        let all = || records.iter().chain(&beside_records);
        let builds = all().map(|record| record.build.clone()).collect();
        let runs = all().map(RunLine::new).collect();
        let section = Self {
            experiment,
            seeds: seeds.unwrap_or(0),
            findings,
            drawings,
            runs,
            missing,
            kernel,
        };
        Ok((section, builds))
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

impl Whole {
    /// The parts' common plan.
    fn new(parts: Vec<Part>) -> Result<Self, StoreError> {
        let mut plan = parts[0].plan.clone();
        for part in &parts[1..] {
            if let Some(what) = plan.apart(&part.plan) {
                return Err(parts[0].apart(part, what));
            }
            plan.join(&part.plan);
        }
        Ok(Self { plan, parts })
    }

    /// The experiment's runs that were made, and how many of the plan were not.
    fn records(&self, experiment: &Experiment) -> Result<(Vec<Record>, usize), ReportError> {
        let mut records = Vec::new();
        let mut missing = 0;
        for run in experiment.runs(self.plan.extent(), self.plan.seeds)? {
            let mut found = None;
            for part in &self.parts {
                found = part.store.find(&run, &part.plan)?;
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
        StoreError::Apart {
            first: self.store.directory().to_owned(),
            second: other.store.directory().to_owned(),
            what: what.to_owned(),
        }
    }

    /// The text of an experiment's file as it was run.
    fn file(&self, id: &str) -> Option<Vec<u8>> {
        std::fs::read(self.store.papers().join(format!("{id}.toml"))).ok()
    }
}

/// Parts that share an experiment have the same file of it.
fn same_experiments(parts: &[Part]) -> Result<(), StoreError> {
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

fn judged(data: &Dataset<'_>) -> Vec<Finding> {
    let claims = data.experiment.claims.iter();
    claims.map(|claim| claim.judge(data)).collect()
}

fn drawn(data: &Dataset<'_>) -> Result<Vec<Option<Drawing>>, MetricError> {
    let experiment = data.experiment;
    let drawings = experiment.figures.iter().map(|figure| {
        let drawing = figure.draw(data);
        drawing.map_err(|message| MetricError {
            experiment: experiment.id.clone(),
            message: format!("figure {:?}: {message}", figure.figure),
        })
    });
    drawings.collect()
}
