//! A run's figures as text for people.

use std::fmt::Write;

use super::{FlowResult, LinkResult, ResultDocument, StreamResult};

/// Groups of more flows than this are summarised by smallest, median and greatest.
const MAX_ROWS: usize = 12;

/// What stands where there is no value.
const NONE: &str = "-";

/// The document as aligned plain text: flows, links, fairness, transfers and failures.
pub fn table(document: &ResultDocument) -> String {
    let mut text = format!(
        "{}, seed {}, on {}: {} s",
        document.scenario, document.seed, document.backend, document.duration_s
    );
    if document.warmup_s > 0.0 {
        push(
            &mut text,
            format_args!(", averages without the first {} s", document.warmup_s),
        );
    }
    text += "\n\n";
    if !document.flows.is_empty() {
        text += &flows(document);
        text += "\n";
    }
    text += &links(&document.links);
    let fairness = &document.fairness;
    if fairness.jain.is_some() {
        push(
            &mut text,
            format_args!(
                "\nfairness: Jain {}, worst case {}, short term {}\n",
                fixed(fairness.jain, 1.0, 3),
                fixed(fairness.worst_case, 1.0, 3),
                fixed(fairness.short_term, 1.0, 3)
            ),
        );
    }
    text += &headers(&document.flows);
    text += &transfers(&document.flows);
    text += &streams(&document.flows);
    for flow in &document.flows {
        if let Some(error) = &flow.error {
            push(&mut text, format_args!("{} failed: {error}\n", flow.name));
        }
    }
    text
}

fn flows(document: &ResultDocument) -> String {
    let mut rows = vec![
        [
            "flow",
            "controller",
            "throughput",
            "goodput",
            "CoV",
            "retrans.",
            "RTT min",
            "p50",
            "p95",
            "p99",
        ]
        .map(str::to_owned)
        .to_vec(),
        ["", "", "Mb/s", "Mb/s", "", "%", "ms", "ms", "ms", "ms"]
            .map(str::to_owned)
            .to_vec(),
    ];
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
    aligned(&rows, 2)
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

fn links(links: &[LinkResult]) -> String {
    let mut rows = vec![
        [
            "link", "rate", "utilized", "queue", "+-", "p95", "max", "wait p95", "arrived",
            "dropped", "loss",
        ]
        .map(str::to_owned)
        .to_vec(),
        [
            "", "Mb/s", "%", "packets", "", "", "", "ms", "packets", "packets", "%",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for link in links {
        let queue = &link.queue_packets;
        rows.push(vec![
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
        ]);
    }
    let mut text = aligned(&rows, 1);
    for link in links.iter().filter(|link| link.lost > 0) {
        push(
            &mut text,
            format_args!(
                "{}: {} packets lost at random or in blackouts\n",
                link.name, link.lost
            ),
        );
    }
    for link in links.iter().filter(|link| link.marked > 0) {
        push(
            &mut text,
            format_args!("{}: {} packets marked\n", link.name, link.marked),
        );
    }
    text
}

/// A table of what viewers saw, if any flow is a stream.
fn streams(flows: &[FlowResult]) -> String {
    let mut rows = vec![
        [
            "stream",
            "encoder",
            "switches",
            "delay p50",
            "p95",
            "p99",
            "max",
            "jitter",
            "stalls",
            "stalled",
            "late",
            "lost",
            "CoV 1 s",
        ]
        .map(str::to_owned)
        .to_vec(),
        [
            "", "Mb/s", "", "ms", "ms", "ms", "ms", "ms", "", "s", "%", "%", "",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
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
    if rows.len() == 2 {
        return String::new();
    }
    format!("\n{}", aligned(&rows, 1))
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
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
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
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}

/// Columns as wide as they need to be: the first `left` flush left, the others flush right.
pub(super) fn aligned(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            if column < left {
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
