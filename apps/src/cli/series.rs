//! Measures a connection in consecutive intervals.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use evenkeel::{AckReport, Context, Observer, PathSample};
use quinn::{Connection, Runtime, TokioRuntime};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::args::SampleArgs;
use super::output::{SampleLists, SenderInterval};
use crate::bulk::packets_sent;
use crate::lock::lock;
use crate::path::{HeaderReport, SampleRecord, SampleSummary, Samples};
use crate::time::milliseconds;

/// Consecutive intervals, all of one length if the machine keeps up.
pub(crate) struct Periods {
    origin: Instant,
    tick: tokio::time::Interval,
    /// When the current interval began, since the origin.
    start: Duration,
}

/// A completed interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Span {
    /// The times of the series count from here.
    #[serde(skip)]
    pub(crate) origin: Instant,
    pub(crate) start_s: f64,
    pub(crate) end_s: f64,
}

/// A connection's packet counts at the end of an interval.
#[derive(Clone, Copy, Default)]
pub(crate) struct PacketCounts {
    sent: u64,
    lost: u64,
}

/// Observes a connection's controller, and keeps the wanted samples until they are taken.
pub(crate) struct SampleRecorder {
    wanted: SampleArgs,
    state: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    rtts_ms: Vec<f64>,
    path: Vec<PathSample>,
    /// All samples of path headers since the beginning.
    sums: Samples,
    /// The transfer has ended; later samples do not belong to it.
    stopped: bool,
}

impl Periods {
    /// Creates intervals of `period`, the first from `origin` on.
    pub(crate) fn new(origin: Instant, period: Duration) -> Self {
        let mut tick = tokio::time::interval_at((origin + period).into(), period);
        // An interval that the machine slept through becomes part of the next record: a record of
        // zero length would have no throughput.
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            origin,
            tick,
            start: Duration::ZERO,
        }
    }

    pub(crate) async fn next(&mut self) -> Span {
        self.tick.tick().await;
        self.cut()
    }

    /// Ends the current interval.
    pub(crate) fn cut(&mut self) -> Span {
        let end = TokioRuntime.now().duration_since(self.origin);
        let start = std::mem::replace(&mut self.start, end);
        Span {
            origin: self.origin,
            start_s: start.as_secs_f64(),
            end_s: end.as_secs_f64(),
        }
    }
}

impl Span {
    /// Returns whether its start and end look the same to people.
    pub(crate) fn looks_empty(&self) -> bool {
        format!("{:.2}", self.start_s) == format!("{:.2}", self.end_s)
    }

    /// Returns bits per second, if `bytes` moved in the interval.
    pub(crate) fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / (self.end_s - self.start_s).max(1e-9)
    }
}

/// Formats start and end of an interval; the width stays the same for a day.
pub(crate) fn show_span(span: &Span) -> String {
    format!("{:>8.2} to {:>8.2} s", span.start_s, span.end_s)
}

impl PacketCounts {
    /// Returns the present state of `connection`, and what it has sent since the last call.
    pub(crate) fn figures(&mut self, connection: &Connection) -> SenderInterval {
        let stats = connection.stats();
        let state = Context::of(connection).map(|context| context.state());
        let bits = |rate: u64| rate.saturating_mul(8);
        let now = Self {
            sent: packets_sent(&stats),
            lost: stats.path.lost_packets,
        };
        let before = std::mem::replace(self, now);
        SenderInterval {
            rtt_ms: stats.path.rtt.as_secs_f64() * 1e3,
            window_bytes: state.as_ref().map_or(stats.path.cwnd, |state| state.window),
            slow_start_threshold_bytes: state.as_ref().and_then(|state| state.slow_start_threshold),
            pacing_rate_bps: state.and_then(|state| state.pacing_rate.map(bits)),
            packets_sent: now.sent.saturating_sub(before.sent),
            packets_lost: now.lost.saturating_sub(before.lost),
            path: HeaderReport::of(connection),
        }
    }
}

impl SampleRecorder {
    pub(crate) fn new(wanted: SampleArgs) -> Self {
        Self {
            wanted,
            state: Mutex::default(),
        }
    }

    /// Stops recording: samples and summary no longer change.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopped = true;
    }

    /// Does as [`stop`](Self::stop) if there are `samples` path samples; returns whether there are.
    pub(crate) fn stop_at(&self, samples: u64) -> bool {
        let mut state = lock(&self.state);
        state.stopped = state.sums.summary().samples == samples;
        state.stopped
    }

    /// Returns the summary of all path samples so far.
    pub(crate) fn summary(&self) -> SampleSummary {
        lock(&self.state).sums.summary()
    }

    /// Returns the samples since the last call; their times count from `origin`.
    ///
    /// Do not call it while holding a lock of the connection, which calls this observer under its
    /// own lock.
    pub(crate) fn take(&self, origin: Instant) -> SampleLists {
        let mut state = lock(&self.state);
        let (rtts_ms, path) = (
            std::mem::take(&mut state.rtts_ms),
            std::mem::take(&mut state.path),
        );
        let record = |sample: &PathSample| SampleRecord::new(sample, origin);
        SampleLists {
            rtt_samples_ms: self.wanted.rtt_samples.then_some(rtts_ms),
            path_samples: (self.wanted.path_samples).then(|| path.iter().map(record).collect()),
        }
    }
}

impl Observer for SampleRecorder {
    fn on_acks(&self, report: &AckReport) {
        let mut state = lock(&self.state);
        if self.wanted.rtt_samples && !state.stopped {
            state.rtts_ms.extend(report.rtt.map(milliseconds));
        }
    }

    fn on_path(&self, sample: &PathSample) {
        let mut state = lock(&self.state);
        if state.stopped {
            return;
        }
        state.sums.add(&SampleRecord::new(sample, sample.now));
        if self.wanted.path_samples {
            state.path.push(sample.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_tests::time::{epoch, ms};

    fn acks(rtt_ms: u64) -> AckReport {
        AckReport {
            now: epoch(),
            rtt: Some(ms(rtt_ms)),
            acked: 1200,
            window: 12_000,
            in_flight: 0,
            app_limited: false,
        }
    }

    #[test]
    fn samples_are_kept_if_they_are_wanted_and_taken_once() {
        let path = |acks: AckReport| PathSample::new(acks.now, acks.rtt.expect("it has one"));
        let counts = |lists: SampleLists| {
            (
                lists.rtt_samples_ms.map(|list| list.len()),
                lists.path_samples.map(|list| list.len()),
            )
        };
        for rtt_samples in [true, false] {
            let recorder = SampleRecorder::new(SampleArgs {
                rtt_samples,
                path_samples: !rtt_samples,
            });
            let lists = |count| match rtt_samples {
                true => (Some(count), None),
                false => (None, Some(count)),
            };
            for rtt_ms in [3, 5] {
                recorder.on_acks(&acks(rtt_ms));
                recorder.on_path(&path(acks(rtt_ms)));
            }
            assert_eq!(counts(recorder.take(epoch())), lists(2));
            assert_eq!(counts(recorder.take(epoch())), lists(0));
            assert!(!recorder.stop_at(1) && recorder.stop_at(2));
            recorder.stop();
            recorder.on_acks(&acks(7));
            recorder.on_path(&path(acks(7)));
            assert_eq!(counts(recorder.take(epoch())), lists(0));
            assert_eq!(recorder.summary().samples, 2);
        }
    }
}
