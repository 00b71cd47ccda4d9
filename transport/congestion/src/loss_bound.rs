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
mod tests {
    use super::*;
    use crate::testing::{ack, epoch, loss};

    const MTU: u16 = 1000;

    /// An ACK of `bytes` bytes, with `in_flight` bytes in flight before it.
    fn used(bytes: u64, in_flight: u64) -> Ack {
        Ack {
            in_flight,
            ..ack(epoch(), 40, bytes)
        }
    }

    #[test]
    fn before_a_loss_it_grows_by_what_is_acknowledged_while_half_is_in_use() {
        // (bytes acknowledged, bytes in flight, bound after)
        let table = [
            (2000, 10_000, 12_000),
            (2000, 6000, 14_000), // exactly half
            (2000, 6999, 14_000), // a byte less than half
            (2000, 7000, 16_000),
            (16_000, 16_000, 32_000), // a whole window: it doubles
        ];
        let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
        for (bytes, in_flight, after) in table {
            bound.on_ack(&used(bytes, in_flight));
            assert_eq!(bound.window(), after, "{bytes} of {in_flight}");
        }
        assert_eq!(bound.threshold(), None);
    }

    #[test]
    fn the_application_may_be_what_limits() {
        let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
        let limited = Ack {
            app_limited: true,
            ..used(2000, 9000)
        };
        bound.on_ack(&limited);
        assert_eq!(bound.window(), 12_000);
    }

    #[test]
    fn a_loss_leaves_half_of_the_window_that_was_in_force() {
        // (window in force, bound after), with a bound of 10 packets before
        for (window, after) in [
            (10_000, 5000),
            (6000, 3000),
            (20_000, 5000),
            (3000, 2000),
            (700, 2000),
        ] {
            let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
            bound.on_congestion(&loss(), window);
            assert_eq!(
                (bound.window(), bound.threshold()),
                (after, Some(after)),
                "{window}"
            );
        }
    }

    #[test]
    fn after_a_loss_it_recovers_by_a_packet_per_window() {
        let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
        bound.on_congestion(&loss(), 10_000);
        bound.on_ack(&used(4999, 5000));
        assert_eq!(bound.window(), 5000);
        bound.on_ack(&used(1, 5000));
        assert_eq!(bound.window(), 6000);
        bound.on_persistent_congestion();
        assert_eq!(bound.window(), 2000);
        bound.on_ack(&used(2000, 2000));
        assert_eq!(bound.window(), 4000, "slow start up to the threshold");
        bound.on_ack(&used(4000, 4000));
        assert_eq!(bound.window(), 5000);
    }

    #[test]
    fn what_other_means_have_reached_is_allowed() {
        let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
        bound.raise_to(9000);
        assert_eq!(bound.window(), 10_000);
        bound.raise_to(90_000);
        assert_eq!(bound.window(), 90_000);
        bound.on_mtu(1400);
        assert_eq!(bound.window(), 90_000);
    }
}
