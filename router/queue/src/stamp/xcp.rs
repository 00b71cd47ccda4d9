//! XCP's link algorithm: by how much each packet may change its sender's window.
//!
//! D. Katabi, M. Handley, C. Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks"
//! (SIGCOMM 2002), section 3.5 and appendix A. Once in a mean round trip the efficiency controller
//! finds by how much all windows together should change; the fairness controller deals that out to packets,
//! the same rate to every flow and away from each by its share of the traffic. A comparator of ACP's.
//!
//! Rates are bytes of IP packets per second at this link.
//!
//! Deviations: only packets that follow XCP are shuffled and given feedback; no packet is given more than
//! what is left; the mean round trip has bounds, and one from the mean by bytes ([`MeanRtt`](super::control::MeanRtt)); a link
//! without traffic stops its timer.

use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecError, SpecParameter, SpecValues};
use evenkeel_wire::{PathHeaderKind, PathHeaderView, WindowChange};

use super::control::{self, INITIAL_RTT, Period, RttBounds, queue_delay};
use super::{Arrival, Departure, Stamp, StampConfig, StampRow};
use crate::discipline::PortView;

/// A sender that claims to be many flows moves a mean over flows: d is at most this many times the
/// mean by bytes.
const MOST_BY_FLOWS: u32 = 2;

const PARAMETERS: &[SpecParameter] = &[
    SpecParameter::number(
        "alpha",
        "gain of the spare bandwidth",
        0.001,
        1.0,
        // Section 3.5.1, as beta.
        Some(0.4),
    ),
    SpecParameter::number(
        "beta",
        "gain of the persistent queue",
        0.0,
        1.0,
        Some(0.226),
    ),
    SpecParameter::number(
        "gamma",
        "share of the traffic that is shuffled in a control interval",
        0.0,
        1.0,
        // Section 3.5.2.
        Some(0.1),
    ),
    control::rtt_min("the shortest control interval, in milliseconds"),
    control::rtt_max("round trips above this, in milliseconds, do not count and get no feedback"),
];

pub(super) const ROW: StampRow = Row {
    name: "xcp",
    summary: "gives every packet the window change of XCP's efficiency and fairness controllers",
    parameters: PARAMETERS,
    build: |values| Ok(Box::new(Params::read(values)?)),
};

/// What the algorithm is told.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Params {
    alpha: f64,
    beta: f64,
    gamma: f64,
    rtts: RttBounds,
}

impl Params {
    fn read(values: &SpecValues) -> Result<Self, SpecError> {
        Ok(Self {
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            gamma: values.number("gamma"),
            rtts: RttBounds::read(values)?,
        })
    }
}

impl StampConfig for Params {
    fn name(&self) -> &'static str {
        ROW.name
    }

    fn build(&self, _now: Instant) -> Box<dyn Stamp> {
        Box::new(Xcp::new(*self))
    }
}

/// What a packet says of its sender.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    /// H_rtt: seconds, above 0.
    rtt: f64,
    /// H_cwnd: bytes, not below the packet's.
    window: f64,
    /// s: bytes.
    bytes: f64,
}

impl Told {
    /// `None` if it is no packet of XCP's, or says no round trip of up to `rtt_max`.
    fn by(header: &PathHeaderView<'_>, bytes: u32, rtt_max: Duration) -> Option<Self> {
        let PathHeaderKind::Xcp { window } = header.kind() else {
            return None;
        };
        let rtt = header.rtt().duration();
        let bytes = f64::from(bytes);
        (!rtt.is_zero() && rtt <= rtt_max).then(|| Self {
            rtt: rtt.as_secs_f64(),
            window: (window.bytes() as f64).max(bytes).max(1.0),
            bytes,
        })
    }

    /// rtt s / cwnd: seconds between two packets of this flow.
    fn spacing(&self) -> f64 {
        self.rtt * self.bytes / self.window
    }
}

