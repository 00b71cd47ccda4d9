//! Metrics: which numbers of a run an experiment reads, and how.

use serde::Deserialize;

use super::axes::is_plain;
use super::expression::{Expression, Reference};

/// A metric as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricFile {
    pub(crate) of: Option<String>,
    pub(crate) series: Option<String>,
    pub(crate) formula: Option<String>,
    pub(crate) across: Option<Across>,
    #[serde(default)]
    pub(crate) idle_as_zero: bool,
    pub(crate) bin_s: Option<f64>,
    pub(crate) from_s: Option<f64>,
    pub(crate) to_s: Option<f64>,
    pub(crate) reduce: Option<Reduce>,
    pub(crate) level: Option<String>,
    pub(crate) band: Option<f64>,
}

/// How the values of several flows or links become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Across {
    Sum,
    Mean,
    Min,
    Max,
    Jain,
    WorstCase,
}

/// How a series becomes one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reduce {
    /// Of counts: how many in all.
    Sum,
    Mean,
    Sd,
    Cov,
    Min,
    Max,
    Last,
    /// Seconds until it first reaches the level.
    Rises,
    /// Seconds until it first is at or below the level.
    Falls,
    /// Seconds until it stays within the band around the level.
    Settles,
}

/// How a number is read off a run.
#[derive(Debug, Clone)]
pub(crate) enum Metric {
    /// A field of the result.
    Field { path: Path, across: Option<Across> },
    /// A series, reduced.
    Series(ReducedSeries),
    /// Arithmetic over other metrics.
    Formula(Expression),
}

/// A field of flows, links or the whole, such as `flows.user-*.goodput_bps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) text: String,
}

/// The series of some flows or links, and how they are averaged and combined.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) path: Path,
    pub(crate) across: Option<Across>,
    pub(crate) idle_as_zero: bool,
    pub(crate) bin_s: Option<f64>,
}

/// A series, and how it becomes one number.
#[derive(Debug, Clone)]
pub(crate) struct ReducedSeries {
    pub(crate) selection: Selection,
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) reduce: Reduce,
    pub(crate) level: Option<Expression>,
    pub(crate) band: f64,
}

impl Metric {
    pub(crate) fn new(name: &str, file: &MetricFile) -> Result<Self, String> {
        if !is_plain(name) {
            return Err("its name has more than letters, digits and _; choose another".into());
        }
        let of_series = file.bin_s.is_some()
            || file.from_s.is_some()
            || file.to_s.is_some()
            || file.reduce.is_some()
            || file.level.is_some()
            || file.band.is_some()
            || file.idle_as_zero;
        match (&file.of, &file.series, &file.formula) {
            (Some(path), None, None) if !of_series => Ok(Self::Field {
                path: Path::new(path)?,
                across: file.across,
            }),
            (None, Some(path), None) => ReducedSeries::new(path, file).map(Self::Series),
            (None, None, Some(text)) if !of_series && file.across.is_none() => {
                Expression::parse(text).map(Self::Formula)
            }
            _ => Err("it needs one of of, series and formula; only series takes bin_s, from_s, to_s, reduce, level, band and idle_as_zero, and formula takes no across".into()),
        }
    }

    /// The series that it reads, if it does.
    pub(crate) fn series(&self) -> Option<&Path> {
        match self {
            Self::Series(series) => Some(&series.selection.path),
            Self::Field { .. } | Self::Formula(_) => None,
        }
    }

    /// The metrics and axes that it needs.
    pub(crate) fn references(&self) -> &[Reference] {
        let expression = match self {
            Self::Field { .. } => None,
            Self::Series(series) => series.level.as_ref(),
            Self::Formula(expression) => Some(expression),
        };
        expression.map_or(&[], Expression::references)
    }
}

impl Path {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.split('.').any(str::is_empty) || !text.contains('.') {
            return Err(format!(
                "{text:?} is no path; write e.g. links.NAME.utilization or flows.NAME-*.goodput_bps"
            ));
        }
        Ok(Self {
            text: text.to_owned(),
        })
    }
}

impl Selection {
    pub(crate) fn new(
        path: &str,
        across: Option<Across>,
        bin_s: Option<f64>,
    ) -> Result<Self, String> {
        if bin_s.is_some_and(|bin_s| !(bin_s > 0.0 && bin_s.is_finite())) {
            return Err("bin_s is no length; make it positive".into());
        }
        Ok(Self {
            path: Path::new(path)?,
            across,
            idle_as_zero: false,
            bin_s,
        })
    }
}

impl ReducedSeries {
    pub(crate) fn new(path: &str, file: &MetricFile) -> Result<Self, String> {
        let reduce = file.reduce.ok_or("a series needs reduce")?;
        let by_level = matches!(reduce, Reduce::Rises | Reduce::Falls | Reduce::Settles);
        if by_level != file.level.is_some() || (reduce == Reduce::Settles) != file.band.is_some() {
            return Err(
                "level goes with reduce = rises, falls and settles, band with settles".into(),
            );
        }
        let from_s = file.from_s.unwrap_or(0.0);
        let to_s = file.to_s.unwrap_or(f64::INFINITY);
        if from_s.is_nan() || to_s.is_nan() || from_s < 0.0 || from_s >= to_s {
            return Err("from_s must lie before to_s".into());
        }
        if reduce == Reduce::Sum && file.bin_s.is_some() {
            return Err("reduce = sum is of samples; remove bin_s, whose bins are averages".into());
        }
        let mut selection = Selection::new(path, file.across, file.bin_s)?;
        selection.idle_as_zero = file.idle_as_zero;
        Ok(Self {
            selection,
            from_s,
            to_s,
            reduce,
            level: file.level.as_deref().map(Expression::parse).transpose()?,
            band: file.band.unwrap_or(0.0),
        })
    }
}
