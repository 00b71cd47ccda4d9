//! Several controllers on one scenario, with one seed or several: `comparison.json`, a table, and
//! plots.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::{FlowResult, ResultDocument, rounded, unseeded_note};
use super::page::{About, Page, Plot};
use super::table::{Column, MBPS, MS, PERCENT, RATIO, SECONDS, Table, Unit, column};
use super::{ReportError, plot, save};
use crate::metrics::{Observations, median};
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
    /// Controllers that draw random numbers of their own, each once: in virtual time too the seeds
    /// do not repeat their runs. Not written if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseeded: Vec<String>,
    /// One for each controller, the smoothest first: those of which no flow died, of equals those
    /// with the least time in stalls, and of equals the least CoV.
    pub runs: Vec<ComparedRun>,
}

/// One controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// As it was given.
    pub controller: String,
    /// Each figure's median over the seeds, whole where the figure is.
    #[serde(flatten)]
    pub median: ComparedFigures,
    /// Each figure's least value over the seeds; `None` with one seed.
    pub least: Option<ComparedFigures>,
    /// Each figure's greatest value over the seeds; `None` with one seed.
    pub greatest: Option<ComparedFigures>,
    /// A line for each flow that died or failed, with its seed.
    pub dead_flows: Vec<String>,
}

/// The figures of a run's compared flows. Those that are streams count if there are any; otherwise
/// all do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigures {
    /// Mean CoV of the throughput in 0.5 s ([`metrics::cov`](crate::metrics::cov)).
    pub cov: Option<f64>,
    /// Sum of the throughputs, bits of IP packets per second.
    pub throughput_bps: u64,
    /// Sum of goodputs, bits of application data per second.
    pub goodput_bps: u64,
    /// Mean of the flows' median round-trip times, milliseconds.
    pub rtt_p50_ms: Option<f64>,
    /// Packets lost / packets sent.
    pub retransmitted_ratio: Option<f64>,
    /// Of streams; `None` if there are none.
    pub stream: Option<ComparedStreams>,
    /// Sum of the goodputs of all flows that do not count above; `None` if all count.
    pub others_goodput_bps: Option<u64>,
}

/// What viewers saw: means over the streams, or sums where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ComparedStreams {
    /// Mean of the encoders' mean rates, bits per second.
    pub bitrate_bps: Option<f64>,
    /// Mean of the median delays of frames, milliseconds.
    pub delay_p50_ms: Option<f64>,
    /// Mean of the 95th percentiles, milliseconds.
    pub delay_p95_ms: Option<f64>,
    /// The greatest of all delays, milliseconds.
    pub delay_max_ms: Option<f64>,
    /// Mean of the playout delays at the end, milliseconds: how long after its capture a viewer sees
    /// a picture.
    pub playout_delay_ms: Option<f64>,
    /// Sum of the stalls.
    pub stalls: f64,
    /// Sum of the time in stalls, seconds.
    pub stalled_s: f64,
    /// Frames that were late, of all that were expected, 0 to 1.
    pub late_ratio: Option<f64>,
    /// Frames that were lost, of all that were expected, 0 to 1.
    pub lost_ratio: Option<f64>,
    /// Sum of the changes of the encoders' rates.
    pub switches: f64,
    /// Mean CoV of what arrived in 1 s.
    pub cov_1s: Option<f64>,
}

impl ComparisonDocument {
    fn heading(&self) -> String {
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let seeds = match &seeds[..] {
            [seed] => format!("seed {seed}"),
            _ => format!("seeds {}, median (least-greatest)", seeds.join(", ")),
        };
        format!("{}, {seeds}, on {}", self.scenario, self.backend)
    }

