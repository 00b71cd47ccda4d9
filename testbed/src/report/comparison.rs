//! Several controllers on one scenario, with one seed or several, and with one value of a key or
//! several: `comparison.json`, `comparison.csv`, a table, and plots. All is read from what the runs
//! have left.

mod figures;
mod sweep;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

pub use figures::{ComparedFigures, ComparedStreams, OverSeeds};

use super::document::unseeded_note;
use super::page::{About, Page, Plot};
use super::table::{Column, MBPS, MS, PERCENT, RATIO, SECONDS, Table, Unit, column};
use super::{ReportError, csv, plot, save};
use crate::metrics::{FlowObservation, Observations, StreamObservation, StreamSample};
use crate::scenario::Scenario;

/// One scenario with one controller after the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonDocument {
    /// Name of the scenario.
    pub scenario: String,
    /// What it ran on.
    pub backend: String,
    /// Names of the `[[flows]]` that are compared: those that got the controllers.
    pub flows: Vec<String>,
    /// Seeds of every random choice; each controller ran with each.
    pub seeds: Vec<u64>,
    /// The key of the scenario that took several values, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swept: Option<String>,
    /// Controllers that draw random numbers of their own, each once: in virtual time too the seeds
    /// do not repeat their runs. Not written if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseeded: Vec<String>,
    /// One for each controller with each value of the swept key, by value; at each the smoothest
    /// first: those of which no flow died, of equals those with the least time in stalls, and of
    /// equals the least CoV.
    pub runs: Vec<ComparedRun>,
}

/// One controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// As it was given.
    pub controller: String,
    /// The value of the swept key, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Each figure's median over the seeds, whole where the figure is.
    #[serde(flatten)]
    pub median: ComparedFigures,
    /// What else comes of several seeds; `None` with one.
    #[serde(flatten)]
    pub seeds: Option<OverSeeds>,
    /// A line for each flow that died or failed, with its seed.
    pub dead_flows: Vec<String>,
}

/// A run that is compared, and where its results are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeededRun {
    /// As it was given.
    pub controller: String,
    /// The value of the swept key, as it was given.
    pub value: Option<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// The directory with its `result.json` and `series.json`.
    pub directory: PathBuf,
}

/// A result of a run that is gone or damaged.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {1}; delete it and compare again", path = .0.display())]
pub struct LostResult(PathBuf, #[source] io::Error);

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'c> {
    /// The scenario, with the first value of the swept key.
    pub scenario: &'c Scenario,
    /// Names of the `[[flows]]` that got the controllers.
    pub flows: &'c [String],
    /// The key that takes several values, if one does.
    pub swept: Option<&'c str>,
    /// The command that makes the runs again; empty: the page shows none.
    pub command: &'c str,
}

/// A run and its results.
struct Read<'r> {
    run: &'r SeededRun,
    result: Value,
    figures: ComparedFigures,
}

impl<'r> Read<'r> {
    fn of(run: &'r SeededRun, flows: &[String]) -> Result<Self, LostResult> {
        let result = read_json(&run.directory.join("result.json"))?;
        let figures = ComparedFigures::of(&result, flows);
        Ok(Self {
            run,
            result,
            figures,
        })
    }
}

