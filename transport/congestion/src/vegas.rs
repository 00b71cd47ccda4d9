//! TCP Vegas: keeps between alpha and beta packets of its own queued in the network.
//!
//! Y.-C. Chan, C.-T. Chan and Y.-C. Chen, "RoVegas", section 2.1, Eq. (1), after L. Brakmo and
//! L. Peterson (JSAC 1995). Once a round, Diff = (Expected - Actual) BaseRTT decides: below
//! alpha the window grows by inc packets (1 in Vegas; 8 in the Vegas_8 of A. Maor and
//! Y. Mansour, "AdaVegas"), above beta it shrinks by one. Slow start doubles it every other
//! round until Diff > gamma, then gives an eighth back. A loss halves it.
//! Deviations, with reasons: `docs/deviations.md`.

use std::time::Duration;

use crate::controller::{Ack, Congestion, Controller, Round};
use crate::gaimd::Timeouts;
use crate::sized_rtt::SizedRtt;
use crate::window::{InitialWindow, minimum_window, packets_to_bytes, scale};

/// Factor of the window that leaves slow start: it is reduced by 1/8 (RoVegas, section 2.1).
const SLOW_START_EXIT: f64 = 7.0 / 8.0;

/// Factor the threshold is reduced to at a timeout (RFC 5681, section 3.1).
const TIMEOUT_FACTOR: f64 = 0.5;

/// Packets of the window a connection may leave unused and still grow it (RoVegas, section 5.2).
const UNUSED_PACKETS: u64 = 2;

/// What can be set; all but the initial window in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Fewer queued packets than this: the window grows.
    pub alpha: f64,
    /// More queued packets than this: the window shrinks. Not below alpha.
    pub beta: f64,
    /// Packets added in a round of growth.
    pub increment: f64,
    /// More queued packets than this: slow start ends.
    pub gamma: f64,
    /// Which round trip time of a round counts.
    pub rtt: RoundRtt,
    /// Factor the window is reduced to on loss or mark, 0 to 1.
    pub keep: f64,
    /// What a probe timeout does.
    pub timeouts: Timeouts,
    /// The window to begin with.
    pub initial_window: InitialWindow,
}

/// Which of a round's RTT samples Diff is computed from. The papers do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RoundRtt {
    /// The least; in slow start that of a packet sent at the doubled window.
    #[default]
    Least,
    /// The mean, as in ns-2: bursts that queue for a moment count, and so do ACKs that the
    /// peer's timer held back.
    Mean,
}

impl Config {
    /// Vegas_1 (AdaVegas, Table I, row 1; section III-A: "cut in half" on loss), with the gamma
    /// of ns-2's Vegas.
    pub const VEGAS_1: Self = Self {
        alpha: 1.0,
        beta: 3.0,
        increment: 1.0,
        gamma: 1.0,
        rtt: RoundRtt::Least,
        keep: 0.5,
        timeouts: Timeouts::Quic,
        initial_window: InitialWindow::Rfc9002,
    };

