//! Numbers out of a run's results: paths into `result.json`, series that are reduced, formulas.

use serde_json::Value;

use super::expression::{Expression, Reference};
use super::file::{Across, MetricFile, Reduce};
use super::store::Record;

/// How a number is read off a run.
#[derive(Debug, Clone)]
pub(super) enum Metric {
    /// A field of the result.
    Field { path: Path, across: Option<Across> },
    /// A series, reduced.
    Series(ReducedSeries),
    /// Arithmetic over other metrics.
    Formula(Expression),
}

/// A field of flows, links or the whole, such as `flows.user-*.goodput_bps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    text: String,
}

/// Which flows' or links' series, taken together how, and from when to when.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) path: Path,
    pub(super) across: Option<Across>,
    pub(super) idle_as_zero: bool,
    pub(super) bin_s: Option<f64>,
}

#[derive(Debug, Clone)]
pub(super) struct ReducedSeries {
    pub(super) selection: Selection,
    from_s: f64,
    to_s: f64,
    reduce: Reduce,
    pub(super) level: Option<Expression>,
    band: f64,
}

/// A series: its name, the width of a bin in seconds, and a value for each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Samples {
    pub(super) name: String,
    pub(super) bin_s: f64,
    pub(super) values: Vec<Option<f64>>,
}

impl Metric {
    pub(super) fn new(name: &str, file: &MetricFile) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !name.chars().all(plain) || name.starts_with(|c: char| c.is_ascii_digit()) {
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
    pub(super) fn series(&self) -> Option<&Path> {
        match self {
            Self::Series(series) => Some(&series.selection.path),
            Self::Field { .. } | Self::Formula(_) => None,
        }
    }

    /// The metrics and axes that it needs.
    pub(super) fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Field { .. } => Vec::new(),
            Self::Series(series) => {
                let level = series.level.as_ref();
                level.map_or_else(Vec::new, Expression::references)
            }
            Self::Formula(expression) => expression.references(),
        }
    }
}

impl Path {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.split('.').any(str::is_empty) || !text.contains('.') {
            return Err(format!(
                "{text:?} is no path; write e.g. links.NAME.utilization or flows.NAME-*.goodput_bps"
            ));
        }
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// The path as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The values below `document` that it leads to, by the flow's or link's name.
    pub(super) fn find<'d>(
        &self,
        document: &'d Value,
    ) -> Result<Vec<(&'d str, &'d Value)>, String> {
        let missing = || format!("the results have no {}", self.text);
        let (first, rest) = self.text.split_once('.').ok_or_else(missing)?;
        let below = document.get(first).ok_or_else(missing)?;
        let Some(elements) = below.as_array() else {
            let value = descend(below, rest).ok_or_else(missing)?;
            return Ok(vec![("all", value)]);
        };
        let named = elements.iter().filter_map(|element| {
            let name = element.get("name")?.as_str()?;
            Some((name, element, after_name(rest, name)?))
        });
        // The name of a link may begin with that of another: `one` and `one.reverse`.
        let named: Vec<_> = named.collect();
        let shortest = named.iter().map(|(_, _, field)| field.len()).min();
        let of_longest = named
            .iter()
            .filter(|(_, _, field)| Some(field.len()) == shortest);
        let found: Vec<_> = of_longest
            .map(|(name, element, field)| Some((*name, descend(element, field)?)))
            .collect::<Option<_>>()
            .ok_or_else(missing)?;
        if found.is_empty() {
            return Err(missing());
        }
        Ok(found)
    }
}

/// What follows in `rest` behind a name, or a pattern that the name fits; `*` is any text.
fn after_name<'r>(rest: &'r str, name: &str) -> Option<&'r str> {
    let exact = rest
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('.'));
    if exact.is_some() {
        return exact;
    }
    let (pattern, field) = rest.split_once('.')?;
    let mut parts = pattern.split('*');
    let mut left = name.strip_prefix(parts.next()?)?;
    let mut inner: Vec<&str> = parts.collect();
    // What follows the last `*` ends the name; what is between two is found as early as possible.
    left = left.strip_suffix(inner.pop()?)?;
    for part in inner {
        left = &left[left.find(part)? + part.len()..];
    }
    Some(field)
}

fn descend<'d>(value: &'d Value, path: &str) -> Option<&'d Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

