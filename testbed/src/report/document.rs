//! The contents of `result.json`; docs/results.md describes every field.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel::Pacing;
use evenkeel_apps::path::{HeaderReport, LastAndMean, SampleSummary};
use evenkeel_apps::stream::{BitrateReport, JitterReport, SentCounts, VariationReport, ViewReport};
use evenkeel_queue::HeaderCounts;
use serde::Serialize;

use super::SERIES_FILE;
use super::fairness::Fairness;
use crate::metrics::{
    self, FlowObservation, LinkObservation, Observations, PathObservation, StampObservation,
    StreamObservation, Timing, Transfer, WireObservation, seconds,
};
use crate::scenario::{App, Scenario, ScenarioFile};

/// The figures of a run. Rates are whole bits per second; ratios have six decimals, times in
/// milliseconds and queue lengths three. What has no value is `None`, `null` in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultDocument {
    /// Name of the scenario.
    pub scenario: String,
    /// What it ran on.
    pub backend: String,
    /// Version of this program.
    pub version: &'static str,
    /// Seed of every random choice.
    pub seed: u64,
    /// Controllers of its flows that draw random numbers of their own, each once: in virtual time
    /// too the seed does not repeat the run. Not written if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseeded: Vec<String>,
    /// Length of the run, in seconds.
    pub duration_s: f64,
    /// What is left out of all averages, in seconds.
    pub warmup_s: f64,
    /// IP packets that hosts have sent in the whole run.
    pub packets_sent: u64,
    /// One for each flow, in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// All flows together.
    pub totals: Totals,
    /// How the flows shared.
    pub fairness: Fairness,
    /// One for each direction of the scenario's links.
    pub links: Vec<LinkResult>,
    /// What makes figures other than one would think: a line for each.
    pub warnings: Vec<String>,
    /// Name of the file of time series, beside this one.
    pub series: &'static str,
    /// The effective configuration of the scenario.
    pub config: ScenarioFile,
}

/// Figures of one flow, after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Name of its group in the scenario.
    pub group: String,
    /// Its controller, as the scenario spells it.
    pub controller: String,
    /// How its sender paced packets: by `controller`, `quinn` or `none`.
    pub pacing: &'static str,
    /// On every how many-th of its datagrams its sender was to put a path header; 0: on none.
    pub path_headers: u32,
    /// When it began, in seconds.
    pub start_s: f64,
    /// When it ended, in seconds.
    pub stop_s: f64,
    /// When its only connection failed, in seconds; `stop_s` then, and averages end there.
    pub died_s: Option<f64>,
    /// Bits of IP packets per second: [`metrics::throughput_bps`].
    pub throughput_bps: Option<u64>,
    /// Bits of application data per second: [`metrics::goodput_bps`].
    pub goodput_bps: Option<u64>,
    /// [`metrics::cov`].
    pub cov: Option<f64>,
    /// Packets that it sent.
    pub sent_packets: u64,
    /// Packets that it declared lost.
    pub lost_packets: u64,
    /// [`metrics::retransmitted_ratio`].
    pub retransmitted_ratio: Option<f64>,
    /// Round-trip times that the sender measured.
    pub rtt_ms: Option<RttResult>,
    /// What became of its path headers, and what they told; `None` if none were agreed on.
    pub path: Option<PathResult>,
    /// Its transfers, over the whole run.
    pub transfers: TransfersResult,
    /// What its viewer saw, if it is a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamResult>,
    /// Why it failed.
    pub error: Option<String>,
}

/// What became of the path headers of a flow's sender, and what they told it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathResult {
    /// The state in the end, and counts.
    #[serde(flatten)]
    pub headers: HeaderReport,
    /// The samples: [`metrics::path_summary`].
    #[serde(flatten)]
    pub samples: SampleSummary,
}

/// What became of a stream of live media.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamResult {
    /// The viewer's figures, after the warm-up.
    #[serde(flatten)]
    pub report: ViewReport,
    /// What the sender counted, in the whole run.
    pub sent: SentCounts,
}

/// Round-trip times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RttResult {
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// The transfers of a flow in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransfersResult {
    /// How many began.
    pub started: usize,
    /// How many the receiver has all of.
    pub completed: usize,
    /// Application bytes that the receiver got.
    pub bytes: u64,
    /// Whether SHA-256 agreed wherever it was compared; `None` if it never was.
    pub sha256_verified: Option<bool>,
    /// How long the completed ones took, in seconds.
    pub completion_s: Option<Percentiles>,
}

