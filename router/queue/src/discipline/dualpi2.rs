//! DualPI2: dual-queue coupled AQM, with PI2 for classic traffic.
//!
//! K. De Schepper, B. Briscoe, G. White, "Dual-Queue Coupled Active Queue Management (AQM) for Low
//! Latency, Low Loss, and Scalable Throughput (L4S)", RFC 9332, appendix A. Packets with ECT(1) or
//! CE have a queue of their own (L), marked from a delay of a millisecond on; all others (C) have a
//! PI controller. Both signals are coupled: L's probability is proportional to C's square root, so
//! that scalable and classic flows have about the same rate.

use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecParameter, SpecValues};
use evenkeel_wire::Ecn;

use super::{Discipline, DisciplineRow, DropReason, PortView, Sender, Verdict};
use crate::packet::{Amount, PacketMeta};

/// target, Tupdate and RTT_max.
const TARGET_MS: f64 = 15.0;
const UPDATE: Duration = Duration::from_millis(15);
const RTT_MAX_MS: f64 = 100.0;

/// k: the coupling factor. p_Cmax is 1 / k^2.
const COUPLING: f64 = 2.0;

/// minTh and range of L's ramp.
const MIN_THRESHOLD_US: f64 = 800.0;
const RANGE: Duration = Duration::from_micros(400);

/// Th_len: L is not marked on its own account with this many bytes or fewer behind the packet.
const MIN_BYTES: u64 = 1514;

/// C's share of the link while both queues hold something: weighted round robin, with the
/// share of Linux (classic_protection of tc-dualpi2).
const CLASSIC_SHARE: f64 = 0.1;

/// The queues' numbers.
const CLASSIC: usize = 0;
const LOW_LATENCY: usize = 1;

pub(super) const ROW: DisciplineRow = Row {
    name: "dualpi2",
    summary: "L4S: a queue for ECT(1) beside the classic one, with coupled signals",
    parameters: &[
        SpecParameter::number(
            "target_ms",
            "target: the delay in ms of the classic queue",
            0.1,
            10_000.0,
            Some(TARGET_MS),
        ),
        SpecParameter::number(
            "rtt_max_ms",
            "RTT_max: the longest round trip in ms with which the controller is stable",
            1.0,
            100_000.0,
            Some(RTT_MAX_MS),
        ),
        SpecParameter::number(
            "min_th_us",
            "minTh: the delay in us of the low-latency queue from which packets are marked",
            1.0,
            1_000_000.0,
            Some(MIN_THRESHOLD_US),
        ),
    ],
    build: |values, _| Ok(Box::new(DualPi2::new(Params::read(values)))),
};

#[derive(Debug, Clone, Copy)]
struct Params {
    target: f64,
    /// alpha and beta: Hz, for delays in seconds.
    integral: f64,
    proportional: f64,
    min_threshold: Duration,
}

impl Params {
    fn read(values: &SpecValues) -> Self {
        let rtt_max = values.number("rtt_max_ms") / 1e3;
        Self {
            target: values.number("target_ms") / 1e3,
            integral: 0.1 * UPDATE.as_secs_f64() / (rtt_max * rtt_max),
            proportional: 0.3 / rtt_max,
            min_threshold: Duration::from_secs_f64(values.number("min_th_us") / 1e6),
        }
    }
}

/// The discipline.
#[derive(Debug, Clone)]
struct DualPi2 {
    params: Params,
    /// p': from 0 to 1.
    base: f64,
    /// prevq: seconds.
    last_delay: f64,
    /// What is left over of the probabilities of each queue's packets: signals come at even
    /// distances (recur).
    due: [f64; 2],
    /// Bytes that C may send before it is L's turn.
    owed: f64,
    /// When p' is due to change; `None` while it is 0 and nothing waits.
    timer: Option<Instant>,
}

