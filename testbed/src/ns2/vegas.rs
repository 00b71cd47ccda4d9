//! Vegas and AdaVegas by ns-2's rules.

use std::time::Duration;

use evenkeel_congestion::ada_vegas::{self, Acceleration};
use evenkeel_congestion::diff::{DiffWindow, Thresholds};
use evenkeel_congestion::vegas;
use evenkeel_congestion::{Ack, Congestion, Controller, Round};
use evenkeel_congestion::{SpecError, SpecParameter, SpecValues};

use super::timeouts::TcpController;

/// Factor of the window that a timeout sets as threshold (RFC 5681, section 3.1).
const TIMEOUT_FACTOR: f64 = 0.5;

pub(super) const RTT: SpecParameter = SpecParameter::choice(
    "rtt",
    "which of a round's samples counts: the least, or the mean as in ns-2",
    &["least", "mean"],
    Some("least"),
);

pub(super) const DIFF: SpecParameter = SpecParameter::choice(
    "diff",
    "what Diff counts: the window, or what was in flight and what was sent in the round, as in ns-2",
    &["window", "sent"],
    Some("window"),
);

pub(super) const DECREASE: SpecParameter = SpecParameter::number(
    "decrease",
    "factor the window is reduced to on loss; 0.75 in ns-2",
    0.05,
    0.99,
    Some(0.5),
);

pub(super) const ABC: SpecParameter = SpecParameter::count(
    "abc",
    "the most packets that an ACK adds in slow start, L of RFC 3465; 1 in ns-2; not given, all that it acknowledged",
    1,
    1000,
    None,
);

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    vegas: vegas::Config,
    /// Of AdaVegas: the table and whether it relapses.
    acceleration: Option<(&'static [ada_vegas::Row], bool)>,
    rtt: RoundRtt,
    diff: DiffOf,
    /// Factor the window is reduced to on loss or mark, 0 to 1.
    decrease: f64,
    /// The most packets that one ACK adds in slow start: L of RFC 3465, section 2.2; 1 in
    /// RFC 5681, section 3.1. `None` adds all that it acknowledged (RFC 9002, section 7.3.1).
    slow_start_limit: Option<u16>,
}

/// Selects the RTT samples for Diff. The papers do not say which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundRtt {
    /// The least; in slow start that of a packet sent at the doubled window.
    Least,
    /// The mean, as in ns-2: short bursts in queues count, and so do ACKs that the peer's timer
    /// delayed.
    Mean,
}

/// What Expected and Actual count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffOf {
    /// The window, both (RoVegas, Eq. 1).
    Window,
    /// What was in flight when the round ended, and what was sent in it (for Actual: AdaVegas,
    /// section II), as in ns-2. If the ACK that ended the round is for two packets, one of the
    /// window is missing in Expected, and in Actual if its pair was sent in two rounds.
    Sent,
}

impl Config {
    /// Of Vegas.
    pub(super) fn read(values: &SpecValues) -> Result<Self, SpecError> {
        let vegas = vegas::Config::read(values)?;
        Ok(Self::with(vegas, None, values))
    }

    /// Of AdaVegas.
    pub(super) fn read_ada(values: &SpecValues) -> Self {
        let ada = ada_vegas::Config::read(values);
        let vegas = vegas::Config {
            thresholds: Thresholds {
                gamma: ada.gamma,
                ..vegas::Config::VEGAS_1.thresholds
            },
            initial_window: ada.initial_window,
            ..vegas::Config::VEGAS_1
        };
        Self::with(vegas, Some((ada.table, ada.relapse)), values)
    }

