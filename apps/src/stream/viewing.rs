//! Records what a viewer sees, and computes its figures.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::clock::{Bounds, ClockReport, Comparison};
use super::frame::Header;
use super::player::{Displayed, Freezes, Player};
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
pub struct Viewing {
    latency: Option<Duration>,
    state: Mutex<Option<State>>,
}

/// What a viewer knows of a stream when it begins.
#[derive(Debug)]
pub(super) struct Beginning {
    /// Since when the viewer has waited.
    pub(super) began: Instant,
    /// Its clock then, microseconds.
    pub(super) began_us: i64,
    /// The server's clock when it accepted the viewer, microseconds. Older frames are preroll.
    pub(super) accepted_us: u64,
    /// The end of the warm-up.
    pub(super) omit_until: Instant,
    /// Whether an encoder follows the connection, and frames tell its bitrate.
    pub(super) is_encoded: bool,
}

#[derive(Debug)]
struct State {
    beginning: Beginning,
    clock: Comparison,
    /// The offset between the clocks that the player uses: a better one must not move what is due.
    player_offset_us: i64,
    player: Player,
    first_shown_us: Option<i64>,
    /// The content of shown frames that nobody has taken yet.
    shown: Vec<Bytes>,
    /// The number of the present connection's first frame, and that after the highest so far.
    first_number: u32,
    next_number: u32,
    /// All bytes, warm-up included.
    bytes: u64,
    figures: Figures,
    /// Counts since the last snapshot.
    since: Snapshot,
    delay_sum_ms: f64,
    /// Late and dropped frames before the last snapshot.
    late_before: u64,
}

/// What the report counts, without the warm-up.
#[derive(Debug, Default)]
struct Figures {
    /// The end of the warm-up, or the first byte.
    origin: Option<Instant>,
    last: Option<Instant>,
    /// Bytes by bin since the origin.
    bins: Vec<u64>,
    /// When whole frames arrived, and how long after their capture.
    arrivals: Vec<Displayed>,
    previous_delay_us: Option<i64>,
    jitter_sum_us: f64,
    jitter_rfc3550_us: f64,
    /// Frames between the first and the last of each connection before the present one.
    expected: u64,
    /// The lowest and the highest frame number of the present one.
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
    /// Shows every frame `latency` after its capture by both sides' clocks, and drops what comes
    /// later, instead of [`ViewOptions::buffer`](super::ViewOptions::buffer).
    pub fn with_latency(latency: Duration) -> Self {
        Self {
            latency: Some(latency),
            ..Self::default()
        }
    }

    /// Returns how long frames wait at most, where `buffer` holds without a fixed delay.
    pub(super) fn buffer(&self, buffer: Duration) -> Duration {
        self.latency.unwrap_or(buffer)
    }

    /// Returns a player with this buffer, unless the delay is fixed, for one frame every `frame`.
    pub(super) fn player(&self, buffer: Duration, frame: Duration) -> Player {
        match self.latency {
            Some(latency) => Player::fixed(latency, frame),
            None => Player::new(buffer, frame),
        }
    }

    pub(super) fn begin(&self, beginning: Beginning, clock: Comparison, mut player: Player) {
        player.measured_from_us = beginning.micros(beginning.omit_until);
        player.began_us = beginning.began_us;
        player.follow(0, beginning.began_us);
        *lock(&self.state) = Some(State {
            player_offset_us: clock.bounds(beginning.began_us).offset_us(),
            beginning,
            clock,
            player,
            first_shown_us: None,
            shown: Vec::new(),
            first_number: 0,
            next_number: 0,
            bytes: 0,
            figures: Figures::default(),
            since: Snapshot::default(),
            delay_sum_ms: 0.0,
            late_before: 0,
        });
    }

    /// Takes an exchange of messages: our clock's readings around the server's, in microseconds.
    pub(super) fn exchange(&self, asked_us: u64, server_us: u64, answered_us: u64) {
        self.with(|state| {
            state.clock.exchange(asked_us, server_us, answered_us);
            state.follow(i64::try_from(answered_us).unwrap_or(i64::MAX));
        });
    }

