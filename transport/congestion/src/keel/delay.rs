//! Estimates from round trips how long a path is, how much of it is queue and how much is noise.
//! Queueing on the way back does not count where routers report it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::row::Switches;

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

/// Noise is the median of this many pieces of [`STANDING`] with at least [`LEAST_SAMPLES`].
const NOISES: usize = 16;
const LEAST_SAMPLES: f64 = 4.0;

/// A round trip that was not seen for this long is old.
pub(super) const OLD: Duration = Duration::from_secs(10);

/// The shortest round trip assumed.
const LEAST_RTT: Duration = Duration::from_micros(1);

/// Standard deviations of round trips that the target allows for noise: one and a half times the
/// 2 sqrt(3) that a uniform jitter spans.
const SPREAD: f64 = 5.25;

/// A queue is short below this part of the empty round trip, or below this if that is longer (after
/// RFC 9406, section 4.3, which takes an eighth, at least 4 ms).
const SHORT_PART: u32 = 20;
pub(super) const SHORT: Duration = Duration::from_millis(4);

/// A delay beyond this part of the empty round trip needs an explanation: a stall, or a queue in
/// spite of marks.
pub(super) const NOTICED: u32 = 8;

/// Round trips of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Delay {
    switches: Switches,
    /// Weighted as in RFC 9002, section 5.3.
    smoothed: Option<Duration>,
    recent: VecDeque<Duration>,
    /// Round trips less the queueing that routers report, and that queueing on the way there.
    unexplained: Standing,
    reported: Standing,
    /// What stood at the end of each round, until it is old.
    rounds: Standing,
    /// The longest queue that they have reported since it was last read.
    longest_reported: Duration,
    /// The least of each piece, newest last.
    pieces: VecDeque<Duration>,
    piece_since: Option<Instant>,
    /// When a round trip was last as short as the least.
    seen: Option<Instant>,
    noise: Noise,
    /// When the last ACK came.
    acked: Option<Instant>,
    /// The peer may have held that back.
    is_held: bool,
    /// What queues on the way back, as far as routers tell, weighted as [`Self::smoothed`], which
    /// alone has it.
    back: Duration,
    /// Routers reported the last queueing times.
    is_told: bool,
    /// All routers on the way seem to have done so.
    is_complete: bool,
    /// The last round trip.
    previous: Duration,
    /// The path is as long as the longer of two round trips in a row: a packet that overtakes others
    /// shows a path that is too short.
    pub(super) is_by_pairs: bool,
}

/// The least of what was seen lately: delays that come and go drop out.
#[derive(Debug, Clone, Default)]
struct Standing {
    /// Samples that no later one undercuts, oldest first.
    samples: VecDeque<(Instant, Duration)>,
}

impl Standing {
    /// Takes in a sample and forgets those that are older than `span`.
    fn push(&mut self, now: Instant, sample: Duration, span: Duration) {
        while self
            .samples
            .back()
            .is_some_and(|(_, least)| *least >= sample)
        {
            self.samples.pop_back();
        }
        self.samples.push_back((now, sample));
        let is_old = |at: Instant| now.saturating_duration_since(at) > span;
        while self.samples.front().is_some_and(|(at, _)| is_old(*at)) {
            self.samples.pop_front();
        }
    }

    fn least(&self) -> Duration {
        let front = self.samples.front();
        front.map_or(Duration::ZERO, |(_, least)| *least)
    }
}

/// Queueing times that routers added up in one round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Queueing {
    pub(super) there: Duration,
    pub(super) back: Duration,
    /// All routers seem to have reported theirs.
    pub(super) is_complete: bool,
}

impl Delay {
    pub(super) fn new(switches: Switches) -> Self {
        Self {
            switches,
            ..Self::default()
        }
    }

    /// An ACK came. If it acknowledges a single packet, it `may_be_held`: a peer that acknowledges
    /// every second packet holds it back for up to 25 ms (RFC 9000, section 18.2), which is no noise.
    pub(super) fn on_ack(&mut self, now: Instant, may_be_held: bool) {
        let is_late = |at| now.saturating_duration_since(at) >= STANDING;
        self.is_held = may_be_held && self.acked.is_some_and(is_late);
        self.acked = Some(now);
    }

