//! TCP(alpha, beta, gamma, delta): Reno that reduces its window together with all others, before
//! the queue overflows.
//!
//! C. Zhang and V. Tsaoussidis, "TCP Smoothness and Window Adjustment Strategy", section III.
//! The queue's fill is read from the round trip time, between the least and the greatest one.
//! Half full, and a round trip later, the window falls by gamma to what the path holds without
//! a queue (Eq. 10 and 11); nearly empty, it grows by delta instead of alpha (Eq. 12). A loss
//! halves it; slow start is Reno's and overflows the queue, which shows the greatest round trip.
//! What the paper leaves open: `docs/algorithms/abgd.md`; deviations: `docs/deviations.md`.

use std::collections::VecDeque;
use std::time::Instant;

use crate::controller::{Ack, Congestion, Controller, Round};
use crate::gaimd::{self, Gaimd, Timeouts};
use crate::sized_rtt::SizedRtt;
use crate::window::InitialWindow;

/// Share of a new sample in the smoothed round trip time: RFC 6298, section 2; the paper gives
/// none.
const SMOOTHING: f64 = 1.0 / 8.0;

/// Losses after which a least or greatest round trip is forgotten. The paper never forgets them.
const REMEMBERED_LOSSES: usize = 8;

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Packets added per round trip.
    pub alpha: f64,
    /// Factor the window is reduced to on loss, in 0..1.
    pub beta: f64,
    /// Packets added per round trip while the queue is nearly empty; alpha turns it off.
    pub delta: f64,
    /// Fill of the queue, 0 to 1, from which the window is reduced by gamma: Th_upper.
    pub upper: f64,
    /// Fill of the queue, 0 to 1, up to which delta counts instead of alpha: Th_lower.
    pub lower: f64,
    /// What a probe timeout does.
    pub timeouts: Timeouts,
    /// The window to begin with.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Section III, with delta enabled.
    pub const PAPER: Self = Self {
        alpha: gaimd::Config::RENO.alpha,
        beta: gaimd::Config::RENO.beta,
        delta: 2.0,
        upper: 0.5,
        lower: 0.1,
        timeouts: Timeouts::Quic,
        initial_window: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::PAPER
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Abgd {
    config: Config,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Slow start, additive increase and what a loss does.
    aimd: Gaimd,
    samples: Samples,
    /// Seconds.
    smoothed_rtt: Option<f64>,
    extremes: Extremes,
    excursion: Excursion,
}

/// A fill of `upper` or more, from its detection to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excursion {
    /// The queue is less full.
    None,
    /// Detected at that time; the window is yet to be reduced.
    Detected(Instant),
    /// The window has been reduced for it.
    Answered,
}

/// Tells samples that the peer's timer may have held back: their ACKs are for fewer packets
/// than those of the round before.
#[derive(Debug, Clone, Default)]
struct Samples {
    /// ACKs and packets of this round so far.
    current: (u64, u64),
    /// Those of the round before.
    last: (u64, u64),
}

/// The least and the greatest round trip times since the last few losses.
#[derive(Debug, Clone, Default)]
struct Extremes {
    /// Since the last loss.
    current: Option<Range>,
    /// Between the losses before, the oldest first.
    past: VecDeque<Range>,
}

/// Round trip times.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    /// The least sample, of large packets if there was one.
    least: SizedRtt,
    /// The greatest smoothed one, in seconds.
    greatest: f64,
}

impl Abgd {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        let reno = gaimd::Config {
            alpha: config.alpha,
            beta: config.beta,
            timeouts: config.timeouts,
            initial_window: config.initial_window,
        };
        Self {
            config,
            mtu,
            aimd: Gaimd::new(reno, mtu),
            samples: Samples::default(),
            smoothed_rtt: None,
            extremes: Extremes::default(),
            excursion: Excursion::None,
        }
    }

    /// Takes in a round trip sample. Returns the queue's fill, `None` if nothing is known of it.
    fn measure(&mut self, sample: SizedRtt) -> Option<f64> {
        let rtt = sample.rtt().as_secs_f64();
        let smoothed = self
            .smoothed_rtt
            .map_or(rtt, |before| before + SMOOTHING * (rtt - before));
        self.smoothed_rtt = Some(smoothed);
        self.extremes.include(sample, smoothed);
        fill(smoothed, self.extremes.range()?)
    }

    /// Answers a fill of `fill`, seen by an ACK of a packet sent at `sent`.
    fn react(&mut self, fill: f64, now: Instant, sent: Instant) {
        let alpha = if fill <= self.config.lower {
            self.config.delta
        } else {
            self.config.alpha
        };
        self.aimd.set_alpha(alpha);
        match self.excursion {
            Excursion::None if fill >= self.config.upper => {
                self.excursion = Excursion::Detected(now);
            }
            // A round trip later all others have seen it too, and it counts even if their
            // reductions have already emptied the queue.
            Excursion::Detected(at) if sent >= at => {
                if let Some(range) = self.extremes.range() {
                    self.aimd.reduce_to(gamma(range, self.config.upper));
                }
                self.excursion = Excursion::Answered;
            }
            Excursion::Answered if fill < self.config.upper => self.excursion = Excursion::None,
            Excursion::None | Excursion::Detected(_) | Excursion::Answered => {}
        }
    }
}

