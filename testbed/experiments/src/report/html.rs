//! `report.html`: one file that needs nothing else.

use std::fmt::Write;

use serde_json::Value;

use super::super::claim::Verdict;
use super::super::figure::{Drawing, Figure, GraphDrawing, Line};
use super::super::file::FigureKind;
use super::super::matrix::Extent;
use super::chart::Swatch;
use super::document::{ClaimRow, Document};
use super::table::{digits, plain};
use super::{Report, Section, chart};
use crate::store::StoreError;
use evenkeel_testbed::report::html::{STYLE, escaped};

/// What the page says of one experiment.
#[derive(Debug)]
pub(super) struct Body {
    /// Its section with the figures.
    figures: String,
    /// Its list of runs in the appendix.
    runs: String,
}

impl Body {
    const FIGURES_END: &str = "</div></section>\n";
    const RUNS_END: &str = "</ol></details>\n";

    fn new(section: &Section) -> Self {
        Self {
            figures: experiment(section),
            runs: runs(section),
        }
    }

    /// That of an experiment in a page that [`page`] made; `None` if the page has not got it.
    pub(super) fn of(page: &str, id: &str) -> Option<Self> {
        let between = |begin: String, end: &str| {
            let rest = &page[page.find(&begin)?..];
            Some(rest[..rest.find(end)? + end.len()].to_owned())
        };
        Some(Self {
            figures: between(Self::figures_begin(id), Self::FIGURES_END)?,
            runs: between(Self::runs_begin(id), Self::RUNS_END)?,
        })
    }

    fn figures_begin(id: &str) -> String {
        format!("<section id=\"{}\">", anchor(id))
    }

    fn runs_begin(id: &str) -> String {
        format!("<details><summary>{}: ", escaped(id))
    }
}

/// The page.
pub(super) fn page(report: &Report) -> Result<String, StoreError> {
    let document = report.document();
    let mut bodies: Vec<(&str, Body)> = report
        .sections
        .iter()
        .map(|section| (section.experiment.id.as_str(), Body::new(section)))
        .collect();
    if let Some(earlier) = &report.earlier {
        for id in &document.taken_over {
            bodies.push((id, earlier.body(id)?));
        }
    }
    bodies.sort_by_key(|(id, _)| *id);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>The papers' experiments, reproduced</title><style>{STYLE}</style></head><body><main>\n<h1>The papers' experiments, reproduced</h1>\n"
    );
    html += &summary(&document);
    html += &claims(&document);
    html += &on_kernel(&document);
    html.extend(bodies.iter().map(|(_, body)| body.figures.as_str()));
    html += "<section><h2>Runs</h2>\n<p class=\"small\">Each run alone, with all its plots and series; from the repository's root, with <code>target/release</code> in <code>PATH</code>:</p>\n";
    html.extend(bodies.iter().map(|(_, body)| body.runs.as_str()));
    Ok(html + "</section>\n</main></body></html>\n")
}

