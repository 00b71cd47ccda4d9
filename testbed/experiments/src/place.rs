//! Where figures and claims look: points of an experiment, given by some of its axes.

use super::dataset::{Dataset, needed};
use super::experiment::{Experiment, GROUPS};
use super::expression::Expression;
use super::file::{Each, Place, Word};
use super::matrix::{Extent, Point};

/// A number over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    /// Median.
    pub(super) median: f64,
    /// Least.
    pub(super) least: f64,
    /// Greatest.
    pub(super) greatest: f64,
}

impl Spread {
    /// Of the values that there are; `None` without any.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self {
            median,
            least,
            greatest,
        })
    }

    /// Of an expression at a point, over the seeds that all runs have which it needs; `None` if
    /// it has no value with one of them.
    pub(super) fn at(data: &Dataset<'_>, expression: &Expression, point: &Point) -> Option<Self> {
        let points = needed(data.experiment, expression, point);
        let seeds = points.iter().map(|point| data.planned_seeds(point));
        // All begin with 1, so that the shortest is common to all.
        let seeds = seeds.min_by_key(Vec::len).unwrap_or_else(|| vec![1]);
        let values = seeds
            .iter()
            .map(|seed| data.evaluate(expression, point, *seed));
        Self::of(values.collect::<Option<_>>()?)
    }
}

/// The point that `place` names. Axes with a single value go without saying, and so does the
/// first group of runs; others stay open for brackets and figures' own axes.
pub(super) fn point(experiment: &Experiment, place: &Place) -> Result<Point, String> {
    let single = experiment
        .axes
        .iter()
        .filter(|(_, values)| values.len() == 1);
    let point = Point {
        group: experiment.groups[0].name.clone(),
        axes: single
            .map(|(axis, values)| (axis.clone(), values[0].name.clone()))
            .collect(),
    };
    moved(experiment, &point, place)
}

/// `from`, moved along the axes that `place` names.
pub(super) fn moved(experiment: &Experiment, from: &Point, place: &Place) -> Result<Point, String> {
    let mut point = from.clone();
    for (axis, Word(value)) in place {
        experiment.check_value(axis, value)?;
        point = point.with(axis, value);
    }
    Ok(point)
}

/// The points at every combination of the values of the axes that `each` names.
pub(super) fn points(
    experiment: &Experiment,
    from: &Point,
    each: &Each,
) -> Result<Vec<Point>, String> {
    let axes: Vec<(&String, Vec<String>)> = match each {
        Each::All(axes) => axes
            .iter()
            .map(|axis| Ok((axis, values(experiment, axis)?)))
            .collect::<Result<_, String>>()?,
        Each::Listed(axes) => {
            let listed = axes.iter().map(|(axis, words)| {
                for Word(value) in words {
                    experiment.check_value(axis, value)?;
                }
                let values = words.iter().map(|Word(value)| value.clone());
                Ok((axis, values.collect()))
            });
            listed.collect::<Result<_, String>>()?
        }
    };
    let mut points = vec![from.clone()];
    for (axis, values) in axes {
        let extended = points
            .iter()
            .flat_map(|point| values.iter().map(|value| point.with(axis, value)));
        points = extended.collect();
    }
    Ok(points)
}

/// The names of an axis' values, or of the groups of runs.
pub(super) fn values(experiment: &Experiment, axis: &str) -> Result<Vec<String>, String> {
    if axis == GROUPS {
        let groups = experiment.groups.iter().map(|group| group.name.clone());
        return Ok(groups.collect());
    }
    let values = experiment.axes.get(axis);
    let values = values.ok_or_else(|| format!("there is no axis {axis}"))?;
    Ok(values.iter().map(|value| value.name.clone()).collect())
}

/// Reads an expression of a claim or figure and checks its names.
pub(super) fn expression(experiment: &Experiment, text: &str) -> Result<Expression, String> {
    let parsed = Expression::parse(text)?;
    for reference in parsed.references() {
        experiment.check_reference(reference)?;
    }
    Ok(parsed)
}

/// Whether all runs that the expressions need at `point` are among those of the experiment.
pub(super) fn has_runs(
    experiment: &Experiment,
    expressions: &[&Expression],
    point: &Point,
    extent: Extent,
) -> bool {
    let needed = expressions
        .iter()
        .flat_map(|expression| needed(experiment, expression, point));
    needed
        .into_iter()
        .all(|point| experiment.has_run(&point, extent))
}
