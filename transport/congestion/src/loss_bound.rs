//! The window that losses alone would allow, kept beside a controller that follows routers: no
//! router's word makes a sender exceed it (`docs/path-header.md`, section 4.3, Bound).
//!
//! It is the window of RFC 9002, with slow start until the first loss, and grows while at least
//! half of it is in use. So it stays between one and two times what the path is known to carry,
//! as Linux has it in slow start: feedback may double what is in flight in any round trip, and
//! hardly meets the bound. A sender that uses a tenth of what it was allowed saves nothing up
//! for a router that lies later.

use crate::controller::{Ack, Congestion, Controller};
use crate::gaimd::{self, Gaimd};
use crate::window::InitialWindow;

/// A bound in bytes.
#[derive(Debug, Clone)]
pub(crate) struct LossBound {
    reno: Gaimd,
}

impl LossBound {
    /// Before anything was acknowledged or lost, for full-size packets of `mtu` bytes.
    pub(crate) fn new(initial: InitialWindow, mtu: u16) -> Self {
        let config = gaimd::Config {
            initial_window: initial,
            ..gaimd::Config::RENO
        };
        Self {
            reno: Gaimd::new(config, mtu),
        }
    }

    /// The bound in bytes, at least two packets.
    pub(crate) fn window(&self) -> u64 {
        self.reno.window()
    }

    /// Bytes up to which it doubles; `None` before anything was lost.
    pub(crate) fn threshold(&self) -> Option<u64> {
        self.reno.slow_start_threshold()
    }

    /// Packets arrived.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        let half_used = ack.in_flight.saturating_mul(2) >= self.window();
        self.reno.on_ack(&Ack {
            app_limited: !half_used,
            ..ack.clone()
        });
    }

    /// Packets were lost or marked with a window of `window` bytes in force: half of that is
    /// left, not of what the bound would have allowed.
    pub(crate) fn on_congestion(&mut self, event: &Congestion, window: u64) {
        self.reno.lower_to(window);
        self.reno.on_congestion(event);
    }

    /// RFC 9002, section 7.6.
    pub(crate) fn on_persistent_congestion(&mut self) {
        self.reno.on_persistent_congestion();
    }

    /// Full-size packets now carry `mtu` bytes.
    pub(crate) fn on_mtu(&mut self, mtu: u16) {
        self.reno.on_mtu(mtu);
    }

    /// A window of `window` bytes has come about without feedback, by losses and round trips
    /// alone: that much is allowed.
    pub(crate) fn raise_to(&mut self, window: u64) {
        self.reno.raise_to(window);
    }
}

#[cfg(test)]
mod tests;