fn summary(document: &Document) -> String {
    let plan = &document.plan;
    let extent = match plan.extent() {
        Extent::Quick => "the decisive points (--quick)",
        Extent::Full => "all points",
        Extent::Kernel => "the points chosen for the kernel",
    };
    let beside = document
        .kernel_plan
        .as_ref()
        .map_or_else(String::new, |kernel| {
            format!(
                "; beside it some of them on <code>{}</code>",
                escaped(&kernel.backend)
            )
        });
    let builds: Vec<String> = document
        .builds
        .iter()
        .map(|build| format!("{} ({})", build.version, build.executable))
        .collect();
    let mut html = format!(
        "<p>Real QUIC, the controllers and the queues that ship, on <code>{}</code>: {extent}{beside}. evenkeel-testbed {}. Made by <code>{}</code>. Nothing in this page was tuned to a paper: what does not hold says so.</p>\n",
        escaped(&plan.backend),
        escaped(&builds.join(", ")),
        escaped(&document.command),
    );
    html += "<table class=\"counts\"><thead><tr><th>Experiment</th><th>Claims</th><th>Hold</th><th>Differ</th><th>Do not hold</th><th>Seeds</th><th>Runs</th></tr></thead><tbody>";
    for row in &document.runs {
        let runs = match row.missing {
            0 => row.made.to_string(),
            missing => format!("{} of {}", row.made, row.made + missing),
        };
        let claims = || {
            document
                .claims
                .iter()
                .filter(|claim| claim.experiment == row.experiment)
        };
        let count = |verdict| claims().filter(|claim| claim.verdict == verdict).count();
        let not_run = document
            .not_run
            .iter()
            .filter(|claim| claim.experiment == row.experiment);
        let _ = write!(
            html,
            "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{runs}</td></tr>",
            anchor(&row.experiment),
            escaped(&row.experiment),
            claims().count() + not_run.count(),
            count(Verdict::Holds),
            count(Verdict::Differs),
            count(Verdict::DoesNotHold),
            seeds(row.seeds),
        );
    }
    html += "</tbody></table>\n<p class=\"small\"><b>Holds</b>: as the paper says, within the stated tolerance. <b>Differs</b>: not so, for a reason that is named and that another run confirms: without the cause the claim holds; the command of that run is given. <b>Does not hold</b>: not so, and no run explains it. Values are medians over the seeds, with the least and the greatest in brackets; ns-2 is version 2.35 with its own protocols.</p>\n";
    if !document.not_run.is_empty() {
        let _ = writeln!(
            html,
            "<p class=\"small\">{} claims need runs that were not made and are not judged.</p>",
            document.not_run.len()
        );
    }
    if !document.taken_over.is_empty() {
        let _ = writeln!(
            html,
            "<p class=\"small\">Taken over from an earlier report of the same version, not run again: {}.</p>",
            escaped(&document.taken_over.join(", "))
        );
    }
    html
}

/// Seeds from 1 in words.
fn seeds(most: u64) -> String {
    match most {
        0 => String::new(),
        1 => "1".into(),
        most => format!("1 to {most}"),
    }
}

fn claims(document: &Document) -> String {
    let mut html = String::from(
        "<h2>Claims</h2>\n<table class=\"claims\"><thead><tr><th>Figure</th><th>Claim</th><th>Paper</th><th>ns-2</th><th>Here</th><th>Verdict</th></tr></thead><tbody>\n",
    );
    let mut before = "";
    for row in &document.claims {
        if row.experiment != before {
            before = &row.experiment;
            html += &group_row(before);
        }
        html += &claim(row);
    }
    html + "</tbody></table>\n"
}

/// Metrics in virtual time and on the kernel, side by side.
fn on_kernel(document: &Document) -> String {
    if document.kernel.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<h2>In virtual time and on the kernel</h2>\n<p class=\"small\">The same scenarios on Linux: namespaces, router daemons and the <code>evenkeel</code> program, in real time. Differences above 5 % have a reason or are marked. The experiments' figures over time are below, with those of the kernel beside them.</p>\n<table class=\"kernel\"><thead><tr><th>Run</th><th>Metric</th><th>Virtual time</th><th>Kernel</th><th>Difference</th><th></th></tr></thead><tbody>\n",
    );
    let mut before = "";
    let mut told: Vec<&str> = Vec::new();
    for row in &document.kernel {
        if row.experiment != before {
            before = &row.experiment;
            told.clear();
            html += &group_row(before);
        }
        let difference = match row.difference_percent.as_f64() {
            Some(percent) => format!("{percent:+.1} %"),
            None => String::new(),
        };
        let reason = match (&row.reason, row.notable) {
            (Some(reason), _) if told.contains(&reason.as_str()) => "as above".to_owned(),
            (Some(reason), _) => {
                told.push(reason);
                escaped(reason)
            }
            (None, true) => "<b class=\"fails\">not explained</b>".to_owned(),
            (None, false) => String::new(),
        };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{difference}</td><td class=\"reason\">{reason}</td></tr>",
            escaped(&row.run),
            escaped(&row.metric),
            with_spread(&row.simulated, &row.simulated_spread),
            with_spread(&row.kernel, &row.kernel_spread),
        );
    }
    html + "</tbody></table>\n"
}

fn group_row(experiment: &str) -> String {
    format!(
        "<tr class=\"group\"><th colspan=\"6\"><a href=\"#{}\">{}</a></th></tr>",
        anchor(experiment),
        escaped(experiment)
    )
}

