//! Records what a viewer sees, and computes its figures.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::clock::{Bounds, ClockReport, Comparison};
use super::frame::Header;
use super::lateness::Stacked;
use super::player::{Displayed, Player};
use super::report::{DelayReport, QueueingReport, Snapshot, StallReport, VariationReport};
use super::report::{TrackReport, ViewReport};
use super::track::{Kind, Track};
use super::watched::{Arrival, MAX_DELAY_US, Watched};
use crate::lock::lock;

/// Intervals over which the received rate is measured, in bins of [`BIN`].
const SCALES: [usize; 4] = [1, 5, 10, 50];

/// The length of the bins in which bytes are counted.
const BIN: Duration = Duration::from_millis(100);

/// The most frames that are recorded: a day at 120 a second.
const MAX_FRAMES: usize = 120 * 86_400;

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
    /// The offset between the clocks that the players use: a better one must not move what is due.
    player_offset_us: i64,
    /// The player of a track that nothing has come of.
    player: Player,
    tracks: BTreeMap<Track, Watched>,
    /// When a frame last came, on our clock.
    arrived_us: Option<i64>,
    /// The content of shown frames that nobody has taken yet.
    shown: Vec<Bytes>,
    /// All bytes, warm-up included.
    bytes: u64,
    figures: Figures,
    /// Counts since the last snapshot.
    since: Snapshot,
    delay_sum_ms: f64,
    /// Late and dropped frames before the last snapshot.
    late_before: u64,
}

/// What the report counts of all tracks together, without the warm-up.
#[derive(Debug, Default)]
struct Figures {
    /// The end of the warm-up, or the first byte.
    origin: Option<Instant>,
    last: Option<Instant>,
    /// Bytes by bin since the origin.
    bins: Vec<u64>,
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