    /// A packet's round trip took `rtt`, of which `queueing` if routers tell.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Duration, queueing: Option<Queueing>) {
        self.is_told = queueing.is_some();
        let queueing = queueing.unwrap_or_default();
        self.is_complete = queueing.is_complete;
        self.smoothed = Some(self.smoothed.map_or(rtt, |old| old * 7 / 8 + rtt / 8));
        self.back = self.back * 7 / 8 + queueing.back / 8;
        let rtt = rtt.saturating_sub(queueing.back).max(LEAST_RTT);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(rtt);
        let span = self.span();
        let rtt = rtt.saturating_sub(queueing.there).max(LEAST_RTT);
        self.unexplained.push(now, rtt, span);
        self.reported.push(now, queueing.there, span);
        self.longest_reported = self.longest_reported.max(queueing.there);
        if !self.is_held {
            let piece = self.switches.standing(STANDING);
            self.noise.on_rtt(now, rtt, piece);
        }
        let previous = std::mem::replace(&mut self.previous, rtt);
        let rtt = if self.is_by_pairs {
            rtt.max(previous)
        } else {
            rtt
        };
        let least = self.base();
        if self.pieces.is_empty() || rtt <= least + least / 64 {
            self.seen = Some(now);
        }
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

    /// A round ends.
    pub(super) fn on_round(&mut self, now: Instant) {
        let standing = self.standing();
        self.rounds.push(now, standing, OLD);
    }

    /// When the least of what stood at the ends of rounds did so. Flows that share a queue see it
    /// at the same time.
    pub(super) fn low_at(&self) -> Option<Instant> {
        self.rounds.samples.front().map(|(at, _)| *at)
    }

    /// Forgets all but what stands: the path has become another one.
    pub(super) fn rebase(&mut self) {
        self.pieces.clear();
        self.pieces.push_back(self.unexplained.least());
    }

    /// The queue that stands on the way there, as far as routers tell.
    pub(super) fn reported(&self) -> Duration {
        self.reported.least()
    }

    /// The longest queue that routers reported on the way there since the last call.
    pub(super) fn take_longest_reported(&mut self) -> Duration {
        std::mem::take(&mut self.longest_reported)
    }

    /// Forgets what routers said: until there are new samples, the round trip is the smoothed one.
    pub(super) fn distrust(&mut self, now: Instant) {
        let rtt = self.smoothed();
        (self.back, self.is_told) = (Duration::ZERO, false);
        self.recent.clear();
        self.pieces = VecDeque::from([rtt]);
        (self.unexplained, self.reported) = Default::default();
        self.unexplained.push(now, rtt, Duration::ZERO);
    }

    /// The time over which a queue must stand to count.
    pub(super) fn span(&self) -> Duration {
        let standing = self.switches.standing(STANDING);
        (self.smoothed() / 2).max(standing.min(self.smoothed() * 8))
    }

    /// When the empty path was last seen.
    pub(super) fn seen(&self) -> Instant {
        self.seen.expect("the first round trip is the least")
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or_default()
    }

    /// What queues on the way back, as far as routers tell.
    pub(super) fn back(&self) -> Duration {
        self.back
    }

    /// Nothing has come back for long: what queued there then is no more.
    pub(super) fn forget_back(&mut self) {
        self.back = Duration::ZERO;
    }

    /// The least of the last eight round trips, once there are eight.
    pub(super) fn recent(&self) -> Option<Duration> {
        let least = self.recent.iter().min()?;
        (self.recent.len() == RECENT).then_some(*least)
    }

    /// Whether the last eight round trips show a queue that is not short, beyond `noise`.
    pub(super) fn shows_queue(&self, noise: Duration) -> bool {
        let most = self.base() + self.short() + noise;
        self.recent().is_some_and(|rtt| rtt > most)
    }

    /// The part of a short queue that may be jitter: at most half of an empty round trip.
    pub(super) fn short_noise(&self) -> Duration {
        self.noise().min(self.base() / 2)
    }

