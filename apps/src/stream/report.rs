//! The figures of a viewer, during the stream and at its end.

use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::clock::ClockReport;
use super::track::Track;

/// The figures of one viewer, those of frames of the first pictures, or of the first track of a
/// stream without pictures. Times in `_s` are seconds, in `_ms` milliseconds; `_bps` are bits per
/// second of frames' content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewReport {
    /// From a frame's first byte, or the end of the warm-up, to the end.
    pub duration_s: f64,
    /// Bytes of frames' content in that time.
    pub bytes: u64,
    /// Bits per second of frames' content; `None` if there was no time.
    pub throughput_bps: Option<f64>,
    /// From the start, before the connection, to the first picture; `None` if there was none.
    pub startup_s: Option<f64>,
    /// What became of the frames.
    pub frames: FrameCounts,
    /// Why the late, skipped, dropped and lost ones were so.
    pub causes: Causes,
    /// From capture to complete arrival; `None` without frames.
    pub delay_ms: Option<DelayReport>,
    /// From capture to display, as the player's buffer and its stalls make it; `None` without frames.
    #[serde(default)]
    pub display_ms: Option<DelayReport>,
    /// How evenly frames arrive; `None` with fewer than two.
    pub jitter_ms: Option<JitterReport>,
    /// Times when the picture stood still.
    pub stalls: StallReport,
    /// How long after its capture a frame was due at the end; `None` without frames.
    pub playout_delay_ms: Option<f64>,
    /// How much the received rate varies, over intervals of several lengths.
    pub variation: Vec<VariationReport>,
    /// The encoder's target, according to the frames that arrived; `None` without frames, and of real
    /// media, which nobody encodes.
    pub bitrate: Option<BitrateReport>,
    /// The clock on which the delays rest.
    pub clock: ClockReport,
    /// Each track, tables left out.
    #[serde(default)]
    pub tracks: Vec<TrackReport>,
}

/// The figures of one track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackReport {
    /// Which track it is.
    #[serde(flatten)]
    pub track: Track,
    /// What became of its frames.
    pub frames: FrameCounts,
    /// From capture to complete arrival; `None` without frames.
    pub delay_ms: Option<DelayReport>,
    /// From capture to display; `None` without frames.
    pub display_ms: Option<DelayReport>,
    /// By how much its delays exceed the least of any track; `None` without frames.
    pub queueing_ms: Option<QueueingReport>,
}

/// Times beyond the least delay, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say all there is")]
pub struct QueueingReport {
    pub mean: f64,
    pub max: f64,
}

/// Counts of frames after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Complete frames.
    pub received: u64,
    /// Shown when they were due: they came earlier and waited.
    pub on_time: u64,
    /// Shown later, because they arrived later. With a fixed delay: only decoded, before the first
    /// picture that was in time.
    pub late: u64,
    /// Not shown: a later frame was already on the screen when they arrived.
    pub skipped: u64,
    /// Not shown: they arrived later than a fixed delay allows.
    #[serde(default)]
    pub dropped: u64,
    /// Captured after the warm-up and before the last that arrived, but never complete.
    pub lost: u64,
    /// Shown without a frame that they may refer to, or left out for that if the viewer asks so.
    pub damaged: u64,
    /// From before the viewer came: decoded so that others can be shown, and counted nowhere else.
    pub preroll: u64,
}

/// Times from a frame's capture to its complete arrival or its display, in milliseconds, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "percentiles have the names of percentiles")]
pub struct DelayReport {
    pub min: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// Differences between the delays of frames that arrived in sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterReport {
    /// The mean of their absolute values.
    pub mean: f64,
    /// The running estimate of RFC 3550, section 6.4.1, at the end.
    pub rfc3550: f64,
}

/// Times when the picture stood still.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say all there is")]
pub struct StallReport {
    pub count: u64,
    pub total_s: f64,
    pub longest_s: f64,
}

/// How much the rate varies between intervals of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariationReport {
    /// Length of an interval.
    pub interval_s: f64,
    /// Standard deviation / mean; `None` with fewer than two intervals or without bytes.
    pub cov: Option<f64>,
    /// Maximum / mean; `None` in the same cases.
    pub peak_to_mean: Option<f64>,
}

/// The encoder's target, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say all there is")]
pub struct BitrateReport {
    pub mean_bps: f64,
    pub min_bps: u64,
    pub max_bps: u64,
    /// How often it changed from one received frame to the next.
    pub switches: u64,
}

/// Figures of one interval, for live display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Bytes of frames' content since the last snapshot.
    pub bytes: u64,
    /// Complete frames since the last snapshot.
    pub frames: u64,
    /// Frames since the last snapshot that were shown late, or dropped for that.
    pub late: u64,
    /// Mean delay of `frames`, in milliseconds; `None` if there were none.
    pub delay_ms: Option<f64>,
    /// The greatest possible error of `delay_ms`, in milliseconds; `None` of a shared clock.
    pub clock_error_ms: Option<f64>,
    /// The encoder's target for the last frame, in bits per second; `None` where no encoder follows.
    pub bitrate_bps: Option<u64>,
    /// How much there is to show, in milliseconds.
    pub buffer_ms: f64,
    /// Stalls since the beginning, including one that lasts.
    pub stalls: u64,
    /// Seconds in stalls since the beginning.
    pub stalled_s: f64,
}
