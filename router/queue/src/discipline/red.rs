//! RED: random early detection.
//!
//! S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993; the detailed algorithm is its figure 2. A moving average
//! of the queue absorbs bursts; between two thresholds, arrivals are dropped or marked with a
//! probability that grows with the average, in numbers so spread that no burst takes them all.
//! Above the upper threshold every arrival is dropped, or, in the gentle variant (S. Floyd,
//! "Recommendation on using the gentle variant of RED", 2000), above twice that threshold.
//!
//! With `wait`, as ns-2 does it, arrivals right after a signal are spared.
//!
//! Deviation: above the thresholds ECN-capable packets are dropped too (RFC 3168, section 7), where
//! the paper marks them. The queue is counted in packets, without the one in transmission.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecError, SpecParameter, SpecValues};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt};

use super::{Discipline, DisciplineConfig, DisciplineRow, DropReason, PortView, Verdict};
use crate::limit::Limit;
use crate::packet::PacketMeta;
use crate::rate::Rate;

/// The lower threshold as a share of the limit (C. Zhang and V. Tsaoussidis, "TCP Smoothness and
/// Window Adjustment Strategy", section IV-A).
const MIN_SHARE: f64 = 1.0 / 6.0;

/// The upper threshold as a share of the limit (the same section).
const MAX_SHARE: f64 = 1.0 / 2.0;

/// The greatest early drop probability (the same section; Floyd and Jacobson took 0.02).
const MAX_P: f64 = 0.1;

/// The weight of an arrival in the average (Floyd and Jacobson, section 6; the smoothness paper).
const WEIGHT: f64 = 0.002;

/// What an idle link could have sent is counted in "small packets" (Floyd and Jacobson, section 4,
/// without a size); this many bytes in ns-2.35 (`mean_pktsize_`).
const SMALL_PACKET_BYTES: u32 = 500;

/// More packets than any queue holds.
const MOST_PACKETS: f64 = 1e6;

const PARAMETERS: &[SpecParameter] = &[
    SpecParameter::number(
        "min",
        "average queue in packets from which on it signals; not given, a sixth of the limit",
        0.0,
        MOST_PACKETS,
        None,
    ),
    SpecParameter::number(
        "max",
        "average queue in packets at which max_p is reached; not given, half the limit",
        0.0,
        MOST_PACKETS,
        None,
    ),
    SpecParameter::number(
        "max_p",
        "probability of a signal as the average reaches max",
        1e-6,
        1.0,
        Some(MAX_P),
    ),
    SpecParameter::number(
        "w",
        "weight of each arrival's queue in the average",
        1e-6,
        1.0,
        Some(WEIGHT),
    ),
    SpecParameter::flag(
        "gentle",
        "from max to twice max the probability grows from max_p to 1, instead of at once",
        false,
    ),
    SpecParameter::flag(
        "wait",
        "signals keep an interval of 1 / p at least, as in ns-2, instead of of any length up to that",
        false,
    ),
    SpecParameter::flag(
        "ecn",
        "early signals are marks where the sender understands them",
        false,
    ),
];

pub(super) const ROW: DisciplineRow = Row {
    name: "red",
    summary: "random early detection: drops or marks at random as the average queue grows",
    parameters: PARAMETERS,
    build: |values, limit| Ok(Box::new(Params::read(values, limit)?)),
};

/// What RED is told. `min < max`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Params {
    /// min_th: packets, not below 0.
    min: f64,
    /// max_th: packets.
    max: f64,
    /// max_p: above 0, at most 1.
    max_p: f64,
    /// w_q: above 0, at most 1.
    weight: f64,
    gentle: bool,
    wait: bool,
    ecn: bool,
}

impl Params {
    /// The parameters of a port with this `limit`.
    pub(super) fn read(values: &SpecValues, limit: Limit) -> Result<Self, SpecError> {
        let min = threshold(values, "min", MIN_SHARE, limit)?;
        let max = threshold(values, "max", MAX_SHARE, limit)?;
        values.below(("min", min), ("max", max))?;
        Ok(Self {
            min,
            max,
            max_p: values.number("max_p"),
            weight: values.number("w"),
            gentle: values.flag("gentle"),
            wait: values.flag("wait"),
            ecn: values.flag("ecn"),
        })
    }
}

/// A threshold in packets: the number given, or else a share of the limit.
fn threshold(values: &SpecValues, name: &str, share: f64, limit: Limit) -> Result<f64, SpecError> {
    let default = || {
        let packets = limit.packets.filter(|packets| *packets > 0)?;
        Some(packets as f64 * share)
    };
    let threshold = values.optional_number(name).or_else(default);
    threshold.ok_or_else(|| {
        values.refusal(&format!(
            "{name} is a share of the limit in packets, and this queue has none; \
             give {name}, or a limit of one packet or more"
        ))
    })
}

impl DisciplineConfig for Params {
    fn build(&self, rng: Xoshiro256PlusPlus) -> Box<dyn Discipline> {
        Box::new(Red::new(*self, rng))
    }
}