    /// Goes on over another connection, whose server accepted the viewer at `accepted_us` on its clock
    /// between these `readings` of ours, unless the clocks are shared.
    pub(super) fn rejoin(&self, accepted_us: u64, readings: Option<(u64, u64)>) {
        self.with(|state| {
            if let Some((asked_us, answered_us)) = readings {
                state.clock.exchange(asked_us, accepted_us, answered_us);
            }
            state.beginning.accepted_us = accepted_us;
            // A number stays free: what was between is missing.
            state.first_number = state.next_number.saturating_add(1);
            let (first, last) = state.figures.sequences.take().unzip();
            let before = first.zip(last).map_or(0, |(first, last)| last - first + 1);
            state.figures.expected += u64::from(before);
            let shown = state.player.rejoin();
            state.show(shown);
            let now_us = readings.map(|(_, answered_us)| i64::try_from(answered_us));
            state.follow(now_us.map_or(state.beginning.began_us, |us| us.unwrap_or(i64::MAX)));
        });
    }

    /// Counts arrived bytes of a frame's content.
    pub(super) fn bytes(&self, now: Instant, bytes: usize) {
        self.with(|state| state.add_bytes(now, bytes as u64));
    }

    /// Takes a complete frame.
    pub(super) fn frame(&self, now: Instant, header: &Header, content: Bytes) {
        self.with(|state| state.frame(now, header, content));
    }

    /// Shows what is due until now; returns the content of all frames shown since the last call.
    pub(super) fn shown(&self, now: Instant) -> Vec<Bytes> {
        self.with(|state| {
            let shown = state.player.advance(state.beginning.micros(now));
            state.show(shown);
            std::mem::take(&mut state.shown)
        })
        .unwrap_or_default()
    }

    /// Returns the bytes of content that were dropped since the last call.
    pub(super) fn dropped(&self) -> usize {
        self.with(|state| std::mem::take(&mut state.player.dropped))
            .unwrap_or(0)
    }

