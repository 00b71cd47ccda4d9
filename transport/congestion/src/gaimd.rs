//! General AIMD, TCP(alpha, beta), with Reno as TCP(1, 1/2).
//!
//! The window grows by alpha packets per window of acknowledged bytes and falls *to* beta times
//! itself when packets are lost or marked. TCP(1, 0.5) is the NewReno of RFC 9002, section 7;
//! TCP(0.31, 0.875) gives about the same throughput in smaller steps (Y. R. Yang and S. S. Lam,
//! "General AIMD Congestion Control", ICNP 2000, whose beta is what we call beta too).
//! Deviations: growth by bytes acknowledged, not by ACKs; see `docs/deviations.md`.

use crate::controller::{Ack, Congestion, Controller};
use crate::window::{InitialWindow, minimum_window, packets_to_bytes, scale};

/// What a probe timeout does to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeouts {
    /// Nothing (RFC 9002, section 6.2.2.1).
    #[default]
    Quic,
    /// Every one reduces the threshold as a loss does and leaves the least window, as ns-2's TCP has
    /// it. RFC 5681, section 3.1, would reduce the threshold at the first one of several alone.
    Tcp,
    /// And more than two packets lost of one window count as one, because TCP without SACK mostly
    /// waits for its retransmission timeout then.
    Reno,
}

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Packets added per window of acknowledged bytes, that is per round trip.
    pub alpha: f64,
    /// Factor the window is reduced to, in 0..1.
    pub beta: f64,
    /// What a probe timeout does.
    pub timeouts: Timeouts,
    /// The window to begin with.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Reno: one packet a round trip, half the window (RFC 9002, sections 7.3.2 and 7.3.3).
    pub const RENO: Self = Self {
        alpha: 1.0,
        beta: 0.5,
        timeouts: Timeouts::Quic,
        initial_window: InitialWindow::Rfc9002,
    };

    /// The smooth setting: beta 7/8, and the alpha that takes as much as Reno does, since
    /// 4 (1 - beta^2) / 3 = 0.3125 (Yang and Lam).
    pub const SMOOTH: Self = Self {
        alpha: 0.31,
        beta: 0.875,
        timeouts: Timeouts::Quic,
        initial_window: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::RENO
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Gaimd {
    config: Config,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes.
    window: u64,
    /// Bytes; slow start below it, additive increase from it on.
    threshold: Option<u64>,
    /// Bytes acknowledged since the last additive increase.
    acked: u64,
}

impl Gaimd {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            window: config.initial_window.bytes(mtu),
            config,
            mtu,
            threshold: None,
            acked: 0,
        }
    }

    /// Sets the additive increase from now on, in packets per round trip.
    pub(crate) fn set_alpha(&mut self, alpha: f64) {
        self.config.alpha = alpha;
    }

    /// Whether the window is below the threshold, or nothing has set one.
    pub(crate) fn in_slow_start(&self) -> bool {
        self.threshold
            .is_none_or(|threshold| self.window < threshold)
    }

    /// Goes on in congestion avoidance with `window` bytes, at least the minimum.
    pub(crate) fn leave_slow_start(&mut self, window: u64) {
        self.window = window.max(minimum_window(self.mtu));
        self.threshold = Some(self.window);
        self.acked = 0;
    }

    /// Lowers the window to `window` bytes if it is larger.
    pub(crate) fn lower_to(&mut self, window: u64) {
        self.window = self.window.min(window.max(minimum_window(self.mtu)));
    }

    /// Raises the window to `window` bytes if it is smaller.
    pub(crate) fn raise_to(&mut self, window: u64) {
        self.window = self.window.max(window);
    }

    /// Reduces the window to `factor` times itself and goes on with additive increase.
    pub(crate) fn reduce_to(&mut self, factor: f64) {
        let window = multiplicative_decrease(self.window, factor, self.mtu);
        self.leave_slow_start(window);
    }

    /// What TCP's retransmission timeout does.
    fn time_out(&mut self) {
        self.reduce_to(self.config.beta);
        self.window = minimum_window(self.mtu);
    }
}

/// RFC 9002, section 7.3.1: slow start adds what was acknowledged, up to the threshold.
/// Returns the bytes to add; the rest of `acked` counts towards additive increase.
fn slow_start_increase(window: u64, threshold: Option<u64>, acked: u64) -> u64 {
    threshold.map_or(acked, |threshold| {
        acked.min(threshold.saturating_sub(window))
    })
}

/// w <- w + alpha per w acknowledged bytes (RFC 9002, section 7.3.3, with RFC 3465's count of
/// bytes). Returns the bytes to add and those left to count.
fn additive_increase(window: u64, alpha: f64, mtu: u16, acked: u64) -> (u64, u64) {
    let windows = acked / window;
    (
        windows.saturating_mul(packets_to_bytes(alpha, mtu)),
        acked % window,
    )
}

/// w <- beta w, at least the minimum (RFC 9002, section 7.3.2).
fn multiplicative_decrease(window: u64, beta: f64, mtu: u16) -> u64 {
    scale(window, beta).max(minimum_window(mtu))
}

