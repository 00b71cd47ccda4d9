//! What is printed on standard output, for people and for scripts.

use std::{
    io::{self, Write},
    time::Duration,
};

use serde::Serialize;

use super::{
    Failure,
    args::OutputArgs,
    units::{show_bytes, show_rate},
};
use crate::{
    bulk::{Direction, Outcome, Report},
    path::{HeaderReport, SampleRecord, SampleSummary},
};

/// How standard output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Words and tables.
    People,
    /// A line each interval, then words and tables.
    Lines,
    /// One JSON document at the end.
    Json,
    /// A JSON document on a line each interval and at the end.
    JsonLines,
}

/// A JSON document. `docs/bulk.md` describes every field.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// A server is ready.
    Listening(Listening),
    /// An interval of a client's connection.
    Interval(Interval),
    /// An interval of a server in which something moved.
    ServerInterval(ServerInterval),
    /// A client's transfer is over.
    Result(ClientResult),
    /// A server's transfer with one client is over.
    Transfer(Transfer),
    /// A server stops.
    Stopped(Stopped),
}

#[derive(Debug, Serialize)]
pub(super) struct Listening {
    pub(super) version: &'static str,
    pub(super) address: String,
    pub(super) controller: String,
    pub(super) pacing: &'static str,
    pub(super) path_headers: String,
    pub(super) pin: String,
    pub(super) client_command: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Interval {
    pub(super) direction: Direction,
    pub(super) connection: u16,
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) bytes: u64,
    pub(super) throughput_bps: f64,
    #[serde(flatten)]
    pub(super) sender: SenderInterval,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rtt_samples_ms: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path_samples: Option<Vec<SampleRecord>>,
}

/// This side of a connection at the end of an interval, and what it sent in it.
#[derive(Debug, Serialize)]
pub(super) struct SenderInterval {
    pub(super) rtt_ms: f64,
    pub(super) window_bytes: u64,
    pub(super) slow_start_threshold_bytes: Option<u64>,
    pub(super) pacing_rate_bps: Option<u64>,
    pub(super) packets_sent: u64,
    pub(super) packets_lost: u64,
    pub(super) path: Option<HeaderReport>,
}

/// What became of a client's path headers, and what they told.
#[derive(Debug, Serialize)]
pub(super) struct PathRecord {
    #[serde(flatten)]
    pub(super) headers: HeaderReport,
    #[serde(flatten)]
    pub(super) samples: SampleSummary,
}

#[derive(Debug, Serialize)]
pub(super) struct ServerInterval {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) udp_datagrams_received: u64,
    pub(super) udp_bytes_received: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct ClientResult {
    pub(super) version: &'static str,
    pub(super) server: String,
    pub(super) controller: String,
    pub(super) pacing: &'static str,
    pub(super) path_headers: String,
    pub(super) direction: Direction,
    pub(super) connection: u16,
    pub(super) streams: u16,
    pub(super) omit_s: f64,
    pub(super) interrupted: bool,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) path: Option<PathRecord>,
    #[serde(flatten)]
    pub(super) outcome: Option<Outcome>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Transfer {
    pub(super) client: String,
    pub(super) error: Option<String>,
    pub(super) path: Option<HeaderReport>,
    #[serde(flatten)]
    pub(super) outcome: Option<Outcome>,
}

#[derive(Debug, Serialize)]
pub(super) struct Stopped {
    pub(super) version: &'static str,
    pub(super) address: String,
    pub(super) controller: String,
    pub(super) transfers: u64,
    pub(super) failed: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) last: Option<Transfer>,
}

impl Form {
    pub(super) fn of(args: &OutputArgs) -> Self {
        match (args.json, args.json_lines, args.interval) {
            (true, ..) => Self::Json,
            (_, true, _) => Self::JsonLines,
            (.., Some(_)) => Self::Lines,
            _ => Self::People,
        }
    }

    /// Words rather than JSON.
    pub(super) fn is_words(self) -> bool {
        matches!(self, Self::People | Self::Lines)
    }

    /// Something is printed each interval.
    pub(super) fn has_intervals(self) -> bool {
        matches!(self, Self::Lines | Self::JsonLines)
    }

    /// An interval is over, in a form that has them.
    pub(super) fn print_interval<T, R: Serialize>(
        self,
        interval: T,
        line: impl FnOnce(&T) -> String,
        record: impl FnOnce(T) -> R,
    ) -> Result<(), Failure> {
        match self {
            Self::Lines => print(&line(&interval)),
            _ => Self::print(&record(interval)),
        }
    }

    /// A record on a line of its own.
    pub(super) fn print(record: &impl Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string(record).expect("records have string keys only");
        print(&json)
    }
}

