//! The window that losses alone would allow, which bounds a controller that follows routers: no
//! router can make a sender exceed it (`docs/path-header.md`, section 4.3, Bound).
//!
//! The bound is the window of RFC 9002, with slow start until the first loss, and grows while at
//! least half of it is in use. So it stays between one and two times what the path is known to
//! carry, like Linux's window in slow start: feedback may double the bytes in flight in any round
//! trip, and rarely meets the bound. A sender that uses a tenth of its allowance saves up nothing
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
    /// Creates the bound of an unused path, for full-size packets of `mtu` bytes.
    pub(crate) fn new(initial: InitialWindow, mtu: u16) -> Self {
        let config = gaimd::Config {
            initial_window: initial,
            ..gaimd::Config::RENO
        };
        Self {
            reno: Gaimd::new(config, mtu),
        }
    }

    /// Returns the bound in bytes, at least two packets.
    pub(crate) fn window(&self) -> u64 {
        self.reno.window()
    }

    /// Returns the bytes up to which the bound doubles; `None` before the first loss.
    pub(crate) fn threshold(&self) -> Option<u64> {
        self.reno.slow_start_threshold()
    }

    /// Counts an ACK.
    pub(crate) fn on_ack(&mut self, ack: &Ack) {
        let half_used = ack.in_flight.saturating_mul(2) >= self.window();
        self.reno.on_ack(&Ack {
            app_limited: !half_used,
            ..ack.clone()
        });
    }

    /// Reacts to loss or marks while a window of `window` bytes is in force: halves that window,
    /// not the larger one that the bound would have allowed.
    pub(crate) fn on_congestion(&mut self, event: &Congestion, window: u64) {
        self.reno.lower_to(window);
        self.reno.on_congestion(event);
    }

    /// Reacts to persistent congestion (RFC 9002, section 7.6).
    pub(crate) fn on_persistent_congestion(&mut self) {
        self.reno.on_persistent_congestion();
    }

    /// Sets the bytes in a full-size packet.
    pub(crate) fn on_mtu(&mut self, mtu: u16) {
        self.reno.on_mtu(mtu);
    }

    /// Allows `window` bytes, a window reached without feedback, by losses and round trips alone.
    pub(crate) fn raise_to(&mut self, window: u64) {
        self.reno.raise_to(window);
    }
}

#[cfg(test)]
mod tests;
