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
    /// What Diff counts.
    pub diff: DiffOf,
    /// Factor the window is reduced to on loss or mark, 0 to 1.
    pub keep: f64,
    /// What a probe timeout does.
    pub timeouts: Timeouts,
    /// The window to begin with.
    pub initial_window: InitialWindow,
    /// The most that one ACK adds in slow start: L of RFC 3465, section 2.2; 1 in RFC 5681,
    /// section 3.1. `None` adds all that it acknowledged (RFC 9002, section 7.3.1).
    pub slow_start_limit: Option<u16>,
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

/// What Expected and Actual count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiffOf {
    /// The window, both (RoVegas, Eq. 1).
    #[default]
    Window,
    /// What was in flight when the round ended, and what was sent in it (for Actual: AdaVegas,
    /// section II), as ns-2's Vegas does. If the ACK that ended it is for two packets, one of the
    /// window is missing in Expected, and in Actual if its pair was sent in two rounds.
    Sent,
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
        diff: DiffOf::Window,
        keep: 0.5,
        timeouts: Timeouts::Quic,
        initial_window: InitialWindow::Rfc9002,
        slow_start_limit: None,
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
    sent: Sent,
}

/// What was sent, in bytes, as of the last ACK and before its reply.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    acknowledged: u64,
    /// All but what was lost.
    total: u64,
    /// `total` when this round began.
    before: u64,
    /// In flight, with the newest packet of the ACK: until now it was.
    in_flight: u64,
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
            sent: Sent::default(),
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
        let in_round = self.sent.end_round();
        // Neither a round whose window was cut nor one in which the application sent too
        // little shows what the present window does.
        if round.in_recovery || round.app_limited {
            return None;
        }
        let queued = |rtt| match self.config.diff {
            DiffOf::Window => extra_packets(self.window, base_rtt, rtt, self.mtu),
            DiffOf::Sent => {
                extra_packets_sent(self.sent.in_flight, in_round, base_rtt, rtt, self.mtu)
            }
        };
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

    /// What TCP's retransmission timeout does.
    fn time_out(&mut self) {
        self.leave_slow_start(scale(self.window, TIMEOUT_FACTOR));
        if self.window > minimum_window(self.mtu) {
            self.window = minimum_window(self.mtu);
            self.phase = Phase::SlowStartHold;
        }
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

/// Diff = (Expected - Actual) BaseRTT = in_flight - sent BaseRTT / RTT, in packets of `mtu` bytes;
/// `in_flight` and `sent` in bytes. 0 if the round trip takes no time.
fn extra_packets_sent(
    in_flight: u64,
    sent: u64,
    base_rtt: Duration,
    rtt: Duration,
    mtu: u16,
) -> f64 {
    if rtt.is_zero() {
        return 0.0;
    }
    let actual = sent as f64 * base_rtt.as_nanos() as f64 / rtt.as_nanos() as f64;
    (in_flight as f64 - actual) / f64::from(mtu)
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

impl Sent {
    fn on_ack(&mut self, ack: &Ack) {
        let left = ack.in_flight.saturating_sub(ack.bytes);
        self.acknowledged = self.acknowledged.saturating_add(ack.bytes);
        self.total = self.acknowledged.saturating_add(left);
        self.in_flight = left.saturating_add(ack.newest_bytes);
    }

    /// Begins a round. Returns what was sent in the one that ends.
    fn end_round(&mut self) -> u64 {
        let in_round = self.total.saturating_sub(self.before);
        self.before = self.total;
        in_round
    }
}

impl Controller for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        self.sent.on_ack(ack);
        if self.phase != Phase::SlowStart || ack.app_limited {
            return;
        }
        let limit = self
            .config
            .slow_start_limit
            .map_or(u64::MAX, |packets| u64::from(packets) * u64::from(self.mtu));
        self.window = self
            .window
            .saturating_add(ack.bytes_after_recovery.min(limit));
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
        self.time_out();
        true
    }

    fn on_heavy_loss(&mut self) {
        if self.config.timeouts == Timeouts::Reno {
            self.time_out();
        }
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
mod tests;