/// What the link has learnt. All values are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Vars {
    /// d: within the bounds on round trips.
    rtt: Duration,
    /// y of the last control interval: bytes per second, not below 0.
    input: f64,
    /// Q of the last control interval: bytes, not below 0.
    queue: f64,
    /// phi: by how many bytes windows should change in a control interval.
    feedback: f64,
    /// h: bytes that change hands in a control interval, not below 0.
    shuffled: f64,
}

/// What there is to deal out in a control interval. All values are finite and not below 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Shares {
    /// xi_p: bytes per second squared.
    xi_p: f64,
    /// xi_n: per second.
    xi_n: f64,
    /// Positive feedback that is left: bytes per second.
    positive: f64,
    /// Negative feedback that is left: bytes per second.
    negative: f64,
}

impl Shares {
    /// `bytes` and `spacing`: of packets that can be given feedback, sums of s and of rtt s / cwnd by the second.
    ///
    /// xi_p = (h + max(phi, 0)) / (d sum(rtt s / cwnd))                  (equation 6)
    /// xi_n = (h + max(-phi, 0)) / (d sum(s))                            (equation 9)
    ///
    /// with sums over an interval of d.
    fn new(vars: &Vars, bytes: f64, spacing: f64) -> Self {
        if bytes <= 0.0 || spacing <= 0.0 {
            return Self::default();
        }
        let d = vars.rtt.as_secs_f64();
        let positive = (vars.shuffled + vars.feedback.max(0.0)) / d;
        let negative = (vars.shuffled + (-vars.feedback).max(0.0)) / d;
        Self {
            xi_p: positive / (spacing * d),
            xi_n: negative / (bytes * d),
            positive,
            negative,
        }
    }

    /// H_feedback of a packet, in bytes, that comes with `asked` in it (equations 3, 4, 7; appendix A).
    fn give(&mut self, packet: &Told, asked: f64) -> f64 {
        let Told { rtt, bytes, .. } = *packet;
        let positive = (self.xi_p * rtt * packet.spacing()).min(self.positive * rtt);
        let negative = (self.xi_n * rtt * bytes).min(self.negative * rtt);
        let feedback = positive - negative;
        // What another link holds back is not taken from others here.
        let (given, taken) = if asked >= feedback {
            (positive, negative)
        } else if asked >= 0.0 {
            (asked, feedback - asked)
        } else {
            (0.0, feedback.max(0.0) - asked)
        };
        self.positive = (self.positive - given / rtt).max(0.0);
        self.negative = (self.negative - taken / rtt).max(0.0);
        feedback
    }
}

/// What is counted during a control interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    period: Period,
    /// Of packets that can be given feedback: sums of s, rtt s / cwnd, and rtt^2 s / cwnd, in
    /// bytes, seconds and seconds squared.
    followers_bytes: f64,
    spacing: f64,
    rtt_spacing: f64,
}

impl Interval {
    /// `rtt` is the mean round trip by bytes that was told last.
    fn new(now: Instant, length: Duration, rtt: Option<Duration>, queue_delay: Duration) -> Self {
        Self {
            period: Period::new(now, length, rtt, queue_delay),
            followers_bytes: 0.0,
            spacing: 0.0,
            rtt_spacing: 0.0,
        }
    }

    /// d: the mean over flows, since those that send more often say a shorter rtt s / cwnd (appendix A).
    fn mean_rtt(&self, by_bytes: Duration) -> Duration {
        let mean = Duration::from_secs_f64(self.rtt_spacing / self.spacing);
        mean.min(by_bytes * MOST_BY_FLOWS)
    }
}

/// The stamp of one link.
#[derive(Debug)]
struct Xcp {
    params: Params,
    vars: Vars,
    shares: Shares,
    /// The mean round trip by bytes, if somebody has told it.
    by_bytes: Option<Duration>,
    /// `None` while nothing arrives, or the link has no capacity to speak of.
    interval: Option<Interval>,
}

impl Xcp {
    fn new(params: Params) -> Self {
        Self {
            params,
            vars: Vars {
                rtt: params.rtts.clamp(INITIAL_RTT),
                input: 0.0,
                queue: 0.0,
                feedback: 0.0,
                shuffled: 0.0,
            },
            shares: Shares::default(),
            by_bytes: None,
            interval: None,
        }
    }
}

