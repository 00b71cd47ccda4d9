//! An experiment: what a paper measured, as runs, figures and claims. Read from its file and checked.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::claim::Claim;
use super::expression::number_text;
use super::figure::Figure;
use super::file::{AxisEntry, ExperimentFile, KernelFile, Word};
use super::matrix::{Extent, Group, Point};
use super::metric::Metric;
use evenkeel_testbed::scenario::ScenarioError;

/// The name by which places refer to the group of a run.
pub(super) const GROUPS: &str = "runs";

/// An experiment that cannot be read or makes no sense. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A file or directory cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An experiment file that is wrong.
    #[error("{}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, cause and remedy.
        message: String,
    },
    /// A run's scenario is wrong.
    #[error("{}: run {run}: {source}", .path.display())]
    Scenario {
        /// The experiment's file.
        path: PathBuf,
        /// The run.
        run: String,
        /// What is wrong.
        source: ScenarioError,
    },
    /// A run's scenario cannot be run.
    #[error("{}: run {run}: {message}", .path.display())]
    Unrunnable {
        /// The experiment's file.
        path: PathBuf,
        /// The run.
        run: String,
        /// Why.
        message: String,
    },
    /// Nothing was found.
    #[error("no experiment in {directory} has {pattern:?} in its name; there are {known}", directory = .directory.display())]
    NoMatch {
        /// Where it was looked for.
        directory: PathBuf,
        /// What was asked for.
        pattern: String,
        /// The experiments there are.
        known: String,
    },
    /// There are no experiments at all.
    #[error("{directory} holds no experiments; run this in the repository's root, or name the directory with --papers", directory = .0.display())]
    None(PathBuf),
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
    pub(super) path: PathBuf,
    pub(super) axes: BTreeMap<String, Vec<AxisValue>>,
    pub(super) groups: Vec<Group>,
    pub(super) metrics: BTreeMap<String, Metric>,
    pub(super) figures: Vec<Figure>,
    pub(super) claims: Vec<Claim>,
    pub(super) kernel: KernelFile,
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisValue {
    pub(super) name: String,
    /// What figures call it.
    pub(super) title: String,
    pub(super) fields: BTreeMap<String, String>,
}

