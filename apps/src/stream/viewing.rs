//! Records what a viewer sees, and computes its figures.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::clock::ClockReport;
use super::frame::Header;
use super::player::{Freezes, Player};
use super::report::{
    BitrateReport, DelayReport, FrameCounts, JitterReport, Snapshot, StallReport, VariationReport,
    ViewReport,
};
use crate::lock::lock;

/// Intervals over which the received rate is measured, in bins of [`BIN`].
const SCALES: [usize; 4] = [1, 5, 10, 50];

/// The length of the bins in which bytes are counted.
const BIN: Duration = Duration::from_millis(100);

/// The most frames that are recorded: a day at 120 a second.
const MAX_FRAMES: usize = 120 * 86_400;

/// The longest delay recorded: a peer may claim any capture time.
const MAX_DELAY_US: i64 = 86_400_000_000;

/// Records what a viewer sees; the receiver and those who watch the figures share it.
#[derive(Debug, Default)]
pub struct Viewing(Mutex<Option<State>>);

/// What a viewer knows of a stream when it begins.
#[derive(Debug)]
pub(super) struct Beginning {
    /// Since when the viewer has waited.
    pub(super) began: Instant,
    /// Its clock then, microseconds.
    pub(super) began_us: i64,
    /// The server's clock when it accepted the viewer, microseconds. Older frames are preroll.
    pub(super) accepted_us: u64,
    /// The warm-up, from `began` on.
    pub(super) omit: Duration,
    pub(super) clock: ClockReport,
    /// Whether frames tell the bitrate of an encoder.
    pub(super) is_encoded: bool,
    pub(super) player: Player,
}

#[derive(Debug)]
struct State {
    began: Instant,
    omit_until: Instant,
    /// Our clock's reading at `began`, microseconds.
    began_us: i64,
    /// The server's clock when it accepted this viewer, microseconds.
    accepted_us: u64,
    clock: ClockReport,
    /// Whether an encoder follows the connection, and frames tell its bitrate.
    is_encoded: bool,
    player: Player,
    first_shown_us: Option<i64>,
    /// All bytes, warm-up included.
    bytes: u64,
    figures: Figures,
    /// Counts since the last snapshot.
    since: Snapshot,
    delay_sum_ms: f64,
}

/// What the report counts, without the warm-up.
#[derive(Debug, Default)]
struct Figures {
    /// The end of the warm-up, or the first byte.
    origin: Option<Instant>,
    last: Option<Instant>,
    /// Bytes by bin since the origin.
    bins: Vec<u64>,
    delays_us: Vec<i32>,
    previous_delay_us: Option<i64>,
    jitter_sum_us: f64,
    jitter_count: u64,
    jitter_rfc3550_us: f64,
    /// The lowest and the highest frame number.
    sequences: Option<(u32, u32)>,
    /// The player's freezes when the warm-up ended.
    stood: Option<Freezes>,
    bitrate: Option<Bitrates>,
}

#[derive(Clone, Copy, Debug)]
struct Bitrates {
    sum: f64,
    last: u64,
    report: BitrateReport,
}

impl Viewing {
    /// Begins a stream.
    pub(super) fn begin(&self, beginning: Beginning) {
        let Beginning {
            began,
            began_us,
            accepted_us,
            omit,
            clock,
            is_encoded,
            mut player,
        } = beginning;
        let omitted_us = i64::try_from(omit.as_micros()).unwrap_or(i64::MAX);
        player.measure_from(began_us.saturating_add(omitted_us));
        *lock(&self.0) = Some(State {
            began,
            omit_until: began + omit,
            began_us,
            accepted_us,
            clock,
            is_encoded,
            player,
            first_shown_us: None,
            bytes: 0,
            figures: Figures::default(),
            since: Snapshot::default(),
            delay_sum_ms: 0.0,
        });
    }

    /// Counts arrived bytes of a frame's content.
    pub(super) fn bytes(&self, now: Instant, bytes: usize) {
        self.with(|state| state.add_bytes(now, bytes as u64));
    }

    /// Takes a complete frame; returns what was shown until now.
    pub(super) fn frame(&self, now: Instant, header: &Header, content: Bytes) -> Vec<Bytes> {
        self.with(|state| state.frame(now, header, content))
            .unwrap_or_default()
    }

