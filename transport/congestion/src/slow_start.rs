//! Slow start of the Reno family: to the first loss, or until round trips grow.
//!
//! P. Balasubramanian, Y. Huang, M. Olson, "HyStart++: Modified Slow Start for TCP", RFC 9406.
//! Standard slow start ends with the loss of what it has sent too much, up to half a window of
//! single packets. When the least round trip of a round is clearly above that of the round before,
//! HyStart++ grows by a quarter for five rounds, and then leaves slow start; if the round trip
//! falls meanwhile, the delay was none of a queue, and slow start goes on. Only the first slow
//! start is so; one after persistent congestion ends at its threshold.
//!
//! S. Floyd, "Limited Slow-Start for TCP with Large Congestion Windows", RFC 3742. A round trip adds
//! no more than some hundred packets to a window of thousands, so that no overflow is longer.

use std::time::{Duration, Instant};

use evenkeel_spec::{SpecParameter, SpecValues};

use crate::controller::Ack;
use crate::window::most_risked;

/// MIN_RTT_THRESH (RFC 9406, section 4.3): less is no growth of the round trip.
const LEAST_GROWTH: Duration = Duration::from_millis(4);

/// MAX_RTT_THRESH: so much always is.
const MOST_GROWTH: Duration = Duration::from_millis(16);

/// MIN_RTT_DIVISOR: the share of the round trip that is, in between.
const GROWTH_DIVISOR: u32 = 8;

/// N_RTT_SAMPLE: fewer samples of a round say nothing.
const SAMPLES: u32 = 8;

/// CSS_GROWTH_DIVISOR: how much slower conservative slow start grows.
const CONSERVATIVE_DIVISOR: u64 = 4;

/// CSS_ROUNDS: how long it lasts.
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The parameter `hystart`.
pub(crate) const HYSTART: SpecParameter = SpecParameter::flag(
    "hystart",
    "whether slow start slows down when round trips grow (HyStart++, RFC 9406), or goes on to the first loss",
    true,
);

/// How the first slow start ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowStart {
    /// With a loss (RFC 9002, section 7.3.1).
    #[default]
    Loss,
    /// With a loss, or when round trips have grown and five rounds have not shown otherwise (RFC
    /// 9406).
    HyStart,
    /// With a loss, towards which it grows by a quarter once round trips have grown: for rules that
    /// have to see a full queue.
    SlowLoss,
}

impl SlowStart {
    /// `hystart` if the parameter [`HYSTART`] is on.
    pub(crate) fn read(values: &SpecValues, hystart: Self) -> Self {
        if values.flag(HYSTART.name) {
            hystart
        } else {
            Self::Loss
        }
    }
}

/// What to do with an ACK in slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Grow by this many bytes.
    By(u64),
    /// Grow by this many, and leave slow start with that window.
    Last(u64),
}

/// The first slow start of a connection.
#[derive(Debug, Clone)]
pub(crate) struct HyStart {
    kind: SlowStart,
    /// When the round began; `None` before the first ACK.
    round: Option<Instant>,
    /// The least sample of this round, and of the one before.
    least: Option<Duration>,
    least_before: Option<Duration>,
    /// Samples of this round.
    samples: u32,
    conservative: Option<Conservative>,
    /// Acknowledged bytes that were not enough for a byte.
    rest: u64,
}

/// Conservative slow start.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    /// The least round trip with which it began.
    baseline: Duration,
    /// Rounds in it, with the one in which it began.
    rounds: u32,
}

impl HyStart {
    pub(crate) fn new(kind: SlowStart) -> Self {
        Self {
            kind,
            round: None,
            least: None,
            least_before: None,
            samples: 0,
            conservative: None,
            rest: 0,
        }
    }

    /// By how much `acked` bytes of `ack` let a window of `window` bytes grow, for full-size packets
    /// of `mtu` bytes.
    pub(crate) fn on_ack(&mut self, ack: &Ack, acked: u64, window: u64, mtu: u16) -> Growth {
        if self.kind == SlowStart::Loss {
            return Growth::By(acked);
        }
        let ends = self.begin_round(ack);
        let growth = self.growth(acked, window.div_ceil(most_risked(mtu)));
        self.hear(ack.rtt);
        if ends {
            Growth::Last(growth)
        } else {
            Growth::By(growth)
        }
    }

    /// A round ends with the first ACK of a packet sent in it. Returns true if slow start ends,
    /// too.
    fn begin_round(&mut self, ack: &Ack) -> bool {
        if self.round.is_some_and(|began| ack.sent < began) {
            return false;
        }
        self.round = Some(ack.now);
        self.least_before = self.least.take();
        self.samples = 0;
        let Some(conservative) = &mut self.conservative else {
            return false;
        };
        conservative.rounds = conservative.rounds.saturating_add(1);
        conservative.rounds > CONSERVATIVE_ROUNDS && self.kind == SlowStart::HyStart
    }

    /// The part of `acked`, in bytes, of which a round adds one in `limit` to the window at most
    /// (K of RFC 3742, section 2).
    fn growth(&mut self, acked: u64, limit: u64) -> u64 {
        let divisor = match self.conservative {
            Some(_) => CONSERVATIVE_DIVISOR.max(limit),
            None => limit.max(1),
        };
        let acked = acked.saturating_add(self.rest);
        self.rest = acked % divisor;
        acked / divisor
    }

    fn hear(&mut self, sample: Option<Duration>) {
        let Some(sample) = sample else {
            return;
        };
        self.samples = self.samples.saturating_add(1);
        let least = self.least.map_or(sample, |least| least.min(sample));
        self.least = Some(least);
        if self.samples < SAMPLES {
            return;
        }
        match (self.conservative, self.least_before) {
            (Some(conservative), _) if least < conservative.baseline => self.conservative = None,
            (None, Some(before)) if least >= before + growth_that_counts(before) => {
                self.conservative = Some(Conservative {
                    baseline: least,
                    rounds: 1,
                });
            }
            _ => {}
        }
    }
}

/// RttThresh = max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))
fn growth_that_counts(least_before: Duration) -> Duration {
    (least_before / GROWTH_DIVISOR).clamp(LEAST_GROWTH, MOST_GROWTH)
}

#[cfg(test)]
mod tests;