    fn with(
        vegas: vegas::Config,
        acceleration: Option<(&'static [ada_vegas::Row], bool)>,
        values: &SpecValues,
    ) -> Self {
        Self {
            vegas,
            acceleration,
            rtt: values.choice("rtt", &[RoundRtt::Least, RoundRtt::Mean]),
            diff: values.choice("diff", &[DiffOf::Window, DiffOf::Sent]),
            decrease: values.number("decrease"),
            slow_start_limit: values.optional_count("abc"),
        }
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub(super) struct Vegas {
    config: Config,
    window: DiffWindow,
    /// Of AdaVegas.
    acceleration: Option<Acceleration>,
    rtts: RttSum,
    sent: Sent,
}

/// The RTT samples of a round: their sum and number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RttSum(Duration, u32);

/// What was sent, in bytes, as of the last ACK and before the packets that it lets leave.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    acknowledged: u64,
    /// All but what was lost.
    total: u64,
    /// `total` when this round began.
    before: u64,
    /// In flight just before the newest packet of the ACK was acknowledged.
    in_flight: u64,
}

impl Vegas {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub(super) fn new(config: Config, mtu: u16) -> Self {
        Self {
            window: DiffWindow::new(config.vegas.initial_window, mtu),
            acceleration: config
                .acceleration
                .map(|(table, relapse)| Acceleration::new(table, relapse)),
            config,
            rtts: RttSum::default(),
            sent: Sent::default(),
        }
    }

    fn thresholds(&self) -> Thresholds {
        let vegas = self.config.vegas.thresholds;
        self.acceleration.as_ref().map_or(vegas, |acceleration| {
            let row = acceleration.row();
            Thresholds {
                alpha: row.alpha,
                beta: row.beta,
                ..vegas
            }
        })
    }

    fn restart(&mut self) {
        if let Some(acceleration) = &mut self.acceleration {
            acceleration.restart();
        }
    }
}

impl RttSum {
    pub(super) fn add(&mut self, rtt: Duration) {
        self.0 = self.0.saturating_add(rtt);
        self.1 = self.1.saturating_add(1);
    }

    /// Ends the round. Returns the mean, `none` without a sample.
    pub(super) fn end_round(&mut self, none: Duration) -> Duration {
        let Self(sum, count) = std::mem::take(self);
        sum.checked_div(count).unwrap_or(none)
    }
}

impl Sent {
    fn on_ack(&mut self, ack: &Ack) {
        let left = ack.in_flight.saturating_sub(ack.bytes);
        self.acknowledged = self.acknowledged.saturating_add(ack.bytes);
        self.total = self.acknowledged.saturating_add(left);
        self.in_flight = left.saturating_add(ack.newest_bytes);
    }

    /// Ends the round. Returns what was sent in it.
    fn end_round(&mut self) -> u64 {
        let in_round = self.total.saturating_sub(self.before);
        self.before = self.total;
        in_round
    }
}

/// Diff = (Expected - Actual) BaseRTT = in_flight - sent BaseRTT / RTT, in packets of `mtu` bytes;
/// `in_flight` and `sent` in bytes. 0 if the round trip takes no time.
fn diff_of_sent(in_flight: u64, sent: u64, base_rtt: Duration, rtt: Duration, mtu: u16) -> f64 {
    if rtt.is_zero() {
        return 0.0;
    }
    let actual = sent as f64 * base_rtt.as_nanos() as f64 / rtt.as_nanos() as f64;
    (in_flight as f64 - actual) / f64::from(mtu)
}

impl Controller for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        self.sent.on_ack(ack);
        if let Some(rtt) = ack.rtt {
            self.rtts.add(rtt);
        }
        let limit = self.config.slow_start_limit.map_or(u64::MAX, |packets| {
            u64::from(packets) * u64::from(self.window.mtu())
        });
        let mut limited = ack.clone();
        limited.bytes_after_recovery = limited.bytes_after_recovery.min(limit);
        self.window.on_ack(&limited);
    }

    fn on_round(&mut self, round: &Round) {
        let base_rtt = self.window.base_rtt(round);
        let mean = self.rtts.end_round(round.rtt_min);
        let sent = self.sent.end_round();
        let (least, end) = match self.config.rtt {
            RoundRtt::Least => (round.rtt_min, round.rtt_end),
            RoundRtt::Mean => (mean, mean),
        };
        let diff = |rtt| match self.config.diff {
            DiffOf::Window => self.window.diff(base_rtt, rtt),
            DiffOf::Sent => {
                diff_of_sent(self.sent.in_flight, sent, base_rtt, rtt, self.window.mtu())
            }
        };
        let (least, end) = (diff(least), diff(end));
        let step = self.window.end_round(round, &self.thresholds(), least, end);
        let change = match (&mut self.acceleration, step) {
            (Some(acceleration), Some(step)) => acceleration.change(step),
            (None, _) => self.config.vegas.change(step),
            (Some(_), None) => 0.0,
        };
        self.window.change(change);
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.window.reduce(self.config.decrease);
        self.restart();
    }

    fn on_persistent_congestion(&mut self) {
        self.window.collapse();
        self.restart();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.window.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.window.slow_start_threshold()
    }
}

impl TcpController for Vegas {
    fn on_timeout(&mut self, _event: &Congestion) {
        self.window.reduce(TIMEOUT_FACTOR);
        if self.window.bytes() > self.window.minimum() {
            self.window.collapse();
        }
        self.restart();
    }
}

#[cfg(test)]
mod tests;
