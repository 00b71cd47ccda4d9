//! What `evenkeel stream` prints on standard output, for people and for scripts.

use serde::Serialize;

use super::{
    output::{SenderInterval, show_span},
    units::{show_bytes, show_rate},
};
use crate::{
    path::{HeaderReport, SampleRecord},
    stream::{SentCounts, Snapshot, ViewReport},
};

/// A JSON document. `docs/stream.md` describes every field.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum StreamRecord {
    /// An interval of a viewer.
    ViewInterval(ViewInterval),
    /// A viewer is done.
    View(View),
    /// An interval of a server's viewer.
    ViewerInterval(ViewerInterval),
    /// A server's viewer is gone.
    Viewer(Viewer),
    /// A server stops.
    Stopped(Stopped),
}

#[derive(Debug, Serialize)]
pub(super) struct ViewInterval {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) throughput_bps: f64,
    #[serde(flatten)]
    pub(super) seen: Snapshot,
    pub(super) udp_datagrams_received: u64,
    pub(super) udp_bytes_received: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct View {
    pub(super) version: &'static str,
    pub(super) server: String,
    pub(super) interrupted: bool,
    pub(super) error: Option<String>,
    pub(super) buffer_ms: f64,
    pub(super) omit_s: f64,
    pub(super) report: Option<ViewReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct ViewerInterval {
    pub(super) viewer: String,
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    #[serde(flatten)]
    pub(super) sent: SentCounts,
    #[serde(flatten)]
    pub(super) sender: SenderInterval,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rtt_samples_ms: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path_samples: Option<Vec<SampleRecord>>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Viewer {
    pub(super) viewer: String,
    pub(super) error: Option<String>,
    pub(super) duration_s: f64,
    #[serde(flatten)]
    pub(super) sent: SentCounts,
    pub(super) packets_sent: u64,
    pub(super) packets_lost: u64,
    pub(super) path: Option<HeaderReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct Stopped {
    pub(super) version: &'static str,
    pub(super) address: String,
    pub(super) controller: String,
    pub(super) viewers: u64,
    pub(super) failed: u64,
    pub(super) last: Option<Viewer>,
}

impl ViewInterval {
    pub(super) fn line(&self) -> String {
        let seen = &self.seen;
        format!(
            "{}  {:>10}  {:>3} frames, {} late  delay {}  buffer {:.0} ms  stalls {} ({:.1} s)",
            show_span(self.start_s, self.end_s),
            show_rate(self.throughput_bps),
            seen.frames,
            seen.late,
            seen.delay_ms.map_or("-".into(), |ms| format!("{ms:.0} ms")),
            seen.buffer_ms,
            seen.stalls,
            seen.stalled_s,
        )
    }
}

impl ViewerInterval {
    pub(super) fn line(&self) -> String {
        format!(
            "{}  {}  aims at {}, {} frames sent, {} cancelled  {}",
            show_span(self.start_s, self.end_s),
            self.viewer,
            show_rate(self.sent.bitrate_bps as f64),
            self.sent.frames_sent,
            self.sent.frames_cancelled,
            self.sender.line(),
        )
    }
}

/// A viewer's figures for people.
pub(super) fn table(report: &ViewReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, figures: String| text += &format!("{name:<16}{figures}\n");
    let frames = &report.frames;
    line(
        "received",
        format!(
            "{} in {:.1} s, {}",
            show_bytes(report.bytes),
            report.duration_s,
            report.throughput_bps.map_or("-".into(), show_rate),
        ),
    );
    line(
        "frames",
        format!(
            "{} received, {} on time, {} late, {} skipped, {} lost, {} damaged",
            frames.received,
            frames.on_time,
            frames.late,
            frames.skipped,
            frames.lost,
            frames.damaged
        ),
    );
    if let Some(delay) = &report.delay_ms {
        line(
            "frame delay",
            format!(
                "p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, max {:.1} ms ({})",
                delay.p50,
                delay.p95,
                delay.p99,
                delay.max,
                clock(report),
            ),
        );
    }
    if let Some(jitter) = &report.jitter_ms {
        line("jitter", format!("{:.2} ms", jitter.mean));
    }
    line(
        "stalls",
        format!(
            "{}, {:.2} s in all, longest {:.2} s",
            report.stalls.count, report.stalls.total_s, report.stalls.longest_s
        ),
    );
    if let Some(startup_s) = report.startup_s {
        line("first picture", format!("after {startup_s:.2} s"));
    }
    if let Some(bitrate) = &report.bitrate {
        line(
            "encoder",
            format!(
                "{} on average, {} to {}, {} switches",
                show_rate(bitrate.mean_bps),
                show_rate(bitrate.min_bps as f64),
                show_rate(bitrate.max_bps as f64),
                bitrate.switches
            ),
        );
    }
    let variation: Vec<String> = report
        .variation
        .iter()
        .filter_map(|v| Some(format!("{:.3} over {} s", v.cov?, v.interval_s)))
        .collect();
    if !variation.is_empty() {
        line("rate's CoV", variation.join(", "));
    }
    text.trim_end().to_owned()
}

fn clock(report: &ViewReport) -> String {
    use crate::stream::ClockReport;
    match report.clock {
        ClockReport::Shared => "one clock".into(),
        ClockReport::Estimated { error_ms, .. } => {
            format!("clocks compared to {error_ms:.1} ms")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{ClockReport, DelayReport, FrameCounts, StallReport};

    #[test]
    fn a_servers_absurd_claims_still_make_a_table() {
        let report = ViewReport {
            duration_s: 0.0,
            bytes: u64::MAX,
            throughput_bps: None,
            startup_s: None,
            frames: FrameCounts {
                lost: u64::MAX,
                ..FrameCounts::default()
            },
            delay_ms: Some(DelayReport {
                min: -1e300,
                p50: 0.0,
                p95: 1e300,
                p99: 1e300,
                max: 1e300,
            }),
            jitter_ms: None,
            stalls: StallReport {
                count: 0,
                total_s: 0.0,
                longest_s: 0.0,
            },
            playout_delay_ms: None,
            variation: Vec::new(),
            bitrate: None,
            clock: ClockReport::Estimated {
                offset_us: i64::MIN,
                error_ms: 1.0,
            },
        };
        assert_eq!(table(&report).lines().count(), 4);
    }
}