impl Samples {
    /// Counts an ACK of `packets` packets. Returns whether it came without the peer's timer.
    fn at_once(&mut self, packets: u64) -> bool {
        let (current_acks, current_packets) = self.current;
        self.current = (
            current_acks.saturating_add(1),
            current_packets.saturating_add(packets),
        );
        let (acks, all) = self.last;
        packets.saturating_mul(acks) >= all
    }

    fn end_round(&mut self) {
        self.last = std::mem::take(&mut self.current);
    }
}

impl Extremes {
    fn include(&mut self, sample: SizedRtt, smoothed: f64) {
        let new = Range {
            least: sample,
            greatest: smoothed,
        };
        self.current = Some(self.current.map_or(new, |range| range.union(new)));
    }

    /// A loss: what came before it counts for some losses more.
    fn end_epoch(&mut self) {
        self.past.extend(self.current.take());
        if self.past.len() > REMEMBERED_LOSSES {
            self.past.pop_front();
        }
    }

    fn range(&self) -> Option<Range> {
        self.past
            .iter()
            .copied()
            .chain(self.current)
            .reduce(Range::union)
    }
}

impl Range {
    fn union(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
        }
    }
}

/// Eq. (10) and (12): (RTT - minRTT) / (maxRTT - minRTT); `None` if they are the same.
fn fill(rtt: f64, range: Range) -> Option<f64> {
    let least = range.least.rtt().as_secs_f64();
    let span = range.greatest - least;
    (span > 0.0).then(|| (rtt - least) / span)
}

/// Eq. (11): minRTT / (Th_upper maxRTT + (1 - Th_upper) minRTT), in 0..=1.
fn gamma(range: Range, upper: f64) -> f64 {
    let least = range.least.rtt().as_secs_f64();
    let at_threshold = upper * range.greatest + (1.0 - upper) * least;
    if at_threshold > 0.0 {
        least / at_threshold
    } else {
        1.0
    }
}

impl Controller for Abgd {
    fn on_ack(&mut self, ack: &Ack) {
        let at_once = self.samples.at_once(ack.packets);
        let fill = SizedRtt::of_ack(ack, self.mtu)
            .filter(|_| at_once)
            .and_then(|sample| self.measure(sample));
        // Slow start is Reno's, and a recovery period has had its reduction.
        if let Some(fill) = fill
            && !self.aimd.in_slow_start()
            && ack.bytes_after_recovery > 0
        {
            self.react(fill, ack.now, ack.sent);
        }
        self.aimd.on_ack(ack);
    }

    fn on_round(&mut self, _round: &Round) {
        self.samples.end_round();
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.aimd.on_congestion(event);
        self.extremes.end_epoch();
        self.excursion = Excursion::Answered;
    }

    fn on_probe_timeout(&mut self) -> bool {
        let collapsed = self.aimd.on_probe_timeout();
        if collapsed {
            self.extremes.end_epoch();
            self.excursion = Excursion::Answered;
        }
        collapsed
    }

    fn on_heavy_loss(&mut self) {
        self.aimd.on_heavy_loss();
    }

