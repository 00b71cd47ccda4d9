//! The page of a comparison: one file that needs no other.

use evenkeel_picture::{Axis, Line, PAGE_STYLE, Picture, Point, STYLE, Style, escaped};

use super::report::{Comparison, Finding, rows, show};
use super::run::{Kind, Measured, Run};
use crate::bulk::Direction;

/// Points of a line over a run's time, at most.
const BINS: usize = 100;

/// Returns the page.
pub(super) fn page<K: Kind>(comparison: &Comparison<'_, K>) -> String {
    let plan = comparison.plan;
    let title = format!("{} to {}", plan.controllers.join(", "), plan.server);
    let mut body = format!(
        "<p>{} rounds; in each, every controller sends for {} s, in an order drawn at random (seed \
         {}), {} s after the run before. Each value is the mean of the rounds, with the 95 % interval \
         of the bootstrap.</p>",
        plan.rounds,
        plan.time.as_secs_f64(),
        plan.seed,
        plan.pause.as_secs_f64(),
    );
    body += &format!(
        "<p>The last column names who is better than all others: by the differences within each \
         round, whose intervals leave out everything up to {}. All {} comparisons of this page \
         together are wrong at most once in 20.</p>",
        K::MARGINS,
        comparison.comparisons
    );
    for line in comparison.failures.iter().chain(&comparison.disturbances) {
        body += &format!("<p class=\"differs\">{}</p>", escaped(line));
    }
    for direction in plan.direction.list() {
        body += &format!("<h2>{}</h2>", capital(K::way(*direction)));
        body += &table(comparison, *direction);
        body += "<div class=\"figures\">";
        for picture in pictures(comparison, *direction) {
            body += &format!("<figure>{}</figure>", picture.inline());
        }
        body += "</div>";
    }
    let title = escaped(&title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/><title>{title}</title>\
         <style>{STYLE}{PAGE_STYLE}</style></head>\n<body><main><h1>{title}</h1>{body}\
         <p class=\"small\">evenkeel {}</p></main></body></html>\n",
        escaped(&plan.version)
    )
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

fn table<K: Kind>(comparison: &Comparison<'_, K>, direction: Direction) -> String {
    let names = comparison.plan.controllers.iter();
    let heads: String = names
        .map(|name| format!("<th>{}</th>", escaped(name)))
        .collect();
    let mut table = format!(
        "<div class=\"wide\"><table class=\"numbers\"><tr><th class=\"left\"></th>{heads}\
         <th class=\"left\">best</th></tr>"
    );
    let of_direction = |result: &&Finding| result.direction == direction;
    for result in comparison.results.iter().filter(of_direction) {
        let verdict = comparison.verdict(result).unwrap_or_default();
        let class = match result.best.len() {
            1 => "left holds",
            _ => "left",
        };
        let means = result.means.iter();
        let cells: String = means
            .map(|mean| format!("<td>{}</td>", show(mean.as_ref(), comparison.plan.rounds)))
            .collect();
        table += &format!(
            "<tr><th class=\"left\">{}, {}</th>{cells}<td class=\"{class}\">{}</td></tr>",
            result.figure,
            result.unit,
            escaped(&verdict)
        );
    }
    table + "</table></div>"
}

/// Draws rate and delay over the time of a run, and both over the rounds.
fn pictures<K: Kind>(comparison: &Comparison<'_, K>, direction: Direction) -> Vec<Picture> {
    let time_s = comparison.plan.time.as_secs_f64();
    let over_time = |title: &str, label: &str, line: Series<K>| Picture {
        title: title.into(),
        x: Axis::Time(0.0, time_s),
        y_label: label.into(),
        y_from: Some(0.0),
        warmup_s: 0.0,
        panels: vec![lines(comparison, |name| {
            let runs = runs(comparison.runs, direction, name);
            (Style::Plain, line(&runs, time_s))
        })],
    };
    let over_rounds = |name: &str| {
        let metric = K::METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.expect("a name of the table");
        let rows = rows(comparison.plan, comparison.runs, direction, metric);
        let rounds: Vec<f64> = (1..=rows.len()).map(|round| round as f64).collect();
        Picture {
            title: format!("{name} of each round"),
            x: Axis::Numbers("round".into(), rounds.clone(), false),
            y_label: metric.unit.into(),
            y_from: Some(0.0),
            warmup_s: 0.0,
            panels: vec![lines(comparison, |name| {
                let number = comparison.plan.number(name).unwrap_or(0);
                let points = rounds.iter().zip(&rows);
                let points = points.map(|(round, row)| Point::new(*round, row[number]));
                (Style::Marked, points.collect())
            })],
        }
    };
    vec![
        over_time("Rate, mean of the rounds", "Mb/s", rate),
        over_time(&format!("{}, median of all rounds", K::DELAYS), "ms", delay),
        over_rounds(K::DRAWN[0]),
        over_rounds(K::DRAWN[1]),
    ]
}

/// Makes the points of a line of several runs of a length in seconds.
type Series<K> = fn(&[&Measured<K>], f64) -> Vec<Point>;

/// Draws a line for each controller.
fn lines<K>(
    comparison: &Comparison<'_, K>,
    line: impl Fn(&str) -> (Style, Vec<Point>),
) -> Vec<Line> {
    let names = comparison.plan.controllers.iter().enumerate();
    names
        .map(|(colour, name)| {
            let (style, points) = line(name);
            Line {
                name: name.clone(),
                colour,
                style,
                points,
            }
        })
        .collect()
}

fn runs<'a, K>(runs: &'a [Run<K>], direction: Direction, name: &str) -> Vec<&'a Measured<K>> {
    runs.iter()
        .filter(|run| run.direction == direction && run.controller == name)
        .filter_map(|run| run.measured.as_ref())
        .collect()
}

