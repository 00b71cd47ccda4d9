//! What `evenkeel bulk` and `evenkeel stream` print with `--json-lines`, as docs/bulk.md and
//! docs/stream.md describe it; what is not needed is left out. Senders and receivers of TCP print
//! the same and two records of their own.

use std::time::Duration;

use evenkeel_apps::bulk::Outcome;
use evenkeel_apps::path::{HeaderReport, SampleRecord};
use evenkeel_apps::stream::{SentCounts, ViewReport};
use serde::{Deserialize, Serialize};

use super::error::KernelError;
use super::process::{Line, PATIENCE, Process};

/// Waits until a server says that it listens, and returns its certificate's pin.
pub(super) fn pin(server: &mut Process) -> Result<String, KernelError> {
    match server.line(PATIENCE)?.map(|line| parse(&line)) {
        Some(Record::Listening { pin }) => Ok(pin),
        _ => Err(server.failure()),
    }
}

pub(super) fn parse(line: &Line) -> Record {
    serde_json::from_str(&line.text).unwrap_or(Record::Other)
}

/// A line of output.
#[derive(Debug, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// A server's first line.
    Listening { pin: String },
    /// An interval of a sender: bulk's client, or a stream's server for its viewer.
    #[serde(alias = "viewer_interval")]
    Interval {
        #[serde(flatten)]
        interval: SenderInterval,
        /// Of a stream alone.
        #[serde(flatten)]
        frames: Option<SentCounts>,
    },
    /// An interval of a receiver: bulk's server, or a stream's viewer.
    #[serde(alias = "view_interval")]
    ServerInterval(ReceiverInterval),
    /// An interval of a receiver of TCP.
    TcpReceived(TcpReceived),
    /// The end of a sender of TCP: the receiver has read so much.
    TcpDone { bytes: u64 },
    /// The end of a bulk client.
    Result {
        interrupted: bool,
        #[serde(flatten)]
        outcome: Option<Outcome>,
    },
    /// A stream's server has lost its viewer.
    Viewer {
        error: Option<String>,
        #[serde(flatten)]
        frames: SentCounts,
    },
    /// The end of a stream's viewer.
    View {
        error: Option<String>,
        report: Option<ViewReport>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SenderInterval {
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

impl SenderInterval {
    pub(super) fn length(&self) -> Duration {
        length(self.start_s, self.end_s)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ReceiverInterval {
    start_s: f64,
    end_s: f64,
    /// Of application data.
    #[serde(alias = "bytes")]
    pub(super) bytes_received: u64,
    pub(super) udp_datagrams_received: u64,
    pub(super) udp_bytes_received: u64,
    /// Of a stream alone.
    pub(super) delay_ms: Option<f64>,
    pub(super) bitrate_bps: Option<u64>,
}

impl ReceiverInterval {
    pub(super) fn length(&self) -> Duration {
        length(self.start_s, self.end_s)
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TcpReceived {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    /// Of application data.
    pub(super) bytes: u64,
    /// Of IP packets with data.
    pub(super) ip_bytes: u64,
}

impl TcpReceived {
    pub(super) fn length(&self) -> Duration {
        length(self.start_s, self.end_s)
    }
}

fn length(start_s: f64, end_s: f64) -> Duration {
    Duration::from_secs_f64((end_s - start_s).max(0.0))
}