/// What RED knows of its queue.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Vars {
    /// avg: packets.
    average: f64,
    /// count: arrivals since the last signal, the present one included; `None` (the paper's -1)
    /// while the average is below min.
    count: Option<u32>,
    /// q_time: from when on the link could have sent, and had nothing to send; it may be yet to
    /// come. Whatever was before is in the average.
    idle_since: Option<Instant>,
}

/// The discipline.
#[derive(Debug)]
struct Red<R> {
    params: Params,
    vars: Vars,
    rng: R,
}

impl<R: Rng> Red<R> {
    fn new(params: Params, rng: R) -> Self {
        Self {
            params,
            vars: Vars::default(),
            rng,
        }
    }

    /// Takes the arrival into the average.
    fn estimate(&mut self, now: Instant, port: &PortView) {
        let vars = &mut self.vars;
        if port.transmitting || port.queued.packets > 0 {
            vars.average = averaged(vars.average, self.params.weight, port.queued.packets);
        } else if let Some(since) = vars.idle_since {
            let idle = now.saturating_duration_since(since);
            vars.average = match port.rate {
                Some(rate) => decayed(vars.average, self.params.weight, small_packets(idle, rate)),
                // An unlimited link sends any number of packets in no time.
                None => 0.0,
            };
            // If this packet is dropped, the next one must not count the same time again.
            vars.idle_since = Some(now.max(since));
        }
    }

    /// Whether this arrival is to be signalled to its sender.
    fn signal(&mut self) -> Verdict {
        let vars = &mut self.vars;
        let base = base_probability(&self.params, vars.average);
        if base >= 1.0 {
            vars.count = Some(0);
            return Verdict::Drop(DropReason::Early);
        }
        if vars.average < self.params.min {
            vars.count = None;
            return Verdict::Admit;
        }
        let count = vars.count.map_or(0, |count| count.saturating_add(1));
        let probability = if self.params.wait {
            waiting_probability(base, count)
        } else {
            spread_probability(base, count)
        };
        if !self.rng.random_bool(probability) {
            vars.count = Some(count);
            return Verdict::Admit;
        }
        vars.count = Some(0);
        if self.params.ecn {
            Verdict::Mark
        } else {
            Verdict::Drop(DropReason::Early)
        }
    }
}

impl<R: Rng + Debug + Send> Discipline for Red<R> {
    fn on_arrival(&mut self, now: Instant, _meta: &mut PacketMeta, port: &PortView) -> Verdict {
        self.estimate(now, port);
        self.signal()
    }

    fn on_departure(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        if port.queued.packets == 0 {
            let transmission = port.rate.map_or(Duration::ZERO, |rate| {
                Duration::from_secs_f64(seconds(meta.bytes, rate))
            });
            self.vars.idle_since = Some(now + transmission);
        }
        Verdict::Admit
    }
}

/// An arrival at a busy link that finds q packets queued.
///
/// avg = (1 - w) avg + w q
fn averaged(average: f64, weight: f64, queued: u64) -> f64 {
    average + weight * (queued as f64 - average)
}

/// An arrival at a link that has been idle for as long as m small packets take.
///
/// avg = (1 - w)^m avg
fn decayed(average: f64, weight: f64, small_packets: f64) -> f64 {
    average * (1.0 - weight).powf(small_packets)
}

/// How many small packets a link sends in this time.
///
/// m = idle / s
fn small_packets(idle: Duration, rate: Rate) -> f64 {
    idle.as_secs_f64() / seconds(SMALL_PACKET_BYTES, rate)
}

/// The seconds that `bytes` take.
fn seconds(bytes: u32, rate: Rate) -> f64 {
    f64::from(bytes) * 8.0 / rate.bits_per_second() as f64
}

/// The probability of a signal, by the average alone.
///
/// p_b = max_p (avg - min) / (max - min)                from min to max;
/// p_b = max_p + (1 - max_p) (avg - max) / max          from max to 2 max, gentle
fn base_probability(params: &Params, average: f64) -> f64 {
    let Params {
        min, max, max_p, ..
    } = *params;
    if average < min {
        0.0
    } else if average < max {
        max_p * (average - min) / (max - min)
    } else if params.gentle && average < 2.0 * max {
        max_p + (1.0 - max_p) * (average - max) / max
    } else {
        1.0
    }
}

/// The probability of a signal at the `count`-th arrival since the last one: intervals between
/// signals are uniform over 1, ..., 1 / p_b - 1 instead of geometric.
///
/// p_a = p_b / (1 - count p_b)
fn spread_probability(base: f64, count: u32) -> f64 {
    let rest = 1.0 - f64::from(count) * base;
    if rest > base { base / rest } else { 1.0 }
}

/// The same where signals wait for each other (ns-2.35's `wait_`): none before the (1 / p_b)-th
/// arrival, then intervals uniform over 1 / p_b, ..., 2 / p_b - 1, on the mean three times as long.
///
/// p_a = 0                           count p_b < 1;
/// p_a = p_b / (2 - count p_b)       from there on
fn waiting_probability(base: f64, count: u32) -> f64 {
    let waited = f64::from(count) * base;
    if waited < 1.0 {
        return 0.0;
    }
    let rest = 2.0 - waited;
    if rest > base { base / rest } else { 1.0 }
}

#[cfg(test)]
mod tests;
