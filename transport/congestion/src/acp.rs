//! ACP: the sender takes the rate that the links on its path compute, over about a round trip.
//!
//! M. Lestas, A. Pitsillides, P. Ioannou and G. Hadjipollas, "Adaptive Congestion Protocol",
//! section II-B. The desired window is the least rate that a link desires, times the round trip of
//! the empty path. Each acknowledgement moves the window towards it by its share of the window;
//! upwards only by a tenth of that while a link is congested. The window is real-valued and may
//! fall below one packet: then packets leave less often than once per round trip.
//! [`crate::guided`] handles losses, lies and paths without ACP's routers.
//! What the paper leaves open: `docs/algorithms/acp.md`; deviations: `docs/deviations.md`.

use crate::controller::{Feedback, Grant, PathSample};
use crate::guided::{self, Facts, Guided, Rule};
use crate::row::ControllerRow;

/// Gain upwards while a link on the path is congested (Eq. 2).
const CONGESTED_GAIN: f64 = 0.1;

/// The largest part of the window that one ACK takes off; only windows of a few packets meet it.
/// Below one packet, where each ACK covers more than the window, it lets the sender leave a rate
/// that was briefly too low after twice the time between two packets, not a hundred times.
const MOST_DECREASE: f64 = 0.5;

/// Below this many packets, the window heeds less of the newest queueing time. A rate that falls as
/// a queue grows calms it if it reacts within 1.57 (pi / 2) empty round trips, and swings with it
/// if it takes longer. A packet's round trip, a delayed ACK and half of the time between two
/// packets take that long at two packets or fewer.
const HEEDING_WINDOW: f64 = 4.0;

/// A sender that follows ACP.
pub type Acp = Guided<AcpRule>;

/// How ACP's senders set their window.
#[derive(Debug, Clone, Default)]
pub struct AcpRule {
    /// H_feedback: bytes of IP packets per second.
    rate: f64,
    /// H_congestion.
    congested: bool,
}

/// Eq. (1) in bytes: desired = H_feedback mrtt. Then Eq. (2) and (3) per byte acknowledged instead
/// of per packet: w <- w + gain (desired - w) acked / w. The share acked / w counts up to 1: an ACK
/// for more than the window leads to the desired window, not beyond.
fn next_window(window: f64, desired: f64, congested: bool, acked: f64) -> f64 {
    let excess = desired - window;
    let gain = if excess > 0.0 && congested {
        CONGESTED_GAIN
    } else {
        1.0
    };
    let share = (acked / window).min(1.0);
    (window + gain * excess * share).max(window * MOST_DECREASE)
}

impl Rule for AcpRule {
    const FOLLOWS: Feedback = Feedback::Acp;

    fn on_path(&mut self, sample: &PathSample) -> bool {
        let Some(Grant::Rate(rate)) = sample.grant else {
            return false;
        };
        self.rate = rate as f64;
        self.congested = sample.congested;
        true
    }

    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64 {
        let desired = self.rate * facts.payload * facts.rtts.base.as_secs_f64();
        // In a recovery period a window may fall, but not grow (RFC 9002, section 7.3.2).
        let acked = if desired > window {
            facts.ack.bytes_after_recovery
        } else {
            facts.ack.bytes
        };
        next_window(window, desired, self.congested, acked as f64)
    }

    fn queueing_share(packets: f64) -> f64 {
        (packets / HEEDING_WINDOW).min(1.0)
    }
}

pub(crate) const ROW: ControllerRow = guided::row::<AcpRule>(
    "acp",
    "ACP: takes the rate that the links on its path compute; vegas where none does",
);

#[cfg(test)]
mod tests;