    fn on_persistent_congestion(&mut self) {
        self.aimd.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.aimd.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.aimd.window()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.aimd.slow_start_threshold()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{ack, epoch, loss, ms, round};

    const MTU: u16 = 1000;

    /// Between 100 and 200 ms.
    const KNOWN: Range = Range {
        least: SizedRtt::large(Duration::from_millis(100)),
        greatest: 0.2,
    };

    fn range(least: f64, greatest: f64) -> Range {
        Range {
            least: SizedRtt::large(Duration::from_secs_f64(least)),
            greatest,
        }
    }

    /// In congestion avoidance with a window of 30 packets on a path of 100 to 200 ms.
    fn avoiding(config: Config) -> Abgd {
        let config = Config {
            initial_window: InitialWindow::Packets(60),
            ..config
        };
        let mut abgd = Abgd::new(config, MTU);
        abgd.on_congestion(&loss());
        assert_eq!(abgd.window(), 30_000);
        abgd.extremes.current = Some(KNOWN);
        abgd.excursion = Excursion::None;
        abgd
    }

    /// The smoothed round trip time, in whole microseconds.
    fn smoothed(abgd: &Abgd) -> u64 {
        let seconds = abgd.smoothed_rtt.expect("a sample came");
        (seconds * 1e6).round() as u64
    }

    #[test]
    fn equations_10_to_12_by_hand() {
        // k = 1, as in the paper's default topology, where gamma is "around 2/3".
        assert!((gamma(KNOWN, 0.5) - 2.0 / 3.0).abs() < 1e-12);
        // k = 0.36, the long round trip of section IV-C4: 0.85.
        assert!((gamma(range(0.22, 0.22 * 1.36), 0.5) - 1.0 / 1.18).abs() < 1e-12);
        assert!((gamma(range(0.1, 0.2), 1.0) - 0.5).abs() < 1e-12);
        assert_eq!(gamma(range(0.1, 0.1), 0.5), 1.0);
        assert_eq!(gamma(range(0.0, 0.0), 0.5), 1.0);
        for (rtt, expected) in [(0.1, 0.0), (0.11, 0.1), (0.15, 0.5), (0.2, 1.0)] {
            let by_rule = fill(rtt, KNOWN).expect("the queue is known");
            assert!((by_rule - expected).abs() < 1e-12, "{rtt}: {by_rule}");
        }
        assert_eq!(fill(0.1, range(0.1, 0.1)), None);
    }

    #[test]
    fn a_half_full_queue_reduces_the_window_one_round_later_once_per_excursion() {
        let t0 = epoch();
        let mut abgd = avoiding(Config::PAPER);
        // (fill, now, sent in ms, window after, excursion after). Detected at 100 ms: not
        // answered by the ACK of a packet sent before, but by the first sent from then on.
        let steps = [
            (0.49, 50, 0, 30_000, Excursion::None),
            (0.5, 100, 0, 30_000, Excursion::Detected(t0 + ms(100))),
            (0.6, 150, 50, 30_000, Excursion::Detected(t0 + ms(100))),
            (0.6, 200, 99, 30_000, Excursion::Detected(t0 + ms(100))),
            (0.7, 201, 100, 20_000, Excursion::Answered),
            (0.8, 400, 250, 20_000, Excursion::Answered),
            (0.5, 600, 450, 20_000, Excursion::Answered),
            (0.49, 700, 600, 20_000, Excursion::None),
            (0.51, 800, 700, 20_000, Excursion::Detected(t0 + ms(800))),
            // The others' reductions have emptied the queue: it counts all the same.
            (0.05, 950, 850, 13_333, Excursion::Answered),
            (0.05, 1000, 900, 13_333, Excursion::None),
        ];
        for (fill, now, sent, window, excursion) in steps {
            abgd.react(fill, t0 + ms(now), t0 + ms(sent));
            assert_eq!(
                (abgd.window(), abgd.excursion),
                (window, excursion),
                "at {now} ms"
            );
        }
        assert_eq!(abgd.slow_start_threshold(), Some(13_333));
    }

    #[test]
    fn delta_counts_while_the_queue_is_nearly_empty() {
        // (delta, fill, packets added by a window of ACKs)
        let table = [
            (2.0, 0.0, 2),
            (2.0, 0.1, 2),
            (2.0, 0.11, 1),
            (2.0, 0.4, 1),
            (1.0, 0.0, 1),
        ];
        for (delta, fill, packets) in table {
            let mut abgd = avoiding(Config {
                delta,
                ..Config::PAPER
            });
            abgd.react(fill, epoch(), epoch());
            abgd.aimd.on_ack(&ack(epoch(), 100, 30_000));
            assert_eq!(
                abgd.window(),
                30_000 + packets * 1000,
                "delta {delta}, fill {fill}"
            );
        }
    }

    #[test]
    fn round_trips_are_smoothed_before_they_count() {
        let mut abgd = avoiding(Config::PAPER);
        // 100; 100 + 80 / 8 = 110; 110 + 70 / 8 = 118.75; 118.75 + 61.25 / 8 = 126.40625 ms.
        for (rtt, expected) in [
            (100, 100_000),
            (180, 110_000),
            (180, 118_750),
            (180, 126_406),
        ] {
            abgd.on_ack(&ack(epoch(), rtt, 1000));
            assert_eq!(smoothed(&abgd), expected);
            assert_eq!(abgd.excursion, Excursion::None);
        }
        // 3 more: 133.1, 139.0, 144.1, and the fourth is 148.6: not yet half. Then 152.5.
        for _ in 0..4 {
            abgd.on_ack(&ack(epoch(), 180, 1000));
        }
        assert_eq!(abgd.excursion, Excursion::None);
        abgd.on_ack(&ack(epoch(), 180, 1000));
        assert!(matches!(abgd.excursion, Excursion::Detected(_)));
    }

    #[test]
    fn the_least_round_trip_is_a_sample_and_the_greatest_a_smoothed_one() {
        let mut abgd = Abgd::new(Config::PAPER, MTU);
        for rtt in [120, 100, 180] {
            abgd.on_ack(&ack(epoch(), rtt, 1000));
        }
        // 120; 117.5; 125.3 ms.
        let range = abgd.extremes.range().expect("samples came");
        assert_eq!(range.least, KNOWN.least);
        assert!((range.greatest - 0.1253125).abs() < 1e-12, "{range:?}");
    }

    #[test]
    fn a_small_packet_does_not_know_how_long_the_empty_path_is_for_large_ones() {
        let mut abgd = Abgd::new(Config::PAPER, MTU);
        let small = Ack {
            newest_bytes: 60,
            ..ack(epoch(), 80, 60)
        };
        let least = |abgd: &Abgd| abgd.extremes.range().expect("samples came").least.rtt();
        abgd.on_ack(&small);
        assert_eq!(least(&abgd), ms(80));
        abgd.on_ack(&ack(epoch(), 100, 1000));
        abgd.on_ack(&small);
        assert_eq!(least(&abgd), ms(100));
    }

    #[test]
    fn an_ack_that_the_receivers_timer_held_back_is_no_sample() {
        let mut abgd = Abgd::new(Config::PAPER, MTU);
        let alone = Ack {
            packets: 1,
            ..ack(epoch(), 125, 500)
        };
        abgd.on_ack(&ack(epoch(), 100, 1000));
        abgd.on_ack(&ack(epoch(), 100, 1000));
        abgd.on_round(&round(100));
        abgd.on_ack(&alone);
        assert_eq!(smoothed(&abgd), 100_000);
        // Where every packet is acknowledged alone, none is held back: 103.125, then 105.859 ms.
        for _ in 0..2 {
            abgd.on_round(&round(100));
            abgd.on_ack(&alone);
        }
        assert_eq!(smoothed(&abgd), 105_859);
        // An ACK that tells of reordering has no sample.
        abgd.on_ack(&Ack {
            rtt: None,
            ..alone.clone()
        });
        assert_eq!(smoothed(&abgd), 105_859);
    }

    #[test]
    fn slow_start_overflows_the_queue_and_learns_the_greatest_round_trip() {
        let mut abgd = Abgd::new(Config::PAPER, MTU);
        let mut acked = 0;
        for rtt in 100..200 {
            abgd.on_ack(&ack(epoch(), rtt, 1000));
            acked += 1000;
        }
        assert_eq!(
            (abgd.window(), abgd.excursion),
            (10_000 + acked, Excursion::None)
        );
        assert!(abgd.extremes.range().expect("samples came").greatest > 0.19);
    }

    #[test]
    fn a_loss_halves_the_window_and_takes_the_place_of_the_reduction_due() {
        let t0 = epoch();
        let mut abgd = avoiding(Config::PAPER);
        abgd.react(0.6, t0, t0);
        abgd.on_congestion(&loss());
        assert_eq!(
            (abgd.window(), abgd.excursion),
            (15_000, Excursion::Answered)
        );
        abgd.react(0.6, t0 + ms(200), t0 + ms(100));
        assert_eq!(abgd.window(), 15_000);
        // Packets of the recovery period measure the path and decide nothing.
        abgd.excursion = Excursion::Detected(t0);
        abgd.on_ack(&Ack {
            bytes_after_recovery: 0,
            ..ack(t0 + ms(300), 160, 2000)
        });
        assert_eq!(abgd.window(), 15_000);
        abgd.on_persistent_congestion();
        assert_eq!(abgd.window(), 2000);
    }

    #[test]
    fn extremes_are_forgotten_after_eight_losses() {
        let mut extremes = Extremes::default();
        extremes.include(SizedRtt::large(ms(100)), 0.2);
        extremes.end_epoch();
        // A loss without a sample since the last one is no epoch.
        extremes.end_epoch();
        for _ in 0..REMEMBERED_LOSSES {
            assert_eq!(extremes.range(), Some(KNOWN));
            extremes.include(SizedRtt::large(ms(130)), 0.14);
            extremes.end_epoch();
        }
        assert_eq!(extremes.range(), Some(range(0.13, 0.14)));
        // What is measured now counts at once.
        extremes.include(SizedRtt::large(ms(120)), 0.15);
        assert_eq!(extremes.range(), Some(range(0.12, 0.15)));
    }

    #[test]
    fn without_losses_nothing_is_forgotten() {
        let t0 = epoch();
        let mut abgd = avoiding(Config::PAPER);
        for excursion in 0..100 {
            let at = t0 + ms(1000 * excursion);
            abgd.react(0.6, at, at);
            abgd.react(0.6, at + ms(150), at);
            abgd.react(0.0, at + ms(300), at);
        }
        assert_eq!(abgd.extremes.range(), Some(KNOWN));
        assert_eq!(abgd.window(), 2000);
    }
}