    /// The least round trip of the last [`Self::span`]: without noise that comes and goes. Queueing
    /// that routers report is no noise. The rest may be, and counts only above the noise, or not at
    /// all if all routers report.
    pub(super) fn standing(&self) -> Duration {
        let unexplained = self.unexplained.least();
        if !self.is_told {
            return unexplained;
        }
        let beyond = match self.is_complete {
            true => Duration::ZERO,
            false => unexplained.saturating_sub(self.base() + self.noise.jitter()),
        };
        self.base() + self.reported() + beyond
    }

    /// The part of the queue that may be jitter.
    pub(super) fn noise(&self) -> Duration {
        match self.is_told || !self.switches.jitter() {
            true => Duration::ZERO,
            false => self.noise.jitter(),
        }
    }

    /// The longest queue that flows which fill queues do not leave, with jitter.
    pub(super) fn quiet(&self) -> Duration {
        self.short() + self.short_noise()
    }

    /// The last round trip.
    pub(super) fn last(&self) -> Duration {
        self.recent.back().copied().unwrap_or_default()
    }

    /// The empty path's round trip, as far as it was seen.
    pub(super) fn base(&self) -> Duration {
        self.pieces.iter().min().copied().unwrap_or_default()
    }

    /// A queue up to this length is short.
    pub(super) fn short(&self) -> Duration {
        let base = self.base();
        (base / SHORT_PART).max(SHORT.min(base))
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
    fn on_rtt(&mut self, now: Instant, rtt: Duration, piece: Duration) {
        let since = *self.since.get_or_insert(now);
        let time = now.saturating_duration_since(since);
        if time > piece && self.n >= LEAST_SAMPLES {
            self.end_piece();
            let deviations = std::mem::take(&mut self.deviations);
            *self = Self {
                since: Some(now),
                deviations,
                ..Self::default()
            };
            return self.on_rtt(now, rtt, piece);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    /// Round trips of `rtt`, one each 10 ms over `times`, in milliseconds.
    fn feed(delay: &mut Delay, times: std::ops::Range<u64>, rtt: Duration) {
        for at in times.step_by(10) {
            delay.on_rtt(epoch() + ms(at), rtt, None);
        }
    }

    fn reported(there: u64, back: u64, is_complete: bool) -> Option<Queueing> {
        Some(Queueing {
            there: ms(there),
            back: ms(back),
            is_complete,
        })
    }

    #[test]
    fn a_queue_counts_once_it_has_stood_for_half_a_round_trip() {
        let mut delay = Delay::default();
        feed(&mut delay, 0..1000, ms(40));
        let late = (1000..2000).step_by(10).find(|at| {
            delay.on_rtt(epoch() + ms(*at), ms(60), None);
            delay.standing() == ms(60)
        });
        assert_eq!(late, Some(1020), "at least 25 ms after the last without");
    }

    #[test]
    fn a_packet_that_overtakes_others_makes_no_path_shorter_if_two_must_agree() {
        for (is_by_pairs, alone, twice) in [(true, 40, 30), (false, 30, 30)] {
            let mut delay = Delay {
                is_by_pairs,
                ..Delay::default()
            };
            feed(&mut delay, 0..1000, ms(40));
            feed(&mut delay, 1000..1010, ms(30));
            feed(&mut delay, 1010..1020, ms(40));
            assert_eq!(delay.base(), ms(alone));
            feed(&mut delay, 1020..1040, ms(30));
            assert_eq!(delay.base(), ms(twice));
        }
    }

    #[test]
    fn an_ack_of_a_single_packet_that_the_peer_held_back_is_no_noise() {
        // Each fifth ACK comes 25 ms later than it might.
        let noise = |may_be_held, gap| {
            let mut delay = Delay::default();
            let mut now = epoch();
            for which in 0..1000 {
                let is_late = which % 5 == 0;
                now += if is_late { gap } else { ms(10) };
                delay.on_ack(now, is_late && may_be_held);
                delay.on_rtt(now, if is_late { ms(65) } else { ms(40) }, None);
            }
            delay.noise()
        };
        assert_eq!(noise(true, ms(25)), Duration::ZERO);
        assert!(noise(false, ms(25)) > ms(30), "two packets, say");
        assert!(noise(true, ms(24)) > ms(30), "it was not held back as long");
    }

    #[test]
    fn a_twentieth_of_the_empty_round_trip_and_at_least_4_ms_is_short() {
        for (rtt, short) in [(2, 2), (40, 4), (200, 10)] {
            let mut delay = Delay::default();
            feed(&mut delay, 0..1000, ms(rtt));
            assert_eq!(delay.short(), ms(short), "{rtt} ms");
        }
    }

    #[test]
    fn the_last_round_with_the_least_round_trip_of_ten_seconds_is_remembered() {
        let mut delay = Delay::default();
        let mut round = |at, rtt| {
            delay.on_rtt(epoch() + ms(at), ms(rtt), None);
            delay.on_round(epoch() + ms(at));
            delay.low_at().map(|low| low - epoch())
        };
        assert_eq!(round(0, 60), Some(ms(0)));
        assert_eq!(round(1000, 90), Some(ms(0)));
        assert_eq!(round(2000, 60), Some(ms(2000)), "the later of two");
        assert_eq!(round(7000, 90), Some(ms(2000)));
        assert_eq!(round(8000, 80), Some(ms(2000)));
        assert_eq!(round(12_001, 90), Some(ms(8000)), "old ones are forgotten");
    }

    #[test]
    fn the_empty_round_trip_is_the_least_of_30_seconds() {
        let mut delay = Delay::default();
        feed(&mut delay, 0..100, ms(40));
        feed(&mut delay, 100..30_000, ms(60));
        assert_eq!(delay.base(), ms(40));
        feed(&mut delay, 30_000..30_100, ms(60));
        assert_eq!(delay.base(), ms(60));
    }

    #[test]
    fn reported_queueing_is_no_part_of_the_empty_round_trip() {
        let mut delay = Delay::default();
        for at in 0..100 {
            delay.on_rtt(epoch() + ms(10 * at), ms(70), reported(20, 10, false));
        }
        assert!(delay.is_told);
        assert_eq!((delay.base(), delay.standing()), (ms(40), ms(60)));
        assert_eq!(delay.reported(), ms(20));
        assert!(delay.back() > ms(9), "{:?}", delay.back());
        assert_eq!(delay.take_longest_reported(), ms(20));
        assert_eq!(delay.take_longest_reported(), Duration::ZERO);
        // 15 ms more that no router tells: noise, if all have reported theirs.
        for (is_complete, standing) in [(true, 60), (false, 75)] {
            let mut delay = delay.clone();
            for at in 100..200 {
                delay.on_rtt(epoch() + ms(10 * at), ms(85), reported(20, 10, is_complete));
            }
            assert_eq!(delay.standing(), ms(standing), "{is_complete}");
        }
    }

    #[test]
    fn routers_that_proved_wrong_leave_the_smoothed_round_trip() {
        let mut delay = Delay::default();
        for at in 0..100 {
            delay.on_rtt(epoch() + ms(10 * at), ms(70), reported(20, 10, false));
        }
        delay.distrust(epoch() + ms(1000));
        assert!(!delay.is_told);
        let smoothed = delay.smoothed();
        assert!(smoothed > ms(69), "{smoothed:?}");
        assert_eq!((delay.base(), delay.standing()), (smoothed, smoothed));
        assert_eq!(
            (delay.back(), delay.reported()),
            (Duration::ZERO, Duration::ZERO)
        );
        assert_eq!(delay.recent(), None);
    }

    #[test]
    fn a_queue_that_grows_or_drains_in_a_line_is_no_jitter() {
        let mut delay = Delay::default();
        // Twenty samples in each piece; the queue grows by 1 ms in 10.
        for at in 0..200 {
            let rtt = Duration::from_micros(40_000 + 150 * at);
            delay.on_rtt(epoch() + Duration::from_micros(1500 * at), rtt, None);
        }
        assert!(
            delay.noise() < Duration::from_micros(100),
            "{:?}",
            delay.noise()
        );
        // The same, and every other sample 4 ms later: a deviation of 2 ms.
        for at in 0..600 {
            let rtt = Duration::from_micros(40_000 + at % 2 * 4_000);
            let now = epoch() + ms(300) + Duration::from_micros(1500 * at);
            delay.on_rtt(now, rtt, None);
        }
        let spread = delay.noise.jitter().as_secs_f64();
        assert!((0.0102..0.0108).contains(&spread), "5.25 x 2 ms: {spread}");
    }
}
