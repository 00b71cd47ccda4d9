//! Runs of an experiment: every combination of its axes' values, as overrides of a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::experiment::{AxisValue, Experiment, ExperimentError, GROUPS, listed, template_text};
use super::file::{ExperimentFile, GroupFile, Word};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::ns2;
use evenkeel_testbed::scenario::{Controllers, Scenario};

/// Bits of a full-size packet on the wire.
const PACKET_BITS: f64 = 8.0 * 1228.0;

/// No run counts for less than one on a link of this rate: time passes for idle ones, too.
const SLOWEST_BPS: u64 = 100_000;

/// Where a run stands: its group, and a value of every axis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Point {
    pub(super) group: String,
    pub(super) axes: BTreeMap<String, String>,
}

/// Runs that share their overrides.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) scenario: PathBuf,
    set: Vec<String>,
    quick_set: Vec<String>,
    full: BTreeMap<String, Vec<String>>,
    quick: BTreeMap<String, Vec<String>>,
    kernel: Option<BTreeMap<String, Vec<String>>>,
    seeds: u64,
    /// Where it has as many seeds; elsewhere it has one.
    seeds_at: BTreeMap<String, Vec<String>>,
}

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The decisive points of each experiment.
    Quick,
    /// Everything.
    Full,
    /// What real time on the kernel is spent on.
    Kernel,
}

/// A run: a scenario, its overrides and where it stands in its experiment.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its experiment's id.
    pub experiment: String,
    pub(super) point: Point,
    /// Of every random choice.
    pub seed: u64,
    /// The scenario's file.
    pub scenario_path: PathBuf,
    /// Overrides of the scenario, seed apart.
    pub overrides: Vec<String>,
    /// The scenario, checked.
    pub scenario: Scenario,
    pub(super) kept_series: Vec<String>,
}

impl Point {
    /// This point with another value of an axis, or in another group.
    pub(super) fn with(&self, axis: &str, value: &str) -> Self {
        let mut point = self.clone();
        if axis == GROUPS {
            value.clone_into(&mut point.group);
        } else {
            point.axes.insert(axis.to_owned(), value.to_owned());
        }
        point
    }

    /// Its values in one line; the main group goes without saying.
    pub(super) fn label(&self) -> String {
        let group = (self.group != "main").then(|| self.group.clone());
        let axes = self
            .axes
            .iter()
            .map(|(axis, value)| format!("{axis}={value}"));
        let parts: Vec<_> = group.into_iter().chain(axes).collect();
        if parts.is_empty() {
            return "main".into();
        }
        parts.join(" ")
    }
}

impl Group {
    pub(super) fn new(
        group: &GroupFile,
        file: &ExperimentFile,
        axes: &BTreeMap<String, Vec<AxisValue>>,
        directory: &Path,
    ) -> Result<Self, String> {
        let title = format!("runs {:?}", group.name);
        let all: BTreeMap<_, Vec<_>> = axes
            .iter()
            .map(|(axis, values)| {
                let names = values.iter().map(|value| value.name.clone());
                (axis.clone(), names.collect())
            })
            .collect();
        let full = narrowed(&all, &group.only).map_err(|why| format!("{title}: only: {why}"))?;
        let quick =
            narrowed(&full, &group.quick).map_err(|why| format!("{title}: quick: {why}"))?;
        let kernel = group.kernel.as_ref().map(|to| narrowed(&full, to));
        let kernel = kernel
            .transpose()
            .map_err(|why| format!("{title}: kernel: {why}"))?;
        let seeds_at = narrowed(&full, &group.seeds_at);
        let seeds_at = seeds_at.map_err(|why| format!("{title}: seeds_at: {why}"))?;
        if group.seeds == 0 {
            return Err(format!("{title}: seeds must be at least 1"));
        }
        let scenario = group.scenario.as_ref().unwrap_or(&file.scenario);
        let group = Self {
            name: group.name.clone(),
            title: group.title.clone().unwrap_or_else(|| group.name.clone()),
            scenario: directory.join(scenario),
            set: file.set.iter().chain(&group.set).cloned().collect(),
            quick_set: group.quick_set.clone(),
            full,
            quick,
            kernel,
            seeds: group.seeds,
            seeds_at,
        };
        for point in group.points(Extent::Full) {
            group
                .overrides(axes, &point, Extent::Quick)
                .map_err(|why| format!("{title}: {why}"))?;
        }
        Ok(group)
    }