impl Controller for Gaimd {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.app_limited {
            return;
        }
        let acked = ack.bytes_after_recovery;
        let increase = slow_start_increase(self.window, self.threshold, acked);
        self.window = self.window.saturating_add(increase);
        let (increase, left) = additive_increase(
            self.window,
            self.config.alpha,
            self.mtu,
            self.acked.saturating_add(acked - increase),
        );
        self.window = self.window.saturating_add(increase);
        self.acked = left;
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.reduce_to(self.config.beta);
    }

    fn on_persistent_congestion(&mut self) {
        self.window = minimum_window(self.mtu);
        self.acked = 0;
    }

    fn on_probe_timeout(&mut self) -> bool {
        if self.config.timeouts == Timeouts::Quic {
            return false;
        }
        self.time_out();
        true
    }

    fn on_heavy_loss(&mut self) {
        if self.config.timeouts == Timeouts::Reno {
            self.time_out();
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window = self.window.max(minimum_window(mtu));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.threshold
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Cause;
    use crate::testing::{epoch, ms};

    const MTU: u16 = 1000;

    fn ack(bytes: u64) -> Ack {
        Ack {
            now: epoch(),
            sent: epoch(),
            rtt: Some(ms(40)),
            newest_bytes: bytes,
            packets: bytes.div_ceil(u64::from(MTU)),
            bytes,
            bytes_after_recovery: bytes,
            in_flight: bytes,
            app_limited: false,
        }
    }

    fn loss() -> Congestion {
        Congestion {
            now: epoch(),
            cause: Cause::Loss,
            lost: 1000,
        }
    }

    /// In congestion avoidance with a window of `window` bytes.
    fn avoiding(config: Config, window: u64) -> Gaimd {
        Gaimd {
            window,
            threshold: Some(window),
            ..Gaimd::new(config, MTU)
        }
    }

    #[test]
    fn slow_start_adds_what_was_acknowledged() {
        let mut reno = Gaimd::new(Config::RENO, MTU);
        assert_eq!((reno.window(), reno.slow_start_threshold()), (10_000, None));
        reno.on_ack(&ack(2000));
        reno.on_ack(&ack(500));
        assert_eq!(reno.window(), 12_500);
    }

    #[test]
    fn slow_start_ends_at_the_threshold_and_the_rest_counts_towards_the_increase() {
        let mut reno = Gaimd {
            window: 9000,
            threshold: Some(10_000),
            ..Gaimd::new(Config::RENO, MTU)
        };
        reno.on_ack(&ack(3000));
        assert_eq!((reno.window, reno.acked), (10_000, 2000));
        reno.on_ack(&ack(7999));
        assert_eq!((reno.window, reno.acked), (10_000, 9999));
        reno.on_ack(&ack(1));
        assert_eq!((reno.window, reno.acked), (11_000, 0));
    }

    #[test]
    fn the_window_grows_by_alpha_packets_per_window_acknowledged() {
        // (alpha, window, acknowledged at once, window after, bytes left to count)
        let table = [
            (1.0, 10_000, 9_999, 10_000, 9_999),
            (1.0, 10_000, 10_000, 11_000, 0),
            (1.0, 10_000, 10_400, 11_000, 400),
            (0.31, 10_000, 10_000, 10_310, 0),
            (2.0, 10_000, 25_000, 14_000, 5_000),
        ];
        for (alpha, window, acked, after, left) in table {
            let mut gaimd = avoiding(
                Config {
                    alpha,
                    ..Config::default()
                },
                window,
            );
            gaimd.on_ack(&ack(acked));
            assert_eq!(
                (gaimd.window, gaimd.acked),
                (after, left),
                "alpha {alpha}, acked {acked}"
            );
        }
    }

    #[test]
    fn congestion_reduces_the_window_to_beta_of_itself() {
        // (beta, window, window after): never below two packets.
        let table = [
            (0.5, 10_000, 5_000),
            (0.875, 10_000, 8_750),
            (0.5, 3_000, 2_000),
            (0.5, 2_000, 2_000),
        ];
        for (beta, window, after) in table {
            let mut gaimd = avoiding(
                Config {
                    beta,
                    ..Config::default()
                },
                window,
            );
            gaimd.acked = 700;
            gaimd.on_congestion(&loss());
            assert_eq!(
                (gaimd.window, gaimd.threshold, gaimd.acked),
                (after, Some(after), 0),
                "beta {beta}"
            );
        }
    }

    #[test]
    fn many_losses_of_a_window_collapse_it_without_sack_alone() {
        let table = [
            (Timeouts::Quic, 5000, 5000),
            (Timeouts::Tcp, 5000, 5000),
            (Timeouts::Reno, 2000, 2500),
        ];
        for (timeouts, window, threshold) in table {
            let mut reno = avoiding(
                Config {
                    timeouts,
                    ..Config::RENO
                },
                10_000,
            );
            reno.on_congestion(&loss());
            reno.on_heavy_loss();
            assert_eq!(
                (reno.window, reno.threshold),
                (window, Some(threshold)),
                "{timeouts:?}"
            );
        }
    }

    #[test]
    fn after_persistent_congestion_slow_start_leads_back_to_the_threshold() {
        let mut reno = avoiding(Config::RENO, 10_000);
        reno.on_congestion(&loss());
        reno.on_persistent_congestion();
        assert_eq!((reno.window, reno.threshold), (2000, Some(5000)));
        reno.on_ack(&ack(2000));
        assert_eq!(reno.window, 4000);
        reno.on_ack(&ack(4000));
        assert_eq!((reno.window, reno.acked), (5000, 3000));
    }

    #[test]
    fn data_of_the_recovery_period_and_an_idle_application_do_not_grow_the_window() {
        let mut reno = Gaimd::new(Config::RENO, MTU);
        reno.on_ack(&Ack {
            bytes_after_recovery: 0,
            ..ack(2000)
        });
        reno.on_ack(&Ack {
            app_limited: true,
            ..ack(2000)
        });
        assert_eq!((reno.window, reno.acked), (10_000, 0));
    }

    #[test]
    fn a_larger_packet_raises_the_minimum_and_nothing_else() {
        let mut reno = avoiding(Config::RENO, 10_000);
        reno.on_mtu(1400);
        assert_eq!(reno.window, 10_000);
        let mut small = avoiding(Config::RENO, 2000);
        small.on_mtu(1400);
        assert_eq!(small.window, 2800);
    }
}
