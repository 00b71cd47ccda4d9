//! A run's figures as text and as a page.

use std::iter;

use evenkeel_apps::path::LastAndMean;
use evenkeel_apps::stream::ViewReport;

use super::document::{FlowResult, LinkResult, ResultDocument, unseeded_note};
use super::page::{About, Page};
use super::table::{
    COUNT, Column, MBPS, MS, PACKETS, PERCENT, RATIO, SECONDS, Table, Unit, column,
};
use crate::metrics::median;

/// Groups of more flows than this are summarised by smallest, median and greatest.
const MAX_ROWS: usize = 12;

/// The document as aligned plain text: flows, links, fairness, transfers and failures.
pub fn table(document: &ResultDocument) -> String {
    let mut text = format!("{}\n\n", heading(document));
    if !document.flows.is_empty() {
        text += &flows(document).text();
        text += "\n";
    }
    text += &links(&document.links).text();
    text += &link_notes(&document.links);
    for notes in [
        fairness(document),
        headers(&document.flows),
        transfers(&document.flows),
    ] {
        if !notes.is_empty() {
            text += &format!("\n{notes}");
        }
    }
    let streams = streams(&document.flows);
    if !streams.is_empty() {
        text += &format!("\n{}", streams.text());
    }
    text + &unseeded_note(&document.unseeded) + &failures(document)
}

/// The same as a page.
pub(super) fn page(document: &ResultDocument, about: About) -> Page {
    let all = [
        ("Flows", flows(document)),
        ("Links", links(&document.links)),
        ("Streams", streams(&document.flows)),
    ];
    let notes = [
        failures(document),
        unseeded_note(&document.unseeded),
        fairness(document),
        link_notes(&document.links),
        headers(&document.flows),
        transfers(&document.flows),
    ];
    Page {
        title: heading(document),
        about,
        intro: String::new(),
        tables: all
            .into_iter()
            .filter(|(_, table)| !table.is_empty())
            .collect(),
        notes: notes.concat().lines().map(str::to_owned).collect(),
        plots: Vec::new(),
    }
}

fn heading(document: &ResultDocument) -> String {
    let warmup = match document.warmup_s {
        warmup_s if warmup_s > 0.0 => format!(", averages without the first {warmup_s} s"),
        _ => String::new(),
    };
    format!(
        "{}, seed {}, on {}: {} s{warmup}",
        document.scenario, document.seed, document.backend, document.duration_s
    )
}

fn fairness(document: &ResultDocument) -> String {
    let fairness = &document.fairness.least;
    if fairness.jain.is_none() {
        return String::new();
    }
    let sets = match document.fairness.sets.len() {
        0 => String::new(),
        sets => format!(" (the least of {sets} sets of flows that share no link)"),
    };
    format!(
        "fairness: Jain {}, worst case {}, short term {}{sets}\n",
        RATIO.text(fairness.jain),
        RATIO.text(fairness.worst_case),
        RATIO.text(fairness.short_term)
    )
}

/// A line for each flow that died or failed.
fn failures(document: &ResultDocument) -> String {
    let lines = document.failures().into_iter();
    lines.map(|line| line + "\n").collect()
}

const FLOW: &[Column<FlowResult>] = &[
    column("throughput", MBPS, |flow| float(flow.throughput_bps)),
    column("goodput", MBPS, |flow| float(flow.goodput_bps)),
    column("CoV", RATIO, |flow| flow.cov),
    column("retrans.", PERCENT, |flow| flow.retransmitted_ratio),
    column("RTT min", MS, |flow| Some(flow.rtt_ms?.min)),
    column("p50", MS, |flow| Some(flow.rtt_ms?.p50)),
    column("p95", MS, |flow| Some(flow.rtt_ms?.p95)),
    column("p99", MS, |flow| Some(flow.rtt_ms?.p99)),
];

