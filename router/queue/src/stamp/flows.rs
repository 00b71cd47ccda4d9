//! Flow count: how many flows share this link.
//!
//! K.-Y. Whang, B. T. Vander-Zanden, H. M. Taylor, "A Linear-Time Probabilistic Counting Algorithm
//! for Database Applications", ACM TODS 15(2), 1990: linear counting. Each packet's flow, hashed, sets
//! one bit of a map. From the share of bits that are still zero at the end of a period follows how many
//! different flows were there (equation 3 and section 3). The map has the same size for one flow and for ten thousand,
//! and the work per packet is one hash and one bit.
//!
//! Headers carry the count of the last period that is over; the greatest on the way wins. docs/queue.md
//! has what the map's size and the period mean for its error.

use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecParameter, SpecValues};
use evenkeel_wire::CompactCount;

use super::{Arrival, Departure, Stamp, StampConfig, StampRow};
use crate::discipline::PortView;

/// m: bits of the map. A standard error of 1.2 % and less up to 10,000 flows; 1 KiB.
const BITS: usize = 8192;

/// A period long enough to see a flow that sends a packet in a second: at a fair share below
/// that, or with a round trip above it, feedback comes too late to matter.
const PERIOD_MS: f64 = 1000.0;

const PARAMETERS: &[SpecParameter] = &[SpecParameter::number(
    "period_ms",
    "how long flows are counted, in milliseconds; a flow that sends less often than this is missed at times",
    10.0,
    60_000.0,
    Some(PERIOD_MS),
)];

pub(super) const ROW: StampRow = Row {
    name: "flows",
    summary: "tells how many flows share the link",
    parameters: PARAMETERS,
    build: |values| Ok(Box::new(Params::read(values))),
};

/// What the flow count is told.
#[derive(Debug, Clone, Copy)]
struct Params {
    period: Duration,
}

impl Params {
    fn read(values: &SpecValues) -> Self {
        Self {
            period: Duration::from_secs_f64(values.number("period_ms") / 1e3),
        }
    }
}

impl StampConfig for Params {
    fn name(&self) -> &'static str {
        ROW.name
    }

    fn build(&self, _now: Instant) -> Box<dyn Stamp> {
        Box::new(Flows {
            params: *self,
            map: FlowMap::default(),
            last: 0.0,
            timer: None,
        })
    }
}

/// The stamp.
#[derive(Debug)]
struct Flows {
    params: Params,
    /// The flows of this period.
    map: FlowMap,
    /// The flows of the last one.
    last: f64,
    /// When this period ends; `None` if there was nothing in the last one: the next packet begins another.
    timer: Option<Instant>,
}

impl Stamp for Flows {
    fn tells_flows_apart(&self) -> bool {
        true
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival<'_>, _port: &PortView) {
        if let Some(flow) = arrival.flow {
            self.map.insert(flow);
            self.timer.get_or_insert(now + self.params.period);
        }
    }

    fn on_departure(&mut self, _now: Instant, departure: &mut Departure<'_>, _port: &PortView) {
        // The greatest estimate is far below what 32 bits hold.
        let flows = CompactCount::from_flows(self.last.round() as u32);
        departure.header.raise_contention(flows);
    }

    fn on_timer(&mut self, now: Instant, _port: &PortView) {
        self.last = self.map.estimate();
        self.map.clear();
        self.timer = (self.last > 0.0).then(|| now + self.params.period);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timer
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![("flows", self.last)]
    }
}

/// A set of flows that knows about how many it holds.
#[derive(Debug, Clone)]
struct FlowMap {
    words: [u64; BITS / 64],
    ones: usize,
}

impl Default for FlowMap {
    fn default() -> Self {
        Self {
            words: [0; BITS / 64],
            ones: 0,
        }
    }
}

impl FlowMap {
    fn insert(&mut self, hash: u64) {
        // The low bits of a good hash are as good as any.
        let bit = (hash % BITS as u64) as usize;
        let word = &mut self.words[bit / 64];
        let mask = 1 << (bit % 64);
        self.ones += usize::from(*word & mask == 0);
        *word |= mask;
    }

    fn estimate(&self) -> f64 {
        linear_count(BITS, BITS - self.ones)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The number of flows that leave this many bits zero. Without a zero: what the last one would have meant.
///
/// n = -m ln(zeros / m)
fn linear_count(bits: usize, zeros: usize) -> f64 {
    let bits = bits as f64;
    bits * (bits / zeros.max(1) as f64).ln()
}

#[cfg(test)]
mod tests;
