//! `league.html`: one file that needs nothing else.

use std::collections::BTreeMap;

use evenkeel_testbed::report::page::{environment, render};
use evenkeel_testbed::report::picture::{Picture, digits};
use minijinja::context;
use minijinja::value::Value;

use super::distributions::{DistributionRow, FIGURES, is_random, picture};
use super::document::{COEXISTENCE, CaseRow, LeagueDocument, OverSeeds, ResultRow, TOTAL};
use super::regret::RegretRow;
use crate::spec::league::Figure;

/// Columns of raw figures: what they are called, their unit, and by what they are multiplied.
const COLUMNS: [(Figure, &str, &str, f64); 21] = [
    (Figure::Share, "share", "", 1.0),
    (Figure::Others, "others", "", 1.0),
    (Figure::QueueingP50Ms, "queueing p50", "ms", 1.0),
    (Figure::QueueingP95Ms, "p95", "ms", 1.0),
    (Figure::QueueingP99Ms, "p99", "ms", 1.0),
    (Figure::Loss, "loss", "%", 100.0),
    (Figure::Jain, "Jain", "", 1.0),
    (Figure::CompletionS, "completion", "s", 1.0),
    (Figure::FramesLate, "frames late", "%", 100.0),
    (Figure::FrameP95Ms, "frame p95", "ms", 1.0),
    (Figure::SoundMeanMs, "sound", "ms", 1.0),
    (Figure::SoundMaxMs, "max", "ms", 1.0),
    (Figure::LowMeanMs, "low video", "ms", 1.0),
    (Figure::LowMaxMs, "max", "ms", 1.0),
    (Figure::HighMeanMs, "high video", "ms", 1.0),
    (Figure::HighMaxMs, "max", "ms", 1.0),
    (Figure::Stalls, "stalls", "", 1.0),
    (Figure::StalledS, "stalled", "s", 1.0),
    (Figure::Cov100Ms, "CoV 0.1 s", "", 1.0),
    (Figure::Cov500Ms, "0.5 s", "", 1.0),
    (Figure::Cov5S, "5 s", "", 1.0),
];

/// Percentiles of figures that tables of random networks show.
const SHOWN: [u32; 5] = [1, 5, 50, 95, 99];

/// The page.
pub(super) fn page(document: &LeagueDocument, pictures: &BTreeMap<String, Picture>) -> String {
    let column = |name: &str| {
        let cells = document.controllers.iter();
        let cells = cells.map(|one| cell(document.score(&one.name, name)));
        cells.collect::<Vec<_>>()
    };
    let groups = document.groups.iter().map(|group| {
        let within = format!("{}/", group.name);
        let cases = document.cases.iter();
        let cases = cases.filter(|case| case.case.starts_with(&within));
        // Of networks drawn at random, the worst are enough for people.
        let cases =
            cases.filter(|case| !is_random(&case.case) || document.is_among_the_worst(&case.case));
        context! {
            group,
            scores => column(&group.name),
            cases => cases.map(|one| case(document, one, pictures)).collect::<Vec<_>>(),
        }
    });
    let (made, runs) = document.runs();
    let figures = FIGURES.into_iter();
    let random = figures.filter_map(|figure| distribution(document, figure));
    let page = context! {
        title => "The league: each controller on each network",
        document,
        groups => groups.collect::<Vec<_>>(),
        random => random.collect::<Vec<_>>(),
        shown => SHOWN,
        total => column(TOTAL),
        beside => document.table.iter().any(|cell| cell.group == COEXISTENCE).then(|| column(COEXISTENCE)),
        regrets => document.regrets.iter().map(|row| regret(document, row)).collect::<Vec<_>>(),
        place => match document.backend.as_str() {
            "sim" => "virtual time",
            "netns" => "real time, in network namespaces",
            "uml" => "real time, in user-mode Linux",
            _ => "real time, in containers",
        },
        chaotic => document.quick && document.cases.iter().any(|case| case.chaotic),
        made,
        runs,
    };
    let templates = [("league.html", include_str!("templates/league.html"))];
    let mut environment = environment(&templates);
    environment.add_filter("anchor", |id: &str| id.replace([':', ',', '=', '/'], "-"));
    environment.add_filter("two", |value: f64| format!("{value:.2}"));
    render(&environment, "league.html", page)
}