const LINK: &[Column<LinkResult>] = &[
    column("rate", MBPS, |link| float(link.rate_bps)),
    column("utilized", Unit::new("%", 100.0, 1), |link| {
        link.utilization
    }),
    column("queue", Unit::new("packets", 1.0, 1), |link| {
        link.queue_packets.mean
    }),
    column("+-", Unit::new("", 1.0, 1), |link| link.queue_packets.sd),
    column("p95", COUNT, |link| float(Some(link.queue_packets.p95))),
    column("max", COUNT, |link| float(Some(link.queue_packets.max))),
    column("wait p95", MS, |link| Some(link.sojourn_ms?.p95)),
    column("arrived", PACKETS, |link| float(Some(link.arrived))),
    column("dropped", PACKETS, |link| float(Some(link.dropped))),
    column("loss", PERCENT, |link| link.loss_rate),
];

const STREAM: &[Column<ViewReport>] = &[
    column("encoder", MBPS, |report| Some(report.bitrate?.mean_bps)),
    column("switches", COUNT, |report| {
        float(Some(report.bitrate?.switches))
    }),
    column("delay p50", MS, |report| Some(report.delay_ms?.p50)),
    column("p95", MS, |report| Some(report.delay_ms?.p95)),
    column("p99", MS, |report| Some(report.delay_ms?.p99)),
    column("max", MS, |report| Some(report.delay_ms?.max)),
    column("jitter", Unit::new("ms", 1.0, 2), |report| {
        Some(report.jitter_ms?.mean)
    }),
    column("stalls", COUNT, |report| float(Some(report.stalls.count))),
    column("stalled", SECONDS, |report| Some(report.stalls.total_s)),
    column("late", PERCENT, |report| share(report, report.frames.late)),
    column("lost", PERCENT, |report| share(report, report.frames.lost)),
    column("CoV 1 s", RATIO, |report| {
        report.variation.iter().find(|v| v.interval_s == 1.0)?.cov
    }),
];

fn float(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// This many frames as a share of all.
fn share(report: &ViewReport, frames: u64) -> Option<f64> {
    let all = report.frames.received + report.frames.lost;
    Some(frames as f64 / all.max(1) as f64)
}

fn flows(document: &ResultDocument) -> Table {
    let mut rows = Vec::new();
    for group in document.flows.chunk_by(|a, b| a.group == b.group) {
        if group.len() <= MAX_ROWS {
            rows.extend(group.iter().map(|flow| {
                let words = [marked(&flow.name, [flow]), flow.controller.clone()];
                row(words, FLOW.iter().map(|column| column.cell(flow)))
            }));
        } else {
            rows.extend(summary(group));
        }
    }
    if document.flows.len() > 1 {
        let totals = &document.totals;
        let figures = [
            Some(totals.throughput_bps as f64),
            Some(totals.goodput_bps as f64),
            totals.cov,
            totals.retransmitted_ratio,
        ];
        let figures = figures.into_iter().chain(iter::repeat(None));
        let cells = FLOW.iter().zip(figures);
        let words = ["sum; mean CoV".to_owned(), String::new()];
        rows.push(row(
            words,
            cells.map(|(column, figure)| column.unit.text(figure)),
        ));
    }
    Table::of(&["flow", "controller"], FLOW, rows)
}

/// Smallest, median and greatest of each figure of a large group.
fn summary(group: &[FlowResult]) -> [Vec<String>; 3] {
    let row_of = |title: &str, pick: fn(&[f64]) -> f64| {
        let cells = FLOW.iter().map(|column| {
            let mut present: Vec<f64> = group.iter().filter_map(column.figure).collect();
            present.sort_by(f64::total_cmp);
            let value = (!present.is_empty()).then(|| pick(&present));
            column.unit.text(value)
        });
        let name = format!("{} x{}", group[0].group, group.len());
        let name = format!("{} {title}", marked(&name, group));
        row([name, group[0].controller.clone()], cells)
    };
    [
        row_of("smallest", |sorted| sorted[0]),
        row_of("median", median),
        row_of("greatest", |sorted| sorted[sorted.len() - 1]),
    ]
}

/// A name, and behind it how many of its flows died or failed.
fn marked<'f>(name: &str, flows: impl IntoIterator<Item = &'f FlowResult>) -> String {
    let (mut died, mut failed) = (0, 0);
    for flow in flows {
        died += usize::from(flow.died_s.is_some());
        failed += usize::from(flow.error.is_some());
    }
    match (died, failed) {
        (_, 0) => name.to_owned(),
        (0, failed) => format!("{name} [{failed} failed]"),
        (died, _) => format!("{name} [{died} died]"),
    }
}

