//! XCP: routers tell the sender by how much to change its window, packet by packet.
//!
//! D. Katabi, M. Handley and C. Rohrs, "Congestion Control for High Bandwidth-Delay Product
//! Networks" (SIGCOMM 2002), section 3.3: each packet carries the window and the round trip time.
//! It comes back with H_feedback, the least change that a link on the way allows, and cwnd =
//! max(cwnd + H_feedback, one packet). It serves to compare with ACP. [`crate::guided`] handles
//! losses, lies and paths without XCP's routers.
//! Page: `docs/algorithms/xcp.md`; deviations: `docs/deviations.md`.

use std::time::Duration;

use crate::controller::{Feedback, Grant, PathSample};
use crate::guided::{self, Facts, Guided, Rtts, Rule};
use crate::row::ControllerRow;

/// Packets leave this much faster than a window per round trip, so that the window is the limit:
/// XCP's routers assign windows.
const PACING_GAIN: f64 = 1.1;

/// A sender that follows XCP.
pub type Xcp = Guided<XcpRule>;

/// How XCP's senders set their window.
#[derive(Debug, Clone, Default)]
pub struct XcpRule {
    /// Sum of H_feedback in the headers that arrived since it was last applied, in bytes.
    heard: f64,
    /// The number of those headers.
    headers: u32,
    /// Packets acknowledged whose H_feedback has not been applied.
    packets: u64,
}

impl Rule for XcpRule {
    const FOLLOWS: Feedback = Feedback::Xcp;

    const KEEPS_RATE: bool = false;

    fn on_path(&mut self, sample: &PathSample) -> bool {
        let Some(Grant::WindowChange(change)) = sample.grant else {
            return false;
        };
        self.heard += change as f64 / 256.0;
        self.headers = self.headers.saturating_add(1);
        true
    }

    /// cwnd = max(cwnd + H_feedback, one packet) for every packet acknowledged. An echo covers one
    /// of them: the others count as if they had received the same.
    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64 {
        let ack = facts.ack;
        self.packets = self.packets.saturating_add(ack.packets);
        if self.headers == 0 {
            return window;
        }
        let Self {
            heard,
            headers,
            packets,
        } = std::mem::take(self);
        let change = facts.payload * packets as f64 * heard / f64::from(headers);
        let change = if change > 0.0 {
            // In a recovery period a window does not grow (RFC 9002, section 7.3.2).
            change * ack.bytes_after_recovery as f64 / ack.bytes.max(1) as f64
        } else {
            change
        };
        (window + change).max(f64::from(facts.mtu))
    }

    fn period(rtts: &Rtts) -> Duration {
        rtts.latest.div_f64(PACING_GAIN)
    }

    fn slack(_window: f64, _mtu: u16) -> f64 {
        0.0
    }
}

pub(crate) const ROW: ControllerRow = guided::row::<XcpRule>(
    "xcp",
    "XCP: changes its window as the links on its path say; vegas where none does",
);

#[cfg(test)]
mod tests;
