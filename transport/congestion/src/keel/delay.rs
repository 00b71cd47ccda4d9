//! What round trips tell of a path: how long it is, how much of it is queue, how much is noise.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Delays below a standing queue last shorter than this: jitter, frames that are held together,
/// late acknowledgements.
const STANDING: Duration = Duration::from_millis(25);

/// The empty round trip is the least of this many pieces of [`PIECE`], 30 s: three times the time
/// after which the flow makes room to see it again.
const PIECES: usize = 10;
const PIECE: Duration = Duration::from_secs(3);

/// Round trips of which the least shows a queue that grows, before a round trip is over
/// (RFC 9406, section 4.2: 8 samples).
const RECENT: usize = 8;

/// Noise is the median of so many pieces of [`STANDING`] with at least [`LEAST_SAMPLES`].
const NOISES: usize = 16;
const LEAST_SAMPLES: f64 = 4.0;

/// The shortest round trip assumed.
const LEAST_RTT: Duration = Duration::from_micros(1);

/// Standard deviations of round trips that count as noise: a uniform jitter spans 2 sqrt(3).
const SPREAD: f64 = 3.5;

/// Round trips of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Delay {
    /// Weighted as in RFC 9002, section 5.3.
    smoothed: Option<Duration>,
    recent: VecDeque<Duration>,
    /// Samples of the last [`Self::span`] that no later one undercuts, oldest first.
    standing: VecDeque<(Instant, Duration)>,
    /// The least of each piece, newest last.
    pieces: VecDeque<Duration>,
    piece_since: Option<Instant>,
    /// When a round trip was last as short as the least.
    seen: Option<Instant>,
    noise: Noise,
    /// So many times longer must a queue stand to count: noise has lasted longer than a span.
    patience: u32,
    /// What queues on the way back, as far as routers tell, weighted as [`Self::smoothed`]. Samples
    /// are kept without it, and what is asked for has it: a part of the path's length.
    back: Duration,
    /// The least came from routers' word.
    is_told: bool,
}

/// Queueing times that routers added up in one round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Queueing {
    pub(super) there: Duration,
    pub(super) back: Duration,
}

impl Delay {
    /// A packet's round trip took `rtt`, of which `queueing` as far as routers tell.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Duration, queueing: Queueing) {
        self.smoothed = Some(self.smoothed.map_or(rtt, |old| old * 7 / 8 + rtt / 8));
        self.back = self.back * 7 / 8 + queueing.back / 8;
        let rtt = rtt.saturating_sub(queueing.back).max(LEAST_RTT);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(rtt);
        let span = self.span() * (1 + self.patience);
        while self.standing.back().is_some_and(|(_, least)| *least >= rtt) {
            self.standing.pop_back();
        }
        self.standing.push_back((now, rtt));
        while self
            .standing
            .front()
            .is_some_and(|(at, _)| now.saturating_duration_since(*at) > span)
        {
            self.standing.pop_front();
        }
        self.noise.on_rtt(now, rtt);
        let empty = rtt.saturating_sub(queueing.there).max(LEAST_RTT);
        let least = self.least();
        if self.pieces.is_empty() || rtt <= least + least / 64 {
            self.seen = Some(now);
        }
        if self.pieces.is_empty() || empty < least {
            self.is_told = empty < rtt;
        }
        let rtt = empty;
        let since = *self.piece_since.get_or_insert(now);
        if self.pieces.is_empty() || now.saturating_duration_since(since) >= PIECE {
            self.pieces.push_back(rtt);
            self.piece_since = Some(now);
            if self.pieces.len() > PIECES {
                self.pieces.pop_front();
            }
        } else if let Some(least) = self.pieces.back_mut() {
            *least = rtt.min(*least);
        }
    }

    /// Forgets all but what stands: the path has become another one.
    pub(super) fn rebase(&mut self) {
        self.pieces.clear();
        self.pieces.push_back(self.stand() - self.back);
    }

    /// Whether the empty round trip comes from routers' word.
    pub(super) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Forgets what routers said: until there are new samples, the round trip is the smoothed one.
    pub(super) fn distrust(&mut self, now: Instant) {
        let rtt = self.smoothed();
        (self.back, self.is_told) = (Duration::ZERO, false);
        self.recent.clear();
        self.pieces = VecDeque::from([rtt]);
        self.standing = VecDeque::from([(now, rtt)]);
    }

    /// The time over which a queue must stand to count.
    pub(super) fn span(&self) -> Duration {
        (self.smoothed() / 2).max(STANDING.min(self.smoothed() * 8))
    }

    /// Queues count that stand for `patience` more spans.
    pub(super) fn set_patience(&mut self, patience: u32) {
        self.patience = patience;
    }

    /// When the empty path was last seen.
    pub(super) fn seen(&self) -> Instant {
        self.seen.expect("the first round trip is the least")
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or_default()
    }

    /// The least of the last eight round trips, once there are so many.
    pub(super) fn recent(&self) -> Option<Duration> {
        let least = self.recent.iter().min()?;
        (self.recent.len() == RECENT).then_some(*least + self.back)
    }

    /// The least round trip of the last [`Self::span`]: without noise that comes and goes.
    pub(super) fn stand(&self) -> Duration {
        self.standing
            .front()
            .map_or(Duration::ZERO, |(_, least)| *least + self.back)
    }

    /// The empty path's round trip, as far as it was seen.
    pub(super) fn base(&self) -> Duration {
        self.least() + self.back
    }

    fn least(&self) -> Duration {
        self.pieces.iter().min().copied().unwrap_or_default()
    }

    /// By how much round trips exceed what stands without a queue behind it.
    pub(super) fn jitter(&self) -> Duration {
        self.noise.jitter()
    }
}

/// The spread of round trips within short pieces of time, without their trend: a queue grows or
/// drains in a line over so short a time, noise does not.
#[derive(Debug, Clone, Default)]
struct Noise {
    since: Option<Instant>,
    /// Samples, and sums of their times, round trips, squares and products, in seconds.
    n: f64,
    t: f64,
    r: f64,
    tt: f64,
    tr: f64,
    rr: f64,
    /// Standard deviations of the last pieces, in seconds.
    deviations: VecDeque<f64>,
}

impl Noise {
    fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        let since = *self.since.get_or_insert(now);
        let time = now.saturating_duration_since(since);
        if time > STANDING && self.n >= LEAST_SAMPLES {
            self.end_piece();
            let deviations = std::mem::take(&mut self.deviations);
            *self = Self {
                since: Some(now),
                deviations,
                ..Self::default()
            };
            return self.on_rtt(now, rtt);
        }
        let (t, r) = (time.as_secs_f64(), rtt.as_secs_f64());
        self.n += 1.0;
        self.t += t;
        self.r += r;
        self.tt += t * t;
        self.tr += t * r;
        self.rr += r * r;
    }

    fn end_piece(&mut self) {
        let n = self.n;
        let (tt, tr) = (self.tt - self.t * self.t / n, self.tr - self.t * self.r / n);
        let rr = self.rr - self.r * self.r / n;
        let explained = if tt > 0.0 { tr * tr / tt } else { 0.0 };
        if self.deviations.len() == NOISES {
            self.deviations.pop_front();
        }
        self.deviations
            .push_back(((rr - explained) / n).max(0.0).sqrt());
    }

    fn jitter(&self) -> Duration {
        let mut sorted: Vec<f64> = self.deviations.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        Duration::from_secs_f64(SPREAD * median)
    }
}