/// Words, then figures.
fn row<const N: usize>(words: [String; N], figures: impl Iterator<Item = String>) -> Vec<String> {
    words.into_iter().chain(figures).collect()
}

fn links(links: &[LinkResult]) -> Table {
    let rows = links.iter().map(|link| {
        let cells = LINK.iter().map(|column| column.cell(link));
        row([link.name.clone()], cells)
    });
    Table::of(&["link"], LINK, rows.collect())
}

fn link_notes(links: &[LinkResult]) -> String {
    let mut text = String::new();
    for link in links.iter().filter(|link| link.lost > 0) {
        text += &format!(
            "{}: {} packets lost behind the queue\n",
            link.name, link.lost
        );
    }
    for link in links {
        if let Some(early) = link.dropped_early.filter(|early| *early > 0) {
            let full = link.dropped - early;
            text += &format!(
                "{}: {early} packets dropped early, {full} with a full queue\n",
                link.name
            );
        }
    }
    for link in links.iter().filter(|link| link.marked > 0) {
        text += &format!("{}: {} packets marked\n", link.name, link.marked);
    }
    text
}

/// What viewers saw.
fn streams(flows: &[FlowResult]) -> Table {
    let rows = flows.iter().filter_map(|flow| {
        let report = &flow.stream.as_ref()?.report;
        let cells = STREAM.iter().map(|column| column.cell(report));
        Some(row([flow.name.clone()], cells))
    });
    Table::of(&["stream"], STREAM, rows.collect())
}

/// A line for each flow whose transfers have ends or were compared; the others just ran.
fn transfers(flows: &[FlowResult]) -> String {
    let mut text = String::new();
    for flow in flows {
        let transfers = &flow.transfers;
        if transfers.completed == 0 && transfers.sha256_verified.is_none() {
            continue;
        }
        text += &format!(
            "{}: {} of {} transfers complete",
            flow.name, transfers.completed, transfers.started
        );
        if let Some(completion) = transfers.completion_s {
            text += &format!(", p50 {:.3} s, p95 {:.3} s", completion.p50, completion.p95);
        }
        match transfers.sha256_verified {
            Some(true) => text += ", SHA-256 agrees",
            Some(false) => text += ", SHA-256 DIFFERS",
            None => {}
        }
        text += "\n";
    }
    text
}

/// A mean time in milliseconds.
fn queueing(time: Option<LastAndMean>) -> String {
    Unit::new("ms", 1.0, 2).text(time.map(|time| time.mean))
}

/// A line for each flow whose path headers brought what routers reported; of a large group, for its
/// first.
fn headers(flows: &[FlowResult]) -> String {
    let mut text = String::new();
    let groups = flows.chunk_by(|a, b| a.group == b.group);
    let shown = groups.flat_map(|group| match group.len() {
        ..=MAX_ROWS => group,
        _ => &group[..1],
    });
    for flow in shown {
        let Some(path) = &flow.path else { continue };
        let samples = &path.samples;
        let queueing_times = [samples.forward_queueing_ms, samples.backward_queueing_ms];
        if queueing_times == [None; 2] && samples.grant_bps.is_none() {
            continue;
        }
        text += &format!(
            "{}: {} path headers came back, queueing {} ms there and {} ms back",
            flow.name,
            path.headers.counts.echoes,
            queueing(samples.forward_queueing_ms),
            queueing(samples.backward_queueing_ms),
        );
        if let Some(bps) = samples.grant_bps {
            text += &format!(", {:.3} Mb/s granted", bps as f64 / 1e6);
        }
        text += "\n";
    }
    text
}
