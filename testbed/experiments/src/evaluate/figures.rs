//! Figures, drawn from the runs that were made.

use std::collections::BTreeMap;

use super::dataset::{Dataset, Spread};
use super::values::Samples;
use crate::run::store::Record;
use crate::spec::figure::{Content, Figure, LineOf, TimeSeries};

/// What is drawn.
#[derive(Debug, Clone)]
pub(crate) enum Drawing {
    /// Values against an axis.
    Graph(GraphDrawing),
    /// Values over time.
    Time {
        /// Where the time axis ends, in seconds.
        to_s: f64,
        lines: Vec<Samples>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct GraphDrawing {
    pub(crate) x_label: String,
    /// The axis' values as people read them.
    pub(crate) x_titles: Vec<String>,
    /// The same as numbers, if all of them are.
    pub(crate) x_numbers: Option<Vec<f64>>,
    pub(crate) lines: Vec<Line>,
}

/// A line of a graph: ours, the paper's and ns-2's values, for each value of x.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) title: String,
    pub(crate) ours: Vec<Option<Spread>>,
    pub(crate) paper: Vec<Option<f64>>,
    pub(crate) ns2: Vec<Option<f64>>,
}

/// Draws a figure from the runs that there are; `None` if there is nothing to draw.
pub(crate) fn draw(figure: &Figure, data: &Dataset<'_>) -> Result<Option<Drawing>, String> {
    let series = match &figure.content {
        Content::Graph { x, lines } => {
            return Ok(graph(figure, (x, lines), data).map(Drawing::Graph));
        }
        Content::Time(series) => series,
    };
    let mut lines = Vec::new();
    for one in series {
        // Several seeds on top of each other would be illegible: the first stands for all.
        let seed = data.seeds(&one.point).first().copied();
        if let Some(record) = seed.and_then(|seed| data.record(&one.point, seed)) {
            lines.extend(samples(one, record)?);
        }
    }
    let ends = lines
        .iter()
        .map(|line| line.bin_s * line.values.len() as f64);
    let to_s = figure.file.to_s.unwrap_or(ends.fold(0.0, f64::max));
    Ok((!lines.is_empty()).then_some(Drawing::Time { to_s, lines }))
}

fn samples(series: &TimeSeries, record: &Record) -> Result<Vec<Samples>, String> {
    let mut lines = series.selection.read(record)?;
    let several = lines.len() > 1;
    for line in &mut lines {
        for value in line.values.iter_mut().flatten() {
            *value /= series.divide_by;
        }
        match &series.label {
            Some(label) if several => line.name = format!("{label} {}", line.name),
            Some(label) => label.clone_into(&mut line.name),
            None => {}
        }
    }
    Ok(lines)
}

fn graph(
    figure: &Figure,
    (x, lines): (&str, &[LineOf]),
    data: &Dataset<'_>,
) -> Option<GraphDrawing> {
    let all = data.scope.values(x);
    let all = all.expect("it was checked when the figure was read");
    let ours = lines.iter().map(|line| {
        let points = all.iter().map(|value| line.from.with(x, value));
        let values = points.map(|point| data.spread(&line.y, &point));
        values.collect::<Vec<_>>()
    });
    let ours: Vec<_> = ours.collect();
    // Values of the axis that were not run are left out.
    let there = |index: &usize| ours.iter().any(|line| line[*index].is_some());
    let places: Vec<usize> = (0..all.len()).filter(there).collect();
    if places.is_empty() {
        return None;
    }
    let given = |from: &BTreeMap<String, Vec<f64>>, line: &LineOf| {
        let values = from.get(&line.name);
        let at = |index: &usize| values.map(|all| all[*index]).filter(|v| v.is_finite());
        places.iter().map(at).collect()
    };
    let lines = lines.iter().zip(&ours).map(|(line, ours)| Line {
        title: line.title.clone(),
        ours: places.iter().map(|index| ours[*index]).collect(),
        paper: given(&figure.file.paper, line),
        ns2: given(&figure.file.ns2, line),
    });
    let title = |index: &usize| data.scope.value_title(x, &all[*index]).to_owned();
    let numbers = places.iter().map(|index| all[*index].parse().ok());
    Some(GraphDrawing {
        x_label: figure.file.x_label.clone().unwrap_or_else(|| x.to_owned()),
        x_titles: places.iter().map(title).collect(),
        x_numbers: numbers.collect(),
        lines: lines.collect(),
    })
}
