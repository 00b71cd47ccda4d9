//! The records and texts of `evenkeel stream`.

use serde::Serialize;

use crate::cli::ecn::EcnRecord;
use crate::cli::output::{Record, SampleLists, SenderInterval};
use crate::cli::series::{Span, show_span};
use crate::cli::units::{show_bytes, show_rate, show_some_rate};
use crate::path::HeaderReport;
use crate::stream::{Cause, Causes, ClockReport, SentCounts, Snapshot, Track, ViewReport};

/// One interval of a viewer.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "view_interval")]
pub(crate) struct ViewInterval {
    #[serde(flatten)]
    pub(crate) span: Span,
    pub(crate) throughput_bps: f64,
    #[serde(flatten)]
    pub(crate) seen: Snapshot,
    pub(crate) udp_datagrams_received: u64,
    pub(crate) udp_bytes_received: u64,
}

/// The record of a viewer at its end.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "view")]
pub(crate) struct View {
    pub(crate) version: &'static str,
    pub(crate) server: String,
    pub(crate) interrupted: bool,
    pub(crate) error: Option<String>,
    /// `None` with a fixed delay.
    pub(crate) buffer_ms: Option<f64>,
    pub(crate) latency_ms: Option<f64>,
    pub(crate) omit_s: f64,
    pub(crate) report: Option<ViewReport>,
    pub(crate) ecn: Option<EcnRecord>,
}

/// One interval of a server's viewer.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "viewer_interval")]
pub(crate) struct ViewerInterval {
    pub(crate) viewer: String,
    #[serde(flatten)]
    pub(crate) span: Span,
    #[serde(flatten)]
    pub(crate) sent: SentCounts,
    #[serde(flatten)]
    pub(crate) sender: SenderInterval,
    #[serde(flatten)]
    pub(crate) samples: SampleLists,
}

/// The record of a server's viewer that has gone.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "record", rename = "viewer")]
pub(crate) struct Viewer {
    pub(crate) viewer: String,
    pub(crate) error: Option<String>,
    pub(crate) duration_s: f64,
    /// With which this server sent.
    pub(crate) controller: String,
    #[serde(flatten)]
    pub(crate) sent: SentCounts,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) path: Option<HeaderReport>,
    pub(crate) ecn: Option<EcnRecord>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoppedCounts {
    pub(crate) viewers: u64,
    pub(crate) failed: u64,
}

impl Record for ViewInterval {
    fn text(&self) -> String {
        let seen = &self.seen;
        if self.span.looks_empty() {
            return String::new();
        }
        format!(
            "{}  {:>10}  {:>3} frames, {} late  delay {}  buffer {:.0} ms  stalls {} ({:.1} s)",
            show_span(&self.span),
            show_rate(self.throughput_bps),
            seen.frames,
            seen.late,
            show_delay(seen),
            seen.buffer_ms,
            seen.stalls,
            seen.stalled_s,
        )
    }
}

impl Record for View {
    fn text(&self) -> String {
        let report = self.report.as_ref();
        let report = report.filter(|report| report.frames.received > 0);
        report.map_or(String::new(), |report| {
            table(report, self.latency_ms, self.ecn.as_ref())
        })
    }
}

impl Record for ViewerInterval {
    fn text(&self) -> String {
        let target = match self.sent.bitrate_bps {
            0 => String::new(),
            target => format!("aims at {}, ", show_rate(target as f64)),
        };
        format!(
            "{}  {}  {target}{} frames of all tracks sent, {} cancelled  {}",
            show_span(&self.span),
            self.viewer,
            self.sent.frames_sent,
            self.sent.frames_cancelled,
            self.sender.text(),
        )
    }
}

impl Record for Viewer {
    fn text(&self) -> String {
        let switches = match self.sent.bitrate_bps {
            0 => String::new(),
            _ => format!(", {} bitrate switches", self.sent.bitrate_switches),
        };
        let ecn = self.ecn.as_ref().map_or(String::new(), |ecn| {
            format!("\n{}: ECN, packets {}", self.viewer, ecn.text())
        });
        format!(
            "{}: {} of {} frames of all tracks in {:.1} s, {}, {} cancelled{switches}{ecn}",
            self.viewer,
            self.sent.frames_sent,
            self.sent.frames_captured,
            self.duration_s,
            show_bytes(self.sent.bytes),
            self.sent.frames_cancelled,
        )
    }
}

/// Formats the mean delay of an interval's frames.
pub(crate) fn show_delay(seen: &Snapshot) -> String {
    let error = match seen.clock_error_ms {
        Some(ms) => format!(" ± {ms:.1}"),
        None => String::new(),
    };
    seen.delay_ms
        .map_or("-".into(), |ms| format!("{ms:.0}{error} ms"))
}