impl Selection {
    pub(super) fn new(
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

    /// The series of every flow or link, or of all together, in a run.
    pub(super) fn read(&self, record: &Record) -> Result<Vec<Samples>, String> {
        let series = &record.series;
        let interval_s = series.get("interval_s").and_then(Value::as_f64);
        let interval_s = interval_s.ok_or("the run kept no series")?;
        let found = self.path.find(series)?;
        let mut all = Vec::new();
        for (name, values) in found {
            let values = values
                .as_array()
                .ok_or_else(|| format!("{} is no series", self.path.text))?;
            let idle = self.idle_as_zero.then_some(0.0);
            let values = values.iter().map(|value| value.as_f64().or(idle));
            all.push(binned(name, values.collect(), interval_s, self.bin_s));
        }
        let Some(across) = self.across else {
            return Ok(all);
        };
        let length = all.iter().map(|one| one.values.len()).max().unwrap_or(0);
        let together = (0..length).map(|index| {
            let present = all.iter().filter_map(|one| *one.values.get(index)?);
            across.of(&present.collect::<Vec<f64>>())
        });
        Ok(vec![Samples {
            name: "all".into(),
            bin_s: all[0].bin_s,
            values: together.collect(),
        }])
    }
}

/// Neighbours averaged until bins are `bin_s` wide; those without a value do not count.
fn binned(name: &str, values: Vec<Option<f64>>, interval_s: f64, bin_s: Option<f64>) -> Samples {
    let width = bin_s.map_or(1, |bin_s| (bin_s / interval_s).round().max(1.0) as usize);
    let merged = values.chunks(width).map(|chunk| {
        let present: Vec<f64> = chunk.iter().copied().flatten().collect();
        Across::Mean.of(&present)
    });
    Samples {
        name: name.to_owned(),
        bin_s: interval_s * width as f64,
        values: merged.collect(),
    }
}

impl Across {
    /// One number out of several; `None` without any, or if the definition gives none.
    pub(super) fn of(self, values: &[f64]) -> Option<f64> {
        if values.is_empty() {
            return None;
        }
        let sum: f64 = values.iter().sum();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let result = match self {
            Self::Sum => sum,
            Self::Mean => sum / values.len() as f64,
            Self::Min => least,
            Self::Max => greatest,
            Self::Jain => {
                let squares: f64 = values.iter().map(|value| value * value).sum();
                sum * sum / (values.len() as f64 * squares)
            }
            Self::WorstCase => least / greatest,
        };
        result.is_finite().then_some(result)
    }
}

impl ReducedSeries {
    fn new(path: &str, file: &MetricFile) -> Result<Self, String> {
        let reduce = file.reduce.ok_or("a series needs reduce")?;
        let by_level = matches!(reduce, Reduce::Rises | Reduce::Falls | Reduce::Settles);
        if by_level != file.level.is_some() || (reduce == Reduce::Settles) != file.band.is_some() {
            return Err(
                "level goes with reduce = rises, falls and settles, band with settles".into(),
            );
        }
        let (from_s, to_s) = (
            file.from_s.unwrap_or(0.0),
            file.to_s.unwrap_or(f64::INFINITY),
        );
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

    /// The number that comes of it, given the value of `level`.
    pub(super) fn value(&self, samples: &Samples, level: Option<f64>) -> Option<f64> {
        // A bin counts if its middle lies in the window.
        let middle = |index: usize| (index as f64 + 0.5) * samples.bin_s;
        let inside = samples
            .values
            .iter()
            .enumerate()
            .filter(|(index, _)| middle(*index) >= self.from_s && middle(*index) < self.to_s);
        let inside: Vec<(f64, f64)> = inside
            .filter_map(|(index, value)| Some((index as f64 * samples.bin_s, (*value)?)))
            .collect();
        let values: Vec<f64> = inside.iter().map(|(_, value)| *value).collect();
        let mean = Across::Mean.of(&values)?;
        let sd = || {
            let squares = values.iter().map(|value| (value - mean) * (value - mean));
            (squares.sum::<f64>() / values.len() as f64).sqrt()
        };
        let since = |at: f64| (at - self.from_s).max(0.0);
        let result = match self.reduce {
            Reduce::Sum => values.iter().sum(),
            Reduce::Mean => mean,
            Reduce::Sd => sd(),
            Reduce::Cov => sd() / mean,
            Reduce::Min => Across::Min.of(&values)?,
            Reduce::Max => Across::Max.of(&values)?,
            Reduce::Last => *values.last()?,
            Reduce::Rises => {
                let level = level?;
                since(inside.iter().find(|(_, value)| *value >= level)?.0)
            }
            Reduce::Falls => {
                let level = level?;
                since(inside.iter().find(|(_, value)| *value <= level)?.0)
            }
            Reduce::Settles => {
                let level = level?;
                let outside = |value: f64| (value - level).abs() > self.band * level.abs();
                match inside.iter().rposition(|(_, value)| outside(*value)) {
                    None => 0.0,
                    // It has not settled if the last sample is outside.
                    Some(last) => since(inside.get(last + 1)?.0),
                }
            }
        };
        result.is_finite().then_some(result)
    }
}

#[cfg(test)]
mod tests;
