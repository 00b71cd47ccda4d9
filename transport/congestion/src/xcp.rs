//! XCP: routers tell the sender by how much to change its window, packet by packet.
//!
//! D. Katabi, M. Handley and C. Rohrs, "Congestion Control for High Bandwidth-Delay Product
//! Networks" (SIGCOMM 2002), section 3.3: each packet tells the window and the round trip time,
//! comes back with H_feedback, the least change that a link on the way allows for it, and
//! cwnd = max(cwnd + H_feedback, one packet). A comparator of ACP's. Without XCP's routers, with
//! losses and with lies: [`crate::guided`].
//! Page: `docs/algorithms/xcp.md`; deviations: `docs/deviations.md`.

use std::time::Duration;

use crate::controller::{Feedback, Grant, PathSample};
use crate::guided::{self, Facts, Guided, Rtts, Rule};
use crate::row::ControllerRow;

/// Packets leave this much faster than a window per round trip, so that the window is what
/// limits: XCP's routers share out windows.
const PACING_GAIN: f64 = 1.1;

/// A sender by XCP.
pub type Xcp = Guided<XcpRule>;

/// The rule of XCP's senders.
#[derive(Debug, Clone, Default)]
pub struct XcpRule {
    /// Sum of H_feedback of the headers heard since the last ACK with any, in bytes.
    heard: f64,
    /// How many those were.
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

    /// cwnd = max(cwnd + H_feedback, one packet) for every packet acknowledged. An echo is of one
    /// of them: the others count as if they had been given the same.
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