fn judgement(verdict: Verdict) -> String {
    let (class, words) = match verdict {
        Verdict::Holds => ("holds", "holds"),
        Verdict::Differs => ("differs", "differs"),
        Verdict::DoesNotHold => ("fails", "does not hold"),
    };
    format!("<b class=\"{class}\">{words}</b>")
}

fn claim(row: &ClaimRow) -> String {
    let mut verdict = judgement(row.verdict);
    if let Some(reason) = &row.reason {
        let _ = write!(verdict, " {}", escaped(reason));
    }
    if !row.value_without_cause.is_null() {
        let _ = write!(
            verdict,
            "<br/>Without the cause: {}",
            escaped(&plain(&row.value_without_cause))
        );
    }
    for command in row.commands.iter().take(1) {
        let _ = write!(
            verdict,
            "<details><summary>the run without it</summary><code>{}</code></details>",
            escaped(command)
        );
    }
    if let Some(on_kernel) = row.kernel_verdict {
        let _ = write!(
            verdict,
            "<br/><small>On the kernel: {}</small> {}",
            escaped(&plain(&row.kernel_value)),
            judgement(on_kernel)
        );
    }
    let stated = |value: &Value| {
        if value.is_null() {
            String::new()
        } else {
            escaped(&plain(value))
        }
    };
    format!(
        "<tr><td>{}</td><td>{}<br/><small>{}</small></td><td>{}</td><td>{}</td><td>{}</td><td>{verdict}</td></tr>\n",
        escaped(&row.figure),
        escaped(&row.claim),
        escaped(&row.criterion),
        stated(&row.paper_value),
        stated(&row.ns2_value),
        here(row),
    )
}

/// Our values with their spread: each with what it is of, or at several points in the order of
/// the criterion.
fn here(row: &ClaimRow) -> String {
    if row.points.is_empty() {
        let Value::Array(values) = &row.value else {
            return with_spread(&row.value, &row.spread);
        };
        let terms = row.terms.iter().zip(values).enumerate();
        let terms = terms.map(|(index, (term, value))| {
            let value = with_spread(value, &row.spread[index]);
            format!("<small>{}</small> {value}", escaped(term))
        });
        return terms.collect::<Vec<_>>().join("<br/>");
    }
    let lines = row.points.iter().enumerate().map(|(index, point)| {
        let values = match &row.value[index] {
            Value::Array(values) => {
                let values = values.iter().enumerate();
                let values =
                    values.map(|(term, value)| with_spread(value, &row.spread[index][term]));
                values.collect::<Vec<_>>().join(", ")
            }
            value => with_spread(value, &row.spread[index]),
        };
        format!("<small>{}:</small> {values}", escaped(point))
    });
    let lines: Vec<String> = lines.collect();
    if lines.len() <= 2 {
        return lines.join("<br/>");
    }
    let failed = match &row.fails_at[..] {
        [] => String::new(),
        few if few.len() <= 3 => format!(", not at {}", few.join("; ")),
        many => format!(", not at {} of them", many.len()),
    };
    format!(
        "<details><summary>at {} points{}</summary>{}</details>",
        lines.len(),
        escaped(&failed),
        lines.join("<br/>")
    )
}

fn with_spread(value: &Value, spread: &Value) -> String {
    let text = escaped(&plain(value));
    if spread[0] == spread[1] {
        return format!("<span class=\"value\">{text}</span>");
    }
    format!(
        "<span class=\"value\">{text} <small>({})</small></span>",
        escaped(&plain(spread))
    )
}

