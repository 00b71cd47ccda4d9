//! The figures of a viewer, while it runs and in the end.

use serde::{Deserialize, Serialize};

use super::clock::ClockReport;

/// The figures of one viewer. Times in `_s` are seconds, in `_ms` milliseconds, `_bps` bits per
/// second of frames' content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewReport {
    /// From the first byte of a frame, or the end of the warm-up, to the end.
    pub duration_s: f64,
    /// Bytes of frames' content in that time.
    pub bytes: u64,
    /// Bits per second of frames' content; `None` if there was no time.
    pub throughput_bps: Option<f64>,
    /// From the beginning, before the connection, to the first picture; `None` if there was none.
    pub startup_s: Option<f64>,
    /// What became of frames.
    pub frames: FrameCounts,
    /// From capture to complete arrival; `None` without frames.
    pub delay_ms: Option<DelayReport>,
    /// How evenly frames arrive; `None` with fewer than two.
    pub jitter_ms: Option<JitterReport>,
    /// Times when the picture stood still.
    pub stalls: StallReport,
    /// How long after its capture a frame was due in the end; `None` without frames.
    pub playout_delay_ms: Option<f64>,
    /// How much the received rate varies, over several intervals.
    pub variation: Vec<VariationReport>,
    /// What the encoder aimed at, by the frames that arrived; `None` without frames.
    pub bitrate: Option<BitrateReport>,
    /// On what the delays rest.
    pub clock: ClockReport,
}

/// What became of frames, after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Complete.
    pub received: u64,
    /// Of those, there when they were due.
    pub on_time: u64,
    /// Of those, shown later than they were due.
    pub late: u64,
    /// Of those, too late to be shown at all.
    pub skipped: u64,
    /// Captured after the warm-up and before the last that arrived, but never complete.
    pub lost: u64,
    /// Of those shown, without a frame that they may refer to.
    pub damaged: u64,
}

/// A frame's way from capture to complete arrival, milliseconds, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "percentiles have the names of percentiles")]
pub struct DelayReport {
    pub min: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

/// Differences of the delays of frames that arrived one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JitterReport {
    /// Mean of their absolute values.
    pub mean: f64,
    /// The running estimate of RFC 3550, section 6.4.1, at the end.
    pub rfc3550: f64,
}

/// Times when the picture stood still: [`super::Freezes`].
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
    /// Standard deviation over mean; `None` with fewer than two intervals or without bytes.
    pub cov: Option<f64>,
    /// Greatest over mean; `None` in the same cases.
    pub peak_to_mean: Option<f64>,
}

/// What the encoder aimed at, bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say all there is")]
pub struct BitrateReport {
    pub mean_bps: f64,
    pub min_bps: u64,
    pub max_bps: u64,
    /// How often it changed from one frame that arrived to the next.
    pub switches: u64,
}

/// What an interval looked like, for those who watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Bytes of frames' content since the last one.
    pub bytes: u64,
    /// Complete frames since the last one.
    pub frames: u64,
    /// Of those shown since the last one, how many were late.
    pub late: u64,
    /// Mean delay of those frames, milliseconds; `None` without any.
    pub delay_ms: Option<f64>,
    /// What the encoder aimed at with the last frame, bits per second.
    pub bitrate_bps: Option<u64>,
    /// How much there is to be shown, milliseconds.
    pub buffer_ms: f64,
    /// Stalls since the beginning, one that lasts included.
    pub stalls: u64,
    /// Seconds in stalls since the beginning.
    pub stalled_s: f64,
}