/// Formats a viewer's figures for people; `latency_ms` is a fixed delay.
fn table(report: &ViewReport, latency_ms: Option<f64>, ecn: Option<&EcnRecord>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, figures: String| text += &format!("{name:<16}{figures}\n");
    let frames = &report.frames;
    let preroll = match frames.preroll {
        0 => String::new(),
        preroll => format!("; {preroll} from before"),
    };
    line(
        "received",
        format!(
            "{} in {:.1} s, {}",
            show_bytes(report.bytes),
            report.duration_s,
            show_some_rate(report.throughput_bps),
        ),
    );
    let pictures = report.tracks.iter().any(|of| of.track == Track::VIDEO);
    line(
        match pictures && report.tracks.len() > 1 {
            true => "video frames",
            false => "frames",
        },
        format!(
            "{} received, {} on time, {} late, {} skipped, {} lost, {} damaged{preroll}",
            frames.received,
            frames.on_time,
            frames.late,
            frames.skipped,
            frames.lost,
            frames.damaged
        ),
    );
    if let Some(latency_ms) = latency_ms {
        line(
            "fixed delay",
            format!(
                "{latency_ms} ms: {} came earlier and waited, {} came later and were dropped",
                frames.on_time, frames.dropped
            ),
        );
    }
    for track in report.tracks.iter().filter(|_| report.tracks.len() > 1) {
        let frames = &track.frames;
        let queueing = track.queueing_ms.map_or(String::new(), |queueing| {
            let (mean, max) = (queueing.mean, queueing.max);
            format!(", beyond the least delay {mean:.1} ms, at most {max:.1} ms")
        });
        let (received, lost) = (frames.received, frames.lost);
        line(
            &track.track.to_string(),
            format!("{received} received, {lost} lost{queueing}"),
        );
    }
    for (nth, cause) in (0..).zip(causes(&report.causes)) {
        line(if nth == 0 { "late or lost" } else { "" }, cause);
    }
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
    if let Some(display) = &report.display_ms {
        line(
            "on the screen",
            format!(
                "p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, max {:.1} ms after capture",
                display.p50, display.p95, display.p99, display.max,
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
    if let Some(ecn) = ecn {
        line("ECN, packets", ecn.text());
    }
    text.trim_end().to_owned()
}

/// Says why frames were late or lost, with their shares, the most frequent cause first.
fn causes(causes: &Causes) -> Vec<String> {
    let words = |cause| match cause {
        Cause::Encoder => "the encoder took that long",
        Cause::OwnQueue => "earlier frames went first: more was captured than the path carries",
        Cause::Window => "the sender's window or pacing held them back",
        Cause::OthersQueue => "they queued behind others' packets, or the path's delay varied",
        Cause::Hop => "they queued in routers that report it",
        Cause::Loss => "packets were lost",
        Cause::Viewer => "this machine did not take what had come",
    };
    let total = causes.total();
    let counts = Cause::ALL.map(|cause| (causes.of(cause), words(cause)));
    let mut counts: Vec<_> = counts.into_iter().filter(|(count, _)| *count > 0).collect();
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let share = |count: u64| 100.0 * count as f64 / total as f64;
    counts
        .into_iter()
        .map(|(count, words)| format!("{words}: {count} ({:.0} %)", share(count)))
        .collect()
}

fn clock(report: &ViewReport) -> String {
    match report.clock {
        ClockReport::Shared => "one clock".into(),
        ClockReport::Estimated { error_ms, .. } => {
            format!("± {error_ms:.1} ms, the clocks' uncertainty")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{DelayReport, FrameCounts, StallReport};

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
            causes: Causes {
                others_queue: u64::MAX,
                loss: 1,
                ..Causes::default()
            },
            delay_ms: Some(DelayReport {
                min: -1e300,
                p50: 0.0,
                p95: 1e300,
                p99: 1e300,
                max: 1e300,
            }),
            display_ms: None,
            jitter_ms: None,
            stalls: StallReport {
                count: 0,
                total_s: 0.0,
                longest_s: 0.0,
            },
            playout_delay_ms: None,
            variation: Vec::new(),
            tracks: Vec::new(),
            bitrate: None,
            clock: ClockReport::Estimated {
                offset_us: i64::MIN,
                error_ms: 1.0,
            },
        };
        let table = table(&report, Some(250.0), None);
        assert_eq!(table.lines().count(), 7);
        let queued = format!("path's delay varied: {} (100 %)\n", u64::MAX);
        assert!(table.contains(&queued), "{table}");
    }
}
