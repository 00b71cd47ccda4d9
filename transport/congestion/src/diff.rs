//! Computes what Vegas, AdaVegas and RoVegas share: Diff, the step it asks for, and the window.
//!
//! Diff estimates how many packets of the connection wait in queues: Y.-C. Chan, C.-T. Chan and
//! Y.-C. Chen, "RoVegas", section 2.1, after L. Brakmo and L. Peterson (JSAC 1995).

use std::time::Duration;

use crate::controller::{Ack, Round};
use crate::sized_rtt::SizedRtt;
use crate::window::{InitialWindow, minimum_window, packets_to_bytes, scale};

/// Factor of the window when slow start ends: 1/8 less (RoVegas, section 2.1).
const SLOW_START_EXIT: f64 = 7.0 / 8.0;

/// A window with more unused packets does not grow (RoVegas, section 5.2).
const UNUSED_PACKETS: u64 = 2;

/// Values of Diff at which the window changes, in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// The window grows below this Diff.
    pub alpha: f64,
    /// The window shrinks above this Diff. Not below alpha.
    pub beta: f64,
    /// Slow start ends above this Diff.
    pub gamma: f64,
}

/// How a round's Diff should change the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More packets.
    Grow,
    /// No change.
    Hold,
    /// Fewer packets.
    Shrink,
}

/// Eq. (1): Diff = (cwnd / BaseRTT - cwnd / RTT) BaseRTT = cwnd (RTT - BaseRTT) / RTT, in packets
/// of `mtu` bytes; `window` is in bytes. 0 if the round trip takes no time.
pub(crate) fn diff(window: u64, base_rtt: Duration, rtt: Duration, mtu: u16) -> f64 {
    if rtt.is_zero() {
        return 0.0;
    }
    let queueing = rtt.saturating_sub(base_rtt);
    // Divide once, at the end: products of whole numbers are exact, and so is a Diff of alpha.
    (window as f64 * queueing.as_nanos() as f64) / (f64::from(mtu) * rtt.as_nanos() as f64)
}

impl Thresholds {
    /// RoVegas, Eq. (4): grow below alpha, shrink above beta, hold from alpha to beta.
    fn step(&self, diff: f64) -> Step {
        if diff < self.alpha {
            Step::Grow
        } else if diff > self.beta {
            Step::Shrink
        } else {
            Step::Hold
        }
    }
}

/// A window that Diff controls, with Vegas's slow start and BaseRTT.
///
/// Slow start doubles the window every other round, so that the round between shows the effect of
/// the doubling on the queue.
#[derive(Debug, Clone)]
pub struct DiffWindow {
    bytes: u64,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    phase: Phase,
    /// Bytes at which slow start ends even without queueing.
    threshold: Option<u64>,
    /// The least round trip time ever measured, of large packets if there was one.
    base_rtt: Option<SizedRtt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The window doubles in this round.
    SlowStart,
    /// The window holds in this round. Slow start begins here, because the first round ends with
    /// the first ACK, too soon to double.
    SlowStartHold,
    /// The thresholds decide.
    Avoidance,
}

impl DiffWindow {
    /// Creates a window in slow start, for full-size packets of `mtu` bytes.
    pub fn new(initial: InitialWindow, mtu: u16) -> Self {
        Self {
            bytes: initial.bytes(mtu),
            mtu,
            phase: Phase::SlowStartHold,
            threshold: None,
            base_rtt: None,
        }
    }

    /// Returns the window in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of UDP payload in a full-size packet.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the bytes at which slow start ends; `None` until set.
    pub fn slow_start_threshold(&self) -> Option<u64> {
        self.threshold
    }

    /// In a doubling round, adds what `ack` acknowledges, up to the threshold.
    pub fn on_ack(&mut self, ack: &Ack) {
        if self.phase != Phase::SlowStart || ack.app_limited {
            return;
        }
        self.bytes = self.bytes.saturating_add(ack.bytes_after_recovery);
        if let Some(threshold) = self.threshold
            && self.bytes >= threshold
        {
            self.avoid_congestion(threshold);
        }
    }

    /// Updates BaseRTT, the least round trip time ever, and returns it.
    pub fn base_rtt(&mut self, round: &Round) -> Duration {
        let base_rtt = SizedRtt::of_round(round).least(self.base_rtt);
        self.base_rtt = Some(base_rtt);
        base_rtt.rtt()
    }

    /// Returns Diff for this window on a path of `base_rtt`, in packets.
    pub fn diff(&self, base_rtt: Duration, rtt: Duration) -> f64 {
        diff(self.bytes, base_rtt, rtt, self.mtu)
    }

    /// Ends a round. `least` is Diff by the round's least round trip time, for congestion
    /// avoidance; `end` is Diff by that of a packet sent at the present window, for slow start.
    /// Returns the step that congestion avoidance should take; `None` in slow start, and after a
    /// round that says nothing about the present window, because the window was reduced or the
    /// application sent too little.
    pub fn end_round(
        &mut self,
        round: &Round,
        thresholds: &Thresholds,
        least: f64,
        end: f64,
    ) -> Option<Step> {
        if round.in_recovery || round.app_limited {
            return None;
        }
        let in_use = round.unused <= UNUSED_PACKETS * u64::from(self.mtu);
        match self.phase {
            Phase::SlowStart => self.phase = Phase::SlowStartHold,
            Phase::SlowStartHold if end > thresholds.gamma => {
                self.avoid_congestion(scale(self.bytes, SLOW_START_EXIT));
            }
            Phase::SlowStartHold if in_use => self.phase = Phase::SlowStart,
            Phase::SlowStartHold => {}
            Phase::Avoidance => {
                let step = thresholds.step(least);
                return (step != Step::Grow || in_use).then_some(step);
            }
        }
        None
    }

    /// Adds `packets`; a negative number lowers the window, at most to the minimum.
    pub fn change(&mut self, packets: f64) {
        let change = packets_to_bytes(packets.abs(), self.mtu);
        self.bytes = if packets < 0.0 {
            self.bytes.saturating_sub(change).max(self.minimum())
        } else {
            self.bytes.saturating_add(change)
        };
    }

    /// Reduces the window to `factor` times itself and continues in congestion avoidance.
    pub fn reduce(&mut self, factor: f64) {
        self.avoid_congestion(scale(self.bytes, factor));
    }

    /// Continues in congestion avoidance with `bytes`, at least the minimum.
    pub(crate) fn avoid_congestion(&mut self, bytes: u64) {
        self.bytes = bytes.max(self.minimum());
        self.threshold = Some(self.bytes);
        self.phase = Phase::Avoidance;
    }

    /// Lowers the window to `bytes`, at least the minimum, if it is larger.
    pub(crate) fn lower_to(&mut self, bytes: u64) {
        self.bytes = self.bytes.min(bytes.max(self.minimum()));
    }

    /// Falls to the minimum and starts slowly up to the threshold.
    pub fn collapse(&mut self) {
        self.bytes = self.minimum();
        self.phase = Phase::SlowStartHold;
    }

    /// Returns two packets (RFC 9002, section 7.2) in bytes.
    pub fn minimum(&self) -> u64 {
        minimum_window(self.mtu)
    }

    /// Sets the bytes of UDP payload in a full-size packet.
    pub fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.bytes = self.bytes.max(self.minimum());
    }
}

#[cfg(test)]
mod tests;