    /// Vegas_8 (AdaVegas, section II and Table I, last row).
    pub const VEGAS_8: Self = Self {
        alpha: 4.0,
        beta: 8.0,
        increment: 8.0,
        ..Self::VEGAS_1
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::VEGAS_1
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Vegas {
    config: Config,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes.
    window: u64,
    phase: Phase,
    /// Bytes at which slow start ends even without queueing.
    threshold: Option<u64>,
    /// The least round trip time ever measured, of large packets if there was one; `None` before
    /// the first round.
    base_rtt: Option<SizedRtt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The window doubles in this round.
    SlowStart,
    /// The window holds still in this round, so that its end shows what the doubling did. Slow
    /// start begins so, because the first round ends with the first ACK, too soon to double.
    SlowStartHold,
    /// Eq. (1) decides.
    Avoidance,
}

/// What a round's Diff asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Grow,
    Keep,
    Shrink,
}

impl Vegas {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            window: config.initial_window.bytes(mtu),
            config,
            mtu,
            phase: Phase::SlowStartHold,
            threshold: None,
            base_rtt: None,
        }
    }

    /// Goes on in congestion avoidance with `window` bytes, at least the minimum.
    pub(crate) fn leave_slow_start(&mut self, window: u64) {
        self.window = window.max(minimum_window(self.mtu));
        self.threshold = Some(self.window);
        self.phase = Phase::Avoidance;
    }

    /// Sets the thresholds of the rounds to come, in packets.
    pub(crate) fn set_thresholds(&mut self, alpha: f64, beta: f64) {
        self.config.alpha = alpha;
        self.config.beta = beta;
    }

    /// Takes in a round: follows BaseRTT and slow start. Returns what congestion avoidance
    /// asks for, `None` if it has nothing to decide.
    pub(crate) fn observe(&mut self, round: &Round) -> Option<Step> {
        let base_rtt = self.measure(round);
        let (least, end) = self.round_trips(round.rtt_min, round.rtt_mean, round.rtt_end);
        self.judge(round, base_rtt, least, end)
    }

    /// Of the least, the mean and the last round trip of a round those that avoidance and slow
    /// start go by.
    pub(crate) fn round_trips(
        &self,
        least: Duration,
        mean: Duration,
        end: Duration,
    ) -> (Duration, Duration) {
        match self.config.rtt {
            RoundRtt::Least => (least, end),
            RoundRtt::Mean => (mean, mean),
        }
    }

    /// Takes in the least round trip time of a round. Returns the least ever: BaseRTT.
    pub(crate) fn measure(&mut self, round: &Round) -> Duration {
        let base_rtt = SizedRtt::of_round(round).least(self.base_rtt);
        self.base_rtt = Some(base_rtt);
        base_rtt.rtt()
    }

    /// Judges a round by `base_rtt`, by `least`, the least of its round trip times, and by `end`,
    /// that of a packet sent at the present window. Moves slow start on; returns what congestion
    /// avoidance asks for.
    pub(crate) fn judge(
        &mut self,
        round: &Round,
        base_rtt: Duration,
        least: Duration,
        end: Duration,
    ) -> Option<Step> {
        // Neither a round whose window was cut nor one in which the application sent too
        // little shows what the present window does.
        if round.in_recovery || round.app_limited {
            return None;
        }
        let queued = |rtt| extra_packets(self.window, base_rtt, rtt, self.mtu);
        self.verdict(round, queued(least), queued(end))
    }

    /// Whether round trips of `rtt` on a path of `base_rtt` mean more than beta packets queued.
    pub(crate) fn is_too_large(&self, base_rtt: Duration, rtt: Duration) -> bool {
        extra_packets(self.window, base_rtt, rtt, self.mtu) > self.config.beta
    }

    /// Does what congestion avoidance asks for.
    pub(crate) fn take(&mut self, step: Option<Step>) {
        match step {
            Some(Step::Grow) => self.grow(self.config.increment),
            Some(Step::Shrink) => self.shrink(1.0),
            Some(Step::Keep) | None => {}
        }
    }

    /// Lowers the window to `window` bytes if it is larger.
    pub(crate) fn lower_to(&mut self, window: u64) {
        self.window = self.window.min(window.max(minimum_window(self.mtu)));
    }

    /// Judges the extra data that a round showed, in packets: `queued` by its least RTT
    /// sample, `queued_at_end` by the sample of a packet sent at the present window. Moves slow
    /// start on; returns what congestion avoidance asks for.
    fn verdict(&mut self, round: &Round, queued: f64, queued_at_end: f64) -> Option<Step> {
        let window_in_use = round.unused <= UNUSED_PACKETS * u64::from(self.mtu);
        match self.phase {
            Phase::SlowStart => self.phase = Phase::SlowStartHold,
            Phase::SlowStartHold if queued_at_end > self.config.gamma => {
                self.leave_slow_start(scale(self.window, SLOW_START_EXIT));
            }
            Phase::SlowStartHold if window_in_use => self.phase = Phase::SlowStart,
            Phase::SlowStartHold => {}
            Phase::Avoidance => {
                let step = step(queued, self.config.alpha, self.config.beta);
                return (step != Step::Grow || window_in_use).then_some(step);
            }
        }
        None
    }

    /// Adds `packets` to the window.
    pub(crate) fn grow(&mut self, packets: f64) {
        let increment = packets_to_bytes(packets, self.mtu);
        self.window = self.window.saturating_add(increment);
    }

    /// Takes `packets` from the window, down to the minimum.
    pub(crate) fn shrink(&mut self, packets: f64) {
        let less = self
            .window
            .saturating_sub(packets_to_bytes(packets, self.mtu));
        self.window = less.max(minimum_window(self.mtu));
    }
}

