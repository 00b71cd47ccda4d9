//! A run's figures as text for people.

use std::fmt::Write;

use serde::Serialize;

use super::document::{FlowResult, LinkResult, ResultDocument, StreamResult};
use super::page::Page;

/// Groups of more flows than this are summarised by smallest, median and greatest.
const MAX_ROWS: usize = 12;

/// What stands where there is no value.
const NONE: &str = "-";

/// Rows under names and units, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Table {
    /// Each column's name and unit.
    columns: Vec<(&'static str, &'static str)>,
    /// As many cells as there are columns in each.
    rows: Vec<Vec<String>>,
    /// How many columns are flush left; the others are flush right.
    left: usize,
}

impl Table {
    pub(super) fn new(
        left: usize,
        columns: &[(&'static str, &'static str)],
        rows: Vec<Vec<String>>,
    ) -> Self {
        Self {
            columns: columns.to_vec(),
            rows,
            left,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned plain text: columns as wide as they need to be.
    pub(super) fn text(&self) -> String {
        let names = self
            .columns
            .iter()
            .map(|column| column.0.to_owned())
            .collect();
        let units = self
            .columns
            .iter()
            .map(|column| column.1.to_owned())
            .collect();
        let mut rows: Vec<&Vec<String>> = vec![&names];
        if self.columns.iter().any(|column| !column.1.is_empty()) {
            rows.push(&units);
        }
        rows.extend(&self.rows);
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column < self.left {
                    push(&mut line, format_args!("{cell:<width$}  "));
                } else {
                    push(&mut line, format_args!("{cell:>width$}  "));
                }
            }
            text += line.trim_end();
            text += "\n";
        }
        text
    }
}

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
    text + &failures(&document.flows)
}

