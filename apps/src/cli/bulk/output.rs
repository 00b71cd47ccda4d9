//! The records and texts of `evenkeel bulk`.

use serde::Serialize;

use crate::bulk::{Direction, Outcome, PingReport, Quantiles, Report};
use crate::cli::ecn::EcnRecord;
use crate::cli::output::{Record, SampleLists, SenderInterval};
use crate::cli::series::{Span, show_span};
use crate::cli::units::{show_bytes, show_rate, show_some_rate};
use crate::path::{HeaderReport, SampleSummary};

/// One interval of a client's connection.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "interval")]
pub(crate) struct Interval {
    pub(crate) direction: Direction,
    pub(crate) connection: u16,
    #[serde(flatten)]
    pub(crate) span: Span,
    pub(crate) bytes: u64,
    pub(crate) throughput_bps: f64,
    #[serde(flatten)]
    pub(crate) sender: SenderInterval,
    #[serde(flatten)]
    pub(crate) samples: SampleLists,
    /// The connection's name among several, for people.
    #[serde(skip)]
    pub(crate) name: Option<String>,
}

/// The counters of a client's path headers, and what the headers measured.
#[derive(Debug, Serialize)]
pub(crate) struct PathRecord {
    #[serde(flatten)]
    pub(crate) headers: HeaderReport,
    #[serde(flatten)]
    pub(crate) samples: SampleSummary,
}

/// An interval of a server, if data moved in it.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "server_interval")]
pub(crate) struct ServerInterval {
    #[serde(flatten)]
    pub(crate) span: Span,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) udp_datagrams_received: u64,
    pub(crate) udp_bytes_received: u64,
}

/// The record of a client's completed transfer.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "result")]
pub(crate) struct ClientResult {
    pub(crate) version: &'static str,
    pub(crate) server: String,
    /// The sender's, if this side knows it.
    pub(crate) controller: Option<String>,
    pub(crate) pacing: &'static str,
    pub(crate) path_headers: String,
    pub(crate) direction: Direction,
    pub(crate) connection: u16,
    pub(crate) streams: u16,
    pub(crate) omit_s: f64,
    pub(crate) interrupted: bool,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) path: Option<PathRecord>,
    pub(crate) ecn: Option<EcnRecord>,
    pub(crate) pings: Option<PingReport>,
    #[serde(flatten)]
    pub(crate) outcome: Option<Outcome>,
}

