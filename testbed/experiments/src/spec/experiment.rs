//! Reads and checks an experiment: the runs, figures and claims of a paper.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::scenario::{Controllers, Scenario};
use serde::Deserialize;

use super::axes::{AxisEntry, axes, listed};
use super::claim::{Claim, ClaimFile};
use super::figure::{Figure, FigureFile};
use super::matrix::{Group, GroupFile};
use super::metric::{Metric, MetricFile};
use super::runs::{Extent, Run};
use super::scope::Scope;

/// An experiment that cannot be read or makes no sense. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A file or directory cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// This experiment file is wrong: line, cause and remedy.
    #[error("{path}: {1}", path = .0.display())]
    Invalid(PathBuf, String),
    /// The scenario of a run of this experiment file is wrong, or cannot be run: the run, and why.
    #[error("{path}: run {1}: {2}", path = .0.display())]
    Run(PathBuf, String, String),
    /// No experiment in this directory has this in its name; it has those listed.
    #[error("no experiment in {directory} has {1:?} in its name; there are {2}", directory = .0.display())]
    NoMatch(PathBuf, String, String),
    /// There are no experiments at all.
    #[error("{directory} holds no experiments; run this in the repository's root, or name the directory with --papers", directory = .0.display())]
    None(PathBuf),
}

/// The experiment file as it is written; docs/reproduce.md has all keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    title: String,
    source: String,
    open: Vec<String>,
    scenario: String,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    axes: BTreeMap<String, Vec<AxisEntry>>,
    runs: Vec<GroupFile>,
    metrics: BTreeMap<String, MetricFile>,
    figures: Vec<FigureFile>,
    claims: Vec<ClaimFile>,
    #[serde(default)]
    kernel: KernelFile,
}

/// The comparison of runs on the kernel with those in virtual time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KernelFile {
    /// Metrics to compare.
    pub(crate) metrics: Vec<String>,
    /// Why a metric differs, by its name.
    pub(crate) because: BTreeMap<String, String>,
}

/// An experiment, checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// `PAPER/NAME`: directory and file name.
    pub id: String,
    /// What it is about.
    pub title: String,
    /// Section and figures of the paper.
    pub source: String,
    /// Parameters that the paper leaves open, and how they were read.
    pub open: Vec<String>,
    path: PathBuf,
    pub(crate) scope: Scope,
    pub(crate) figures: Vec<Figure>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) kernel: KernelFile,
}

impl Experiment {
    /// The paper: the directory of the file.
    pub fn paper(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// Its own file and its scenarios.
    pub fn files(&self) -> Vec<PathBuf> {
        let groups = self.scope.groups.iter();
        let scenarios = groups.map(|group| group.scenario.clone());
        let mut files: Vec<_> = scenarios.chain([self.path.clone()]).collect();
        files.sort();
        files.dedup();
        files
    }

    /// Reads an experiment file, `PAPERS/PAPER/NAME.toml`.
    ///
    /// # Errors
    /// If it cannot be read or makes no sense.
    pub fn load(path: &Path) -> Result<Self, ExperimentError> {
        let text = fs::read_to_string(path)
            .map_err(|error| ExperimentError::Read(path.to_owned(), error))?;
        Self::parse(&text, path)
    }

    /// Reads an experiment from its text; `path` names it and its scenarios' directory.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ExperimentError> {
        let invalid = |message| ExperimentError::Invalid(path.to_owned(), message);
        let file: ExperimentFile = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text[..start.min(text.len())].matches('\n').count();
            // An excerpt of the file would be a second line.
            invalid(format!(
                "line {line}: {}",
                error.message().replace('\n', " ")
            ))
        })?;
        Self::from_file(file, path).map_err(invalid)
    }

    fn from_file(file: ExperimentFile, path: &Path) -> Result<Self, String> {
        let axes = axes(file.axes)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let mut groups: Vec<Group> = Vec::new();
        for group in file.runs {
            if groups.iter().any(|other| other.name == group.name) {
                return Err(format!(
                    "two [[runs]] are called {:?}; give one of them another name",
                    group.name
                ));
            }
            let common = (&*file.scenario, &*file.set);
            groups.push(Group::new(group, common, &axes, directory)?);
        }
        if groups.is_empty() {
            return Err("there are no [[runs]]".into());
        }
        let metrics = file.metrics.into_iter().map(|(name, metric)| {
            let read = Metric::new(&name, &metric);
            let read = read.map_err(|why| format!("metric {name}: {why}"))?;
            Ok((name, read))
        });
        let scope = Scope {
            axes,
            groups,
            metrics: metrics.collect::<Result<_, String>>()?,
        };
        scope.check()?;
        check_kernel(&file.kernel, &scope)?;
        let figures = file.figures.into_iter().map(|figure| {
            let title = figure.figure.clone();
            let read = Figure::new(figure, &scope);
            read.map_err(|why| format!("figure {title:?}: {why}"))
        });
        let figures = figures.collect::<Result<_, _>>()?;
        let claims = file.claims.into_iter().map(|claim| {
            let title = claim.claim.clone();
            let read = Claim::new(claim, &scope);
            read.map_err(|why| format!("claim {title:?}: {why}"))
        });
        let claims = claims.collect::<Result<_, _>>()?;
        Ok(Self {
            id: id(path),
            title: file.title,
            source: file.source,
            open: file.open,
            path: path.to_owned(),
            scope,
            figures,
            claims,
            kernel: file.kernel,
        })
    }

    /// Paths of the series that metrics and figures read; runs store no others.
    fn kept_series(&self) -> Vec<String> {
        let metrics = self.scope.metrics.values().filter_map(Metric::series);
        let metrics = metrics.map(|path| path.text.as_str());
        let figures = self.figures.iter().flat_map(Figure::series);
        let mut kept: Vec<String> = metrics.chain(figures).map(str::to_owned).collect();
        kept.sort();
        kept.dedup();
        kept
    }

    /// All its runs, their scenarios read and checked, with the seeds 1 to `seeds` or, if
    /// `None`, with as many as the experiment says for the point.
    ///
    /// # Errors
    /// If a scenario is wrong.
    pub fn runs(&self, extent: Extent, seeds: Option<u64>) -> Result<Vec<Run>, ExperimentError> {
        self.runs_with(extent, seeds, &evenkeel_testbed::controllers())
    }

    /// As [`Experiment::runs`], with flows that may name other controllers than the testbed's own.
    ///
    /// # Errors
    /// As [`Experiment::runs`].
    pub fn runs_with(
        &self,
        extent: Extent,
        seeds: Option<u64>,
        controllers: &Controllers,
    ) -> Result<Vec<Run>, ExperimentError> {
        let mut runs = Vec::new();
        for group in &self.scope.groups {
            for point in group.points(extent) {
                let overrides = group.overrides(&self.scope.axes, &point, extent);
                let overrides = overrides
                    .map_err(|message| ExperimentError::Invalid(self.path.clone(), message))?;
                for seed in self.scope.seeds(extent, seeds, &point) {
                    let scenario = scenario(&group.scenario, &overrides, seed, controllers);
                    runs.push(Run {
                        experiment: self.id.clone(),
                        scenario: scenario.map_err(|message| {
                            ExperimentError::Run(self.path.clone(), point.label(), message)
                        })?,
                        point: point.clone(),
                        seed,
                        scenario_path: group.scenario.clone(),
                        overrides: overrides.clone(),
                        kept_series: self.kept_series(),
                    });
                }
            }
        }
        Ok(runs)
    }

    /// Whether some of its runs are also made on the kernel.
    pub fn runs_on_kernel(&self) -> bool {
        runs_on_kernel(&self.scope)
    }
}

