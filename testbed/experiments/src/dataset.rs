//! The runs of an experiment, and the numbers of its metrics and expressions.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::experiment::{Experiment, GROUPS, axis_number};
use super::expression::{Expression, Reference};
use super::matrix::{Extent, Point};
use super::metric::{Metric, ReducedSeries};
use super::store::{Plan, Record};

/// A result that lacks what an experiment reads from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{experiment}: {message}")]
pub struct MetricError {
    pub(super) experiment: String,
    pub(super) message: String,
}

/// The runs that there are of an experiment, and the numbers read off them.
#[derive(Debug)]
pub(super) struct Dataset<'a> {
    pub(super) experiment: &'a Experiment,
    /// Of the plan to which the runs belong.
    pub(super) extent: Extent,
    seeds: Option<u64>,
    records: BTreeMap<(Point, u64), &'a Record>,
    cache: RefCell<BTreeMap<(String, Point, u64), Option<f64>>>,
    /// The first thing that the results lacked.
    missing: RefCell<Option<String>>,
}

impl<'a> Dataset<'a> {
    pub(super) fn new(experiment: &'a Experiment, plan: &Plan, records: Vec<&'a Record>) -> Self {
        let records = records.into_iter().map(|record| {
            let point = Point {
                group: record.group.clone(),
                axes: record.axes.clone(),
            };
            ((point, record.seed), record)
        });
        Self {
            experiment,
            extent: plan.extent(),
            seeds: plan.seeds,
            records: records.collect(),
            cache: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// The seeds with which this point was run.
    pub(super) fn seeds(&self, point: &Point) -> Vec<u64> {
        let all = self.records.keys();
        all.filter(|(other, _)| other == point)
            .map(|(_, seed)| *seed)
            .collect()
    }

    /// The seeds with which the plan has this point run.
    pub(super) fn planned_seeds(&self, point: &Point) -> Vec<u64> {
        self.experiment.seeds(self.extent, self.seeds, point)
    }

    pub(super) fn record(&self, point: &Point, seed: u64) -> Option<&'a Record> {
        self.records.get(&(point.clone(), seed)).copied()
    }

    /// The value of an expression at a point; `None` if a run or a value is not there.
    pub(super) fn evaluate(
        &self,
        expression: &Expression,
        point: &Point,
        seed: u64,
    ) -> Option<f64> {
        expression.evaluate(&mut |reference| self.reference(reference, point, seed))
    }

    /// What the results lacked, if anything.
    pub(super) fn error(&self) -> Option<MetricError> {
        let message = self.missing.borrow().clone()?;
        Some(MetricError {
            experiment: self.experiment.id.clone(),
            message,
        })
    }

    fn reference(&self, reference: &Reference, point: &Point, seed: u64) -> Option<f64> {
        let point = moved(point, reference);
        if self.experiment.metrics.contains_key(&reference.name) {
            self.metric(&reference.name, &point, seed)
        } else {
            axis_number(&self.experiment.axes, &point, &reference.name)
        }
    }

    fn metric(&self, name: &str, point: &Point, seed: u64) -> Option<f64> {
        let key = (name.to_owned(), point.clone(), seed);
        if let Some(known) = self.cache.borrow().get(&key) {
            return *known;
        }
        let record = self.record(point, seed)?;
        let value = match self.read(&self.experiment.metrics[name], record, point) {
            Ok(value) => value,
            Err(message) => {
                let text = format!("metric {name}: {message}");
                self.missing.borrow_mut().get_or_insert(text);
                None
            }
        };
        self.cache.borrow_mut().insert(key, value);
        value
    }

    fn read(&self, metric: &Metric, record: &Record, point: &Point) -> Result<Option<f64>, String> {
        match metric {
            Metric::Field { path, across } => {
                let found = path.find(&record.result)?;
                let mut numbers = Vec::new();
                for (_, value) in &found {
                    if !value.is_null() {
                        let number = value.as_f64();
                        numbers
                            .push(number.ok_or_else(|| format!("{} is no number", path.text()))?);
                    }
                }
                match across {
                    Some(across) => Ok(across.of(&numbers)),
                    None if found.len() == 1 => Ok(numbers.first().copied()),
                    None => Err(format!("{} is several values; say across", path.text())),
                }
            }
            Metric::Series(series) => {
                let samples = series.selection.read(record)?;
                let [samples] = &samples[..] else {
                    let path = series.selection.path.text();
                    return Err(format!("{path} is several series; say across"));
                };
                let level = series.level.as_ref();
                let level = level.and_then(|level| self.evaluate(level, point, record.seed));
                Ok(series.value(samples, level))
            }
            Metric::Formula(expression) => Ok(self.evaluate(expression, point, record.seed)),
        }
    }
}

/// The point where a reference stands: `from`, moved along the axes in its brackets.
pub(super) fn moved(from: &Point, reference: &Reference) -> Point {
    let selectors = reference.selectors.iter();
    selectors.fold(from.clone(), |point, (axis, value)| point.with(axis, value))
}

/// The points at which an expression at `from` needs runs.
pub(super) fn needed(experiment: &Experiment, expression: &Expression, from: &Point) -> Vec<Point> {
    let mut points = Vec::new();
    for reference in expression.references() {
        let Some(metric) = experiment.metrics.get(&reference.name) else {
            continue;
        };
        let point = moved(from, reference);
        match metric {
            Metric::Formula(inner) => points.extend(needed(experiment, inner, &point)),
            Metric::Series(ReducedSeries {
                level: Some(level), ..
            }) => {
                points.extend(needed(experiment, level, &point));
                points.push(point);
            }
            Metric::Field { .. } | Metric::Series(_) => points.push(point),
        }
    }
    debug_assert!(points.iter().all(|point| !point.axes.contains_key(GROUPS)));
    points
}
