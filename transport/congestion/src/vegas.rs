//! TCP Vegas: keeps between alpha and beta packets of its own queued in the network.
//!
//! Y.-C. Chan, C.-T. Chan, Y.-C. Chen, "RoVegas", section 2.1, Eq. (1), after L. Brakmo and
//! L. Peterson (JSAC 1995). Once a round, Diff = (Expected - Actual) BaseRTT decides: below
//! alpha the window grows by inc packets (1 in Vegas; 8 in the Vegas_8 of E. Yahav, M. Mansour
//! and Y. Mansour, "AdaVegas"), above beta it shrinks by one. Slow start doubles it every other
//! round until Diff > gamma, then gives an eighth back. A loss halves it.
//! Deviations, with reasons: `docs/deviations.md`.

use std::time::Duration;

use crate::controller::{Ack, Congestion, Controller, Round};
use crate::window::{InitialWindow, minimum_window, packets_to_bytes, scale};

/// Factor of the window that leaves slow start: it is reduced by 1/8 (RoVegas, section 2.1).
const SLOW_START_EXIT: f64 = 7.0 / 8.0;

/// Factor the window is reduced to on loss (AdaVegas, section III-A: "cut in half").
const LOSS_FACTOR: f64 = 0.5;

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
    /// The window to begin with.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Vegas_1 (AdaVegas, Table I, row 1), with the gamma of ns-2's Vegas.
    pub const VEGAS_1: Self = Self {
        alpha: 1.0,
        beta: 3.0,
        increment: 1.0,
        gamma: 1.0,
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
    /// The least round trip time ever measured; `None` before the first round.
    base_rtt: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The window doubles in this round.
    SlowStart,
    /// The window holds still in this round, so that its end shows what the doubling did.
    SlowStartHold,
    /// Eq. (1) decides.
    Avoidance,
}

/// What a round's Diff asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
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
            phase: Phase::SlowStart,
            threshold: None,
            base_rtt: None,
        }
    }

    /// Ends slow start with a window of `window` bytes.
    fn leave_slow_start(&mut self, window: u64) {
        self.window = window.max(minimum_window(self.mtu));
        self.threshold = Some(self.window);
        self.phase = Phase::Avoidance;
    }

    /// Acts upon the extra data that a round showed, in packets: `queued` by its least RTT
    /// sample, `queued_at_end` by the sample of a packet sent at the present window.
    fn decide(&mut self, round: &Round, queued: f64, queued_at_end: f64) {
        let window_in_use = round.unused <= UNUSED_PACKETS * u64::from(self.mtu);
        match self.phase {
            Phase::SlowStart => self.phase = Phase::SlowStartHold,
            Phase::SlowStartHold if queued_at_end > self.config.gamma => {
                self.leave_slow_start(scale(self.window, SLOW_START_EXIT));
            }
            Phase::SlowStartHold if window_in_use => self.phase = Phase::SlowStart,
            Phase::SlowStartHold => {}
            Phase::Avoidance => match step(queued, self.config.alpha, self.config.beta) {
                Step::Grow if window_in_use => {
                    let increment = packets_to_bytes(self.config.increment, self.mtu);
                    self.window = self.window.saturating_add(increment);
                }
                Step::Shrink => {
                    let less = self.window.saturating_sub(u64::from(self.mtu));
                    self.window = less.max(minimum_window(self.mtu));
                }
                Step::Grow | Step::Keep => {}
            },
        }
    }
}

/// Eq. (1): Diff = (cwnd / BaseRTT - cwnd / RTT) BaseRTT = cwnd (RTT - BaseRTT) / RTT, the extra
/// data in packets of `mtu` bytes; `window` in bytes. 0 if the round trip takes no time.
fn extra_packets(window: u64, base_rtt: Duration, rtt: Duration, mtu: u16) -> f64 {
    if rtt.is_zero() {
        return 0.0;
    }
    let queued = rtt.saturating_sub(base_rtt).as_secs_f64() / rtt.as_secs_f64();
    window as f64 / f64::from(mtu) * queued
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
        let base_rtt = self
            .base_rtt
            .map_or(round.rtt_min, |least| least.min(round.rtt_min));
        self.base_rtt = Some(base_rtt);
        // Neither a round whose window was cut nor one in which the application sent too
        // little shows what the present window does.
        if round.in_recovery || round.app_limited {
            return;
        }
        let queued = |rtt| extra_packets(self.window, base_rtt, rtt, self.mtu);
        self.decide(round, queued(round.rtt_min), queued(round.rtt_end));
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.leave_slow_start(scale(self.window, LOSS_FACTOR));
    }

    fn on_persistent_congestion(&mut self) {
        self.window = minimum_window(self.mtu);
        self.phase = Phase::SlowStart;
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