fn experiment(section: &Section) -> String {
    let experiment = &section.experiment;
    let mut html = format!(
        "{}<h2>{}</h2>\n<p>{}: {}</p>\n",
        Body::figures_begin(&experiment.id),
        escaped(&experiment.title),
        escaped(experiment.paper()),
        escaped(&experiment.source),
    );
    if !experiment.open.is_empty() {
        html += "<p class=\"small\">Parameters that the paper leaves open, and how they were read:</p><ul class=\"small\">";
        for open in &experiment.open {
            let _ = write!(html, "<li>{}</li>", escaped(open));
        }
        html += "</ul>\n";
    }
    html += "<div class=\"figures\">\n";
    for (index, figure) in experiment.figures.iter().enumerate() {
        html += &drawn(figure, section.drawings[index].as_ref(), "");
        let kernel = section.kernel.as_ref();
        if let Some(drawing) = kernel.and_then(|kernel| kernel.drawings[index].as_ref()) {
            html += &drawn(figure, Some(drawing), ", on the kernel");
        }
    }
    html + Body::FIGURES_END
}

fn drawn(figure: &Figure, drawing: Option<&Drawing>, place: &str) -> String {
    let content = match drawing {
        None => "<p class=\"small\">Its runs were not made.</p>".to_owned(),
        Some(Drawing::Graph(graph)) if graph.kind == FigureKind::Table => table(graph),
        Some(Drawing::Graph(graph)) => {
            let titles: Vec<&str> = graph.lines.iter().map(|line| line.title.as_str()).collect();
            let given = |of: fn(&Line) -> &Vec<Option<f64>>| {
                graph
                    .lines
                    .iter()
                    .any(|line| of(line).iter().any(Option::is_some))
            };
            let swatch = match graph.kind {
                FigureKind::Bars => Swatch::Bar,
                _ => Swatch::MarkedLine,
            };
            let (paper, ns2) = (given(|line| &line.paper), given(|line| &line.ns2));
            let legend = chart::legend(&titles, swatch, paper, ns2);
            chart::graph(graph, &figure.y_label) + &legend
        }
        Some(Drawing::Time(time)) => {
            let titles: Vec<&str> = time.lines.iter().map(|line| line.name.as_str()).collect();
            chart::time(time, &figure.y_label) + &chart::legend(&titles, Swatch::Line, false, false)
        }
    };
    let note = figure.note.as_ref().map_or_else(String::new, |note| {
        format!(" <span class=\"small\">{}</span>", escaped(note))
    });
    format!(
        "<figure><figcaption><b>{}</b> {}{place}{note}</figcaption>{content}</figure>\n",
        escaped(&figure.figure),
        escaped(&figure.title)
    )
}

/// A table of a paper: ours, and the paper's and ns-2's values below.
fn table(graph: &GraphDrawing) -> String {
    let mut html = format!("<table><thead><tr><th>{}</th>", escaped(&graph.x_label));
    for title in &graph.x_titles {
        let _ = write!(html, "<th>{}</th>", escaped(title));
    }
    html += "</tr></thead><tbody>";
    for line in &graph.lines {
        let _ = write!(html, "<tr><th>{}</th>", escaped(&line.title));
        for ((ours, paper), ns2) in line.ours.iter().zip(&line.paper).zip(&line.ns2) {
            let ours = ours.map_or_else(String::new, |spread| digits(spread.median));
            let _ = write!(html, "<td>{ours}");
            if let Some(paper) = paper {
                let _ = write!(html, "<br/><small>paper {}</small>", digits(*paper));
            }
            if let Some(ns2) = ns2 {
                let _ = write!(html, "<br/><small>ns-2 {}</small>", digits(*ns2));
            }
            html += "</td>";
        }
        html += "</tr>";
    }
    html + "</tbody></table>"
}

fn runs(section: &Section) -> String {
    let failed = section
        .runs
        .iter()
        .filter(|run| !run.errors.is_empty())
        .count();
    let warning = match failed {
        0 => String::new(),
        _ => format!(", in {failed} of them flows failed"),
    };
    let mut html = format!(
        "{}{} runs{warning}</summary><ol class=\"runs\">",
        Body::runs_begin(&section.experiment.id),
        section.runs.len()
    );
    for run in &section.runs {
        let _ = write!(
            html,
            "<li>{}<br/><code>{}</code>",
            escaped(&run.label),
            escaped(&run.command)
        );
        for error in &run.errors {
            let _ = write!(html, "<br/><b class=\"fails\">{}</b>", escaped(error));
        }
        html += "</li>";
    }
    html + Body::RUNS_END
}

fn anchor(id: &str) -> String {
    escaped(&id.replace('/', "-"))
}
