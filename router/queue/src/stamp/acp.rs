//! ACP's link algorithm: the rate that a link desires from each of its users.
//!
//! M. Lestas, A. Pitsillides, P. Ioannou, G. Hadjipollas, "Adaptive Congestion Protocol: A Congestion
//! Control Protocol with Learning Capability", section II-D. Once in a mean round trip the link
//! compares what arrived with what it can carry, takes off what has queued all the while, and shares
//! the difference among its users, whose number it learns from how its input follows the rate it
//! has asked for. Headers carry the least rate on their way, and whether a link is nearly full.
//!
//! Rates are bytes of IP packets per second at this link.
//!
//! Deviations: round trips outside bounds are not counted, the others by bytes and not as more than
//! a few times the median, and a period that is much too long ends early ([`MeanRtt`](super::control::MeanRtt)); the number of
//! users has an upper bound; a link with nothing to do stops its timer; how the paper's queue is read
//! is said at [`PersistentQueue`](super::control::PersistentQueue).

use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecError, SpecParameter, SpecValues};
use evenkeel_wire::{CompactRate, PathHeaderKind};

use super::control::{self, INITIAL_RTT, Period, RTT_MAX_MS, RttBounds, queue_delay};
use super::{Arrival, Departure, Stamp, StampConfig, StampRow};
use crate::discipline::PortView;
use crate::rate::Rate;

/// k_i: gain of the excess capacity (below equation 7).
const CAPACITY_GAIN: f64 = 0.1587;

/// k_q: gain of the queue (below equation 7).
const QUEUE_GAIN: f64 = 0.3175;

/// The share of the link that is given to users (equation 6).
const TARGET: f64 = 0.99;

/// The share of the link above which H_congestion is set (section II-A).
const NEARLY_FULL: f64 = 0.95;

/// gamma: gain of the estimator (below equation 9).
const GAMMA: f64 = 0.1;

/// N(0) (equation 8).
const INITIAL_USERS: f64 = 10.0;

/// The most users. A link that cannot be calmed asks for next to nothing, and what still comes then looks
/// like the traffic of any number. As the estimate falls by the share gamma in each period,
/// this bounds how long it takes to come back: some 130 periods.
const MOST_USERS: f64 = 1e6;

const PARAMETERS: &[SpecParameter] = &[
    SpecParameter::number(
        "gamma",
        "gain of the estimate of the number of users",
        0.001,
        1.0,
        Some(GAMMA),
    ),
    SpecParameter::number(
        "first_period_ms",
        "length of the control periods until a header tells a round trip, in milliseconds",
        1.0,
        RTT_MAX_MS,
        Some(INITIAL_RTT.as_millis() as f64),
    ),
    control::rtt_min(
        "round trips below this, in milliseconds, do not count for the control period",
    ),
    control::rtt_max(
        "round trips above this, in milliseconds, do not count for the control period",
    ),
];

pub(super) const ROW: StampRow = Row {
    name: "acp",
    summary: "offers every flow the rate of ACP's link algorithm; marks when the link is nearly full",
    parameters: PARAMETERS,
    build: |values| Ok(Box::new(Params::read(values)?)),
};

/// What the algorithm is told.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Params {
    gamma: f64,
    /// d(0), above zero.
    first_period: Duration,
    rtts: RttBounds,
}

impl Params {
    fn read(values: &SpecValues) -> Result<Self, SpecError> {
        Ok(Self {
            gamma: values.number("gamma"),
            first_period: Duration::from_secs_f64(values.number("first_period_ms") / 1e3),
            rtts: RttBounds::read(values)?,
        })
    }
}

impl StampConfig for Params {
    fn name(&self) -> &'static str {
        ROW.name
    }

    fn build(&self, now: Instant) -> Box<dyn Stamp> {
        Box::new(Acp::new(*self, now))
    }
}

/// What the link has learnt. All values are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Vars {
    /// p: bytes per second, from 0 to the link's capacity when it was computed.
    desired: f64,
    /// N-hat: from 1 to [`MOST_USERS`].
    users: f64,
    /// y of the last period: bytes per second, not below 0.
    input: f64,
    /// q of the last period: bytes, not below 0.
    queue: f64,
    /// d: between the bounds on round trips, or what it was in the beginning.
    rtt: Duration,
}

impl Vars {
    const fn initial(rtt: Duration) -> Self {
        Self {
            desired: 0.0,
            users: INITIAL_USERS,
            input: 0.0,
            queue: 0.0,
            rtt,
        }
    }