/// A score with its ends, if they differ as they are shown.
fn cell(score: Option<OverSeeds>) -> Value {
    let Some(OverSeeds {
        median,
        least,
        greatest,
    }) = score
    else {
        return context! { median => None::<f64> };
    };
    let differ = format!("{least:.2}") != format!("{greatest:.2}");
    context! { median, least, greatest, differ }
}

/// How far a controller stays behind, with links to the cases; those of random networks that the
/// page does not show are none.
fn regret(document: &LeagueDocument, row: &RegretRow) -> Value {
    let shown = |case: &str| !is_random(case) || document.is_among_the_worst(case);
    let case = |case: &String| context! { case, shown => shown(case) };
    context! {
        row,
        case => row.case.as_ref().map(case),
        failures => document.failures(&row.controller),
        failed => row.failed.iter().map(case).collect::<Vec<_>>(),
    }
}

/// The column of a figure, with a name that says all alone.
fn column_of(figure: Figure) -> (String, &'static str, f64) {
    let mut columns = COLUMNS.iter();
    let column = columns.find(|(other, ..)| *other == figure);
    let (_, name, unit, by) = column.expect("every figure has a column");
    let name = match figure {
        Figure::QueueingP95Ms | Figure::QueueingP99Ms => format!("queueing {name}"),
        _ => (*name).to_owned(),
    };
    (name, unit, *by)
}

/// A figure over the networks drawn at random; `None` if no network has it.
fn distribution(document: &LeagueDocument, figure: Figure) -> Option<Value> {
    let rows = document.distributions.iter();
    let rows: Vec<&DistributionRow> = rows.filter(|row| row.figure == figure).collect();
    if rows.is_empty() {
        return None;
    }
    let (name, unit, by) = column_of(figure);
    let label = match unit {
        "" => name,
        unit => format!("{name}, {unit}"),
    };
    let short = |case: &String| case.split('/').nth(1).map(str::to_owned);
    let tabled = rows.iter().map(|row| {
        let values = SHOWN.iter().map(|percent| digits(row.at(*percent) * by));
        context! {
            row => row,
            values => values.collect::<Vec<_>>(),
            worst => row.worst.iter().map(|case| (case, short(case))).collect::<Vec<_>>(),
        }
    });
    Some(context! {
        rows => tabled.collect::<Vec<_>>(),
        picture => picture(&rows, label.clone(), by).inline(),
        name => label,
    })
}

/// A case with its raw figures and its picture.
fn case(document: &LeagueDocument, case: &CaseRow, pictures: &BTreeMap<String, Picture>) -> Value {
    let results = document.results.iter();
    let results: Vec<&ResultRow> = results.filter(|row| row.case == case.case).collect();
    let there = |figure: Figure| results.iter().any(|row| row.figures.contains_key(&figure));
    let columns = COLUMNS.iter().filter(|(figure, ..)| there(*figure));
    let columns: Vec<_> = columns.collect();
    let rows = results.iter().map(|row| {
        let values = columns.iter().map(|(figure, _, _, by)| {
            let value = row.figures.get(figure);
            value.map_or(String::new(), |value| digits(value.median * by))
        });
        context! {
            row => row,
            score => cell(row.score),
            values => values.collect::<Vec<_>>(),
        }
    });
    let aims = case.aims.iter().map(|(figure, target)| {
        let (name, unit, by) = column_of(*figure);
        let relation = if figure.more_is_better() {
            "at least"
        } else {
            "at most"
        };
        format!("{name} {relation} {} {unit}", digits(target * by))
            .trim_end()
            .to_owned()
    });
    context! {
        case,
        short => case.case.split('/').nth(1),
        aims => aims.collect::<Vec<_>>(),
        columns => columns.iter().map(|(_, name, unit, _)| (name, unit)).collect::<Vec<_>>(),
        rows => rows.collect::<Vec<_>>(),
        picture => pictures.get(&case.case).map(Picture::inline),
    }
}
