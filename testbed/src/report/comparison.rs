//! Several controllers on one scenario: `comparison.json`, a table, and plots.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::document::rounded;
use super::{FlowResult, ReportError, ResultDocument, plot, table};
use crate::metrics::Observations;
use crate::scenario::Scenario;

/// One scenario with one controller after the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparisonDocument {
    /// Name of the scenario.
    pub scenario: String,
    /// What it ran on.
    pub backend: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// One for each controller, the smoothest first: those with the least time in stalls, and of
    /// equals the least CoV.
    pub runs: Vec<ComparedRun>,
}

/// The figures of one controller. Flows that are streams count if there are any; otherwise all do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRun {
    /// As it was given.
    pub controller: String,
    /// Mean CoV of the throughput in 0.5 s ([`metrics::cov`](crate::metrics::cov)).
    pub cov: Option<f64>,
    /// Sum of the throughputs, bits of IP packets per second.
    pub throughput_bps: u64,
    /// Sum of goodputs, bits of application data per second.
    pub goodput_bps: u64,
    /// Mean of the flows' median round-trip times, milliseconds.
    pub rtt_p50_ms: Option<f64>,
    /// Share of packets lost, of all flows of the run.
    pub retransmitted_ratio: Option<f64>,
    /// Of streams; `None` if there are none.
    pub stream: Option<ComparedStreams>,
    /// Goodput of the flows that are no streams, beside streams; `None` without either.
    pub others_goodput_bps: Option<u64>,
}

/// What viewers saw: means over the streams, or sums where it says so.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub stalls: u64,
    /// Sum of the time in stalls, seconds.
    pub stalled_s: f64,
    /// Frames that were late, of all that were expected, 0 to 1.
    pub late_ratio: Option<f64>,
    /// Frames that were lost, of all that were expected, 0 to 1.
    pub lost_ratio: Option<f64>,
    /// Sum of the changes of the encoders' rates.
    pub switches: u64,
    /// Mean CoV of what arrived in 1 s.
    pub cov_1s: Option<f64>,
}

impl ComparisonDocument {
    /// As `comparison.json` holds it.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a document has string keys only");
        text + "\n"
    }
}

/// Compares runs of `scenario`; writes `comparison.json` and the plots `rate.svg`, and of streams
/// `delay.svg` and `bitrate.svg`, with the first flow of each run, into `directory`.
///
/// # Errors
/// If a file cannot be written.
pub fn write_comparison(
    directory: &Path,
    scenario: &Scenario,
    runs: &[(String, ResultDocument, Observations)],
) -> Result<ComparisonDocument, ReportError> {
    let mut compared: Vec<ComparedRun> = runs
        .iter()
        .map(|(controller, document, _)| ComparedRun::new(controller, document))
        .collect();
    compared.sort_by(|a, b| a.roughness().partial_cmp(&b.roughness()).expect("no NaN"));
    let document = ComparisonDocument {
        scenario: scenario.name.clone(),
        backend: runs
            .first()
            .map_or_else(String::new, |run| run.1.backend.clone()),
        seed: scenario.seed,
        runs: compared,
    };
    let save = |name: &str, contents: &str| {
        let path = directory.join(name);
        fs::write(&path, contents).map_err(|source| ReportError { path, source })
    };
    save("comparison.json", &document.json())?;
    // The first flow of each run, under its controller's name.
    let observations = Observations {
        flows: runs
            .iter()
            .filter_map(|(controller, _, observations)| {
                let mut flow = observations.flows.first()?.clone();
                (flow.name, flow.group) = (controller.clone(), controller.clone());
                Some(flow)
            })
            .collect(),
        ..Observations::default()
    };
    for (name, svg) in plot::of_flows(scenario, &observations) {
        save(name, &svg)?;
    }
    Ok(document)
}

