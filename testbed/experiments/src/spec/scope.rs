//! The names that claims, figures and formulas can use, and the runs that they need.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::axes::{self, Axes, Place, Word, Words, listed};
use super::expression::{Expression, Reference};
use super::matrix::Group;
use super::metric::{Metric, ReducedSeries};
use super::runs::{Extent, GROUPS, Point};

/// Axes, groups of runs and metrics of an experiment.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) axes: Axes,
    pub(crate) groups: Vec<Group>,
    pub(crate) metrics: BTreeMap<String, Metric>,
}

/// The axes over whose values a claim holds: all values, or those that are listed.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Each {
    All(Vec<String>),
    Listed(Words),
}

impl Default for Each {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Scope {
    /// Checks that names in formulas are metrics or axes, and that no metric needs itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        for name in self.metrics.keys() {
            if self.axes.contains_key(name) || name == GROUPS {
                return Err(format!(
                    "metric {name} has the name of an axis; rename one of them"
                ));
            }
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

    /// Names and titles of an axis' values, or of the groups of runs.
    fn titles(&self, axis: &str) -> Option<Vec<(&str, &str)>> {
        if axis == GROUPS {
            let groups = self.groups.iter();
            return Some(groups.map(|one| (&*one.name, &*one.title)).collect());
        }
        let values = self.axes.get(axis)?.iter();
        Some(values.map(|one| (&*one.name, &*one.title)).collect())
    }

    /// The names of an axis' values, or of the groups of runs.
    pub(crate) fn values(&self, axis: &str) -> Result<Vec<String>, String> {
        let values = self.titles(axis).ok_or_else(|| {
            let known = listed(self.axes.keys());
            format!("there is no axis {axis}; there are {known}")
        })?;
        Ok(values.iter().map(|(name, _)| (*name).to_owned()).collect())
    }

    /// The title of an axis' value, or of a group of runs.
    pub(crate) fn value_title<'s>(&'s self, axis: &str, value: &'s str) -> &'s str {
        let mut values = self.titles(axis).into_iter().flatten();
        let found = values.find(|(name, _)| *name == value);
        found.map_or(value, |(_, title)| title)
    }

    /// Checks that an axis, or the groups of runs, have a value of this name.
    fn check_value(&self, axis: &str, value: &str) -> Result<(), String> {
        let known = self.values(axis)?;
        if known.iter().any(|one| one == value) {
            return Ok(());
        }
        let known = listed(known);
        Err(format!("{axis} has no value {value}; it has {known}"))
    }

    /// Checks that a reference names a metric, an axis or a field of one.
    fn check_reference(&self, reference: &Reference) -> Result<(), String> {
        for (axis, value) in &reference.selectors {
            self.check_value(axis, value)?;
        }
        let name = &reference.name;
        let axis = name.split('.').next().unwrap_or_default();
        if self.metrics.contains_key(name) || self.axes.contains_key(axis) {
            return Ok(());
        }
        let metrics = listed(self.metrics.keys());
        Err(format!(
            "there is no metric or axis {name}; metrics are {metrics}"
        ))
    }

    /// Reads an expression of a claim or figure and checks its names.
    pub(crate) fn expression(&self, text: &str) -> Result<Expression, String> {
        let parsed = Expression::parse(text)?;
        for reference in parsed.references() {
            self.check_reference(reference)?;
        }
        Ok(parsed)
    }

    /// The number that an axis, or a field of its value, has at a point.
    pub(crate) fn axis_number(&self, point: &Point, name: &str) -> Option<f64> {
        axes::number(&self.axes, point, name)
    }

    /// The point that `place` names. Axes with a single value have it by default, and the group
    /// is the first by default; other axes stay open for brackets and the axes of figures.
    pub(crate) fn point(&self, place: &Place) -> Result<Point, String> {
        let single = self.axes.iter().filter(|(_, values)| values.len() == 1);
        let axes = single.map(|(axis, values)| (axis.clone(), values[0].name.clone()));
        let from = Point {
            group: self.groups[0].name.clone(),
            axes: axes.collect(),
        };
        self.moved(&from, place)
    }

    /// `from`, moved along the axes that `place` names.
    pub(crate) fn moved(&self, from: &Point, place: &Place) -> Result<Point, String> {
        let mut point = from.clone();
        for (axis, Word(value)) in place {
            self.check_value(axis, value)?;
            point = point.with(axis, value);
        }
        Ok(point)
    }

    /// The points at every combination of the values of the axes that `each` names.
    pub(crate) fn points(&self, from: Point, each: &Each) -> Result<Vec<Point>, String> {
        let mut axes: Vec<(&String, Vec<String>)> = Vec::new();
        match each {
            Each::All(all) => {
                for axis in all {
                    axes.push((axis, self.values(axis)?));
                }
            }
            Each::Listed(some) => {
                for (axis, words) in some {
                    for Word(value) in words {
                        self.check_value(axis, value)?;
                    }
                    let values = words.iter().map(|Word(value)| value.clone());
                    axes.push((axis, values.collect()));
                }
            }
        }
        Ok(from.spread(axes))
    }

    fn group(&self, point: &Point) -> Option<&Group> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.name == point.group)
    }

    /// The seeds of a point's runs: 1 to `seeds`, or as many as the file says.
    pub(crate) fn seeds(&self, extent: Extent, seeds: Option<u64>, point: &Point) -> Vec<u64> {
        let own = self.group(point).map(|group| group.seeds(extent, point));
        (1..=seeds.or(own).unwrap_or(1)).collect()
    }

    /// Whether the extent has a run at this point.
    pub(crate) fn has_run(&self, point: &Point, extent: Extent) -> bool {
        let group = self.group(point);
        group.is_some_and(|group| group.has(point, extent))
    }

    /// Whether the extent has all runs that the expressions need at `point`.
    pub(crate) fn has_runs(
        &self,
        expressions: &[&Expression],
        point: &Point,
        extent: Extent,
    ) -> bool {
        let mut expressions = expressions.iter();
        expressions.all(|expression| {
            let mut needed = self.needed(expression, point).into_iter();
            needed.all(|point| self.has_run(&point, extent))
        })
    }

    /// The points at which an expression at `from` needs runs.
    pub(crate) fn needed(&self, expression: &Expression, from: &Point) -> Vec<Point> {
        let mut points = Vec::new();
        for reference in expression.references() {
            let Some(metric) = self.metrics.get(&reference.name) else {
                continue;
            };
            let point = reference.point(from);
            match metric {
                Metric::Formula(inner) => points.extend(self.needed(inner, &point)),
                Metric::Series(ReducedSeries {
                    level: Some(level), ..
                }) => {
                    points.extend(self.needed(level, &point));
                    points.push(point);
                }
                Metric::Field { .. } | Metric::Series(_) => points.push(point),
            }
        }
        points
    }
}