    /// Returns whether the most frames have been recorded.
    pub(super) fn is_full(&self) -> bool {
        self.with(|state| state.figures.delays_us.len() >= MAX_FRAMES)
            .unwrap_or(false)
    }

    /// Ends the stream; returns what is still to be shown.
    pub(super) fn finish(&self) -> Vec<Bytes> {
        self.with(|state| state.player.finish()).unwrap_or_default()
    }

    /// Stops watching now, although the stream has not ended: the figures end here, with a stall
    /// that lasts. Returns what is still to be shown. Later frames are not expected.
    pub fn cut(&self, now: Instant) -> Vec<Bytes> {
        self.with(|state| {
            state.figures.last = Some(now);
            let now_us = state.micros(now);
            state.player.cut(now_us)
        })
        .unwrap_or_default()
    }

    /// Returns the bytes of frames' content that arrived; only this figure includes the warm-up.
    pub fn received(&self) -> u64 {
        self.with(|state| state.bytes).unwrap_or(0)
    }

    /// Returns what happened since the last call; `None` before the stream began.
    pub fn snapshot(&self, now: Instant) -> Option<Snapshot> {
        self.with(|state| state.snapshot(now))
    }

    /// Returns all figures until `now`; `None` before the stream began.
    pub fn report(&self, now: Instant) -> Option<ViewReport> {
        self.with(|state| state.report(now))
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> Option<T> {
        lock(&self.0).as_mut().map(f)
    }
}

impl State {
    /// Returns our clock's reading at an instant.
    fn micros(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.began).as_micros();
        self.began_us
            .saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    fn add_bytes(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        self.since.bytes += bytes;
        if now < self.omit_until {
            return;
        }
        let figures = &mut self.figures;
        let origin = if self.omit_until > self.began {
            self.omit_until
        } else {
            now
        };
        let origin = *figures.origin.get_or_insert(origin);
        let bin = (now.saturating_duration_since(origin).as_nanos() / BIN.as_nanos()) as usize;
        if figures.bins.len() <= bin {
            figures.bins.resize(bin + 1, 0);
        }
        figures.bins[bin] += bytes;
        figures.last = Some(now);
    }

    fn frame(&mut self, now: Instant, header: &Header, content: Bytes) -> Vec<Bytes> {
        let now_us = self.micros(now);
        let offset_us = match self.clock {
            ClockReport::Shared => 0,
            ClockReport::Estimated { offset_us, .. } => offset_us,
        };
        let captured_us = i64::try_from(header.captured_us)
            .unwrap_or(i64::MAX)
            .saturating_sub(offset_us);
        // Limit claims of more than a day, so that the arithmetic cannot overflow.
        let delay_us = now_us
            .saturating_sub(captured_us)
            .clamp(-MAX_DELAY_US, MAX_DELAY_US);
        if header.captured_us < self.accepted_us {
            return self.player.arrived(header, None, now_us, content);
        }
        let captured_us = Some(now_us - delay_us);
        let late_before = self.player.counts().late;
        let shown = self.player.arrived(header, captured_us, now_us, content);
        // The player forgets when it began.
        self.first_shown_us = self.first_shown_us.or(self.player.first_due_us());
        self.since.late += self.player.counts().late - late_before;
        self.since.frames += 1;
        self.since.bitrate_bps = self.is_encoded.then_some(header.bitrate_bps.into());
        self.delay_sum_ms += delay_us as f64 / 1e3;
        if now < self.omit_until {
            return shown;
        }
        let figures = &mut self.figures;
        figures.stood.get_or_insert(self.player.past_freezes());
        // A day is more than 2^31 us.
        let clamped = delay_us.clamp(i32::MIN.into(), i32::MAX.into());
        figures.delays_us.push(clamped as i32);
        if let Some(before) = figures.previous_delay_us.replace(delay_us) {
            let difference = (delay_us - before).abs() as f64;
            figures.jitter_sum_us += difference;
            figures.jitter_count += 1;
            figures.jitter_rfc3550_us += (difference - figures.jitter_rfc3550_us) / 16.0;
        }
        let sequence = header.sequence;
        let (first, last) = figures.sequences.unwrap_or((sequence, sequence));
        figures.sequences = Some((first.min(sequence), last.max(sequence)));
        let bps = u64::from(header.bitrate_bps);
        let bitrate = figures.bitrate.get_or_insert(Bitrates {
            sum: 0.0,
            last: bps,
            report: BitrateReport {
                mean_bps: 0.0,
                min_bps: bps,
                max_bps: bps,
                switches: 0,
            },
        });
        bitrate.sum += bps as f64;
        bitrate.report.min_bps = bitrate.report.min_bps.min(bps);
        bitrate.report.max_bps = bitrate.report.max_bps.max(bps);
        bitrate.report.switches += u64::from(bps != bitrate.last);
        bitrate.last = bps;
        shown
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        let now_us = self.micros(now);
        let since = std::mem::take(&mut self.since);
        let delay_sum_ms = std::mem::take(&mut self.delay_sum_ms);
        let freezes = self.player.freezes(now_us);
        self.since.bitrate_bps = since.bitrate_bps;
        Snapshot {
            delay_ms: (since.frames > 0).then(|| delay_sum_ms / since.frames as f64),
            buffer_ms: self.player.buffered(now_us).as_secs_f64() * 1e3,
            stalls: freezes.count,
            stalled_s: freezes.total.as_secs_f64(),
            ..since
        }
    }