    /// Returns when [`Self::shown`] will have something more; `None` while no frame waits.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.with(|state| match state.shown.is_empty() {
            true => (state.player.next_due_us()).map(|due_us| state.beginning.instant(due_us)),
            false => Some(state.beginning.began),
        });
        due.flatten()
    }

    /// Returns whether the most frames have been recorded.
    pub(super) fn is_full(&self) -> bool {
        self.with(|state| state.figures.arrivals.len() >= MAX_FRAMES)
            .unwrap_or(false)
    }

    /// Ends the stream; returns what is still to be shown.
    pub(super) fn finish(&self) -> Vec<Bytes> {
        self.with(|state| {
            let shown = state.player.finish();
            state.show(shown);
            std::mem::take(&mut state.shown)
        })
        .unwrap_or_default()
    }

    /// Stops watching now, although the stream has not ended: the figures end here, with a stall
    /// that lasts. Returns what is still to be shown. Later frames are not expected.
    pub fn cut(&self, now: Instant) -> Vec<Bytes> {
        self.with(|state| {
            state.figures.last = Some(now);
            let shown = state.player.cut(state.beginning.micros(now));
            state.show(shown);
            std::mem::take(&mut state.shown)
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

    /// Returns each frame's arrival in seconds since the viewer began to wait, and its delay in
    /// milliseconds, after the warm-up.
    pub fn delays(&self, now: Instant) -> Vec<(f64, f64)> {
        let delays = self.with(|state| {
            let (delays_us, _) = state.delays(&state.figures.arrivals, state.beginning.micros(now));
            let arrivals = state.figures.arrivals.iter();
            let times_s = arrivals.map(|arrival| f64::from(arrival.at_ms) / 1e3);
            let delays_ms = delays_us.into_iter().map(|us| us as f64 / 1e3);
            times_s.zip(delays_ms).collect()
        });
        delays.unwrap_or_default()
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> Option<T> {
        lock(&self.state).as_mut().map(f)
    }
}

impl Beginning {
    /// Returns our clock's reading at an instant.
    fn micros(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.began).as_micros();
        self.began_us
            .saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// Returns the instant of a reading of our clock, but none before `began` and none later than a
    /// day after it.
    fn instant(&self, at_us: i64) -> Instant {
        let since_us = at_us.saturating_sub(self.began_us).clamp(0, MAX_DELAY_US);
        self.began + Duration::from_micros(since_us.unsigned_abs())
    }
}

impl State {
    fn add_bytes(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        self.since.bytes += bytes;
        let Beginning {
            began, omit_until, ..
        } = self.beginning;
        if now < omit_until {
            return;
        }
        let figures = &mut self.figures;
        let origin = if omit_until > began { omit_until } else { now };
        let origin = *figures.origin.get_or_insert(origin);
        let bin = (now.saturating_duration_since(origin).as_nanos() / BIN.as_nanos()) as usize;
        if figures.bins.len() <= bin {
            figures.bins.resize(bin + 1, 0);
        }
        figures.bins[bin] += bytes;
        figures.last = Some(now);
    }

    /// Keeps the content of shown frames; a viewer without an output has none.
    fn show(&mut self, frames: Vec<Bytes>) {
        let content = frames.into_iter().filter(|frame| !frame.is_empty());
        self.shown.extend(content);
    }

    fn frame(&mut self, now: Instant, header: &Header, content: Bytes) {
        let header = &Header {
            sequence: header.sequence.saturating_add(self.first_number),
            ..*header
        };
        self.next_number = self.next_number.max(header.sequence.saturating_add(1));
        let now_us = self.beginning.micros(now);
        self.clock.frame(header.captured_us, now_us);
        self.follow(now_us);
        let captured_us = i64::try_from(header.captured_us)
            .unwrap_or(i64::MAX)
            .saturating_sub(self.player_offset_us);
        // Limit claims of more than a day, so that the arithmetic cannot overflow.
        let delay_us = now_us
            .saturating_sub(captured_us)
            .clamp(-MAX_DELAY_US, MAX_DELAY_US);
        if header.captured_us < self.beginning.accepted_us {
            let shown = self.player.arrived(header, None, now_us, content);
            self.show(shown);
            return;
        }
        let captured_us = Some(now_us - delay_us);
        let shown = self.player.arrived(header, captured_us, now_us, content);
        self.show(shown);
        // The player forgets when it began.
        self.first_shown_us = self.first_shown_us.or(self.player.first_due_us());
        self.since.frames += 1;
        self.since.bitrate_bps = self
            .beginning
            .is_encoded
            .then_some(header.bitrate_bps.into());
        self.delay_sum_ms +=
            (delay_us + self.correction_us(self.clock.bounds(now_us))) as f64 / 1e3;
        if now < self.beginning.omit_until {
            return;
        }
        let figures = &mut self.figures;
        figures.stood.get_or_insert(self.player.past_freezes);
        // A day is more than 2^31 us.
        let clamped = delay_us.clamp(i32::MIN.into(), i32::MAX.into());
        let since = now
            .saturating_duration_since(self.beginning.began)
            .as_millis();
        figures.arrivals.push(Displayed {
            at_ms: u32::try_from(since).unwrap_or(u32::MAX),
            delay_us: clamped as i32,
        });
        if let Some(before) = figures.previous_delay_us.replace(delay_us) {
            let difference = (delay_us - before).abs() as f64;
            figures.jitter_sum_us += difference;
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
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        let now_us = self.beginning.micros(now);
        let since = std::mem::take(&mut self.since);
        let delay_sum_ms = std::mem::take(&mut self.delay_sum_ms);
        let freezes = self.player.freezes(now_us);
        let late = self.player.counts.late + self.player.counts.dropped;
        let late_before = std::mem::replace(&mut self.late_before, late);
        self.since.bitrate_bps = since.bitrate_bps;
        Snapshot {
            late: late - late_before,
            clock_error_ms: self
                .clock
                .is_estimated()
                .then(|| self.clock.bounds(now_us).error_ms()),
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
        let stood = figures.stood.unwrap_or_default();
        let received = figures.arrivals.len() as u64;
        let expected = figures.expected
            + (figures.sequences).map_or(0, |(first, last)| u64::from(last - first) + 1);
        let freezes = self.player.past_freezes;
        let now_us = self.beginning.micros(now);
        let (delays_us, clock) = self.delays(&figures.arrivals, now_us);
        let (displayed_us, _) = self.delays(&self.player.displayed, now_us);
        let correction_us = self.correction_us(self.clock.bounds(now_us));
        ViewReport {
            duration_s: seconds,
            bytes,
            throughput_bps: (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            startup_s: (self.first_shown_us)
                .or(self.player.first_due_us())
                .map(|at_us| at_us.saturating_sub(self.beginning.began_us) as f64 / 1e6),
            frames: FrameCounts {
                received,
                lost: expected.saturating_sub(received),
                ..self.player.measured
            },
            causes: self.player.causes(),
            delay_ms: percentiles(delays_us),
            display_ms: percentiles(displayed_us),
            jitter_ms: (received > 1).then(|| JitterReport {
                mean: figures.jitter_sum_us / (received - 1) as f64 / 1e3,
                rfc3550: figures.jitter_rfc3550_us / 1e3,
            }),
            stalls: StallReport {
                count: freezes.count - stood.count,
                total_s: freezes.total.saturating_sub(stood.total).as_secs_f64(),
                longest_s: freezes.longest.as_secs_f64(),
            },
            playout_delay_ms: (self.player.playout_delay())
                .map(|delay| delay.as_secs_f64() * 1e3 + correction_us as f64 / 1e3),
            variation: SCALES.map(|scale| self.variation(scale, duration)).into(),
            bitrate: figures
                .bitrate
                .filter(|_| self.beginning.is_encoded)
                .map(|bitrate| BitrateReport {
                    mean_bps: bitrate.sum / received as f64,
                    ..bitrate.report
                }),
            clock,
        }
    }

    /// Returns the delays until all frames' `arrivals`, by all that is known of the clocks by now, and
    /// what that is.
    fn delays(&self, arrivals: &[Displayed], now_us: i64) -> (Vec<i64>, ClockReport) {
        let times_us = arrivals
            .iter()
            .map(|arrival| self.beginning.began_us + 1000 * i64::from(arrival.at_ms));
        let mut error_ms: f64 = 0.0;
        let known = self.clock.settle(times_us);
        let delays_us = arrivals.iter().zip(known).map(|(arrival, bounds)| {
            error_ms = error_ms.max(bounds.error_ms());
            i64::from(arrival.delay_us) + self.correction_us(bounds)
        });
        let delays_us = delays_us.collect();
        let bounds = self.clock.bounds(now_us);
        if arrivals.is_empty() {
            error_ms = bounds.error_ms();
        }
        let clock = match self.clock.is_estimated() {
            true => ClockReport::Estimated {
                offset_us: bounds.offset_us(),
                error_ms,
            },
            false => ClockReport::Shared,
        };
        (delays_us, clock)
    }

    /// Has a fixed delay follow what is known of the clocks at a time of ours that has come.
    fn follow(&mut self, now_us: i64) {
        // What was due until now was so by what was known.
        let shown = self.player.advance(now_us);
        self.show(shown);
        let correction_us = self.correction_us(self.clock.bounds(now_us));
        self.player.follow(correction_us, now_us);
    }

    /// Returns what to add to a delay by the player's offset, if this is known of the clocks.
    fn correction_us(&self, bounds: Bounds) -> i64 {
        bounds.offset_us() - self.player_offset_us
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

fn percentiles(mut delays_us: Vec<i64>) -> Option<DelayReport> {
    delays_us.sort_unstable();
    let sorted = delays_us;
    let rank = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted[rank - 1] as f64 / 1e3
    };
    Some(DelayReport {
        min: *sorted.first()? as f64 / 1e3,
        p50: rank(50),
        p95: rank(95),
        p99: rank(99),
        max: *sorted.last()? as f64 / 1e3,
    })
}

#[cfg(test)]
mod tests;
