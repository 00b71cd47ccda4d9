//! `report.html`: one file that needs nothing else.

use evenkeel_testbed::report::page::{environment, render};
use evenkeel_testbed::report::picture::digits;
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, context};
use serde::Serialize;

use super::chart;
use super::document::{Document, RunsRow};
use super::section::Section;
use crate::evaluate::claims::Verdict;
use crate::evaluate::figures::Drawing;
use crate::run::store::StoreError;
use crate::spec::runs::Extent;

const TEMPLATES: [(&str, &str); 3] = [
    ("report.html", include_str!("templates/report.html")),
    ("figures.html", include_str!("templates/figures.html")),
    ("table.txt", include_str!("templates/table.txt")),
];

/// Longest summary of a reason, in characters.
const GIST: usize = 170;

/// Claims by verdict, and runs.
#[derive(Debug, Default, Serialize)]
pub(super) struct Counts {
    claims: usize,
    holds: usize,
    differs: usize,
    fails: usize,
    not_run: usize,
    runs: usize,
    missing: usize,
}

/// The page, with the figures that `figures` gives for an experiment's id.
pub(super) fn page(
    document: &Document,
    figures: impl Fn(&str) -> Result<String, StoreError>,
) -> Result<String, StoreError> {
    let paper_of = |row: &RunsRow| row.experiment.split('/').next().map(str::to_owned);
    let mut papers = Vec::new();
    for runs in document.runs.chunk_by(|a, b| paper_of(a) == paper_of(b)) {
        let name = paper_of(&runs[0]).unwrap_or_default();
        let counts = Counts::of(document, |id| id.split('/').next() == Some(&*name));
        let experiments = runs.iter().map(|row| {
            let figures = figures(&row.experiment)?;
            Ok(experiment(document, row, figures))
        });
        let experiments = experiments.collect::<Result<Vec<_>, StoreError>>()?;
        papers.push(context! { name, counts, experiments });
    }
    let extent = match document.plan.extent() {
        Extent::Quick => "the decisive points (--quick)",
        Extent::Full => "all points",
        Extent::Kernel => "the points chosen for the kernel",
    };
    let failing = document
        .claims
        .iter()
        .filter(|row| row.verdict == Verdict::DoesNotHold);
    let notable = document.kernel.iter().filter(|row| row.notable).count();
    let page = context! {
        title => "The papers' experiments, reproduced",
        document,
        extent,
        notable,
        failing => failing.collect::<Vec<_>>(),
        total => Counts::of(document, |_| true),
        papers,
    };
    Ok(render(&templates(), "report.html", page))
}

/// The figures of an experiment on a page that [`page`] made; `None` if the page has not got it.
pub(super) fn figures_of<'p>(page: &'p str, id: &str) -> Option<&'p str> {
    let begin = format!("<!--figures {id}-->\n");
    let rest = &page[page.find(&begin)? + begin.len()..];
    Some(&rest[..rest.find("<!--end of figures-->")?])
}

/// The templates, with what they use.
pub(super) fn templates() -> Environment<'static> {
    let mut environment = environment(&TEMPLATES);
    environment.add_filter("plain", plain);
    environment.add_filter("anchor", anchor);
    environment.add_filter("gist", gist);
    environment.add_filter("percent", |value: f64| format!("{value:+.1} %"));
    environment
}

impl Counts {
    /// Of the experiments whose id is one of `these`.
    pub(super) fn of(document: &Document, these: impl Fn(&str) -> bool) -> Self {
        let mut counts = Self::default();
        for row in document.claims.iter().filter(|row| these(&row.experiment)) {
            counts.claims += 1;
            match row.verdict {
                Verdict::Holds => counts.holds += 1,
                Verdict::Differs => counts.differs += 1,
                Verdict::DoesNotHold => counts.fails += 1,
            }
        }
        counts.not_run = document
            .not_run
            .iter()
            .filter(|row| these(&row.experiment))
            .count();
        counts.claims += counts.not_run;
        for row in document.runs.iter().filter(|row| these(&row.experiment)) {
            counts.runs += row.made;
            counts.missing += row.missing;
        }
        counts
    }
}