    /// The values of its axes that belong to the extent; `None` if nothing does.
    fn axes(&self, extent: Extent) -> Option<&BTreeMap<String, Vec<String>>> {
        match extent {
            Extent::Full => Some(&self.full),
            Extent::Quick => Some(&self.quick),
            Extent::Kernel => self.kernel.as_ref(),
        }
    }

    /// Its points of the extent.
    pub(super) fn points(&self, extent: Extent) -> Vec<Point> {
        let Some(axes) = self.axes(extent) else {
            return Vec::new();
        };
        let mut points = vec![Point {
            group: self.name.clone(),
            axes: BTreeMap::new(),
        }];
        for (axis, values) in axes {
            let extended = points
                .iter()
                .flat_map(|point| values.iter().map(|value| point.with(axis, value)));
            points = extended.collect();
        }
        points
    }

    /// Whether a point is one of its own.
    pub(super) fn has(&self, point: &Point, extent: Extent) -> bool {
        self.axes(extent).is_some_and(|axes| contains(axes, point))
    }

    fn overrides(
        &self,
        axes: &BTreeMap<String, Vec<AxisValue>>,
        point: &Point,
        extent: Extent,
    ) -> Result<Vec<String>, String> {
        let quick = match extent {
            Extent::Quick => &self.quick_set[..],
            Extent::Full | Extent::Kernel => &[],
        };
        let all = self.set.iter().chain(quick);
        all.map(|template| fill(template, axes, point)).collect()
    }
}

impl Experiment {
    /// All its runs, their scenarios read and checked, with the seeds 1 to `seeds` or, if
    /// `None`, with as many as the experiment says for the point.
    ///
    /// # Errors
    /// If a scenario is wrong.
    pub fn runs(&self, extent: Extent, seeds: Option<u64>) -> Result<Vec<Run>, ExperimentError> {
        self.runs_with(extent, seeds, &ns2::controllers())
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
        for group in &self.groups {
            for point in group.points(extent) {
                for seed in self.seeds(extent, seeds, &point) {
                    runs.push(self.run(group, &point, extent, seed, controllers)?);
                }
            }
        }
        Ok(runs)
    }

    /// The seeds of a point's runs.
    pub(super) fn seeds(&self, extent: Extent, seeds: Option<u64>, point: &Point) -> Vec<u64> {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| group.name == point.group);
        let own = match group {
            Some(group) if extent == Extent::Full && contains(&group.seeds_at, point) => {
                group.seeds
            }
            _ => 1,
        };
        (1..=seeds.unwrap_or(own)).collect()
    }

    /// Whether some of its runs are also made on the kernel.
    pub fn runs_on_kernel(&self) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| !group.points(Extent::Kernel).is_empty())
    }

    fn run(
        &self,
        group: &Group,
        point: &Point,
        extent: Extent,
        seed: u64,
        controllers: &Controllers,
    ) -> Result<Run, ExperimentError> {
        let overrides = group.overrides(&self.axes, point, extent);
        let overrides = overrides.map_err(|message| ExperimentError::Invalid {
            path: self.path.clone(),
            message,
        })?;
        let mut all = overrides.clone();
        all.push(format!("seed={seed}"));
        let scenario = Scenario::load_with(&group.scenario, &all, controllers);
        let scenario = scenario.map_err(|source| ExperimentError::Scenario {
            path: self.path.clone(),
            run: point.label(),
            source,
        })?;
        sim::check(&scenario, &sim::Options::default()).map_err(|error| {
            ExperimentError::Unrunnable {
                path: self.path.clone(),
                run: point.label(),
                message: error.to_string(),
            }
        })?;
        Ok(Run {
            experiment: self.id.clone(),
            point: point.clone(),
            seed,
            scenario_path: group.scenario.clone(),
            overrides,
            scenario,
            kept_series: self.kept_series(),
        })
    }
}