    /// A line for each flow that died or failed, with its controller and seed.
    pub fn failures(&self) -> Vec<String> {
        let of = |run: &ComparedRun| -> Vec<String> {
            let flows = run.dead_flows.iter();
            flows
                .map(|flow| format!("{}, {flow}", run.controller))
                .collect()
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

    fn conclusion(&self) -> String {
        let smoothest = self.runs.first().map_or("", |run| &run.controller);
        format!("smoothest: {smoothest}")
    }

    /// A row for each controller.
    fn columns(&self) -> Table {
        let any = |has: fn(&ComparedFigures) -> bool| self.runs.iter().any(|run| has(&run.median));
        let mut shown: Vec<&Column<ComparedFigures>> = ALWAYS.iter().collect();
        if any(|figures| figures.stream.is_some()) {
            shown.extend(STREAMS);
        }
        if any(|figures| figures.others_goodput_bps.is_some()) {
            shown.push(&OTHERS);
        }
        let cell = |run: &ComparedRun, column: &Column<ComparedFigures>| {
            let median = column.cell(&run.median);
            match (&run.least, &run.greatest) {
                (Some(least), Some(greatest)) => {
                    format!(
                        "{median} ({}-{})",
                        column.cell(least),
                        column.cell(greatest)
                    )
                }
                _ => median,
            }
        };
        let row = |run: &ComparedRun| {
            let cells = shown.iter().map(|column| cell(run, column));
            let name = match run.dead_flows.len() {
                0 => run.controller.clone(),
                dead => format!("{} [{dead} died]", run.controller),
            };
            std::iter::once(name).chain(cells).collect()
        };
        let rows = self.runs.iter().map(row).collect();
        Table::of(&["controller"], shown.iter().copied(), rows)
    }
}

/// A run to compare: its controller, its seed, its result, and what was seen.
pub type SeededRun = (String, u64, ResultDocument, Observations);

/// Compares `flows`, the names of `[[flows]]`, in runs of `scenario`, each controller with the same
/// seeds; writes `comparison.json`, `comparison.html` and the plots `rate.svg`, and of streams
/// `delay.svg` and `bitrate.svg`, with the first of the flows in each controller's first run, into
/// `directory`. The page shows the `command` that makes the runs again.
///
/// # Errors
/// If a file cannot be written.
pub fn write_comparison(
    directory: &Path,
    scenario: &Scenario,
    flows: &[String],
    runs: &[SeededRun],
    command: &str,
) -> Result<ComparisonDocument, ReportError> {
    let (mut seeds, mut controllers) = (Vec::new(), Vec::<&str>::new());
    for (controller, seed, ..) in runs {
        if !seeds.contains(seed) {
            seeds.push(*seed);
        }
        if !controllers.contains(&controller.as_str()) {
            controllers.push(controller);
        }
    }
    let mut compared: Vec<ComparedRun> = controllers
        .iter()
        .map(|controller| {
            let documents = runs.iter().filter(|run| run.0 == *controller);
            let documents: Vec<_> = documents.map(|run| &run.2).collect();
            ComparedRun::new(controller, &documents, flows)
        })
        .collect();
    compared.sort_by(|a, b| a.roughness().partial_cmp(&b.roughness()).expect("no NaN"));
    let unseeded: BTreeSet<&String> = runs.iter().flat_map(|run| &run.2.unseeded).collect();
    let document = ComparisonDocument {
        scenario: scenario.name.clone(),
        backend: runs
            .first()
            .map_or_else(String::new, |run| run.2.backend.clone()),
        flows: flows.to_vec(),
        seeds,
        unseeded: unseeded.into_iter().cloned().collect(),
        runs: compared,
    };
    // The first compared flow of each controller's first run, under the controller's name.
    let observations = Observations {
        flows: controllers
            .iter()
            .filter_map(|controller| {
                let (.., observations) = runs.iter().find(|run| run.0 == *controller)?;
                let mut all = observations.flows.iter();
                let mut flow = all.find(|flow| flows.contains(&flow.group))?.clone();
                (flow.name, flow.group) = (controller.to_string(), controller.to_string());
                Some(flow)
            })
            .collect(),
        ..Observations::default()
    };
    let about = format!("{}, on {}", document.scenario, document.backend);
    let mut plots = Vec::new();
    for (name, picture) in plot::of_flows(scenario, &observations, &about) {
        save(&directory.join(name), picture.file().as_bytes())?;
        plots.push((String::new(), picture.inline()));
    }
    let page = Page {
        title: document.heading(),
        about: About::new(scenario, command),
        intro: document.conclusion(),
        tables: vec![("Controllers", document.columns())],
        notes: document.notes(),
        plots: vec![Plot {
            title: "The first compared flow of each controller's first run".into(),
            pictures: plots,
        }],
    };
    save(&directory.join("comparison.html"), page.html().as_bytes())?;
    save(
        &directory.join("comparison.json"),
        super::json(&document).as_bytes(),
    )?;
    Ok(document)
}

/// The comparison as aligned plain text; with several seeds each figure is its median, with least and
/// greatest value behind it.
pub fn comparison_table(document: &ComparisonDocument) -> String {
    let (heading, table) = (document.heading(), document.columns().text());
    let notes = document.notes().into_iter().map(|line| line + "\n");
    let notes: String = notes.collect();
    format!("{heading}\n\n{table}\n{notes}{}\n", document.conclusion())
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
    /// Of a controller's runs, at least one.
    fn new(controller: &str, documents: &[&ResultDocument], flows: &[String]) -> Self {
        let several = documents.len() > 1;
        let runs = documents.iter().map(|run| ComparedFigures::new(run, flows));
        let runs: Vec<ComparedFigures> = runs.collect();
        let failures = |run: &&ResultDocument| {
            let seed = run.seed;
            let lines = run.failures().into_iter();
            lines.map(move |line| format!("seed {seed}: {line}"))
        };
        Self {
            controller: controller.to_owned(),
            median: ComparedFigures::over(&runs, median),
            least: several.then(|| ComparedFigures::over(&runs, |sorted| sorted[0])),
            greatest: several.then(|| ComparedFigures::over(&runs, |sorted| sorted[sorted.len() - 1])),
            dead_flows: documents.iter().flat_map(failures).collect(),
        }
    }

    /// What runs are ordered by. A flow that died early may have been smooth until then.
    fn roughness(&self) -> (bool, f64, f64) {
        let stream = &self.median.stream;
        let stalled_s = stream.as_ref().map_or(0.0, |stream| stream.stalled_s);
        let died = !self.dead_flows.is_empty();
        (died, stalled_s, self.median.cov.unwrap_or(f64::MAX))
    }
}

/// One number of those that there are, which `pick` gets in order; of objects the same key by key.
fn over(mut values: Vec<Value>, pick: fn(&[f64]) -> f64) -> Value {
    values.retain(|value| !value.is_null());
    match values.first() {
        None => Value::Null,
        Some(Value::Object(first)) => {
            let of = |key| values.iter().map(|value| value[key].clone()).collect();
            let keys = first.keys();
            keys.map(|key| (key.clone(), over(of(key), pick)))
                .collect()
        }
        Some(first) => {
            let mut numbers: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
            numbers.sort_by(f64::total_cmp);
            let number = pick(&numbers);
            match first.is_u64() {
                true => json!(number.round() as u64),
                false => json!(rounded(number, 6)),
            }
        }
    }
}

impl ComparedFigures {
    fn new(document: &ResultDocument, compared: &[String]) -> Self {
        let is_compared = |flow: &FlowResult| compared.contains(&flow.group);
        let is_stream = |flow: &FlowResult| is_compared(flow) && flow.stream.is_some();
        let has_streams = document.flows.iter().any(is_stream);
        let (counted, others): (Vec<&FlowResult>, Vec<&FlowResult>) = document
            .flows
            .iter()
            .partition(|flow| is_compared(flow) && (flow.stream.is_some() || !has_streams));
        let sent: u64 = counted.iter().map(|flow| flow.sent_packets).sum();
        let lost: u64 = counted.iter().map(|flow| flow.lost_packets).sum();
        Self {
            cov: mean(counted.iter().filter_map(|flow| flow.cov)),
            throughput_bps: counted.iter().filter_map(|flow| flow.throughput_bps).sum(),
            goodput_bps: counted.iter().filter_map(|flow| flow.goodput_bps).sum(),
            rtt_p50_ms: mean(counted.iter().filter_map(|flow| Some(flow.rtt_ms?.p50))),
            retransmitted_ratio: rounded(lost as f64 / sent as f64, 6),
            stream: has_streams.then(|| ComparedStreams::new(&counted)),
            others_goodput_bps: (!others.is_empty())
                .then(|| others.iter().filter_map(|flow| flow.goodput_bps).sum()),
        }
    }

    /// What `pick` makes of each figure's values in these runs, in order.
    fn over(runs: &[Self], pick: fn(&[f64]) -> f64) -> Self {
        let runs = runs.iter().map(|run| json!(run)).collect();
        serde_json::from_value(over(runs, pick)).expect("at least one run has every key")
    }
}

impl ComparedStreams {
    fn new(flows: &[&FlowResult]) -> Self {
        let reports: Vec<_> = flows
            .iter()
            .filter_map(|flow| Some(&flow.stream.as_ref()?.report))
            .collect();
        let of = |figure: &dyn Fn(&evenkeel_apps::stream::ViewReport) -> Option<f64>| {
            mean(reports.iter().filter_map(|report| figure(report)))
        };
        let sum = |figure: &dyn Fn(&evenkeel_apps::stream::ViewReport) -> u64| -> u64 {
            reports.iter().map(|report| figure(report)).sum()
        };
        let expected = sum(&|report| report.frames.received + report.frames.lost);
        let share = |count: u64| rounded(count as f64 / expected as f64, 6);
        let stalled: f64 = reports.iter().map(|report| report.stalls.total_s).sum();
        let greatest = reports
            .iter()
            .filter_map(|report| Some(report.delay_ms?.max));
        Self {
            bitrate_bps: of(&|report| Some(report.bitrate?.mean_bps)),
            delay_p50_ms: of(&|report| Some(report.delay_ms?.p50)),
            delay_p95_ms: of(&|report| Some(report.delay_ms?.p95)),
            delay_max_ms: greatest.reduce(f64::max),
            playout_delay_ms: of(&|report| report.playout_delay_ms),
            stalls: sum(&|report| report.stalls.count) as f64,
            stalled_s: rounded(stalled, 6).unwrap_or(0.0),
            late_ratio: share(sum(&|report| report.frames.late)),
            lost_ratio: share(sum(&|report| report.frames.lost)),
            switches: sum(&|report| report.bitrate.map_or(0, |bitrate| bitrate.switches)) as f64,
            cov_1s: of(&|report| report.variation.iter().find(|v| v.interval_s == 1.0)?.cov),
        }
    }
}

/// To the millionth; `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    rounded(values.iter().sum::<f64>() / values.len() as f64, 6)
}
