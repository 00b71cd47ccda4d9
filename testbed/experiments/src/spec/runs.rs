//! A run: its place in the experiment, its scenario, and the work it takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_testbed::scenario::Scenario;

/// The name by which files refer to the group of a run, as if it were an axis.
pub(crate) const GROUPS: &str = "runs";

/// Bits of a full-size packet on the wire.
const PACKET_BITS: f64 = 8.0 * 1228.0;

/// Least rate that [`Run::weight`] counts: an idle run takes time, too.
const SLOWEST_BPS: u64 = 100_000;

/// The place of a run in its experiment: its group, and a value of every axis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Point {
    pub(crate) group: String,
    pub(crate) axes: BTreeMap<String, String>,
}

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The decisive points of each experiment.
    Quick,
    /// Everything.
    Full,
    /// The points chosen for real time on the kernel.
    Kernel,
}

/// A run: a scenario, its overrides and its place in the experiment.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its experiment's id.
    pub experiment: String,
    pub(crate) point: Point,
    /// Seed of every random choice.
    pub seed: u64,
    /// The scenario's file.
    pub scenario_path: PathBuf,
    /// Overrides of the scenario, except the seed.
    pub overrides: Vec<String>,
    /// The scenario, checked.
    pub scenario: Scenario,
    /// Paths of the series to store; the others are dropped.
    pub(crate) kept_series: Vec<String>,
}

impl Point {
    /// This point with another value of an axis, or in another group.
    pub(crate) fn with(&self, axis: &str, value: &str) -> Self {
        let mut point = self.clone();
        if axis == GROUPS {
            value.clone_into(&mut point.group);
        } else {
            point.axes.insert(axis.to_owned(), value.to_owned());
        }
        point
    }

    /// The points at every combination of these values of axes.
    pub(crate) fn spread(
        self,
        axes: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<[String]>)>,
    ) -> Vec<Self> {
        axes.into_iter().fold(vec![self], |points, (axis, values)| {
            let at = |point: &Self| {
                let values = values.as_ref().iter();
                let points = values.map(|value| point.with(axis.as_ref(), value));
                points.collect::<Vec<_>>()
            };
            points.iter().flat_map(at).collect()
        })
    }

    /// Its values in one line, the group first unless it is the main one.
    fn parts(&self) -> Vec<String> {
        let group = (self.group != "main").then(|| self.group.clone());
        let axes = self.axes.iter();
        let axes = axes.map(|(axis, value)| format!("{axis}={value}"));
        group.into_iter().chain(axes).collect()
    }

    /// Its values in one line; the main group is not named beside others.
    pub(crate) fn label(&self) -> String {
        let parts = self.parts();
        if parts.is_empty() {
            return "main".into();
        }
        parts.join(" ")
    }

    /// Its values and a seed in one line.
    pub(crate) fn label_with(&self, seed: u64) -> String {
        let mut parts = self.parts();
        parts.push(format!("seed {seed}"));
        parts.join(" ")
    }
}

/// The command that runs the scenario in `file` on `backend`.
pub(super) fn run_command(file: &Path, backend: &str) -> String {
    let command = format!("evenkeel-testbed run {}", file.display());
    match backend {
        "sim" => command,
        other => format!("{command} --on {other}"),
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
        let mut command = run_command(&self.scenario_path, backend);
        for set in &self.overrides {
            command += &format!(" --set {}", quoted(set));
        }
        command + &format!(" --seed {}", self.seed)
    }

    /// Roughly the work it takes: the packets that its links carry forward if they are always busy.
    pub fn weight(&self) -> f64 {
        let links = self.scenario.links.iter();
        let forward = links.filter(|link| link.reported && !link.name.ends_with(".reverse"));
        let rates = forward
            .filter_map(|link| link.mean_rate_bps(self.scenario.warmup, self.scenario.duration));
        let all = rates.sum::<u64>().max(SLOWEST_BPS) as f64;
        all / PACKET_BITS * self.scenario.duration.as_secs_f64()
    }
}

/// The part `index` (from 1) of `count` of the runs. Runs are dealt out in order of their weight,
/// so that parts take about the same time. Each run is in exactly one part.
pub fn shard(runs: Vec<Run>, index: usize, count: usize) -> Vec<Run> {
    let sorted = heaviest_first(runs);
    let dealt = sorted.into_iter().enumerate();
    let mine = dealt.filter(|(place, _)| place % count == index - 1);
    mine.map(|(_, run)| run).collect()
}

/// The runs in order of their weight, so that no long one is left to the end.
pub fn heaviest_first(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by(|a, b| {
        let weight = b.weight().total_cmp(&a.weight());
        weight
            .then_with(|| (&a.experiment, &a.point, a.seed).cmp(&(&b.experiment, &b.point, b.seed)))
    });
    runs
}

/// An argument, quoted for a shell if necessary.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=+/".contains(c);
    if argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}
