//! RCP's link algorithm: one rate for all flows.
//!
//! N. Dukkipati, M. Kobayashi, R. Zhang-Shen, N. McKeown, "Processor Sharing Flows in the Internet"
//! (IWQoS 2005), section 3. Several times in a mean round trip the link raises its rate by its share of the
//! capacity that is not used, and lowers it by its share of what has queued. Headers collect the least
//! rate on their way. A comparator of ACP's.
//!
//! Rates are bytes of IP packets per second at this link.
//!
//! Deviations: round trips outside bounds are not counted, the others by bytes and not as more than
//! a few times the median ([`MeanRtt`](super::control::MeanRtt)); a link with nothing to do stops its timer.

use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecError, SpecParameter, SpecValues};
use evenkeel_wire::{CompactRate, PathHeaderKind};

use super::control::{self, INITIAL_RTT, Period, RttBounds};
use super::{Arrival, Departure, Stamp, StampConfig, StampRow};
use crate::discipline::PortView;
use crate::rate::Rate;

const PARAMETERS: &[SpecParameter] = &[
    SpecParameter::number(
        "alpha",
        "gain of the capacity that is not used",
        0.001,
        2.0,
        // As beta, of a run script for the authors' ns-2 code (docs/algorithms/rcp.md).
        Some(0.1),
    ),
    SpecParameter::number("beta", "gain of the queue", 0.0, 2.0, Some(1.0)),
    SpecParameter::number(
        "initial",
        "the first rate, as a share of the capacity",
        0.001,
        1.0,
        Some(1.0),
    ),
    SpecParameter::number(
        "period_ms",
        "the longest time between updates, in milliseconds; a mean round trip if that is shorter",
        1.0,
        1000.0,
        // That of the authors' router.
        Some(10.0),
    ),
    SpecParameter::number(
        "least",
        // As the rate grows by a share of itself, from zero it would never come back.
        "the least rate, in bytes per mean round trip",
        1.0,
        100_000.0,
        // A tenth of a packet of 1000 bytes: the authors' `min_pprtt`.
        Some(100.0),
    ),
    control::rtt_min("round trips below this, in milliseconds, do not count"),
    control::rtt_max("round trips above this, in milliseconds, do not count"),
];

pub(super) const ROW: StampRow = Row {
    name: "rcp",
    summary: "offers every flow the rate of RCP's link algorithm",
    parameters: PARAMETERS,
    build: |values| Ok(Box::new(Params::read(values)?)),
};

/// What the algorithm is told.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Params {
    alpha: f64,
    beta: f64,
    /// Above 0, at most 1.
    initial: f64,
    period: Duration,
    /// Bytes per mean round trip, above 0.
    least: f64,
    rtts: RttBounds,
}

impl Params {
    fn read(values: &SpecValues) -> Result<Self, SpecError> {
        Ok(Self {
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            initial: values.number("initial"),
            period: Duration::from_secs_f64(values.number("period_ms") / 1e3),
            least: values.number("least"),
            rtts: RttBounds::read(values)?,
        })
    }
}

impl StampConfig for Params {
    fn name(&self) -> &'static str {
        ROW.name
    }

    fn build(&self, _now: Instant) -> Box<dyn Stamp> {
        Box::new(Rcp::new(*self))
    }
}

/// The stamp of one link. All values are finite.
#[derive(Debug)]
struct Rcp {
    params: Params,
    /// R: bytes per second, above 0 and at most the capacity when it was computed; `None` before
    /// the first packet.
    rate: Option<f64>,
    /// y of the last period: bytes per second, not below 0.
    input: f64,
    /// q at its end: bytes.
    queue: f64,
    /// d: between the bounds on round trips.
    rtt: Duration,
    /// Whether somebody has told a round trip.
    is_told: bool,
    /// `None` while the link has nothing to do, or no capacity to speak of.
    period: Option<Period>,
}