/// An experiment on the page, with its figures as HTML.
fn experiment(document: &Document, runs: &RunsRow, figures: String) -> Value {
    let id = &runs.experiment;
    let claims = document.claims.iter().filter(|row| row.experiment == *id);
    let kernel = document.kernel.iter().filter(|row| row.experiment == *id);
    let mut given = Given::default();
    let claims = claims.map(|row| {
        let commands = row.commands.first();
        let without = commands.and_then(|commands| commands.expand().next());
        context! { row, without, reason => given.once(row.reason.as_deref()) }
    });
    let claims: Vec<Value> = claims.collect();
    let kernel = kernel.map(|row| context! { row, reason => given.once(row.reason.as_deref()) });
    let kernel: Vec<Value> = kernel.collect();
    context! { anchor => anchor(id), runs, claims, kernel, figures }
}

/// The reasons that a section has given.
#[derive(Default)]
struct Given<'d>(Vec<&'d str>);

impl<'d> Given<'d> {
    /// A reason in full the first time, then a reference to it.
    fn once(&mut self, reason: Option<&'d str>) -> Option<&'d str> {
        if reason.is_some_and(|reason| self.0.contains(&reason)) {
            return Some("As above.");
        }
        self.0.extend(reason);
        reason
    }
}

/// All figures of an experiment, each followed by its twin from the kernel if there is one.
pub(super) fn figures(section: &Section) -> String {
    let mut figures = Vec::new();
    for (index, figure) in section.experiment.figures.iter().enumerate() {
        let file = &figure.file;
        let mut add = |drawing: Option<&Drawing>, place: &str| {
            let picture = drawing.and_then(|drawing| chart::picture(drawing, file));
            let table = match drawing {
                Some(Drawing::Graph(graph)) if picture.is_none() => Some(chart::table(graph)),
                _ => None,
            };
            figures.push(context! {
                name => file.figure,
                title => format!("{}{place}", file.title),
                note => file.note,
                picture => picture.map(|picture| picture.inline()),
                table,
            });
        };
        add(section.drawings[index].as_ref(), "");
        if let Some(Some(drawing)) = section.kernel_drawings.get(index) {
            add(Some(drawing), ", on the kernel");
        }
    }
    render(&templates(), "figures.html", context! { figures })
}

fn anchor(id: &str) -> String {
    id.replace('/', "-")
}

/// The beginning of a reason: its first sentence, or as much of it as fits.
fn gist(reason: &str) -> String {
    let reason = reason.trim_start_matches("Not explained by this: ");
    let mut letters = reason.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    let reason = first.unwrap_or_default() + letters.as_str();
    let sentence = reason
        .split_inclusive(". ")
        .next()
        .unwrap_or_default()
        .trim_end();
    match sentence.char_indices().nth(GIST) {
        None => sentence.to_owned(),
        Some((end, _)) => {
            let end = sentence[..end].rfind(' ').unwrap_or(end);
            format!("{} ...", &sentence[..end])
        }
    }
}

/// A value in words: numbers with four digits, lists with commas.
fn plain(value: &Value) -> String {
    match value.kind() {
        ValueKind::None => "none".into(),
        ValueKind::Number => digits(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
        ValueKind::Seq => {
            let values: Vec<Value> = value.try_iter().into_iter().flatten().collect();
            let nested = values.iter().any(|value| value.kind() == ValueKind::Seq);
            let texts: Vec<String> = values.iter().map(plain).collect();
            texts.join(if nested { "; " } else { ", " })
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gist_of_a_reason_is_its_first_sentence() {
        assert_eq!(gist("It is 0.5 of it. More."), "It is 0.5 of it.");
        assert_eq!(gist("Not explained by this: a queue."), "A queue.");
        assert!(gist(&"word ".repeat(100)).ends_with("word ..."));
    }
}