    fn report(&self, now: Instant) -> ViewReport {
        let figures = &self.figures;
        let end = figures.last.unwrap_or(now);
        let origin = figures.origin.unwrap_or(end);
        let duration = end.saturating_duration_since(origin);
        let bytes: u64 = figures.bins.iter().sum();
        let seconds = duration.as_secs_f64();
        let player = self.player.measured();
        let stood = figures.stood.unwrap_or_default();
        let received = figures.delays_us.len() as u64;
        let expected = (figures.sequences).map_or(0, |(first, last)| u64::from(last - first) + 1);
        let freezes = self.player.past_freezes();
        ViewReport {
            duration_s: seconds,
            bytes,
            throughput_bps: (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            startup_s: self
                .first_shown_us
                .map(|at_us| at_us.saturating_sub(self.began_us) as f64 / 1e6),
            frames: FrameCounts {
                received,
                on_time: player.on_time,
                late: player.late,
                skipped: player.skipped,
                lost: expected.saturating_sub(received),
                damaged: player.damaged,
                preroll: player.preroll,
            },
            delay_ms: self.delays(),
            jitter_ms: (figures.jitter_count > 0).then(|| JitterReport {
                mean: figures.jitter_sum_us / figures.jitter_count as f64 / 1e3,
                rfc3550: figures.jitter_rfc3550_us / 1e3,
            }),
            stalls: StallReport {
                count: freezes.count - stood.count,
                total_s: freezes.total.saturating_sub(stood.total).as_secs_f64(),
                longest_s: freezes.longest.as_secs_f64(),
            },
            playout_delay_ms: (self.player.playout_delay()).map(|delay| delay.as_secs_f64() * 1e3),
            variation: SCALES.map(|scale| self.variation(scale, duration)).into(),
            bitrate: figures
                .bitrate
                .filter(|_| self.is_encoded)
                .map(|bitrate| BitrateReport {
                    mean_bps: bitrate.sum / received as f64,
                    ..bitrate.report
                }),
            clock: self.clock,
        }
    }

    fn delays(&self) -> Option<DelayReport> {
        let mut sorted = self.figures.delays_us.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            f64::from(sorted[rank - 1]) / 1e3
        };
        Some(DelayReport {
            min: f64::from(*sorted.first()?) / 1e3,
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
            max: f64::from(*sorted.last()?) / 1e3,
        })
    }

    /// Computes the variation over whole intervals of `scale` bins within `duration`.
    fn variation(&self, scale: usize, duration: Duration) -> VariationReport {
        let interval = BIN * scale as u32;
        let whole = (duration.as_nanos() / interval.as_nanos()) as usize;
        let rates: Vec<f64> = (0..whole)
            .map(|nth| {
                let bins = self.figures.bins.iter().skip(nth * scale).take(scale);
                bins.sum::<u64>() as f64
            })
            .collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let varies = rates.len() >= 2 && mean > 0.0;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        VariationReport {
            interval_s: interval.as_secs_f64(),
            cov: varies.then(|| (squares / rates.len() as f64).sqrt() / mean),
            peak_to_mean: varies.then(|| rates.iter().copied().fold(0.0, f64::max) / mean),
        }
    }
}

#[cfg(test)]
mod tests;