    /// The next period's p and N-hat, from this period's and its `input`, `queue` and `rtt`.
    fn updated(self, gamma: f64, capacity: f64) -> Self {
        let correction = correction(capacity, self.input, self.queue, self.rtt);
        Self {
            desired: (self.desired + correction / self.users).clamp(0.0, capacity),
            users: users(gamma, self.users, self.input, self.desired),
            ..self
        }
    }

    /// Whether further periods without traffic change nothing.
    fn is_at_rest(&self, capacity: f64) -> bool {
        self.input == 0.0 && self.queue == 0.0 && self.users == 1.0 && self.desired == capacity
    }
}

/// The stamp of one link.
#[derive(Debug)]
struct Acp {
    params: Params,
    vars: Vars,
    /// d, if somebody has told it.
    told: Option<Duration>,
    /// It lasts a mean round trip; `None` while the link has nothing to do, or no capacity to speak of.
    window: Option<Period>,
}

impl Acp {
    fn new(params: Params, now: Instant) -> Self {
        Self {
            params,
            vars: Vars::initial(params.first_period),
            told: None,
            window: Some(Period::new(now, params.first_period, None, Duration::ZERO)),
        }
    }

    /// The window of an arrival at `now`. A link that has slept would have reached its whole
    /// capacity by now, whatever that was meanwhile.
    fn window(&mut self, now: Instant, capacity: f64) -> &mut Period {
        self.window.get_or_insert_with(|| {
            self.vars.desired = capacity;
            Period::new(now, self.vars.rtt, self.told, Duration::ZERO)
        })
    }
}

impl Stamp for Acp {
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival<'_>, port: &PortView) {
        let Some(capacity) = port.rate.map(Rate::bytes_per_second) else {
            return;
        };
        let rtts = self.params.rtts;
        let window = self.window(now, capacity);
        window.see(now, arrival.bytes, port);
        // Only its own users' round trips are those of the control loop; zero says that it is none.
        if let Some(header) = &arrival.header
            && header.kind() == PathHeaderKind::Acp
        {
            window.rtt.hear(header, rtts, arrival.bytes);
            window.shorten(now, capacity, 1);
        }
    }

    fn on_departure(&mut self, _now: Instant, departure: &mut Departure<'_>, port: &PortView) {
        let Some(capacity) = port.rate.map(Rate::bytes_per_second) else {
            return;
        };
        if departure.header.view().kind() == PathHeaderKind::Acp {
            // The capacity may have fallen since p was computed. Rounding is down, as a float's to an integer.
            let desired = self.vars.desired.min(capacity) as u64;
            let desired = CompactRate::from_bytes_per_second(desired);
            departure.header.limit_rate(desired);
        }
        if self.vars.input > NEARLY_FULL * capacity {
            departure.header.mark_congested();
        }
    }

    fn on_timer(&mut self, now: Instant, port: &PortView) {
        let Some(window) = self.window.take() else {
            return;
        };
        let Some(rate) = port.rate else {
            return;
        };
        let capacity = rate.bytes_per_second();
        self.told = window.rtt.get().or(self.told);
        let vars = Vars {
            input: window.bytes as f64 / (now - window.began).as_secs_f64(),
            queue: window.queue.bytes(port),
            rtt: self.told.unwrap_or(self.vars.rtt),
            ..self.vars
        };
        self.vars = vars.updated(self.params.gamma, capacity);
        if !self.vars.is_at_rest(capacity) {
            let queue_delay = queue_delay(port, capacity);
            self.window = Some(Period::new(now, self.vars.rtt, self.told, queue_delay));
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.window.map(|window| window.ends)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let Vars {
            desired,
            users,
            input,
            queue,
            rtt,
        } = self.vars;
        vec![
            ("desired_bps", desired * 8.0),
            ("users", users),
            ("input_bps", input * 8.0),
            ("persistent_queue_bytes", queue),
            ("rtt_ms", rtt.as_secs_f64() * 1e3),
        ]
    }
}

/// What p is corrected by, times the number of users: bytes per second.
///
/// g = k_i (0.99 C - y) - k_q q / d                                    (equation 6)
fn correction(capacity: f64, input: f64, queue: f64, rtt: Duration) -> f64 {
    CAPACITY_GAIN * (TARGET * capacity - input) - QUEUE_GAIN * queue / rtt.as_secs_f64()
}

/// How many users, each at the `desired` rate, bring this `input`.
///
/// N := Pr[N + gamma e p / (1 + p^2)], e = y - N p                     (equation 8)
fn users(gamma: f64, users: f64, input: f64, desired: f64) -> f64 {
    let error = input - users * desired;
    let users = users + gamma * error * desired / (1.0 + desired * desired);
    users.clamp(1.0, MOST_USERS)
}

#[cfg(test)]
mod tests;