/// Median and tail of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// All flows together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Totals {
    /// Sum of the flows' throughputs, each over its own active time.
    pub throughput_bps: u64,
    /// Sum of the flows' goodputs: "system goodput" of A-AIMD, section 4.
    pub goodput_bps: u64,
    /// Mean of the flows' CoV: "system CoV" of "smoothness", section IV-B.
    pub cov: Option<f64>,
    /// Packets lost / packets sent, of all flows.
    pub retransmitted_ratio: Option<f64>,
}

/// Figures of one direction of a link, after the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkResult {
    /// Its name; `NAME.reverse` is the way back.
    pub name: String,
    /// Bits of IP packets per second, the mean over the measured time; `None` without limit.
    pub rate_bps: Option<u64>,
    /// Propagation delay at the beginning, in milliseconds.
    pub delay_ms: f64,
    /// What made the link: `evenkeel` or `netem`; `None` where nothing had to.
    pub emulator: Option<&'static str>,
    /// [`metrics::utilization`].
    pub utilization: Option<f64>,
    /// Queue length in packets, weighted by time, without the packet in transmission.
    pub queue_packets: QueueResult,
    /// How long forwarded packets waited, in milliseconds.
    pub sojourn_ms: Option<Percentiles>,
    /// Packets that came to the queue.
    pub arrived: u64,
    /// Packets that were transmitted.
    pub forwarded: u64,
    /// Bytes of the transmitted packets.
    pub forwarded_bytes: u64,
    /// Packets that the queue refused.
    pub dropped: u64,
    /// Those of them that the discipline dropped before the queue was full.
    pub dropped_early: Option<u64>,
    /// Packets that the queue marked (ECN).
    pub marked: u64,
    /// [`metrics::loss_rate`].
    pub loss_rate: Option<f64>,
    /// Packets lost behind the queue, by random loss, a blackout or their size.
    pub lost: u64,
    /// What the link changed behind its queue; written where it was to.
    #[serde(flatten)]
    pub wire: WireObservation,
    /// What became of path headers; `None` at a link that stamps none.
    pub headers: Option<HeaderCounts>,
    /// Where the link's stamps stood at the end: their figures by stamp and name.
    pub stamps: BTreeMap<String, BTreeMap<String, Option<f64>>>,
}

/// Queue length in packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct QueueResult {
    /// Mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub sd: Option<f64>,
    /// 95th percentile of time.
    pub p95: u64,
    /// Greatest.
    pub max: u64,
}

impl ResultDocument {
    /// The figures of a run of `scenario` on `backend`.
    pub fn new(scenario: &Scenario, backend: &str, observations: &Observations) -> Self {
        let timing = timing(scenario);
        let flows = &observations.flows;
        Self {
            scenario: scenario.name.clone(),
            backend: backend.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            seed: scenario.seed,
            unseeded: unseeded(scenario, flows),
            duration_s: scenario.duration.as_secs_f64(),
            warmup_s: scenario.warmup.as_secs_f64(),
            packets_sent: observations.packets_sent,
            flows: flows
                .iter()
                .map(|flow| FlowResult::new(flow, &timing))
                .collect(),
            totals: Totals::new(flows, &timing),
            fairness: Fairness::new(scenario, flows, &timing),
            links: observations
                .links
                .iter()
                .map(|link| LinkResult::new(link, &timing))
                .collect(),
            warnings: warnings(flows, scenario.duration),
            series: SERIES_FILE,
            config: scenario.config.clone(),
        }
    }

    /// A line for people for each flow that died or failed.
    pub fn failures(&self) -> Vec<String> {
        self.flows.iter().filter_map(FlowResult::failure).collect()
    }
}

impl FlowResult {
    fn new(flow: &FlowObservation, timing: &Timing) -> Self {
        let rtt = metrics::rtt_percentiles(flow, timing);
        Self {
            name: flow.name.clone(),
            group: flow.group.clone(),
            controller: flow.controller.clone(),
            pacing: flow.pacing.name(),
            path_headers: flow.path_headers,
            start_s: seconds(flow.start),
            stop_s: seconds(flow.stop),
            died_s: flow.died.map(seconds),
            throughput_bps: metrics::throughput_bps(flow, timing).map(whole),
            goodput_bps: metrics::goodput_bps(flow, timing).map(whole),
            cov: metrics::cov(flow, timing).and_then(ratio),
            sent_packets: flow.sent_packets,
            lost_packets: flow.lost_packets,
            retransmitted_ratio: metrics::retransmitted_ratio(flow).and_then(ratio),
            rtt_ms: rtt.map(|rtt| RttResult {
                min: milliseconds(rtt.min),
                p50: milliseconds(rtt.p50),
                p95: milliseconds(rtt.p95),
                p99: milliseconds(rtt.p99),
            }),
            path: flow.path.as_ref().map(|path| PathResult::new(path, timing)),
            transfers: TransfersResult::new(&flow.transfers),
            stream: flow.stream.as_ref().map(StreamResult::new),
            error: flow.error.clone(),
        }
    }

