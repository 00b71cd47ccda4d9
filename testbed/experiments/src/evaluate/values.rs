//! Reads numbers and series off the results of a run.

use serde_json::Value;

use crate::run::store::Record;
use crate::spec::metric::{Across, Path, Reduce, ReducedSeries, Selection};

/// A series: its name, the width of a bin in seconds, and a value for each.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Samples {
    pub(crate) name: String,
    pub(crate) bin_s: f64,
    pub(crate) values: Vec<Option<f64>>,
}

impl Path {
    /// The values below `document` that it leads to, by the flow's or link's name.
    pub(crate) fn find<'d>(
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

pub(super) fn descend<'d>(value: &'d Value, path: &str) -> Option<&'d Value> {
    path.split('.').try_fold(value, |value, key| value.get(key))
}

impl Selection {
    /// The series of every flow or link, or of all together, in a run.
    pub(crate) fn read(&self, record: &Record) -> Result<Vec<Samples>, String> {
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
    pub(crate) fn of(self, values: &[f64]) -> Option<f64> {
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
    /// The number that comes of it, given the value of `level`.
    pub(crate) fn value(&self, samples: &Samples, level: Option<f64>) -> Option<f64> {
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