impl DualPi2 {
    fn new(params: Params) -> Self {
        Self {
            params,
            base: 0.0,
            last_delay: 0.0,
            due: [0.0; 2],
            owed: 0.0,
            timer: None,
        }
    }

    /// p_C.
    fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// p_CL.
    fn coupled(&self) -> f64 {
        COUPLING * self.base
    }

    /// Marks do not calm the senders: both queues drop.
    fn is_overloaded(&self) -> bool {
        self.coupled() >= 1.0
    }

    /// laqm: the probability that L has on its own account.
    fn ramp(&self, queued: Duration, behind: u64) -> f64 {
        if behind <= MIN_BYTES {
            return 0.0;
        }
        let above = queued.saturating_sub(self.params.min_threshold);
        (above.as_secs_f64() / RANGE.as_secs_f64()).min(1.0)
    }

    /// recur: true as often as `probability` says.
    fn recur(&mut self, queue: usize, probability: f64) -> bool {
        let due = &mut self.due[queue];
        *due += probability;
        let is_due = *due >= 1.0;
        if is_due {
            *due -= 1.0;
        }
        is_due
    }

    fn on_classic(&mut self) -> Verdict {
        if !self.recur(CLASSIC, self.classic()) {
            Verdict::Admit
        } else if self.is_overloaded() {
            Verdict::Drop(DropReason::Early)
        } else {
            Verdict::Mark
        }
    }

    fn on_low_latency(&mut self, queued: Duration, behind: u64) -> Verdict {
        if self.is_overloaded() {
            return match self.recur(LOW_LATENCY, self.classic()) {
                true => Verdict::Drop(DropReason::Early),
                false => Verdict::Mark,
            };
        }
        let probability = self.ramp(queued, behind).max(self.coupled());
        match self.recur(LOW_LATENCY, probability) {
            true => Verdict::Mark,
            false => Verdict::Admit,
        }
    }
}

impl Discipline for DualPi2 {
    fn queues(&self) -> usize {
        2
    }

    fn classify(&mut self, meta: &PacketMeta, _sender: Sender) -> usize {
        match meta.ecn {
            Ecn::Ect1 | Ecn::Ce => LOW_LATENCY,
            Ecn::Ect0 | Ecn::NotEct => CLASSIC,
        }
    }

    fn on_arrival(&mut self, now: Instant, _meta: &mut PacketMeta, _port: &PortView) -> Verdict {
        self.timer.get_or_insert(now + UPDATE);
        Verdict::Admit
    }

    fn select(&mut self, queues: &[Amount], packets: u64) -> usize {
        let low_latency = queues[LOW_LATENCY].packets;
        if low_latency == packets || (low_latency > 0 && self.owed <= 0.0) {
            LOW_LATENCY
        } else {
            CLASSIC
        }
    }

    fn on_departure(&mut self, _now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let verdict = match port.queue {
            CLASSIC => self.on_classic(),
            _ => self.on_low_latency(meta.queued, port.own.bytes),
        };
        if port.queued == port.own {
            // The other queue has nothing to be owed.
            self.owed = 0.0;
        } else if !matches!(verdict, Verdict::Drop(_)) {
            let bytes = f64::from(meta.bytes);
            self.owed += match port.queue {
                CLASSIC => -bytes * (1.0 - CLASSIC_SHARE),
                _ => bytes * CLASSIC_SHARE,
            };
        }
        verdict
    }

    fn on_timer(&mut self, now: Instant, port: &PortView, waited: &dyn Fn(usize) -> Duration) {
        let delay = waited(CLASSIC).max(waited(LOW_LATENCY)).as_secs_f64();
        let Params {
            target,
            integral,
            proportional,
            ..
        } = self.params;
        let change = integral * (delay - target) + proportional * (delay - self.last_delay);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.last_delay = delay;
        let is_at_rest = self.base == 0.0 && port.queued == Amount::ZERO;
        self.timer = (!is_at_rest).then(|| now + UPDATE);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timer
    }
}

#[cfg(test)]
mod tests;