/// A line on standard output. A reader that has gone away is no failure.
///
/// # Errors
/// If it cannot be written for another reason, such as a full disk.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(
            format!("cannot write to standard output: {error}"),
            "send it elsewhere",
        )),
        _ => Ok(()),
    }
}

/// From when to when, the same width for a day.
pub(super) fn show_span(start_s: f64, end_s: f64) -> String {
    format!("{start_s:>8.2} to {end_s:>8.2} s")
}

impl Interval {
    pub(super) fn line(&self) -> String {
        format!(
            "{}  {:>9}  {:>10}  {}",
            show_span(self.start_s, self.end_s),
            show_bytes(self.bytes),
            show_rate(self.throughput_bps),
            self.sender.line(),
        )
    }
}

impl SenderInterval {
    pub(super) fn line(&self) -> String {
        format!(
            "RTT {:.1} ms  window {}  {} lost",
            self.rtt_ms,
            show_bytes(self.window_bytes),
            self.packets_lost
        )
    }
}

impl ServerInterval {
    pub(super) fn line(&self) -> String {
        let rate = |bytes: u64| {
            let seconds = (self.end_s - self.start_s).max(1e-9);
            show_rate(bytes as f64 * 8.0 / seconds)
        };
        format!(
            "{}  received {} ({})  sent {} ({})",
            show_span(self.start_s, self.end_s),
            show_bytes(self.bytes_received),
            rate(self.bytes_received),
            show_bytes(self.bytes_sent),
            rate(self.bytes_sent),
        )
    }
}

/// Several transfers side by side, a line each as their receivers saw them, and their sum.
pub(super) fn lines(outcomes: &[(String, Outcome)]) -> String {
    let mut text = format!(
        "{:<10}{:>12}{:>12}{:>11}{:>13}{:>10}\n",
        "", "goodput", "data", "time", "RTT, least", "lost"
    );
    for (name, outcome) in outcomes {
        let (sender, receiver) = (&outcome.sender, &outcome.receiver);
        text += &format!(
            "{name:<10}{:>12}{:>12}{:>9.2} s{:>10.2} ms{:>8.2} %{}\n",
            receiver.goodput_bps.map_or("-".into(), show_rate),
            show_bytes(receiver.bytes),
            receiver.duration_s,
            sender.rtt_min_ms,
            sender.retransmitted_ratio * 100.0,
            if outcome.verified {
                ""
            } else {
                "  not verified"
            },
        );
    }
    let receivers = || outcomes.iter().map(|(_, outcome)| &outcome.receiver);
    let goodput: f64 = receivers().filter_map(|report| report.goodput_bps).sum();
    let bytes = receivers().fold(0u64, |sum, report| sum.saturating_add(report.bytes));
    text + &format!(
        "{:<10}{:>12}{:>12}",
        "all",
        show_rate(goodput),
        show_bytes(bytes)
    )
}

/// Both sides' figures side by side, and what path headers told this one.
pub(super) fn table(outcome: &Outcome, omit: Duration, path: Option<&PathRecord>) -> String {
    let row = |name: &str, figure: &dyn Fn(&Report) -> String| {
        let (sender, receiver) = (figure(&outcome.sender), figure(&outcome.receiver));
        format!("{name:<18}{sender:>18}{receiver:>18}\n")
    };
    let ms = |ms: f64| format!("{ms:.2} ms");
    let mut table = format!("{:<18}{:>18}{:>18}\n", "", "sender", "receiver");
    table += &row("goodput", &|r| r.goodput_bps.map_or("-".into(), show_rate));
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
    if !omit.is_zero() {
        table += &format!("goodput leaves out the first {} s\n", omit.as_secs_f64());
    }
    if let Some(path) = path {
        table += &headers(path);
    }
    table += &match &outcome.receiver.checksum {
        Some(checksum) => format!("verified, SHA-256 {checksum}"),
        None => "size verified, content not (--no-verify)".to_owned(),
    };
    table
}

/// One line; what no router told is left out.
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
    use crate::path::{HeaderCounts, LastAndMean};

    #[test]
    fn a_peers_absurd_figures_still_make_a_table() {
        let report = Report {
            bytes: u64::MAX,
            duration_s: 1e308,
            goodput_bps: Some(-1e308),
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
        };
        let outcome = Outcome {
            verified: false,
            sender: report.clone(),
            receiver: report,
        };
        let path = PathRecord {
            headers: HeaderReport {
                state: evenkeel::HeaderState::Plain,
                counts: HeaderCounts::default(),
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
        let table = table(&outcome, Duration::from_secs(1), Some(&path));
        assert_eq!(table.lines().count(), 15);
    }
}
