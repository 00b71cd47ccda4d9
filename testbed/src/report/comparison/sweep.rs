//! Plots of a comparison over the values of a key.

use super::super::picture::{Axis, Line, Picture, Point, Style};
use super::super::plot::Plots;
use super::super::table::Column;
use super::{ALWAYS, ComparedFigures, ComparedRun, ComparisonDocument};

/// Numbers that lie farther apart than this, greatest over least, have a logarithmic axis.
const FAR_APART: f64 = 30.0;

/// Goodput, CoV and round trips of each controller over the values of `key`; with several seeds means
/// with their confidence intervals.
pub(super) fn plots(document: &ComparisonDocument, key: &str, about: &str) -> Plots {
    let mut values: Vec<&str> = Vec::new();
    let mut controllers: Vec<&str> = Vec::new();
    for run in &document.runs {
        let value = run.value.as_deref().unwrap_or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        if !controllers.contains(&run.controller.as_str()) {
            controllers.push(&run.controller);
        }
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    let names = ["sweep-goodput.svg", "sweep-cov.svg", "sweep-rtt.svg"];
    let titles = [
        ("Goodput", "Mb/s"),
        ("CoV of the throughput in 0.5 s", "CoV"),
        ("Median round trip", "milliseconds"),
    ];
    let plot = |((name, (title, unit)), column): (
        (&'static str, (&str, &str)),
        &Column<ComparedFigures>,
    )| {
        let line = |(colour, controller): (usize, &&str)| {
            let of_controller = |run: &&ComparedRun| run.controller == **controller;
            let mut points: Vec<Point> = document
                .runs
                .iter()
                .filter(of_controller)
                .map(|run| {
                    let at = values
                        .iter()
                        .position(|value| run.value.as_deref() == Some(*value));
                    let at = at.unwrap_or_default();
                    point(run, column, numbers.as_ref().map_or(at as f64, |x| x[at]))
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Line {
                name: (*controller).to_owned(),
                colour,
                style: Style::Marked,
                points,
            }
        };
        let words = || values.iter().map(|value| (*value).to_owned()).collect();
        let x = match &numbers {
            Some(numbers) => Axis::Numbers(key.to_owned(), numbers.clone(), far_apart(numbers)),
            None => Axis::Words(key.to_owned(), words()),
        };
        let picture = Picture {
            title: format!("{title}: {about}"),
            x,
            y_label: unit.to_owned(),
            y_from: Some(0.0),
            warmup_s: 0.0,
            panels: vec![controllers.iter().enumerate().map(line).collect()],
        };
        (name, picture)
    };
    names
        .into_iter()
        .zip(titles)
        .zip(ALWAYS)
        .map(plot)
        .collect()
}

fn point(run: &ComparedRun, column: &Column<ComparedFigures>, x: f64) -> Point {
    let scaled =
        |figures: &ComparedFigures| (column.figure)(figures).map(|y| column.unit.scaled(y));
    let Some(seeds) = &run.seeds else {
        return Point::new(x, scaled(&run.median));
    };
    let mean = scaled(&seeds.mean);
    let spread = mean.zip(scaled(&seeds.ci95));
    Point {
        x,
        y: mean,
        spread: spread.map(|(mean, half)| (mean - half, mean + half)),
    }
}

fn far_apart(numbers: &[f64]) -> bool {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = numbers.iter().copied().fold(0.0, f64::max);
    least > 0.0 && greatest / least > FAR_APART
}