impl Experiment {
    /// The paper: the directory of the file.
    pub fn paper(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// The directory of all papers' experiments that it is in.
    pub(super) fn papers(&self) -> &Path {
        let paper = self.path.parent().and_then(Path::parent);
        paper.unwrap_or(Path::new(""))
    }

    /// Its own file and its scenarios.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let scenarios = self.groups.iter().map(|group| group.scenario.clone());
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
        let text = fs::read_to_string(path).map_err(|source| ExperimentError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Reads an experiment from its text; `path` names it and its scenarios' directory.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ExperimentError> {
        let invalid = |message: String| ExperimentError::Invalid {
            path: path.to_owned(),
            message,
        };
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
        let axes = axes(&file)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let mut groups: Vec<Group> = Vec::new();
        for group in &file.runs {
            if groups.iter().any(|other| other.name == group.name) {
                return Err(format!(
                    "two [[runs]] are called {:?}; give one of them another name",
                    group.name
                ));
            }
            groups.push(Group::new(group, &file, &axes, directory)?);
        }
        if groups.is_empty() {
            return Err("there are no [[runs]]".into());
        }
        let mut metrics = BTreeMap::new();
        for (name, metric) in &file.metrics {
            let read = Metric::new(name, metric).map_err(|why| format!("metric {name}: {why}"))?;
            if axes.contains_key(name) || name == GROUPS {
                return Err(format!(
                    "metric {name} has the name of an axis; rename one of them"
                ));
            }
            metrics.insert(name.clone(), read);
        }
        let paper = directory.file_name().unwrap_or_default().to_string_lossy();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut experiment = Self {
            id: format!("{paper}/{name}"),
            title: file.title,
            source: file.source,
            open: file.open,
            path: path.to_owned(),
            axes,
            groups,
            metrics,
            figures: Vec::new(),
            claims: Vec::new(),
            kernel: file.kernel,
        };
        experiment.check_metrics()?;
        experiment.check_kernel()?;
        for figure in file.figures {
            let title = figure.figure.clone();
            let read = Figure::new(figure, &experiment);
            let read = read.map_err(|why| format!("figure {title:?}: {why}"))?;
            experiment.figures.push(read);
        }
        for claim in file.claims {
            let title = claim.claim.clone();
            let read = Claim::new(claim, &experiment);
            let read = read.map_err(|why| format!("claim {title:?}: {why}"))?;
            experiment.claims.push(read);
        }
        Ok(experiment)
    }

    /// Whether an axis, or the groups of runs, have a value of this name.
    pub(super) fn check_value(&self, axis: &str, value: &str) -> Result<(), String> {
        let known: Vec<&str> = if axis == GROUPS {
            self.groups
                .iter()
                .map(|group| group.name.as_str())
                .collect()
        } else {
            let values = self.axes.get(axis).ok_or_else(|| {
                let known: Vec<_> = self.axes.keys().map(String::as_str).collect();
                format!("there is no axis {axis}; there are {}", listed(&known))
            })?;
            values.iter().map(|value| value.name.as_str()).collect()
        };
        if known.contains(&value) {
            return Ok(());
        }
        Err(format!(
            "{axis} has no value {value}; it has {}",
            listed(&known)
        ))
    }

    /// The title of an axis' value, or of a group of runs.
    pub(super) fn value_title<'e>(&'e self, axis: &str, value: &'e str) -> &'e str {
        if axis == GROUPS {
            let group = self.groups.iter().find(|group| group.name == value);
            return group.map_or(value, |group| &group.title);
        }
        let values = self.axes.get(axis).map_or(&[][..], Vec::as_slice);
        let found = values.iter().find(|other| other.name == value);
        found.map_or(value, |found| &found.title)
    }

    /// Whether some group has a run of the extent at this point.
    pub(super) fn has_run(&self, point: &Point, extent: Extent) -> bool {
        let groups = self.groups.iter();
        let mut own = groups.filter(|group| group.name == point.group);
        own.any(|group| group.has(point, extent))
    }

    /// Paths of the series that metrics and figures read; runs keep no others.
    pub(super) fn kept_series(&self) -> Vec<String> {
        let metrics = self.metrics.values().filter_map(Metric::series);
        let figures = self.figures.iter().flat_map(Figure::series);
        let mut kept: Vec<String> = metrics
            .chain(figures)
            .map(|path| path.text().to_owned())
            .collect();
        kept.sort();
        kept.dedup();
        kept
    }

    /// What is compared is a metric, and an explanation belongs to something compared.
    fn check_kernel(&self) -> Result<(), String> {
        let KernelFile { metrics, because } = &self.kernel;
        if let Some(name) = metrics
            .iter()
            .find(|name| !self.metrics.contains_key(*name))
        {
            return Err(format!("kernel.metrics: there is no metric {name}"));
        }
        if let Some(name) = because.keys().find(|name| !metrics.contains(name)) {
            return Err(format!(
                "kernel.because: {name} is not compared; add it to kernel.metrics"
            ));
        }
        if self.runs_on_kernel() == metrics.is_empty() {
            return Err("kernel points of [[runs]] and kernel.metrics need each other".into());
        }
        Ok(())
    }

    /// Names in formulas are metrics or axes, and no metric needs itself.
    fn check_metrics(&self) -> Result<(), String> {
        for name in self.metrics.keys() {
            let mut pending = vec![name.as_str()];
            let mut steps = 0;
            while let Some(at) = pending.pop() {
                for reference in self.metrics[at].references() {
                    self.check_reference(reference)
                        .map_err(|why| format!("metric {at}: {why}"))?;
                    if reference.name == *name {
                        return Err(format!("metric {name} needs itself"));
                    }
                    if self.metrics.contains_key(&reference.name) {
                        pending.push(&reference.name);
                    }
                }
                steps += 1;
                if steps > 10_000 {
                    return Err(format!("metric {name} needs itself"));
                }
            }
        }
        Ok(())
    }

    /// Whether a reference of an expression names a metric, an axis or a field of one.
    pub(super) fn check_reference(
        &self,
        reference: &super::expression::Reference,
    ) -> Result<(), String> {
        for (axis, value) in &reference.selectors {
            self.check_value(axis, value)?;
        }
        let name = &reference.name;
        let axis = name.split('.').next().unwrap_or_default();
        if self.metrics.contains_key(name) || self.axes.contains_key(axis) {
            return Ok(());
        }
        let metrics: Vec<_> = self.metrics.keys().map(String::as_str).collect();
        Err(format!(
            "there is no metric or axis {name}; metrics are {}",
            listed(&metrics)
        ))
    }
}

impl AxisValue {
    fn new(axis: &str, entry: &AxisEntry) -> Result<Self, String> {
        let (name, mut fields) = match entry {
            AxisEntry::Word(Word(text)) => (text.clone(), BTreeMap::new()),
            AxisEntry::Fields(fields) => {
                let Some(Word(name)) = fields.get("name") else {
                    return Err(format!("a value of axis {axis} has no name; add one"));
                };
                let fields = fields
                    .iter()
                    .map(|(key, Word(text))| (key.clone(), text.clone()));
                (name.clone(), fields.collect::<BTreeMap<_, _>>())
            }
        };
        if name.is_empty() || name.contains(|c: char| "[]=,".contains(c) || c.is_control()) {
            return Err(format!(
                "{name:?} of axis {axis} cannot be named in brackets; use no [ ] = or comma, and a title for people"
            ));
        }
        let title = fields.remove("title").unwrap_or_else(|| name.clone());
        Ok(Self {
            name,
            title,
            fields,
        })
    }