    /// Returns the fixed delay, in milliseconds.
    pub(super) fn latency_ms(&self) -> Option<u32> {
        let latency = self.latency?;
        Some(u32::try_from(latency.as_millis()).unwrap_or(u32::MAX))
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
            tracks: BTreeMap::new(),
            arrived_us: None,
            shown: Vec::new(),
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
    /// between these `readings` of ours, unless the clocks are shared, and begins with these `tables`.
    pub(super) fn rejoin(&self, accepted_us: u64, readings: Option<(u64, u64)>, tables: Bytes) {
        self.with(|state| {
            if let Some((asked_us, answered_us)) = readings {
                state.clock.exchange(asked_us, accepted_us, answered_us);
            }
            state.beginning.accepted_us = accepted_us;
            state.each(Watched::rejoin);
            state.show(vec![tables]);
            let now_us = readings.map(|(_, answered_us)| i64::try_from(answered_us));
            state.follow(now_us.map_or(state.beginning.began_us, |us| us.unwrap_or(i64::MAX)));
        });
    }

    /// Shows these tables before all frames.
    pub(super) fn put_first(&self, tables: Bytes) {
        self.with(|state| state.show(vec![tables]));
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
            state.advance(state.beginning.micros(now));
            std::mem::take(&mut state.shown)
        })
        .unwrap_or_default()
    }

    /// Returns the bytes of content that were dropped since the last call.
    pub(super) fn dropped(&self) -> usize {
        self.with(|state| {
            let players = state.tracks.values_mut().map(|track| &mut track.player);
            players
                .map(|player| std::mem::take(&mut player.dropped))
                .sum()
        })
        .unwrap_or(0)
    }

    /// Returns when [`Self::shown`] will have something more; `None` while no frame waits.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.with(|state| match state.shown.is_empty() {
            true => {
                let due_us = state
                    .tracks
                    .values()
                    .map(|track| track.player.next_due_us());
                due_us
                    .flatten()
                    .min()
                    .map(|due_us| state.beginning.instant(due_us))
            }
            false => Some(state.beginning.began),
        });
        due.flatten()
    }

    /// Returns whether the most frames have been recorded.
    pub(super) fn is_full(&self) -> bool {
        self.with(|state| {
            let arrivals = state.tracks.values().map(|track| track.arrivals().len());
            arrivals.sum::<usize>() >= MAX_FRAMES
        })
        .unwrap_or(false)
    }

    /// Ends the stream; returns what is still to be shown.
    pub(super) fn finish(&self) -> Vec<Bytes> {
        self.with(|state| {
            state.each(|track| track.player.finish());
            std::mem::take(&mut state.shown)
        })
        .unwrap_or_default()
    }

    /// Stops watching now, although the stream has not ended: the figures end here, with a stall
    /// that lasts. Returns what is still to be shown. Later frames are not expected.
    pub fn cut(&self, now: Instant) -> Vec<Bytes> {
        self.with(|state| {
            state.figures.last = Some(now);
            let now_us = state.beginning.micros(now);
            state.each(|track| track.cut(now_us));
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

    /// Returns the arrival of each frame of the first pictures, or of the first track without
    /// pictures, in seconds since the viewer began to wait, and its delay in milliseconds, after the
    /// warm-up.
    pub fn delays(&self, now: Instant) -> Vec<(f64, f64)> {
        let delays = self.with(|state| {
            let arrivals = state.main().map(Watched::arrivals).unwrap_or_default();
            let (delays_us, _) = state.delays(arrivals, state.beginning.micros(now));
            let times_s = arrivals
                .iter()
                .map(|arrival| f64::from(arrival.at_ms) / 1e3);
            let delays_ms = delays_us.into_iter().map(|us| us as f64 / 1e3);
            times_s.zip(delays_ms).collect()
        });
        delays.unwrap_or_default()
    }

    /// Returns what the longest delays of the first pictures, or of the first track without pictures,
    /// were made of, from the first frame on.
    pub fn stacked(&self) -> Option<Stacked> {
        self.with(|state| Some(state.main()?.player.lateness.stacked()))?
    }

    /// The viewer's machine took nothing that came between these times.
    pub(super) fn stood(&self, from: Instant, to: Instant) {
        self.with(|state| {
            let Beginning { began, .. } = state.beginning;
            let (from_us, to_us) = (
                state.beginning.micros(from.max(began)),
                state.beginning.micros(to),
            );
            let players = state.tracks.values_mut().map(|track| &mut track.player);
            for player in players.chain([&mut state.player]) {
                player.lateness.stood(from_us, to_us);
            }
        });
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
        let is_preroll = header.captured_us < self.beginning.accepted_us;
        let since = now.saturating_duration_since(self.beginning.began);
        let arrival = Arrival {
            now_us,
            since_ms: u32::try_from(since.as_millis()).unwrap_or(u32::MAX),
            delay_us: (!is_preroll).then_some(delay_us),
            is_measured: now >= self.beginning.omit_until,
        };
        let correction_us = self.correction_us(self.clock.bounds(now_us));
        let track = self.tracks.entry(header.track).or_insert_with(|| {
            let mut player = self.player.clone();
            player.follow(correction_us, now_us);
            Watched::new(player)
        });
        let shown = track.frame(&arrival, header, content);
        self.show(shown);
        self.keep_together(now_us);
        if is_preroll || header.track.kind == Kind::Tables {
            return;
        }
        self.since.frames += 1;
        self.since.bitrate_bps = self
            .beginning
            .is_encoded
            .then_some(header.bitrate_bps.into());
        self.delay_sum_ms += (delay_us + correction_us) as f64 / 1e3;
    }

    /// Has all tracks wait for each other, but tables for nothing.
    fn keep_together(&mut self, now_us: i64) {
        let before_us = self.arrived_us.replace(now_us).unwrap_or(now_us);
        let elapsed_us = now_us.saturating_sub(before_us).max(0);
        let needed = self
            .tracks
            .values()
            .filter_map(|track| track.player.needed_us());
        let Some(most_us) = needed.max().filter(|_| self.tracks.len() > 1) else {
            return;
        };
        for track in self.tracks.values_mut() {
            track.player.keep_with(most_us, elapsed_us);
        }
    }

    /// Does something with each track's player, and keeps what it shows.
    fn each(&mut self, mut act: impl FnMut(&mut Watched) -> Vec<Bytes>) {
        for track in self.tracks.values_mut() {
            let shown = act(track).into_iter();
            self.shown.extend(shown.filter(|frame| !frame.is_empty()));
        }
    }

    fn advance(&mut self, now_us: i64) {
        self.each(|track| track.player.advance(now_us));
    }

    /// The track that viewers look at: the first pictures, without them the first of all.
    fn main(&self) -> Option<&Watched> {
        let pictures = self.tracks.get(&Track::VIDEO);
        let is_shown = |(track, _): &(&Track, _)| track.kind != Kind::Tables;
        pictures.or_else(|| {
            self.tracks
                .iter()
                .find(is_shown)
                .map(|(_, watched)| watched)
        })
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        let now_us = self.beginning.micros(now);
        let since = std::mem::take(&mut self.since);
        let delay_sum_ms = std::mem::take(&mut self.delay_sum_ms);
        let late = self
            .tracks
            .iter()
            .filter(|(track, _)| track.kind != Kind::Tables);
        let late = late.map(|(_, track)| track.player.counts.late + track.player.counts.dropped);
        let late = late.sum();
        let late_before = std::mem::replace(&mut self.late_before, late);
        self.since.bitrate_bps = since.bitrate_bps;
        let player = self.main().map_or(&self.player, |track| &track.player);
        let freezes = player.freezes(now_us);
        Snapshot {
            late: late - late_before,
            clock_error_ms: self
                .clock
                .is_estimated()
                .then(|| self.clock.bounds(now_us).error_ms()),
            delay_ms: (since.frames > 0).then(|| delay_sum_ms / since.frames as f64),
            buffer_ms: player.buffered(now_us).as_secs_f64() * 1e3,
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
        let now_us = self.beginning.micros(now);
        let nothing = Watched::new(self.player.clone());
        let main = self.main().unwrap_or(&nothing);
        let (delays_us, clock) = self.delays(main.arrivals(), now_us);
        let (displayed_us, _) = self.delays(&main.player.displayed, now_us);
        let correction_us = self.correction_us(self.clock.bounds(now_us));
        let freezes = main.freezes();
        let tracks = self
            .tracks
            .iter()
            .filter(|(track, _)| track.kind != Kind::Tables);
        let delays = tracks
            .clone()
            .map(|(_, track)| self.delays(track.arrivals(), now_us).0);
        let delays: Vec<Vec<i64>> = delays.collect();
        let least_us = delays.iter().flatten().min().copied().unwrap_or(0);
        ViewReport {
            duration_s: seconds,
            bytes,
            throughput_bps: (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds),
            startup_s: main
                .first_shown_us()
                .map(|at_us| at_us.saturating_sub(self.beginning.began_us) as f64 / 1e6),
            frames: main.counts(),
            causes: main.causes(),
            delay_ms: percentiles(delays_us),
            display_ms: percentiles(displayed_us),
            jitter_ms: main.jitter(),
            stalls: StallReport {
                count: freezes.count,
                total_s: freezes.total.as_secs_f64(),
                longest_s: freezes.longest.as_secs_f64(),
            },
            playout_delay_ms: (main.player.playout_delay())
                .map(|delay| delay.as_secs_f64() * 1e3 + correction_us as f64 / 1e3),
            variation: SCALES.map(|scale| self.variation(scale, duration)).into(),
            bitrate: main.bitrate().filter(|_| self.beginning.is_encoded),
            clock,
            tracks: (tracks.zip(delays))
                .map(|((track, watched), delays_us)| TrackReport {
                    track: *track,
                    frames: watched.counts(),
                    queueing_ms: queueing(&delays_us, least_us),
                    delay_ms: percentiles(delays_us),
                    display_ms: percentiles(self.delays(&watched.player.displayed, now_us).0),
                })
                .collect(),
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

    /// Has fixed delays follow what is known of the clocks at a time of ours that has come.
    fn follow(&mut self, now_us: i64) {
        // What was due until now was so by what was known.
        self.advance(now_us);
        let correction_us = self.correction_us(self.clock.bounds(now_us));
        for track in self.tracks.values_mut() {
            track.player.follow(correction_us, now_us);
        }
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

/// Returns how much longer than the least delay of any track those of one are.
fn queueing(delays_us: &[i64], least_us: i64) -> Option<QueueingReport> {
    let beyond_ms = |delay_us: &i64| (delay_us - least_us) as f64 / 1e3;
    let sum_ms: f64 = delays_us.iter().map(beyond_ms).sum();
    Some(QueueingReport {
        max: delays_us.iter().max().map(beyond_ms)?,
        mean: sum_ms / delays_us.len() as f64,
    })
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
