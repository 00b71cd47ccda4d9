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
    pub(super) pacing: bool,
    pub(super) path_headers: String,
    pub(super) pin: String,
    pub(super) client_command: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Interval {
    pub(super) direction: Direction,
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
    pub(super) pacing: bool,
    pub(super) path_headers: String,
    pub(super) direction: Direction,
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
        match (args.json, args.json_lines) {
            (true, _) => Self::Json,
            (_, true) => Self::JsonLines,
            _ => Self::People,
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