/// The same as a page.
pub(super) fn page(document: &ResultDocument) -> Page {
    let all = [
        ("Flows", flows(document)),
        ("Links", links(&document.links)),
        ("Streams", streams(&document.flows)),
    ];
    let notes = [
        failures(&document.flows),
        fairness(document),
        link_notes(&document.links),
        headers(&document.flows),
        transfers(&document.flows),
    ];
    Page {
        title: heading(document),
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
    let fairness = &document.fairness;
    if fairness.jain.is_none() {
        return String::new();
    }
    format!(
        "fairness: Jain {}, worst case {}, short term {}\n",
        fixed(fairness.jain, 1.0, 3),
        fixed(fairness.worst_case, 1.0, 3),
        fixed(fairness.short_term, 1.0, 3)
    )
}

fn failures(flows: &[FlowResult]) -> String {
    let failed = flows
        .iter()
        .filter_map(|flow| Some((&flow.name, flow.error.as_ref()?)));
    failed
        .map(|(name, error)| format!("{name} failed: {error}\n"))
        .collect()
}

fn flows(document: &ResultDocument) -> Table {
    let columns = [
        ("flow", ""),
        ("controller", ""),
        ("throughput", "Mb/s"),
        ("goodput", "Mb/s"),
        ("CoV", ""),
        ("retrans.", "%"),
        ("RTT min", "ms"),
        ("p50", "ms"),
        ("p95", "ms"),
        ("p99", "ms"),
    ];
    let mut rows = Vec::new();
    for group in document.flows.chunk_by(|a, b| a.group == b.group) {
        if group.len() <= MAX_ROWS {
            rows.extend(
                group
                    .iter()
                    .map(|flow| row(&flow.name, &flow.controller, figures(flow))),
            );
        } else {
            rows.extend(summary(group));
        }
    }
    if document.flows.len() > 1 {
        let totals = &document.totals;
        let mut figures = [None; 8];
        figures[0] = Some(totals.throughput_bps as f64);
        figures[1] = Some(totals.goodput_bps as f64);
        figures[2] = totals.cov;
        figures[3] = totals.retransmitted_ratio;
        rows.push(row("sum; mean CoV", "", figures));
    }
    Table::new(2, &columns, rows)
}

/// Smallest, median and greatest of each figure of a large group.
fn summary(group: &[FlowResult]) -> Vec<Vec<String>> {
    let all: Vec<_> = group.iter().map(figures).collect();
    let column = |index: usize| {
        let mut present: Vec<f64> = all.iter().filter_map(|figures| figures[index]).collect();
        present.sort_by(f64::total_cmp);
        present
    };
    let row_of = |title: &str, pick: fn(&[f64]) -> Option<f64>| {
        let figures = std::array::from_fn(|index| pick(&column(index)));
        let name = format!("{} x{} {title}", group[0].group, group.len());
        row(&name, &group[0].controller, figures)
    };
    vec![
        row_of("smallest", |sorted| sorted.first().copied()),
        row_of("median", |sorted| {
            sorted.get(sorted.len().saturating_sub(1) / 2).copied()
        }),
        row_of("greatest", |sorted| sorted.last().copied()),
    ]
}

/// Throughput, goodput, CoV, retransmitted ratio and four round-trip times.
fn figures(flow: &FlowResult) -> [Option<f64>; 8] {
    let rtt = flow.rtt_ms.as_ref();
    [
        flow.throughput_bps.map(|bps| bps as f64),
        flow.goodput_bps.map(|bps| bps as f64),
        flow.cov,
        flow.retransmitted_ratio,
        rtt.map(|rtt| rtt.min),
        rtt.map(|rtt| rtt.p50),
        rtt.map(|rtt| rtt.p95),
        rtt.map(|rtt| rtt.p99),
    ]
}

fn row(name: &str, controller: &str, figures: [Option<f64>; 8]) -> Vec<String> {
    // Mb/s, Mb/s, a ratio, percent, milliseconds.
    let formats = [
        (1e-6, 3),
        (1e-6, 3),
        (1.0, 3),
        (100.0, 2),
        (1.0, 1),
        (1.0, 1),
        (1.0, 1),
        (1.0, 1),
    ];
    let figures = figures
        .iter()
        .zip(formats)
        .map(|(figure, (scale, decimals))| fixed(*figure, scale, decimals));
    [name.to_owned(), controller.to_owned()]
        .into_iter()
        .chain(figures)
        .collect()
}

fn links(links: &[LinkResult]) -> Table {
    let columns = [
        ("link", ""),
        ("rate", "Mb/s"),
        ("utilized", "%"),
        ("queue", "packets"),
        ("+-", ""),
        ("p95", ""),
        ("max", ""),
        ("wait p95", "ms"),
        ("arrived", "packets"),
        ("dropped", "packets"),
        ("loss", "%"),
    ];
    let row = |link: &LinkResult| {
        let queue = &link.queue_packets;
        vec![
            link.name.clone(),
            fixed(link.rate_bps.map(|bps| bps as f64), 1e-6, 3),
            fixed(link.utilization, 100.0, 1),
            fixed(queue.mean, 1.0, 1),
            fixed(queue.sd, 1.0, 1),
            queue.p95.to_string(),
            queue.max.to_string(),
            fixed(link.sojourn_ms.map(|sojourn| sojourn.p95), 1.0, 1),
            link.arrived.to_string(),
            link.dropped.to_string(),
            fixed(link.loss_rate, 100.0, 2),
        ]
    };
    Table::new(1, &columns, links.iter().map(row).collect())
}

fn link_notes(links: &[LinkResult]) -> String {
    let mut text = String::new();
    for link in links.iter().filter(|link| link.lost > 0) {
        text += &format!(
            "{}: {} packets lost at random or in blackouts\n",
            link.name, link.lost
        );
    }
    for link in links.iter().filter(|link| link.marked > 0) {
        text += &format!("{}: {} packets marked\n", link.name, link.marked);
    }
    text
}

/// What viewers saw.
fn streams(flows: &[FlowResult]) -> Table {
    let columns = [
        ("stream", ""),
        ("encoder", "Mb/s"),
        ("switches", ""),
        ("delay p50", "ms"),
        ("p95", "ms"),
        ("p99", "ms"),
        ("max", "ms"),
        ("jitter", "ms"),
        ("stalls", ""),
        ("stalled", "s"),
        ("late", "%"),
        ("lost", "%"),
        ("CoV 1 s", ""),
    ];
    let mut rows = Vec::new();
    for flow in flows {
        let Some(StreamResult { report, .. }) = &flow.stream else {
            continue;
        };
        let frames = &report.frames;
        let all = (frames.received + frames.lost).max(1) as f64;
        let (delay, bitrate) = (report.delay_ms.as_ref(), report.bitrate.as_ref());
        let second = report.variation.iter().find(|v| v.interval_s == 1.0);
        rows.push(vec![
            flow.name.clone(),
            fixed(bitrate.map(|bitrate| bitrate.mean_bps), 1e-6, 3),
            bitrate.map_or_else(|| NONE.into(), |bitrate| bitrate.switches.to_string()),
            fixed(delay.map(|delay| delay.p50), 1.0, 1),
            fixed(delay.map(|delay| delay.p95), 1.0, 1),
            fixed(delay.map(|delay| delay.p99), 1.0, 1),
            fixed(delay.map(|delay| delay.max), 1.0, 1),
            fixed(report.jitter_ms.map(|jitter| jitter.mean), 1.0, 2),
            report.stalls.count.to_string(),
            fixed(Some(report.stalls.total_s), 1.0, 2),
            fixed(Some(frames.late as f64 / all), 100.0, 2),
            fixed(Some(frames.lost as f64 / all), 100.0, 2),
            fixed(second.and_then(|second| second.cov), 1.0, 3),
        ]);
    }
    Table::new(1, &columns, rows)
}

/// A line for each flow whose transfers have ends or were compared; the others just ran.
fn transfers(flows: &[FlowResult]) -> String {
    let mut text = String::new();
    for flow in flows {
        let transfers = &flow.transfers;
        if transfers.completed == 0 && transfers.sha256_verified.is_none() {
            continue;
        }
        push(
            &mut text,
            format_args!(
                "{}: {} of {} transfers complete",
                flow.name, transfers.completed, transfers.started
            ),
        );
        if let Some(completion) = transfers.completion_s {
            push(
                &mut text,
                format_args!(
                    ", median {:.3} s, p95 {:.3} s",
                    completion.p50, completion.p95
                ),
            );
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

/// A line for each flow with path headers that told something; of a large group, for its first.
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
        push(
            &mut text,
            format_args!(
                "{}: {} path headers came back, queueing {} ms there and {} ms back",
                flow.name,
                path.headers.counts.echoes,
                fixed(samples.forward_queueing_ms.map(|time| time.mean), 1.0, 2),
                fixed(samples.backward_queueing_ms.map(|time| time.mean), 1.0, 2),
            ),
        );
        if let Some(bps) = samples.grant_bps {
            push(
                &mut text,
                format_args!(", {:.3} Mb/s granted", bps as f64 / 1e6),
            );
        }
        text += "\n";
    }
    text
}

pub(super) fn fixed(value: Option<f64>, scale: f64, decimals: usize) -> String {
    value.map_or_else(
        || NONE.to_owned(),
        |value| format!("{:.decimals$}", value * scale),
    )
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a string does not fail");
}