/// The record of a server's completed transfer with one client.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "record", rename = "transfer")]
pub(crate) struct Transfer {
    pub(crate) client: String,
    pub(crate) error: Option<String>,
    /// With which this server sent, if it did.
    pub(crate) controller: Option<String>,
    pub(crate) path: Option<HeaderReport>,
    #[serde(flatten)]
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoppedCounts {
    pub(crate) transfers: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

impl Record for Interval {
    fn text(&self) -> String {
        let name = self.name.as_ref();
        if self.span.looks_empty() {
            return String::new();
        }
        format!(
            "{}{}  {:>9}  {:>10}  {}",
            name.map_or(String::new(), |name| format!("{name:<10}")),
            show_span(&self.span),
            show_bytes(self.bytes),
            show_rate(self.throughput_bps),
            self.sender.text(),
        )
    }
}

impl Record for ServerInterval {
    fn text(&self) -> String {
        let rate = |bytes| show_rate(self.span.rate(bytes));
        if self.span.looks_empty() {
            return String::new();
        }
        format!(
            "{}  received {} ({})  sent {} ({})",
            show_span(&self.span),
            show_bytes(self.bytes_received),
            rate(self.bytes_received),
            show_bytes(self.bytes_sent),
            rate(self.bytes_sent),
        )
    }
}

impl Record for ClientResult {
    fn text(&self) -> String {
        let outcome = self.outcome.as_ref();
        outcome.map_or(String::new(), |outcome| {
            table(
                outcome,
                self.omit_s,
                self.path.as_ref(),
                self.ecn.as_ref(),
                self.pings.as_ref(),
            )
        })
    }
}

impl Record for Transfer {
    fn text(&self) -> String {
        let Some(Outcome {
            sender, receiver, ..
        }) = &self.outcome
        else {
            return String::new();
        };
        let verified = match &receiver.checksum {
            Some(checksum) => format!("verified, {checksum}"),
            None => "not verified".into(),
        };
        format!(
            "{}: {} in {:.2} s, {}, {:.2} % lost, {verified}",
            self.client,
            show_bytes(receiver.bytes),
            receiver.duration_s,
            show_some_rate(receiver.goodput_bps),
            sender.retransmitted_ratio * 100.0,
        )
    }
}

/// Formats a table of several transfers: a line for each, as its receiver saw it, and their sum.
pub(crate) fn lines(outcomes: &[(String, Outcome, Option<PingReport>)]) -> String {
    let mut text = format!(
        "{:<10}{:>12}{:>12}{:>11}{:>13}{:>10}\n",
        "", "goodput", "data", "time", "RTT, least", "lost"
    );
    for (name, outcome, _) in outcomes {
        let (sender, receiver) = (&outcome.sender, &outcome.receiver);
        text += &format!(
            "{name:<10}{:>12}{:>12}{:>9.2} s{:>10.2} ms{:>8.2} %{}\n",
            show_some_rate(receiver.goodput_bps),
            show_bytes(receiver.bytes),
            receiver.duration_s,
            sender.rtt_min_ms,
            sender.retransmitted_ratio * 100.0,
            match outcome.verified {
                true => "",
                false => "  not verified",
            },
        );
    }
    let receivers = || outcomes.iter().map(|(_, outcome, _)| &outcome.receiver);
    let goodput: f64 = receivers().filter_map(|report| report.goodput_bps).sum();
    let bytes = receivers().fold(0u64, |sum, report| sum.saturating_add(report.bytes));
    text += &format!(
        "{:<10}{:>12}{:>12}",
        "all",
        show_rate(goodput),
        show_bytes(bytes)
    );
    for (name, _, pings) in outcomes {
        if let Some(pings) = pings {
            for line in delays(pings).lines() {
                text += &format!("\n{name:<10}{line}");
            }
        }
    }
    text
}

/// Formats a line for the delay without load, and one for that under load.
fn delays(pings: &PingReport) -> String {
    let line = |when: &str, quantiles: Option<Quantiles>| {
        let figures = quantiles.map_or("none came back".to_owned(), |quantiles| {
            let Quantiles { p50, p95, p99, .. } = quantiles;
            format!("p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms")
        });
        format!("{:<18}{figures}\n", format!("ping, {when}"))
    };
    line("idle", pings.idle_ms) + &line("loaded", pings.loaded_ms)
}

/// Formats a table of both sides' figures, and what path headers measured on this side.
fn table(
    outcome: &Outcome,
    omit_s: f64,
    path: Option<&PathRecord>,
    ecn: Option<&EcnRecord>,
    pings: Option<&PingReport>,
) -> String {
    let row = |name: &str, figure: &dyn Fn(&Report) -> String| {
        let (sender, receiver) = (figure(&outcome.sender), figure(&outcome.receiver));
        format!("{name:<18}{sender:>18}{receiver:>18}\n")
    };
    // quinn reads the clock once for all the datagrams that it takes at a time: it can measure 0.
    let ms = |ms: f64| match ms < 0.005 {
        true => "< 0.01 ms".to_owned(),
        false => format!("{ms:.2} ms"),
    };
    let mut table = format!("{:<18}{:>18}{:>18}\n", "", "sender", "receiver");
    table += &row("goodput", &|r| show_some_rate(r.goodput_bps));
    table += &row("data", &|r| show_bytes(r.bytes));
    table += &row("time", &|r| format!("{:.2} s", r.duration_s));
    table += &row("RTT, least", &|r| ms(r.rtt_min_ms));
    table += &row("RTT, smoothed", &|r| ms(r.rtt_smoothed_ms));
    table += &row("packets sent", &|r| r.packets_sent.to_string());
    table += &row("lost, sent again", &|r| {
        format!(
            "{} ({:.2} %)",
            r.packets_lost,
            r.retransmitted_ratio * 100.0
        )
    });
    table += &row("congestion events", &|r| r.congestion_events.to_string());
    table += &row("window at the end", &|r| show_bytes(r.window_bytes));
    table += &row("UDP sent", &|r| show_bytes(r.udp_bytes_sent));
    table += &row("UDP received", &|r| show_bytes(r.udp_bytes_received));
    let seconds = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{seconds:.2} s"),
        None => "-".to_owned(),
    };
    table += &row("CPU, program", &|r| seconds(r.cpu.map(|cpu| cpu.user_s)));
    table += &row("CPU, kernel", &|r| seconds(r.cpu.map(|cpu| cpu.system_s)));
    table += &row("CPU for 1 GB", &|r| {
        seconds(r.cpu.and_then(|cpu| cpu.s_per_gb))
    });
    if let Some(pings) = pings {
        table += &delays(pings);
    }
    if omit_s > 0.0 {
        table += &format!("goodput leaves out the first {omit_s} s\n");
    }
    if let Some(path) = path {
        table += &headers(path);
    }
    if let Some(ecn) = ecn {
        table += &format!("{:<18}{}\n", "ECN, packets", ecn.text());
    }
    table += &match &outcome.receiver.checksum {
        Some(checksum) => format!("verified, {checksum}"),
        None => "size verified, content not (--no-verify)".to_owned(),
    };
    table
}

/// Formats one line; omits what no router reported.
fn headers(path: &PathRecord) -> String {
    let PathRecord { headers, samples } = path;
    let mut line = format!(
        "path headers: {} sent, {} came back",
        headers.counts.sent, headers.counts.echoes
    );
    for (time, way) in [
        (samples.forward_queueing_ms, "there"),
        (samples.backward_queueing_ms, "back"),
    ] {
        if let Some(time) = time {
            line += &format!(", queued {:.2} ms on the way {way}", time.mean);
        }
    }
    if let Some(grant) = samples.grant_bps {
        line += &format!(", granted {}", show_rate(grant as f64));
    }
    if let Some(flows) = samples.flows {
        line += &format!(", {flows} flows");
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::CpuReport;
    use crate::path::LastAndMean;

    #[test]
    fn an_interval_that_looks_empty_is_not_shown() {
        let text = |end_s: f64| {
            let span = Span {
                origin: evenkeel_tests::time::epoch(),
                start_s: 1.001,
                end_s,
            };
            let interval = ServerInterval {
                span,
                bytes_sent: 1,
                bytes_received: 0,
                udp_datagrams_received: 0,
                udp_bytes_received: 0,
            };
            interval.text()
        };
        assert_eq!(text(1.004), "");
        assert!(text(1.006).contains("1.00 to     1.01 s"));
    }

    #[test]
    fn a_peers_absurd_figures_still_make_a_table() {
        let report = Report {
            bytes: u64::MAX,
            duration_s: 1e308,
            goodput_bps: Some(-1e308),
            first_1mb_s: Some(-1e308),
            first_10mb_s: None,
            packets_sent: 0,
            packets_lost: u64::MAX,
            retransmitted_ratio: -1e300,
            rtt_min_ms: f64::MIN_POSITIVE,
            rtt_smoothed_ms: 1e300,
            window_bytes: 0,
            congestion_events: 0,
            udp_bytes_sent: 0,
            udp_bytes_received: 0,
            checksum: None,
            cpu: Some(CpuReport {
                user_s: -1e300,
                system_s: f64::MAX,
                s_per_gb: None,
            }),
        };
        let outcome = Outcome {
            verified: false,
            controller: None,
            sender: report.clone(),
            receiver: report,
        };
        let path = PathRecord {
            headers: HeaderReport {
                state: evenkeel::HeaderState::Plain,
                counts: evenkeel::HeaderCounters::default(),
            },
            samples: SampleSummary {
                samples: u64::MAX,
                forward_queueing_ms: Some(LastAndMean {
                    last: -1.0,
                    mean: 1e300,
                }),
                backward_queueing_ms: None,
                congested_share: None,
                grant_bps: Some(u64::MAX),
                flows: Some(0),
            },
        };
        let table = table(&outcome, 1.0, Some(&path), None, None);
        assert_eq!(table.lines().count(), 18);
        assert!(table.contains("< 0.01 ms") && !table.contains(" 0.00 ms"));
    }
}