    /// The value as a number, or a field of it.
    pub(super) fn text(&self, field: Option<&str>) -> Option<&str> {
        match field {
            None => Some(&self.name),
            Some(field) => self.fields.get(field).map(String::as_str),
        }
    }
}

fn axes(file: &ExperimentFile) -> Result<BTreeMap<String, Vec<AxisValue>>, String> {
    let mut axes = BTreeMap::new();
    for (axis, entries) in &file.axes {
        let plain = axis.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if axis == GROUPS || !plain || axis.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!(
                "an axis cannot be called {axis:?}; choose another name"
            ));
        }
        let values: Vec<_> = entries
            .iter()
            .map(|entry| AxisValue::new(axis, entry))
            .collect::<Result<_, _>>()?;
        let mut names: Vec<_> = values.iter().map(|value| value.name.as_str()).collect();
        names.sort_unstable();
        if values.is_empty() || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("axis {axis} needs values, each once"));
        }
        axes.insert(axis.clone(), values);
    }
    Ok(axes)
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
    let id = |path: &Path| {
        let paper = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = path.file_stem().unwrap_or_default();
        format!("{}/{}", paper.to_string_lossy(), name.to_string_lossy())
    };
    let wanted = |path: &&PathBuf| pattern.is_none_or(|pattern| id(path).contains(pattern));
    let found: Vec<_> = files.iter().filter(wanted).collect();
    if found.is_empty() {
        let known: Vec<String> = files.iter().map(|path| id(path)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(ExperimentError::NoMatch {
            directory: papers.to_owned(),
            pattern: pattern.unwrap_or_default().to_owned(),
            known: listed(&known),
        });
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
        other => other.map_err(|source| ExperimentError::Read {
            path: directory.to_owned(),
            source,
        }),
    }
}

/// Words with commas between them.
pub(super) fn listed(words: &[impl fmt::Display]) -> String {
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.join(", ")
}

/// A number of an axis, if its name or the field is one.
pub(super) fn axis_number(
    axes: &BTreeMap<String, Vec<AxisValue>>,
    point: &Point,
    name: &str,
) -> Option<f64> {
    let (axis, field) = match name.split_once('.') {
        Some((axis, field)) => (axis, Some(field)),
        None => (name, None),
    };
    let at = point.axes.get(axis)?;
    let value = axes.get(axis)?.iter().find(|value| value.name == *at)?;
    value.text(field)?.parse().ok()
}

/// The text that a place in a template stands for: a word of an axis, or a sum.
pub(super) fn template_text(
    axes: &BTreeMap<String, Vec<AxisValue>>,
    point: &Point,
    inside: &str,
) -> Result<String, String> {
    let name = inside.trim();
    let (axis, field) = match name.split_once('.') {
        Some((axis, field)) => (axis, Some(field)),
        None => (name, None),
    };
    if let Some(at) = point.axes.get(axis) {
        let value = axes[axis].iter().find(|value| value.name == *at);
        let text = value.and_then(|value| value.text(field));
        return text.map(str::to_owned).ok_or_else(|| {
            format!(
                "{at} of axis {axis} has no field {}",
                field.unwrap_or_default()
            )
        });
    }
    let expression = super::expression::Expression::parse(inside)?;
    let value = expression.evaluate(&mut |reference| axis_number(axes, point, &reference.name));
    value
        .map(number_text)
        .ok_or_else(|| format!("$({inside}) is no number of an axis"))
}