    /// A line for people if it died or failed.
    pub(super) fn failure(&self) -> Option<String> {
        let (name, error) = (&self.name, self.error.as_ref()?);
        Some(match self.died_s {
            Some(died_s) => {
                format!("{name} died at {died_s} s, its figures end there: {error}")
            }
            None => format!("{name} failed: {error}"),
        })
    }
}

impl StreamResult {
    fn new(stream: &StreamObservation) -> Self {
        let report = &stream.report;
        Self {
            report: ViewReport {
                duration_s: to_six_decimals(report.duration_s),
                throughput_bps: report.throughput_bps.map(f64::round),
                startup_s: report.startup_s.map(to_six_decimals),
                jitter_ms: report.jitter_ms.map(|jitter| JitterReport {
                    mean: to_three_decimals(jitter.mean),
                    rfc3550: to_three_decimals(jitter.rfc3550),
                }),
                variation: report
                    .variation
                    .iter()
                    .map(|variation| VariationReport {
                        cov: variation.cov.and_then(ratio),
                        peak_to_mean: variation.peak_to_mean.and_then(ratio),
                        ..*variation
                    })
                    .collect(),
                bitrate: report.bitrate.map(|bitrate| BitrateReport {
                    mean_bps: bitrate.mean_bps.round(),
                    ..bitrate
                }),
                ..report.clone()
            },
            sent: stream.sent,
        }
    }
}

impl PathResult {
    fn new(path: &PathObservation, timing: &Timing) -> Self {
        let summary = metrics::path_summary(path, timing);
        let time = |time: Option<LastAndMean>| {
            time.map(|time| LastAndMean {
                last: to_three_decimals(time.last),
                mean: to_three_decimals(time.mean),
            })
        };
        Self {
            headers: path.headers.clone(),
            samples: SampleSummary {
                forward_queueing_ms: time(summary.forward_queueing_ms),
                backward_queueing_ms: time(summary.backward_queueing_ms),
                congested_share: summary.congested_share.and_then(ratio),
                ..summary
            },
        }
    }
}

impl TransfersResult {
    fn new(transfers: &[Transfer]) -> Self {
        let completed = transfers.iter().filter_map(|transfer| {
            let end = transfer.end?;
            Some(end.saturating_sub(transfer.start))
        });
        let mut times: Vec<Duration> = completed.collect();
        times.sort_unstable();
        let compared = transfers
            .iter()
            .filter_map(|transfer| transfer.sha256_verified);
        let percentile = |percent| metrics::nearest_rank(&times, percent).map(seconds);
        Self {
            started: transfers.len(),
            completed: times.len(),
            bytes: transfers.iter().map(|transfer| transfer.bytes).sum(),
            sha256_verified: compared.reduce(|all, one| all && one),
            completion_s: percentile(50)
                .zip(percentile(95))
                .zip(percentile(99))
                .map(|((p50, p95), p99)| Percentiles { p50, p95, p99 }),
        }
    }
}

impl Totals {
    fn new(flows: &[FlowObservation], timing: &Timing) -> Self {
        let sum = |rate: fn(&FlowObservation, &Timing) -> Option<f64>| {
            whole(flows.iter().filter_map(|flow| rate(flow, timing)).sum())
        };
        let covs: Vec<f64> = flows
            .iter()
            .filter_map(|flow| metrics::cov(flow, timing))
            .collect();
        let sent: u64 = flows.iter().map(|flow| flow.sent_packets).sum();
        let lost: u64 = flows.iter().map(|flow| flow.lost_packets).sum();
        Self {
            throughput_bps: sum(metrics::throughput_bps),
            goodput_bps: sum(metrics::goodput_bps),
            cov: ratio(covs.iter().sum::<f64>() / covs.len() as f64),
            retransmitted_ratio: ratio(lost as f64 / sent as f64),
        }
    }
}