/// Returns the mean rate of several runs over their time, in Mb/s.
fn rate<K>(runs: &[&Measured<K>], time_s: f64) -> Vec<Point> {
    let bins = BINS.min((time_s / 0.2).ceil() as usize).max(1);
    let width = time_s / bins as f64;
    let point = |bin: usize| {
        let (from, to) = (bin as f64 * width, (bin + 1) as f64 * width);
        let moved: f64 = runs
            .iter()
            .map(|run| bytes(run, to) - bytes(run, from))
            .sum();
        let rate = moved * 8.0 / 1e6 / width / runs.len() as f64;
        Point::new(from + width / 2.0, (!runs.is_empty()).then_some(rate))
    };
    (0..bins).map(point).collect()
}

/// Returns the bytes that a run has moved by a time, between its points in proportion.
fn bytes<K>(run: &Measured<K>, at_s: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for (point_s, bytes) in &run.progress {
        let bytes = *bytes as f64;
        if *point_s >= at_s {
            let share = (at_s - before.0) / (point_s - before.0).max(1e-9);
            return before.1 + (bytes - before.1) * share;
        }
        before = (*point_s, bytes);
    }
    before.1
}

/// Returns the median round trip of the pings of several runs over their time, in milliseconds.
fn delay<K>(runs: &[&Measured<K>], time_s: f64) -> Vec<Point> {
    let bins = BINS.min((time_s / 0.2).ceil() as usize).max(1);
    let width = time_s / bins as f64;
    let mut pings = vec![Vec::new(); bins];
    for (left, rtt) in runs.iter().flat_map(|run| &run.delays) {
        if let Some(bin) = pings.get_mut((left / width) as usize) {
            bin.push((*left, *rtt));
        }
    }
    let median = |(bin, pings): (usize, Vec<(f64, f64)>)| {
        let mut times: Vec<f64> = pings.iter().map(|(_, rtt)| *rtt).collect();
        times.sort_unstable_by(f64::total_cmp);
        let middle = times.get(times.len() / 2).copied();
        Point::new((bin as f64 + 0.5) * width, middle)
    };
    pings.into_iter().enumerate().map(median).collect()
}