/// The scenario of one run, checked.
fn scenario(
    path: &Path,
    overrides: &[String],
    seed: u64,
    controllers: &Controllers,
) -> Result<Scenario, String> {
    let mut overrides = overrides.to_vec();
    overrides.push(format!("seed={seed}"));
    let scenario = Scenario::load_with(path, &overrides, controllers);
    let scenario = scenario.map_err(|error| error.to_string())?;
    sim::check(&scenario, &sim::Options::default()).map_err(|error| error.to_string())?;
    Ok(scenario)
}

fn runs_on_kernel(scope: &Scope) -> bool {
    let mut groups = scope.groups.iter();
    groups.any(|group| !group.points(Extent::Kernel).is_empty())
}

/// Checks that each compared name is a metric, and each explanation belongs to one of them.
fn check_kernel(kernel: &KernelFile, scope: &Scope) -> Result<(), String> {
    let KernelFile { metrics, because } = kernel;
    if let Some(name) = metrics
        .iter()
        .find(|name| !scope.metrics.contains_key(*name))
    {
        return Err(format!("kernel.metrics: there is no metric {name}"));
    }
    if let Some(name) = because.keys().find(|name| !metrics.contains(name)) {
        return Err(format!(
            "kernel.because: {name} is not compared; add it to kernel.metrics"
        ));
    }
    if runs_on_kernel(scope) == metrics.is_empty() {
        return Err("kernel points of [[runs]] and kernel.metrics need each other".into());
    }
    Ok(())
}

/// `PAPER/NAME` of a file `PAPERS/PAPER/NAME.toml`.
fn id(path: &Path) -> String {
    let paper = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_stem().unwrap_or_default();
    format!("{}/{}", paper.to_string_lossy(), name.to_string_lossy())
}

/// All experiments below `papers` (files `PAPER/NAME.toml`) whose id contains `pattern`, by id.
///
/// # Errors
/// If a file cannot be read or makes no sense, or nothing matches.
pub fn find(papers: &Path, pattern: Option<&str>) -> Result<Vec<Experiment>, ExperimentError> {
    let mut files = Vec::new();
    for paper in entries(papers)? {
        if paper.is_dir() {
            let inside = entries(&paper)?.into_iter();
            files.extend(inside.filter(|path| path.extension().is_some_and(|e| e == "toml")));
        }
    }
    if files.is_empty() {
        return Err(ExperimentError::None(papers.to_owned()));
    }
    let wanted = |path: &&PathBuf| pattern.is_none_or(|pattern| id(path).contains(pattern));
    let found: Vec<_> = files.iter().filter(wanted).collect();
    if found.is_empty() {
        let (pattern, known) = (
            pattern.unwrap_or_default(),
            files.iter().map(|path| id(path)),
        );
        return Err(ExperimentError::NoMatch(
            papers.into(),
            pattern.into(),
            listed(known),
        ));
    }
    found
        .into_iter()
        .map(|path| Experiment::load(path))
        .collect()
}

/// What a directory holds, in order.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, ExperimentError> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut paths = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(ExperimentError::None(directory.to_owned()))
        }
        other => other.map_err(|error| ExperimentError::Read(directory.to_owned(), error)),
    }
}