impl LinkResult {
    fn new(link: &LinkObservation, timing: &Timing) -> Self {
        Self {
            name: link.name.clone(),
            rate_bps: link.rate_bps,
            delay_ms: milliseconds(link.delay),
            emulator: link.emulator,
            utilization: metrics::utilization(link, timing).and_then(ratio),
            queue_packets: QueueResult {
                mean: rounded(link.queue.mean, 3),
                sd: rounded(link.queue.sd, 3),
                p95: link.queue.p95,
                max: link.queue.max,
            },
            sojourn_ms: link.sojourn.map(|sojourn| Percentiles {
                p50: milliseconds(sojourn.p50),
                p95: milliseconds(sojourn.p95),
                p99: milliseconds(sojourn.p99),
            }),
            arrived: link.arrived,
            forwarded: link.forwarded,
            forwarded_bytes: link.forwarded_bytes,
            dropped: link.dropped,
            dropped_early: link.dropped_early,
            marked: link.marked,
            loss_rate: metrics::loss_rate(link).and_then(ratio),
            lost: link.lost,
            wire: link.wire,
            headers: link.headers,
            stamps: by_stamp(link, |figure| {
                figure.series.last().and_then(|value| rounded(*value, 6))
            }),
        }
    }
}

/// A handshake that takes longer has failed: five round trips of 1 s.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A line for each group of flows whose controller's rate nobody heeded, and for each flow none of
/// whose data arrived.
fn warnings(flows: &[FlowObservation], duration: Duration) -> Vec<String> {
    let unheeded =
        |flow: &&FlowObservation| flow.asked_for_rate && flow.pacing != Pacing::Controller;
    let unheeded: Vec<_> = flows.iter().filter(unheeded).collect();
    let groups = unheeded.chunk_by(|a, b| a.group == b.group);
    let line = |group: &[&FlowObservation]| {
        let first = group[0];
        format!(
            "flows {}: {} sets a rate, which pacing = \"{}\" leaves out: only its window limits the \
             flow; use pacing = \"controller\"",
            first.group, first.controller, first.pacing
        )
    };
    let is_silent = |flow: &&FlowObservation| {
        let mut bytes = flow.app_delivered.iter();
        // What has not begun to send may still be in its handshake.
        let active = flow.stop.min(duration).saturating_sub(flow.start);
        let has_had_time = flow.sent_packets > 0 || active >= HANDSHAKE;
        flow.error.is_none() && has_had_time && bytes.all(|&bytes| bytes == 0)
    };
    let silent = flows.iter().filter(is_silent);
    let silent = silent.map(|flow| format!("flow {}: none of its data arrived", flow.name));
    groups.map(line).chain(silent).collect()
}

/// Figures of a link's stamps, by the names of stamp and figure.
pub(super) fn by_stamp<T>(
    link: &LinkObservation,
    value: impl Fn(&StampObservation) -> T,
) -> BTreeMap<String, BTreeMap<String, T>> {
    let mut stamps = BTreeMap::<String, BTreeMap<String, T>>::new();
    for figure in &link.stamps {
        let figures = stamps.entry(figure.stamp.clone()).or_default();
        figures.insert(figure.figure.clone(), value(figure));
    }
    stamps
}

/// The controllers of these flows whose runs no seed repeats.
fn unseeded(scenario: &Scenario, flows: &[FlowObservation]) -> Vec<String> {
    let specs = scenario.flows.iter().zip(flows);
    let ours = specs.filter(|(spec, _)| !matches!(spec.app, App::Tcp { .. }));
    let names: BTreeSet<&str> = ours.map(|(_, flow)| &*flow.controller).collect();
    let repeats = |name: &&str| scenario.controllers.repeats(name) != Ok(false);
    let unseeded = names.into_iter().filter(|name| !repeats(name));
    unseeded.map(str::to_owned).collect()
}

/// What a table says of controllers that draw random numbers of their own: a line, or nothing.
pub(super) fn unseeded_note(controllers: &[String]) -> String {
    if controllers.is_empty() {
        return String::new();
    }
    let names = controllers.join(", ");
    format!("no seed repeats {names}: another run gives other figures\n")
}

/// When a scenario is measured.
pub(super) fn timing(scenario: &Scenario) -> Timing {
    Timing {
        interval: scenario.sampling_interval,
        warmup: scenario.warmup,
        duration: scenario.duration,
    }
}

/// Milliseconds to the microsecond.
pub(super) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Milliseconds that are no duration to the microsecond.
pub(super) fn to_three_decimals(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

/// A number to the millionth.
fn to_six_decimals(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// A rate in whole bits per second.
fn whole(rate_bps: f64) -> u64 {
    rate_bps.round() as u64
}

/// A ratio with six decimals.
fn ratio(value: f64) -> Option<f64> {
    rounded(value, 6)
}

/// A number with this many decimals; `None` for what is no number, which JSON cannot hold.
pub(super) fn rounded(value: f64, decimals: i32) -> Option<f64> {
    let scale = 10f64.powi(decimals);
    let rounded = (value * scale).round() / scale;
    rounded.is_finite().then_some(rounded)
}