impl ComparisonDocument {
    /// Of `runs`, each controller and value with the same seeds.
    fn new(compared: Compared<'_>, reads: &[Read<'_>]) -> Self {
        let mut document = Self {
            scenario: compared.scenario.name.clone(),
            backend: text(reads.first().map(|read| &read.result["backend"])),
            flows: compared.flows.to_vec(),
            seeds: Vec::new(),
            swept: compared.swept.map(str::to_owned),
            unseeded: Vec::new(),
            runs: Vec::new(),
        };
        let mut unseeded = BTreeSet::new();
        let mut values: Vec<&Option<String>> = Vec::new();
        for Read { run, result, .. } in reads {
            if !document.seeds.contains(&run.seed) {
                document.seeds.push(run.seed);
            }
            if !values.contains(&&run.value) {
                values.push(&run.value);
            }
            let names = result["unseeded"].as_array().into_iter().flatten();
            unseeded.extend(names.map(|name| text(Some(name))));
        }
        document.unseeded = unseeded.into_iter().collect();
        for value in values {
            let with_value: Vec<&Read<'_>> = reads
                .iter()
                .filter(|read| read.run.value == *value)
                .collect();
            let mut controllers: Vec<&String> = Vec::new();
            for read in &with_value {
                if !controllers.contains(&&read.run.controller) {
                    controllers.push(&read.run.controller);
                }
            }
            let of = |controller: &&String| {
                let runs = with_value.iter().copied();
                let runs = runs.filter(|read| read.run.controller == **controller);
                ComparedRun::new(&runs.collect::<Vec<_>>())
            };
            let mut runs: Vec<ComparedRun> = controllers.iter().map(of).collect();
            runs.sort_by(|a, b| a.roughness().partial_cmp(&b.roughness()).expect("no NaN"));
            document.runs.extend(runs);
        }
        document
    }

    fn heading(&self) -> String {
        let seeds = match self.seeds[..] {
            [first, .., last] => format!("seeds {first} to {last}, mean and 95 % confidence"),
            _ => format!("seed {}", self.seeds.first().copied().unwrap_or_default()),
        };
        format!("{}, {seeds}, on {}", self.scenario, self.backend)
    }

    /// A line for each flow that died or failed, with its controller and seed.
    pub fn failures(&self) -> Vec<String> {
        let of = |run: &ComparedRun| -> Vec<String> {
            let name = match (&self.swept, &run.value) {
                (Some(key), Some(value)) => format!("{}, {key}={value}", run.controller),
                _ => run.controller.clone(),
            };
            let flows = run.dead_flows.iter();
            flows.map(|flow| format!("{name}, {flow}")).collect()
        };
        self.runs.iter().flat_map(of).collect()
    }

    /// What stands below the table.
    fn notes(&self) -> Vec<String> {
        let note = unseeded_note(&self.unseeded);
        let mut notes = self.failures();
        notes.extend(note.lines().map(str::to_owned));
        notes
    }

    /// The smoothest controller, at each value of the swept key: none whose flows died, or delivered
    /// nothing.
    fn conclusion(&self) -> String {
        let values = self.runs.chunk_by(|a, b| a.value == b.value);
        let smoothest = values.map(|runs| {
            let first = &runs[0];
            let is_whole = first.dead_flows.is_empty() && first.shown().cov.is_some();
            let name = if is_whole { &first.controller } else { "none" };
            match &first.value {
                Some(value) => format!("{name} at {value}"),
                None => name.to_owned(),
            }
        });
        format!("smoothest: {}", smoothest.collect::<Vec<_>>().join(", "))
    }

    /// The columns that have figures.
    fn shown(&self) -> Vec<&'static Column<ComparedFigures>> {
        let any = |has: fn(&ComparedFigures) -> bool| self.runs.iter().any(|run| has(&run.median));
        let mut shown: Vec<&Column<ComparedFigures>> = ALWAYS.iter().collect();
        if any(|figures| figures.stream.is_some()) {
            shown.extend(STREAMS);
        }
        if any(|figures| figures.others_goodput_bps.is_some()) {
            shown.push(&OTHERS);
        }
        shown
    }

    /// A row for each controller, at each value of the swept key.
    fn columns(&self) -> Table {
        let shown = self.shown();
        let cell = |run: &ComparedRun, column: &Column<ComparedFigures>| match &run.seeds {
            Some(seeds) => format!(
                "{} +-{}",
                column.cell(&seeds.mean),
                column.cell(&seeds.ci95)
            ),
            None => column.cell(&run.median),
        };
        let row = |run: &ComparedRun| {
            let cells = shown.iter().map(|column| cell(run, column));
            let name = match run.dead_flows.len() {
                0 => run.controller.clone(),
                dead => format!("{} [{dead} died]", run.controller),
            };
            run.value
                .clone()
                .into_iter()
                .chain([name])
                .chain(cells)
                .collect()
        };
        let rows = self.runs.iter().map(row).collect();
        let words: &[&'static str] = match self.swept {
            Some(_) => &["value", "controller"],
            None => &["controller"],
        };
        Table::of(words, shown.iter().copied(), rows)
    }
}

/// Compares runs, each controller and value of the swept key with the same seeds; writes
/// `comparison.json`, `comparison.csv` (a row for each run), `comparison.html` and the plots
/// `rate.svg`, and of streams `delay.svg` and `bitrate.svg`, with the first of the flows in each
/// controller's first run, into `directory`; with a swept key instead `sweep-goodput.svg`,
/// `sweep-cov.svg` and `sweep-rtt.svg`.
///
/// # Errors
/// If a result of a run cannot be read, or a file cannot be written.
pub fn write_comparison(
    directory: &Path,
    compared: Compared<'_>,
    runs: &[SeededRun],
) -> Result<ComparisonDocument, ComparisonError> {
    let reads = runs.iter().map(|run| Read::of(run, compared.flows));
    let reads = reads.collect::<Result<Vec<_>, _>>()?;
    let document = ComparisonDocument::new(compared, &reads);
    let about = format!("{}, on {}", document.scenario, document.backend);
    let (title, plots) = match &document.swept {
        Some(key) => (format!("Over {key}"), sweep::plots(&document, key, &about)),
        None => {
            let observations = first_flows(compared, &reads)?;
            let title = "The first compared flow of each controller's first run";
            let plots = plot::of_flows(compared.scenario, &observations, &about);
            (title.to_owned(), plots)
        }
    };
    let mut pictures = Vec::new();
    for (name, picture) in plots {
        save(&directory.join(name), picture.file().as_bytes())?;
        pictures.push((String::new(), picture.inline()));
    }
    let page = Page {
        title: document.heading(),
        about: About::new(compared.scenario, compared.command),
        intro: document.conclusion(),
        tables: vec![("Controllers", document.columns())],
        notes: document.notes(),
        plots: vec![Plot { title, pictures }],
    };
    save(&directory.join("comparison.html"), page.html().as_bytes())?;
    save(
        &directory.join("comparison.csv"),
        rows(compared, &reads).as_bytes(),
    )?;
    let json = super::json(&document);
    save(&directory.join("comparison.json"), json.as_bytes())?;
    Ok(document)
}

