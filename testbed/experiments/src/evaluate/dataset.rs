//! The runs that were made, and the values of metrics and expressions in them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::run::store::{Plan, Record};
use crate::spec::expression::Expression;
use crate::spec::metric::Metric;
use crate::spec::runs::{Extent, Point};
use crate::spec::scope::Scope;

/// A result that lacks what an experiment reads from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{experiment}: {message}")]
pub struct MetricError {
    pub(crate) experiment: String,
    pub(crate) message: String,
}

/// A number over seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

/// The runs that there are, and the numbers read off them.
#[derive(Debug)]
pub(crate) struct Dataset<'a> {
    pub(crate) scope: &'a Scope,
    /// Of the plan to which the runs belong.
    pub(crate) extent: Extent,
    seeds: Option<u64>,
    records: BTreeMap<(Point, u64), &'a Record>,
    cache: RefCell<BTreeMap<(String, Point, u64), Option<f64>>>,
    /// The first value that the results lacked.
    missing: RefCell<Option<String>>,
}

impl Spread {
    /// Of the values that there are; `None` without any.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
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
}

impl<'a> Dataset<'a> {
    /// The runs of `plan` that were made.
    pub(crate) fn new(scope: &'a Scope, plan: &Plan, records: &'a [Record]) -> Self {
        let records = records.iter().map(|record| {
            let point = Point {
                group: record.group.clone(),
                axes: record.axes.clone(),
            };
            ((point, record.seed), record)
        });
        Self {
            scope,
            extent: plan.extent(),
            seeds: plan.seeds,
            records: records.collect(),
            cache: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// The seeds with which this point was run.
    pub(crate) fn seeds(&self, point: &Point) -> Vec<u64> {
        let all = self.records.keys();
        all.filter(|(other, _)| other == point)
            .map(|(_, seed)| *seed)
            .collect()
    }

    /// The seeds with which the plan has this point run.
    pub(crate) fn planned_seeds(&self, point: &Point) -> Vec<u64> {
        self.scope.seeds(self.extent, self.seeds, point)
    }

    /// The run at a point with a seed, if it was made.
    pub(crate) fn record(&self, point: &Point, seed: u64) -> Option<&'a Record> {
        self.records.get(&(point.clone(), seed)).copied()
    }

    /// What the results lacked, if anything.
    pub(crate) fn missing(&self) -> Option<String> {
        self.missing.borrow().clone()
    }

    /// The value of an expression at a point, over the seeds that all runs have which it needs;
    /// `None` if it has no value with one of them.
    pub(crate) fn spread(&self, expression: &Expression, point: &Point) -> Option<Spread> {
        let points = self.scope.needed(expression, point);
        let seeds = points.iter().map(|point| self.planned_seeds(point));
        // All begin with 1, so that the shortest is common to all.
        let seeds = seeds.min_by_key(Vec::len).unwrap_or_else(|| vec![1]);
        let values = seeds
            .iter()
            .map(|seed| self.evaluate(expression, point, *seed));
        Spread::of(values.collect::<Option<_>>()?)
    }

    /// The value of an expression at a point; `None` if a run or a value is missing.
    fn evaluate(&self, expression: &Expression, point: &Point, seed: u64) -> Option<f64> {
        expression.evaluate(&mut |reference| {
            let point = reference.point(point);
            match self.scope.metrics.get(&reference.name) {
                Some(metric) => self.metric(&reference.name, metric, &point, seed),
                None => self.scope.axis_number(&point, &reference.name),
            }
        })
    }

    fn metric(&self, name: &str, metric: &Metric, point: &Point, seed: u64) -> Option<f64> {
        let key = (name.to_owned(), point.clone(), seed);
        if let Some(known) = self.cache.borrow().get(&key) {
            return *known;
        }
        let record = self.record(point, seed)?;
        let value = self.read(metric, record, point).unwrap_or_else(|message| {
            let text = format!("metric {name}: {message}");
            self.missing.borrow_mut().get_or_insert(text);
            None
        });
        self.cache.borrow_mut().insert(key, value);
        value
    }

    fn read(&self, metric: &Metric, record: &Record, point: &Point) -> Result<Option<f64>, String> {
        match metric {
            Metric::Field { path, across } => {
                let found = path.find(&record.result)?;
                let present = found.iter().filter(|(_, value)| !value.is_null());
                let numbers: Option<Vec<f64>> = present.map(|(_, value)| value.as_f64()).collect();
                let numbers = numbers.ok_or_else(|| format!("{} is no number", path.text))?;
                match across {
                    Some(across) => Ok(across.of(&numbers)),
                    None if found.len() == 1 => Ok(numbers.first().copied()),
                    None => Err(format!("{} is several values; say across", path.text)),
                }
            }
            Metric::Series(series) => {
                let samples = series.selection.read(record)?;
                let [samples] = &samples[..] else {
                    let path = &series.selection.path.text;
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