impl Run {
    /// Experiment, point and seed in one line.
    pub fn label(&self) -> String {
        format!(
            "{} {} seed {}",
            self.experiment,
            self.point.label(),
            self.seed
        )
    }

    /// The command that makes this run alone.
    pub fn command(&self, backend: &str) -> String {
        let mut command = format!("evenkeel-testbed run {}", self.scenario_path.display());
        if backend != "sim" {
            command += &format!(" --on {backend}");
        }
        for set in &self.overrides {
            command += &format!(" --set {}", quoted(set));
        }
        command + &format!(" --seed {}", self.seed)
    }

    /// About how much work it is: packets that cross its links forward, if those are busy throughout.
    pub fn weight(&self) -> f64 {
        let links = self.scenario.links.iter();
        let forward = links.filter(|link| link.reported && !link.name.ends_with(".reverse"));
        let rates = forward
            .filter_map(|link| link.mean_rate_bps(self.scenario.warmup, self.scenario.duration));
        let all = rates.sum::<u64>().max(SLOWEST_BPS) as f64;
        all / PACKET_BITS * self.scenario.duration.as_secs_f64()
    }
}

/// The part `index` (from 1) of `count` of the runs: dealt out in order of their weight, so that
/// parts take about the same time. The parts together are the whole, and no run is in two.
pub fn shard(runs: Vec<Run>, index: usize, count: usize) -> Vec<Run> {
    let sorted = heaviest_first(runs);
    let dealt = sorted.into_iter().enumerate();
    let mine = dealt.filter(|(place, _)| place % count == index - 1);
    mine.map(|(_, run)| run).collect()
}

/// The runs in order of their weight, so that a long one is not left to the end.
pub fn heaviest_first(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by(|a, b| {
        let weight = b.weight().total_cmp(&a.weight());
        weight
            .then_with(|| (&a.experiment, &a.point, a.seed).cmp(&(&b.experiment, &b.point, b.seed)))
    });
    runs
}

/// Whether the axes have the point's values, and no more axes than it.
fn contains(axes: &BTreeMap<String, Vec<String>>, point: &Point) -> bool {
    let mut values = point.axes.iter();
    point.axes.len() == axes.len()
        && values.all(|(axis, value)| axes.get(axis).is_some_and(|all| all.contains(value)))
}

/// `all` with the values of some axes narrowed down to those of `to`, in the order of `all`.
fn narrowed(
    all: &BTreeMap<String, Vec<String>>,
    to: &BTreeMap<String, Vec<Word>>,
) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut narrow = all.clone();
    for (axis, words) in to {
        let Some(values) = narrow.get_mut(axis) else {
            let known: Vec<_> = all.keys().collect();
            return Err(format!(
                "there is no axis {axis}; there are {}",
                listed(&known)
            ));
        };
        for Word(word) in words {
            if !values.contains(word) {
                return Err(format!(
                    "{axis} has no value {word} here; it has {}",
                    listed(values)
                ));
            }
        }
        values.retain(|value| words.iter().any(|Word(word)| word == value));
    }
    Ok(narrow)
}

/// A template with every `$(...)` replaced.
fn fill(
    template: &str,
    axes: &BTreeMap<String, Vec<AxisValue>>,
    point: &Point,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("$(") {
        filled += before;
        let mut depth = 1;
        let end = after.find(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let end = end.ok_or_else(|| format!("{template:?} lacks a ')'"))?;
        let text = template_text(axes, point, &after[..end]);
        filled += &text.map_err(|why| format!("{template:?}: {why}"))?;
        rest = &after[end + 1..];
    }
    Ok(filled + rest)
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=+/".contains(c);
    if argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}
