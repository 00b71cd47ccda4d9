//! Turns drawings into pictures and tables.

use evenkeel_testbed::report::picture::{Axis, Line, Picture, Point, Style};

use minijinja::context;
use minijinja::value::Value;

use crate::evaluate::dataset::Spread;
use crate::evaluate::figures::{Drawing, GraphDrawing};
use crate::evaluate::values::Samples;
use crate::spec::figure::{FigureFile, FigureKind};

/// Points of a line over time; more would not show.
const MAX_POINTS: usize = 640;

/// More lines than this over time are drawn pale, as a crowd.
const CROWD: usize = 10;

/// The picture of a drawing; `None` of a table.
pub(super) fn picture(drawing: &Drawing, figure: &FigureFile) -> Option<Picture> {
    let (x, lines) = match drawing {
        Drawing::Graph(_) if figure.kind == FigureKind::Table => return None,
        Drawing::Graph(graph) => {
            let x = axis(graph, figure);
            let lines = graph_lines(graph, &x, figure.kind);
            (x, lines)
        }
        Drawing::Time { to_s, lines } => {
            let from_s = figure.from_s.unwrap_or(0.0);
            (Axis::Time(from_s, *to_s), time_lines(lines, from_s, *to_s))
        }
    };
    Some(Picture {
        title: String::new(),
        x,
        y_label: figure.y_label.clone(),
        y_from: figure.y_from,
        warmup_s: 0.0,
        panels: vec![lines],
    })
}

/// Numbers have a scale. Words, groups of bars and a single value are side by side.
fn axis(graph: &GraphDrawing, figure: &FigureFile) -> Axis {
    let numbers = graph.x_numbers.as_ref();
    match numbers.filter(|numbers| figure.kind != FigureKind::Bars && numbers.len() > 1) {
        Some(numbers) => Axis::Numbers(graph.x_label.clone(), numbers.clone(), figure.x_log),
        None => Axis::Words(graph.x_label.clone(), graph.x_titles.clone()),
    }
}

/// Ours on top of the paper's and ns-2's.
fn graph_lines(graph: &GraphDrawing, x: &Axis, kind: FigureKind) -> Vec<Line> {
    let places: Vec<f64> = match x {
        Axis::Numbers(_, numbers, _) => numbers.clone(),
        _ => (0..graph.x_titles.len())
            .map(|index| index as f64)
            .collect(),
    };
    let style = match kind {
        FigureKind::Bars => Style::Bars,
        _ => Style::Marked,
    };
    let mut all = Vec::new();
    for (colour, line) in graph.lines.iter().enumerate() {
        let references = [
            (Style::Dotted, "the paper", &line.paper),
            (Style::Dashed, "ns-2", &line.ns2),
        ];
        for (style, name, values) in references {
            if values.iter().any(Option::is_some) {
                let points = places.iter().zip(values);
                all.push(Line {
                    name: name.into(),
                    colour,
                    style,
                    points: points.map(|(x, y)| Point::new(*x, *y)).collect(),
                });
            }
        }
        // A value that was not run does not part our line.
        let ours = places
            .iter()
            .zip(&line.ours)
            .filter(|(_, value)| value.is_some());
        let point = |(x, value): (&f64, &Option<Spread>)| Point {
            x: *x,
            y: value.map(|value| value.median),
            spread: value.map(|value| (value.least, value.greatest)),
        };
        all.push(Line {
            name: line.title.clone(),
            colour,
            style,
            points: ours.map(point).collect(),
        });
    }
    if style == Style::Bars {
        // Strokes across bars lie on top of them.
        all.sort_by_key(|line| line.style != Style::Bars);
    }
    all
}

fn time_lines(all: &[Samples], from_s: f64, to_s: f64) -> Vec<Line> {
    let count = all.len();
    let style = if count > CROWD {
        Style::Pale
    } else {
        Style::Plain
    };
    let line = |(colour, samples): (usize, &Samples)| Line {
        name: match colour {
            0 if count > 2 * CROWD => format!("{count} lines"),
            _ if count > 2 * CROWD => String::new(),
            _ => samples.name.clone(),
        },
        colour,
        style,
        points: thinned(samples, from_s, to_s),
    };
    all.iter().enumerate().map(line).collect()
}

/// The samples in the middle of their bins, from one time to another, averaged to [`MAX_POINTS`].
fn thinned(samples: &Samples, from_s: f64, to_s: f64) -> Vec<Point> {
    let middle = |index: usize| (index as f64 + 0.5) * samples.bin_s;
    let values = samples.values.iter().enumerate();
    let values = values.map(|(index, value)| (middle(index), *value));
    let inside: Vec<_> = values
        .filter(|(at, _)| *at >= from_s && *at <= to_s)
        .collect();
    let chunks = inside.chunks(inside.len().div_ceil(MAX_POINTS).max(1));
    let merged = chunks.map(|chunk| {
        let present: Vec<(f64, f64)> = chunk
            .iter()
            .filter_map(|(at, value)| Some((*at, (*value)?)))
            .collect();
        let count = present.len() as f64;
        if present.is_empty() {
            return Point::new(chunk[0].0, None);
        }
        let sum = present
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Point::new(sum.0 / count, Some(sum.1 / count))
    });
    merged.collect()
}

/// A table of a paper: ours, the paper's and ns-2's values, by line and column.
pub(super) fn table(graph: &GraphDrawing) -> Value {
    let rows = graph.lines.iter().map(|line| {
        let values = line.ours.iter().zip(&line.paper).zip(&line.ns2);
        let cells = values.map(|((ours, paper), ns2)| {
            context! { ours => ours.map(|spread| spread.median), paper, ns2 }
        });
        context! { title => line.title, cells => cells.collect::<Vec<_>>() }
    });
    context! { x => graph.x_label, columns => graph.x_titles, rows => rows.collect::<Vec<_>>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_is_thinned_to_what_a_drawing_shows() {
        let samples = Samples {
            name: "f".into(),
            bin_s: 1.0,
            values: vec![Some(1.0); 10_000],
        };
        assert!(thinned(&samples, 0.0, 1e9).len() <= MAX_POINTS);
        assert_eq!(thinned(&samples, 10.0, 12.0).len(), 2);
    }
}
