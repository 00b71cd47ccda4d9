//! Groups of runs: every combination of the axes' values, with overrides of a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::axes::{Axes, Word, Words, fill, listed};
use super::runs::{Extent, Point};

/// `[[runs]]` as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupFile {
    #[serde(default = "main_group")]
    pub(crate) name: String,
    title: Option<String>,
    scenario: Option<String>,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    only: Words,
    #[serde(default)]
    quick: Words,
    #[serde(default)]
    quick_set: Vec<String>,
    /// Seeds of the full extent, at the points of `seeds_at`.
    #[serde(default = "one")]
    seeds: u64,
    #[serde(default)]
    seeds_at: Words,
    /// The points that are also run on the kernel; none without it.
    kernel: Option<Words>,
}

fn one() -> u64 {
    1
}

fn main_group() -> String {
    "main".into()
}

/// Names of values of every axis.
type Values = BTreeMap<String, Vec<String>>;

/// Runs that share their overrides.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) scenario: PathBuf,
    set: Vec<String>,
    quick_set: Vec<String>,
    full: Values,
    quick: Values,
    kernel: Option<Values>,
    seeds: u64,
    /// Where it has as many seeds; elsewhere it has one.
    seeds_at: Values,
}

impl Group {
    /// Checks a group. `scenario` and `set` are the experiment's; scenarios are in `directory`.
    pub(crate) fn new(
        group: GroupFile,
        (scenario, set): (&str, &[String]),
        axes: &Axes,
        directory: &Path,
    ) -> Result<Self, String> {
        let title = format!("runs {:?}", group.name);
        let names = axes.iter().map(|(axis, values)| {
            let names = values.iter().map(|value| value.name.clone());
            (axis.clone(), names.collect())
        });
        let narrow = |all: &Values, key: &str, to: &Words| {
            narrowed(all, to).map_err(|why| format!("{title}: {key}: {why}"))
        };
        let full = narrow(&names.collect(), "only", &group.only)?;
        let quick = narrow(&full, "quick", &group.quick)?;
        let kernel = group.kernel.as_ref();
        let kernel = kernel.map(|to| narrow(&full, "kernel", to)).transpose()?;
        let seeds_at = narrow(&full, "seeds_at", &group.seeds_at)?;
        if group.seeds == 0 {
            return Err(format!("{title}: seeds must be at least 1"));
        }
        let group = Self {
            title: group.title.unwrap_or_else(|| group.name.clone()),
            name: group.name,
            scenario: directory.join(group.scenario.as_deref().unwrap_or(scenario)),
            set: set.iter().cloned().chain(group.set).collect(),
            quick_set: group.quick_set,
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
    fn values(&self, extent: Extent) -> Option<&Values> {
        match extent {
            Extent::Full => Some(&self.full),
            Extent::Quick => Some(&self.quick),
            Extent::Kernel => self.kernel.as_ref(),
        }
    }

    /// Its points of the extent.
    pub(crate) fn points(&self, extent: Extent) -> Vec<Point> {
        let from = Point {
            group: self.name.clone(),
            axes: BTreeMap::new(),
        };
        let axes = self.values(extent);
        axes.map_or_else(Vec::new, |axes| from.spread(axes))
    }

    /// Whether a point is one of its own.
    pub(crate) fn has(&self, point: &Point, extent: Extent) -> bool {
        let axes = self.values(extent);
        axes.is_some_and(|axes| contains(axes, point))
    }

    /// How many seeds the file gives a point.
    pub(crate) fn seeds(&self, extent: Extent, point: &Point) -> u64 {
        if extent == Extent::Full && contains(&self.seeds_at, point) {
            return self.seeds;
        }
        1
    }

    /// The overrides of the run at a point.
    pub(crate) fn overrides(
        &self,
        axes: &Axes,
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

/// Whether the point has exactly these axes, each at one of these values.
fn contains(axes: &Values, point: &Point) -> bool {
    let mut values = point.axes.iter();
    point.axes.len() == axes.len()
        && values.all(|(axis, value)| axes.get(axis).is_some_and(|all| all.contains(value)))
}

/// `all` with the values of some axes narrowed down to those of `to`, in the order of `all`.
fn narrowed(all: &Values, to: &Words) -> Result<Values, String> {
    let mut narrow = all.clone();
    for (axis, words) in to {
        let Some(values) = narrow.get_mut(axis) else {
            let known = listed(all.keys());
            return Err(format!("there is no axis {axis}; there are {known}"));
        };
        for Word(word) in words {
            if !values.contains(word) {
                let known = listed(values);
                return Err(format!("{axis} has no value {word} here; it has {known}"));
            }
        }
        values.retain(|value| words.iter().any(|Word(word)| word == value));
    }
    Ok(narrow)
}