impl Stamp for Xcp {
    fn on_arrival(&mut self, now: Instant, arrival: &Arrival<'_>, port: &PortView) {
        let Some(rate) = port.rate else {
            return;
        };
        let capacity = rate.bytes_per_second();
        let (length, by_bytes) = (self.vars.rtt, self.by_bytes);
        let interval = self.interval.get_or_insert_with(|| {
            Interval::new(now, length, by_bytes, queue_delay(port, capacity))
        });
        interval.period.see(now, arrival.bytes, port);
        if let Some(header) = &arrival.header
            && let Some(told) = Told::by(header, arrival.bytes, self.params.rtts.max)
        {
            interval.followers_bytes += told.bytes;
            interval.spacing += told.spacing();
            interval.rtt_spacing += told.rtt * told.spacing();
            let rtt = header.rtt().duration();
            interval.period.rtt.count(rtt, arrival.bytes);
            interval.period.shorten(now, capacity, MOST_BY_FLOWS);
        }
    }

    fn on_departure(&mut self, _now: Instant, departure: &mut Departure<'_>, port: &PortView) {
        let view = departure.header.view();
        if port.rate.is_none() || !matches!(view.kind(), PathHeaderKind::Xcp { .. }) {
            return;
        }
        let asked = view.signals().feedback.window_change();
        let told = Told::by(&view, departure.bytes, self.params.rtts.max);
        // Nothing can be dealt out to a sender without a round trip.
        let change = told.map_or(0.0, |told| {
            self.shares.give(&told, asked.in_256ths() as f64 / 256.0)
        });
        let change = WindowChange::from_256ths((change * 256.0).round() as i64);
        departure.header.limit_window_change(change);
    }

    fn on_timer(&mut self, now: Instant, port: &PortView) {
        let Some(interval) = self.interval.take() else {
            return;
        };
        let Some(rate) = port.rate else {
            self.shares = Shares::default();
            return;
        };
        let capacity = rate.bytes_per_second();
        let passed = (now - interval.period.began).as_secs_f64();
        let followers = interval.followers_bytes / passed;
        let rtt = match interval.period.rtt.get() {
            Some(by_bytes) => {
                self.by_bytes = Some(by_bytes);
                self.params.rtts.clamp(interval.mean_rtt(by_bytes))
            }
            None => self.vars.rtt,
        };
        let input = interval.period.bytes as f64 / passed;
        let queue = interval.period.queue.bytes(port);
        let feedback = aggregate_feedback(&self.params, capacity - input, queue, rtt);
        self.vars = Vars {
            rtt,
            input,
            queue,
            feedback,
            shuffled: shuffled(self.params.gamma, followers, feedback, rtt),
        };
        self.shares = Shares::new(&self.vars, followers, interval.spacing / passed);
        if interval.period.bytes > 0 {
            self.interval = Some(Interval::new(
                now,
                rtt,
                self.by_bytes,
                queue_delay(port, capacity),
            ));
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.interval.map(|interval| interval.period.ends)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let Vars {
            rtt,
            input,
            queue,
            feedback,
            shuffled,
        } = self.vars;
        vec![
            ("feedback_bytes", feedback),
            ("shuffled_bytes", shuffled),
            ("input_bps", input * 8.0),
            ("persistent_queue_bytes", queue),
            ("rtt_ms", rtt.as_secs_f64() * 1e3),
        ]
    }
}

/// By how many bytes all windows together should change in a control interval.
///
/// phi = alpha d S - beta Q                                              (equation 1)
fn aggregate_feedback(params: &Params, spare: f64, queue: f64, rtt: Duration) -> f64 {
    params.alpha * rtt.as_secs_f64() * spare - params.beta * queue
}

/// How many bytes change hands in a control interval.
///
/// h = max(0, gamma y - |phi|), y: what arrives in a mean round trip     (equation 2)
fn shuffled(gamma: f64, followers: f64, feedback: f64, rtt: Duration) -> f64 {
    (gamma * followers * rtt.as_secs_f64() - feedback.abs()).max(0.0)
}

#[cfg(test)]
mod tests;