/// A comparison that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ComparisonError {
    /// A run's result cannot be read.
    #[error(transparent)]
    Lost(#[from] LostResult),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] ReportError),
}

/// Whether `directory` has the complete results of this very scenario with its seed, on `backend`, by
/// this version.
pub fn is_kept(directory: &Path, scenario: &Scenario, backend: &str) -> bool {
    let read = |name| read_json(&directory.join(name));
    let (Ok(result), Ok(series)) = (read("result.json"), read(super::SERIES_FILE)) else {
        return false;
    };
    let is_there = |name: &&str| directory.join(name).is_file();
    let flows = series["flows"].as_array().map_or(0, Vec::len);
    let tables = ["series.csv", "flows.csv", "links.csv", "result.html"];
    tables.iter().all(is_there)
        && flows == scenario.flows.len()
        && result["config"] == json!(scenario.config)
        && result["backend"] == backend
        && result["version"] == env!("CARGO_PKG_VERSION")
}

/// The warnings of the runs, each once.
///
/// # Errors
/// If a result of a run cannot be read.
pub fn warnings(runs: &[SeededRun]) -> Result<Vec<String>, LostResult> {
    let mut all = Vec::new();
    for run in runs {
        let result = read_json(&run.directory.join("result.json"))?;
        let warnings = result["warnings"].as_array().into_iter().flatten();
        for warning in warnings.map(|warning| text(Some(warning))) {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
    }
    Ok(all)
}

/// The comparison as aligned plain text; with several seeds each figure is its mean, with half the
/// width of its 95 % confidence interval behind it.
pub fn comparison_table(document: &ComparisonDocument) -> String {
    let (heading, table) = (document.heading(), document.columns().text());
    let swept = document.swept.as_ref();
    let swept = swept.map_or_else(String::new, |key| format!("values of {key}\n"));
    let notes = document.notes().into_iter().map(|line| line + "\n");
    let notes: String = notes.collect();
    format!(
        "{heading}\n\n{swept}{table}\n{notes}{}\n",
        document.conclusion()
    )
}

const ALWAYS: &[Column<ComparedFigures>] = &[
    column("goodput", MBPS, |f| Some(f.goodput_bps as f64)),
    column("CoV", RATIO, |f| f.cov),
    column("RTT p50", MS, |f| f.rtt_p50_ms),
    column("retrans.", PERCENT, |f| f.retransmitted_ratio),
];

/// Counts, of which the median may lie between two.
const HALVES: Unit = Unit::new("", 1.0, 1);

/// Shown if there are streams.
const STREAMS: &[Column<ComparedFigures>] = &[
    column("delay p50", MS, |f| f.stream?.delay_p50_ms),
    column("p95", MS, |f| f.stream?.delay_p95_ms),
    column("max", MS, |f| f.stream?.delay_max_ms),
    column("playout", MS, |f| f.stream?.playout_delay_ms),
    column("stalls", HALVES, |f| Some(f.stream?.stalls)),
    column("stalled", SECONDS, |f| Some(f.stream?.stalled_s)),
    column("late", PERCENT, |f| f.stream?.late_ratio),
    column("lost", PERCENT, |f| f.stream?.lost_ratio),
    column("switches", HALVES, |f| Some(f.stream?.switches)),
];

/// Shown if there are flows that do not count in the other columns.
const OTHERS: Column<ComparedFigures> =
    column("others", MBPS, |f| Some(f.others_goodput_bps? as f64));

impl ComparedRun {
    /// Of a controller's runs with a value of the swept key, at least one.
    fn new(reads: &[&Read<'_>]) -> Self {
        let first = reads.first().expect("there is a run");
        let figures: Vec<_> = reads.iter().map(|read| read.figures.clone()).collect();
        Self {
            controller: first.run.controller.clone(),
            value: first.run.value.clone(),
            median: ComparedFigures::median(&figures),
            seeds: OverSeeds::of(&figures),
            dead_flows: reads.iter().flat_map(|read| failures(read)).collect(),
        }
    }

    /// The figures that the table shows.
    fn shown(&self) -> &ComparedFigures {
        self.seeds
            .as_ref()
            .map_or(&self.median, |seeds| &seeds.mean)
    }

    /// What runs are ordered by. A flow that died early may have been smooth until then.
    fn roughness(&self) -> (bool, f64, f64) {
        let shown = self.shown();
        let stream = &shown.stream;
        let stalled_s = stream.as_ref().map_or(0.0, |stream| stream.stalled_s);
        let died = !self.dead_flows.is_empty();
        (died, stalled_s, shown.cov.unwrap_or(f64::MAX))
    }
}

/// A line for each flow of a run that died or failed.
fn failures(read: &Read<'_>) -> Vec<String> {
    let flows = read.result["flows"].as_array().into_iter().flatten();
    let failed = flows.filter_map(|flow| {
        let (name, error) = (text(flow.get("name")), flow["error"].as_str()?);
        let what = match flow["died_s"].as_f64() {
            Some(died_s) => format!("{name} died at {died_s} s, its figures end there: {error}"),
            None => format!("{name} failed: {error}"),
        };
        Some(format!("seed {}: {what}", read.run.seed))
    });
    failed.collect()
}

/// The first compared flow of each controller's first run, under the controller's name.
fn first_flows(compared: Compared<'_>, reads: &[Read<'_>]) -> Result<Observations, LostResult> {
    let mut observations = Observations::default();
    for read in reads {
        let controller = &read.run.controller;
        let mut known = observations.flows.iter();
        if known.any(|flow| flow.name == *controller) {
            continue;
        }
        let flows = read.result["flows"].as_array().into_iter().flatten();
        let is_compared = |flow: &Value| compared.flows.iter().any(|name| flow["group"] == **name);
        let Some((index, flow)) = flows.enumerate().find(|(_, flow)| is_compared(flow)) else {
            continue;
        };
        let series = read_json(&read.run.directory.join("series.json"))?;
        let interval_s = series["interval_s"].as_f64().unwrap_or_default();
        let observed = observed(controller, flow, &series["flows"][index], interval_s);
        observations.flows.push(observed);
    }
    Ok(observations)
}

/// What plots need to know of a flow, from its result and its series.
fn observed(name: &str, result: &Value, series: &Value, interval_s: f64) -> FlowObservation {
    let seconds = |key: &str| Duration::from_secs_f64(result[key].as_f64().unwrap_or_default());
    let numbers = |values: &Value| {
        let values = values.as_array().into_iter().flatten();
        values.map(Value::as_f64).collect::<Vec<_>>()
    };
    let bytes = |bps: Option<f64>| (bps.unwrap_or_default() * interval_s / 8.0).round() as u64;
    let stream = || {
        let samples = numbers(&series["stream"]["delay_ms"]).into_iter();
        let samples = samples.zip(numbers(&series["stream"]["bitrate_bps"]));
        let sample = |(delay_ms, bitrate_bps): (Option<f64>, Option<f64>)| StreamSample {
            delay_ms,
            bitrate_bps: bitrate_bps.map(|bps| bps as u64),
        };
        Some(StreamObservation {
            report: serde_json::from_value(result["stream"].clone()).ok()?,
            sent: serde_json::from_value(result["stream"]["sent"].clone()).ok()?,
            series: samples.map(sample).collect(),
        })
    };
    FlowObservation {
        name: name.to_owned(),
        group: name.to_owned(),
        start: seconds("start_s"),
        stop: seconds("stop_s"),
        delivered: numbers(&series["rate_bps"])
            .into_iter()
            .map(bytes)
            .collect(),
        stream: stream(),
        ..FlowObservation::default()
    }
}

/// A row for each run.
fn rows(compared: Compared<'_>, reads: &[Read<'_>]) -> String {
    let row = |read: &Read<'_>| {
        let mut row = json!(read.figures);
        row["controller"] = json!(read.run.controller);
        row["seed"] = json!(read.run.seed);
        if let Some(key) = compared.swept {
            row[key] = json!(read.run.value);
        }
        row
    };
    let rows: Vec<Value> = reads.iter().map(row).collect();
    let columns = ["controller"].into_iter().chain(compared.swept);
    let columns: Vec<&str> = columns.chain(["seed"]).collect();
    csv::of_objects(&rows, &columns)
}

fn text(value: Option<&Value>) -> String {
    let text = value.and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn read_json(path: &Path) -> Result<Value, LostResult> {
    let text = fs::read_to_string(path);
    let value = text.and_then(|text| serde_json::from_str(&text).map_err(io::Error::from));
    value.map_err(|error| LostResult(path.to_owned(), error))
}