impl Rcp {
    fn new(params: Params) -> Self {
        Self {
            params,
            rate: None,
            input: 0.0,
            queue: 0.0,
            rtt: params.rtts.clamp(INITIAL_RTT),
            is_told: false,
            period: None,
        }
    }

    /// A period that begins at `now`.
    fn period(&self, now: Instant) -> Period {
        let length = self.params.period.min(self.rtt);
        let told = self.is_told.then_some(self.rtt);
        Period::new(now, length, told, Duration::ZERO)
    }
}

impl Stamp for Rcp {
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival<'_>, port: &PortView) {
        let Some(capacity) = port.rate.map(Rate::bytes_per_second) else {
            return;
        };
        if self.period.is_none() {
            // A link that has slept has come to its whole capacity, whatever that was meanwhile.
            let first = self.params.initial * capacity;
            self.rate = Some(self.rate.map_or(first, |_| capacity));
        }
        let fresh = self.period(now);
        let period = self.period.get_or_insert(fresh);
        period.see(now, arrival.bytes, port);
        // Only its own users' round trips are those of the control loop; zero says that it is none.
        if let Some(header) = &arrival.header
            && header.kind() == PathHeaderKind::Rcp
        {
            period.rtt.hear(header, self.params.rtts, arrival.bytes);
        }
    }

    fn on_departure(&mut self, _now: Instant, departure: &mut Departure<'_>, port: &PortView) {
        let (Some(capacity), Some(rate)) = (port.rate.map(Rate::bytes_per_second), self.rate)
        else {
            return;
        };
        if departure.header.view().kind() == PathHeaderKind::Rcp {
            // The capacity may have fallen since R was computed. Rounding is down.
            let rate = CompactRate::from_bytes_per_second(rate.min(capacity) as u64);
            departure.header.limit_rate(rate);
        }
    }

    fn on_timer(&mut self, now: Instant, port: &PortView) {
        let Some(period) = self.period.take() else {
            return;
        };
        let (Some(capacity), Some(rate)) = (port.rate.map(Rate::bytes_per_second), self.rate)
        else {
            return;
        };
        let passed = now - period.began;
        self.input = period.bytes as f64 / passed.as_secs_f64();
        self.queue = port.queued.bytes as f64;
        if let Some(mean) = period.rtt.get() {
            // A flow that was alone before does not hold the average up.
            let longest = period.rtt.longest_period(passed, capacity);
            let rtt = longest.map_or(self.rtt, |longest| self.rtt.min(longest));
            self.rtt = averaged(rtt, mean, passed);
            self.is_told = true;
        }
        let Params { alpha, beta, .. } = self.params;
        let rtt = self.rtt.as_secs_f64();
        let correction = alpha * (capacity - self.input) - beta * self.queue / rtt;
        let rate = updated(rate, passed.as_secs_f64() / rtt, correction / capacity);
        let rate = rate.max(self.params.least / rtt).min(capacity);
        self.rate = Some(rate);
        if self.input > 0.0 || self.queue > 0.0 || rate < capacity {
            self.period = Some(self.period(now));
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.period.map(|period| period.ends)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("offered_bps", self.rate.unwrap_or(0.0) * 8.0),
            ("input_bps", self.input * 8.0),
            ("queue_bytes", self.queue),
            ("rtt_ms", self.rtt.as_secs_f64() * 1e3),
        ]
    }
}

/// R(t) = R(t - T) (1 + T / d (alpha (C - y) - beta q / d) / C)
///
/// `share` is T / d, `correction` what is in the inner brackets by C.
fn updated(rate: f64, share: f64, correction: f64) -> f64 {
    rate * (1.0 + share * correction)
}

/// d: a moving average over about a round trip.
fn averaged(rtt: Duration, sample: Duration, passed: Duration) -> Duration {
    let weight = (passed.as_secs_f64() / rtt.as_secs_f64()).min(1.0);
    rtt.mul_f64(1.0 - weight) + sample.mul_f64(weight)
}

#[cfg(test)]
mod tests;
