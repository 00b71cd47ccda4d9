//! What `evenkeel bulk --json-lines` prints, as `docs/bulk.md` describes it.

use std::time::Duration;

use evenkeel_apps::path::{HeaderReport, SampleRecord};
use serde::Deserialize;

use super::KernelError;
use super::flows::PATIENCE;
use super::process::{Line, Process};

/// Waits until a server says that it listens: its certificate's pin.
pub(super) fn pin(server: &mut Process) -> Result<String, KernelError> {
    match server.line(PATIENCE)?.map(|line| parse(&line)) {
        Some(Record::Listening { pin }) => Ok(pin),
        _ => Err(server.failure()),
    }
}

pub(super) fn parse(line: &Line) -> Record {
    serde_json::from_str(&line.text).unwrap_or(Record::Other)
}

/// What `evenkeel bulk --json-lines` prints, as docs/bulk.md describes it; what is not needed is
/// left out.
#[derive(Debug, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    Listening {
        pin: String,
    },
    Interval(Interval),
    ServerInterval(ServerInterval),
    Result(ClientResult),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Interval {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) packets_sent: u64,
    pub(super) packets_lost: u64,
    pub(super) window_bytes: u64,
    pub(super) slow_start_threshold_bytes: Option<u64>,
    pub(super) pacing_rate_bps: Option<u64>,
    pub(super) path: Option<HeaderReport>,
    #[serde(default)]
    pub(super) rtt_samples_ms: Vec<f64>,
    #[serde(default)]
    pub(super) path_samples: Vec<SampleRecord>,
}

impl Interval {
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs_f64((self.end_s - self.start_s).max(0.0))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ServerInterval {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) bytes_received: u64,
    pub(super) udp_datagrams_received: u64,
    pub(super) udp_bytes_received: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct ClientResult {
    pub(super) interrupted: bool,
    pub(super) verified: Option<bool>,
    pub(super) receiver: Option<Report>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) bytes: u64,
}