/// Eq. (1): Diff = (cwnd / BaseRTT - cwnd / RTT) BaseRTT = cwnd (RTT - BaseRTT) / RTT, the extra
/// data in packets of `mtu` bytes; `window` in bytes. 0 if the round trip takes no time.
fn extra_packets(window: u64, base_rtt: Duration, rtt: Duration, mtu: u16) -> f64 {
    if rtt.is_zero() {
        return 0.0;
    }
    let queued = rtt.saturating_sub(base_rtt);
    // One division at the end: products of whole numbers are exact, and so is a Diff of alpha.
    (window as f64 * queued.as_nanos() as f64) / (f64::from(mtu) * rtt.as_nanos() as f64)
}

/// RoVegas, Eq. (4): grow below alpha, shrink above beta, keep from alpha to beta.
fn step(diff: f64, alpha: f64, beta: f64) -> Step {
    if diff < alpha {
        Step::Grow
    } else if diff > beta {
        Step::Shrink
    } else {
        Step::Keep
    }
}

impl Controller for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        if self.phase != Phase::SlowStart || ack.app_limited {
            return;
        }
        self.window = self.window.saturating_add(ack.bytes_after_recovery);
        if let Some(threshold) = self.threshold
            && self.window >= threshold
        {
            self.leave_slow_start(threshold);
        }
    }

    fn on_round(&mut self, round: &Round) {
        let step = self.observe(round);
        self.take(step);
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.leave_slow_start(scale(self.window, self.config.keep));
    }

    fn on_persistent_congestion(&mut self) {
        self.window = minimum_window(self.mtu);
        self.phase = Phase::SlowStartHold;
    }

    fn on_probe_timeout(&mut self) -> bool {
        if self.config.timeouts == Timeouts::Quic {
            return false;
        }
        self.leave_slow_start(scale(self.window, TIMEOUT_FACTOR));
        if self.window > minimum_window(self.mtu) {
            self.window = minimum_window(self.mtu);
            self.phase = Phase::SlowStartHold;
        }
        true
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window = self.window.max(minimum_window(mtu));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.threshold
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Cause;
    use crate::testing::{epoch, ms};

    const MTU: u16 = 1000;

    /// A round with samples of `rtt` milliseconds, whose window was in use.
    fn round(rtt: u64) -> Round {
        Round {
            now: epoch(),
            rtt_min: ms(rtt),
            small: false,
            rtt_end: ms(rtt),
            rtt_mean: ms(rtt),
            bytes: 10_000,
            lost: 0,
            in_flight: 10_000,
            unused: 0,
            app_limited: false,
            in_recovery: false,
        }
    }

    fn ack(bytes: u64) -> Ack {
        Ack {
            now: epoch(),
            sent: epoch(),
            rtt: Some(ms(100)),
            newest_bytes: bytes,
            packets: 1,
            bytes,
            bytes_after_recovery: bytes,
            in_flight: bytes,
            app_limited: false,
        }
    }

    fn loss() -> Congestion {
        Congestion {
            now: epoch(),
            cause: Cause::Loss,
            lost: 1000,
        }
    }

    /// In `phase` with a window of `window` bytes and a BaseRTT of 100 ms.
    fn in_phase(config: Config, phase: Phase, window: u64) -> Vegas {
        Vegas {
            window,
            phase,
            base_rtt: Some(SizedRtt::large(ms(100))),
            ..Vegas::new(config, MTU)
        }
    }

    fn avoiding(window: u64) -> Vegas {
        in_phase(Config::VEGAS_1, Phase::Avoidance, window)
    }

    #[test]
    fn congestion_avoidance_follows_equation_4() {
        // (configuration, window in packets, RTT in ms, Diff by hand, window after in packets)
        let table = [
            (Config::VEGAS_1, 20, 100, 0.0, 21),
            (Config::VEGAS_1, 20, 105, 100.0 / 105.0, 21),
            (Config::VEGAS_1, 11, 110, 1.0, 11), // Diff = alpha keeps
            (Config::VEGAS_1, 20, 110, 200.0 / 110.0, 20),
            (Config::VEGAS_1, 18, 120, 3.0, 18), // Diff = beta keeps
            (Config::VEGAS_1, 20, 120, 400.0 / 120.0, 19),
            (Config::VEGAS_1, 2, 1000, 1.8, 2),
            (Config::VEGAS_8, 20, 120, 400.0 / 120.0, 28),
            (Config::VEGAS_8, 20, 150, 1000.0 / 150.0, 20),
            (Config::VEGAS_8, 40, 150, 2000.0 / 150.0, 39),
        ];
        for (config, window, rtt, diff, after) in table {
            let by_rule = extra_packets(window * 1000, ms(100), ms(rtt), MTU);
            assert!(
                (by_rule - diff).abs() < 1e-12,
                "{window} packets, {rtt} ms: {by_rule}"
            );
            let mut vegas = in_phase(config, Phase::Avoidance, window * 1000);
            vegas.on_round(&round(rtt));
            assert_eq!(vegas.window, after * 1000, "{window} packets, {rtt} ms");
        }
    }

    #[test]
    fn the_window_never_shrinks_below_two_packets() {
        let tight = Config {
            alpha: 0.5,
            beta: 0.5,
            ..Config::VEGAS_1
        };
        let mut vegas = in_phase(tight, Phase::Avoidance, 2500);
        vegas.on_round(&round(1000));
        assert_eq!(vegas.window, 2000);
        vegas.on_round(&round(1000));
        assert_eq!(vegas.window, 2000);
    }

    #[test]
    fn a_round_trip_without_time_means_an_empty_queue() {
        assert_eq!(extra_packets(10_000, ms(0), ms(0), MTU), 0.0);
        assert_eq!(
            extra_packets(10_000, ms(50), ms(40), MTU),
            0.0,
            "BaseRTT above the sample"
        );
        let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
        vegas.on_round(&round(0));
        vegas.on_round(&round(0));
        assert_eq!(vegas.base_rtt, Some(SizedRtt::large(ms(0))));
    }

    #[test]
    fn base_rtt_is_of_small_packets_only_until_a_large_one_was_measured() {
        let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
        let small = |rtt| Round {
            small: true,
            ..round(rtt)
        };
        for (round, base_rtt) in [
            (small(85), 85),
            (small(80), 80),
            (round(100), 100),
            (small(70), 100),
            (round(95), 95),
        ] {
            assert_eq!(vegas.measure(&round), ms(base_rtt), "{round:?}");
        }
    }

    #[test]
    fn slow_start_doubles_every_other_round() {
        let mut vegas = Vegas::new(Config::VEGAS_1, MTU);
        for (held, doubled) in [(10_000, 20_000), (20_000, 40_000), (40_000, 80_000)] {
            vegas.on_ack(&ack(vegas.window));
            assert_eq!(vegas.window, held, "one round holds");
            vegas.on_round(&round(100));
            vegas.on_ack(&ack(vegas.window));
            assert_eq!(vegas.window, doubled, "the next adds what is acknowledged");
            vegas.on_round(&round(100));
        }
    }

    #[test]
    fn slow_start_ends_with_seven_eighths_when_more_than_gamma_is_queued() {
        // Diff = 16 x 7 / 107 = 1.05 > 1, against 16 x 6 / 106 = 0.91.
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
        vegas.on_round(&round(106));
        assert_eq!((vegas.window, vegas.phase), (16_000, Phase::SlowStart));
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
        vegas.on_round(&round(107));
        assert_eq!((vegas.window, vegas.phase), (14_000, Phase::Avoidance));
        assert_eq!(vegas.slow_start_threshold(), Some(14_000));
    }

    #[test]
    fn slow_start_is_judged_by_a_packet_sent_at_the_doubled_window() {
        // The round's least sample is of a packet sent while the window still grew.
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 16_000);
        vegas.on_round(&Round {
            rtt_min: ms(100),
            rtt_end: ms(120),
            ..round(100)
        });
        assert_eq!(vegas.phase, Phase::Avoidance);
        let mut vegas = in_phase(Config::VEGAS_1, Phase::Avoidance, 16_000);
        vegas.on_round(&Round {
            rtt_min: ms(100),
            rtt_end: ms(150),
            ..round(100)
        });
        assert_eq!(
            vegas.window, 17_000,
            "congestion avoidance goes by the least sample"
        );
    }

    #[test]
    fn by_the_mean_bursts_that_queue_for_a_moment_count() {
        let mean = Config {
            rtt: RoundRtt::Mean,
            ..Config::VEGAS_1
        };
        let bursts = Round {
            rtt_mean: ms(125),
            ..round(100)
        };
        // Diff = 20 x 25 / 125 = 4 by the mean, 0 by the least and by the last sample.
        for (config, phase, after) in [
            (mean, Phase::Avoidance, 19_000),
            (Config::VEGAS_1, Phase::Avoidance, 21_000),
            (mean, Phase::SlowStartHold, 17_500),
            (Config::VEGAS_1, Phase::SlowStartHold, 20_000),
        ] {
            let mut vegas = in_phase(config, phase, 20_000);
            vegas.on_round(&bursts);
            assert_eq!(vegas.window, after, "{phase:?}, {:?}", config.rtt);
            assert_eq!(vegas.base_rtt, Some(SizedRtt::large(ms(100))));
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        // (unused bytes, window after a round without queueing)
        for (unused, after) in [(0, 11_000), (2000, 11_000), (2001, 10_000)] {
            let mut vegas = avoiding(10_000);
            vegas.on_round(&Round {
                unused,
                ..round(100)
            });
            assert_eq!(vegas.window, after, "{unused} bytes unused");
        }
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStartHold, 10_000);
        vegas.on_round(&Round {
            unused: 2001,
            ..round(100)
        });
        assert_eq!(vegas.phase, Phase::SlowStartHold);
        let mut vegas = avoiding(20_000);
        vegas.on_round(&Round {
            unused: 9000,
            ..round(120)
        });
        assert_eq!(vegas.window, 19_000, "but it shrinks");
    }

    #[test]
    fn rounds_in_recovery_or_limited_by_the_application_teach_the_base_rtt_alone() {
        for deaf in [
            Round {
                app_limited: true,
                ..round(90)
            },
            Round {
                in_recovery: true,
                ..round(90)
            },
        ] {
            for phase in [Phase::SlowStart, Phase::SlowStartHold, Phase::Avoidance] {
                let mut vegas = in_phase(Config::VEGAS_1, phase, 10_000);
                vegas.on_round(&deaf);
                assert_eq!((vegas.window, vegas.phase), (10_000, phase));
                assert_eq!(vegas.base_rtt, Some(SizedRtt::large(ms(90))));
            }
        }
        let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStart, 10_000);
        vegas.on_ack(&Ack {
            app_limited: true,
            ..ack(1000)
        });
        vegas.on_ack(&Ack {
            bytes_after_recovery: 0,
            ..ack(1000)
        });
        assert_eq!(vegas.window, 10_000);
    }

    #[test]
    fn a_loss_halves_the_window_and_ends_slow_start() {
        for (window, after) in [(20_000, 10_000), (3000, 2000), (2000, 2000)] {
            let mut vegas = in_phase(Config::VEGAS_1, Phase::SlowStart, window);
            vegas.on_congestion(&loss());
            assert_eq!((vegas.window, vegas.phase), (after, Phase::Avoidance));
            assert_eq!(vegas.slow_start_threshold(), Some(after));
        }
    }

    #[test]
    fn what_a_loss_leaves_can_be_set() {
        let gentle = Config {
            keep: 0.75,
            timeouts: Timeouts::Tcp,
            ..Config::VEGAS_1
        };
        for (window, after) in [(20_000, 15_000), (2500, 2000)] {
            let mut vegas = in_phase(gentle, Phase::Avoidance, window);
            vegas.on_congestion(&loss());
            assert_eq!(vegas.slow_start_threshold(), Some(after));
            assert_eq!(vegas.window, after);
        }
        // A timeout's threshold is half of the window all the same.
        let mut vegas = in_phase(gentle, Phase::Avoidance, 20_000);
        assert!(vegas.on_probe_timeout());
        assert_eq!(vegas.slow_start_threshold(), Some(10_000));
    }

    #[test]
    fn after_persistent_congestion_slow_start_leads_back_to_the_threshold() {
        let mut vegas = avoiding(10_000);
        vegas.on_congestion(&loss());
        vegas.on_persistent_congestion();
        assert_eq!((vegas.window, vegas.phase), (2000, Phase::SlowStartHold));
        vegas.on_round(&round(100));
        vegas.on_ack(&ack(2000));
        vegas.on_round(&round(100));
        vegas.on_round(&round(100));
        assert_eq!((vegas.window, vegas.phase), (4000, Phase::SlowStart));
        vegas.on_ack(&ack(999));
        assert_eq!((vegas.window, vegas.phase), (4999, Phase::SlowStart));
        let mut exactly = vegas.clone();
        exactly.on_ack(&ack(1));
        assert_eq!((exactly.window, exactly.phase), (5000, Phase::Avoidance));
        vegas.on_ack(&ack(2));
        assert_eq!((vegas.window, vegas.phase), (5000, Phase::Avoidance));
    }

    #[test]
    fn a_larger_packet_raises_the_minimum_and_nothing_else() {
        for (window, after) in [(10_000, 10_000), (2000, 2800)] {
            let mut vegas = avoiding(window);
            vegas.on_mtu(1400);
            assert_eq!(vegas.window, after);
        }
    }
}