/// The comparison as aligned plain text.
pub fn comparison_table(document: &ComparisonDocument) -> String {
    let streams = document.runs.iter().any(|run| run.stream.is_some());
    let others = document
        .runs
        .iter()
        .any(|run| run.others_goodput_bps.is_some());
    let mut names = vec!["controller", "goodput", "CoV", "RTT p50", "retrans."];
    let mut units = vec!["", "Mb/s", "", "ms", "%"];
    if streams {
        names.extend([
            "delay p50",
            "p95",
            "max",
            "playout",
            "stalls",
            "stalled",
            "late",
            "lost",
            "switches",
        ]);
        units.extend(["ms", "ms", "ms", "ms", "", "s", "%", "%", ""]);
    }
    if others {
        names.push("others");
        units.push("Mb/s");
    }
    let words = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut rows = vec![words(names), words(units)];
    for run in &document.runs {
        let mut row = vec![
            run.controller.clone(),
            table::fixed(Some(run.goodput_bps as f64), 1e-6, 3),
            table::fixed(run.cov, 1.0, 3),
            table::fixed(run.rtt_p50_ms, 1.0, 1),
            table::fixed(run.retransmitted_ratio, 100.0, 2),
        ];
        if let Some(stream) = &run.stream {
            row.extend([
                table::fixed(stream.delay_p50_ms, 1.0, 1),
                table::fixed(stream.delay_p95_ms, 1.0, 1),
                table::fixed(stream.delay_max_ms, 1.0, 1),
                table::fixed(stream.playout_delay_ms, 1.0, 1),
                stream.stalls.to_string(),
                table::fixed(Some(stream.stalled_s), 1.0, 2),
                table::fixed(stream.late_ratio, 100.0, 2),
                table::fixed(stream.lost_ratio, 100.0, 2),
                stream.switches.to_string(),
            ]);
        }
        if others {
            row.push(table::fixed(
                run.others_goodput_bps.map(|bps| bps as f64),
                1e-6,
                3,
            ));
        }
        rows.push(row);
    }
    let smoothest = document.runs.first().map_or("", |run| &run.controller);
    format!(
        "{}, seed {}, on {}\n\n{}\nsmoothest: {smoothest}\n",
        document.scenario,
        document.seed,
        document.backend,
        table::aligned(&rows, 1)
    )
}

impl ComparedRun {
    fn new(controller: &str, document: &ResultDocument) -> Self {
        let (streams, others): (Vec<&FlowResult>, Vec<&FlowResult>) = document
            .flows
            .iter()
            .partition(|flow| flow.stream.is_some());
        let has_streams = !streams.is_empty();
        let counted = if has_streams { &streams } else { &others };
        Self {
            controller: controller.to_owned(),
            cov: mean(counted.iter().filter_map(|flow| flow.cov)),
            throughput_bps: counted.iter().filter_map(|flow| flow.throughput_bps).sum(),
            goodput_bps: counted.iter().filter_map(|flow| flow.goodput_bps).sum(),
            rtt_p50_ms: mean(counted.iter().filter_map(|flow| Some(flow.rtt_ms?.p50))),
            retransmitted_ratio: document.totals.retransmitted_ratio,
            stream: has_streams.then(|| ComparedStreams::new(&streams)),
            others_goodput_bps: (has_streams && !others.is_empty())
                .then(|| others.iter().filter_map(|flow| flow.goodput_bps).sum()),
        }
    }

    /// What runs are ordered by.
    fn roughness(&self) -> (f64, f64) {
        let stalled_s = self.stream.as_ref().map_or(0.0, |stream| stream.stalled_s);
        (stalled_s, self.cov.unwrap_or(f64::MAX))
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
            stalls: sum(&|report| report.stalls.count),
            stalled_s: rounded(stalled, 6).unwrap_or(0.0),
            late_ratio: share(sum(&|report| report.frames.late)),
            lost_ratio: share(sum(&|report| report.frames.lost)),
            switches: sum(&|report| report.bitrate.map_or(0, |bitrate| bitrate.switches)),
            cov_1s: of(&|report| report.variation.iter().find(|v| v.interval_s == 1.0)?.cov),
        }
    }
}

/// To the millionth; `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    rounded(values.iter().sum::<f64>() / values.len() as f64, 6)
}
