//! General AIMD, TCP(alpha, beta), with Reno as TCP(1, 1/2).
//!
//! The window grows by alpha packets per window of acknowledged bytes and falls *to* beta times
//! itself when packets are lost or marked. TCP(1, 0.5) is the NewReno of RFC 9002, section 7;
//! TCP(0.31, 0.875) gives about the same throughput in smaller steps (Y. R. Yang and S. S. Lam,
//! "General AIMD Congestion Control", ICNP 2000, with the same beta).
//! Slow start ends before losses where round trips show a queue (`slow_start.rs`).
//! Deviations: growth by bytes acknowledged, not by ACKs; see `docs/deviations.md`.

use evenkeel_spec::{SpecError, SpecParameter, SpecValues};

use crate::adapter::{SharedFactory, adapt};
use crate::controller::{Ack, Congestion, Controller};
use crate::row::{ControllerBuild, ControllerRow};
use crate::slow_start::{Growth, HYSTART, HyStart, SlowStart};
use crate::window::{INITIAL_WINDOW, InitialWindow, minimum_window, packets_to_bytes, scale};

/// Settings of general AIMD.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Packets added per window of acknowledged bytes, that is per round trip.
    pub alpha: f64,
    /// Factor of the window after a loss or mark, in 0..1.
    pub beta: f64,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// How the first slow start ends.
    pub slow_start: SlowStart,
}

impl Config {
    /// Reno: adds a packet per round trip, halves the window (RFC 9002, sections 7.3.2 and 7.3.3).
    pub const RENO: Self = Self {
        alpha: 1.0,
        beta: 0.5,
        initial_window: InitialWindow::Rfc9002,
        slow_start: SlowStart::Loss,
    };

    /// The smooth setting: beta 7/8, and the alpha that gets as much as Reno, since 4 (1 - beta^2)
    /// / 3 = 0.3125 (Yang and Lam).
    pub const SMOOTH: Self = Self {
        alpha: 0.31,
        beta: 0.875,
        initial_window: InitialWindow::Rfc9002,
        slow_start: SlowStart::Loss,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::RENO
    }
}

impl Config {
    /// Reads the parameters of [`parameters`] and `iw`.
    pub fn read(values: &SpecValues) -> Self {
        Self {
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            initial_window: InitialWindow::read(values, "iw"),
            slow_start: SlowStart::Loss,
        }
    }

    /// Reads also `hystart`.
    fn read_row(values: &SpecValues) -> Self {
        Self {
            slow_start: SlowStart::read(values, SlowStart::HyStart),
            ..Self::read(values)
        }
    }
}

/// Returns the parameters `alpha` and `beta` with these defaults.
pub const fn parameters(default: Config) -> [SpecParameter; 2] {
    [
        SpecParameter::number(
            "alpha",
            "packets added per round trip",
            0.01,
            100.0,
            Some(default.alpha),
        ),
        SpecParameter::number(
            "beta",
            "factor the window is reduced to on loss",
            0.05,
            0.99,
            Some(default.beta),
        ),
    ]
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Gaimd {
    config: Config,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// In bytes.
    window: u64,
    /// In bytes: slow start below, additive increase from it on.
    threshold: Option<u64>,
    /// Bytes acknowledged since the last additive increase.
    acked: u64,
    /// Slow start without a threshold.
    hystart: HyStart,
}

impl Gaimd {
    /// Creates a controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            window: config.initial_window.bytes(mtu),
            hystart: HyStart::new(config.slow_start),
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

    /// Returns true if the window is below the threshold, or no threshold is set.
    pub(crate) fn in_slow_start(&self) -> bool {
        self.threshold
            .is_none_or(|threshold| self.window < threshold)
    }

    /// Continues in congestion avoidance with `window` bytes, at least the minimum.
    pub(crate) fn avoid_congestion(&mut self, window: u64) {
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

    /// Reduces the window to `factor` times itself and continues in congestion avoidance.
    pub(crate) fn reduce(&mut self, factor: f64) {
        let window = multiplicative_decrease(self.window, factor, self.mtu);
        self.avoid_congestion(window);
    }
}

/// RFC 9002, section 7.3.1: slow start adds what was acknowledged, up to the threshold. Returns the
/// bytes to add; the rest of `acked` counts towards additive increase.
fn slow_start_increase(window: u64, threshold: u64, acked: u64) -> u64 {
    acked.min(threshold.saturating_sub(window))
}

/// w <- w + alpha per w acknowledged bytes (RFC 9002, section 7.3.3, counting bytes as RFC 3465
/// does). Returns the bytes to add and those left to count.
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
        let Some(threshold) = self.threshold else {
            match self.hystart.on_ack(ack, acked, self.window, self.mtu) {
                Growth::By(bytes) => self.window = self.window.saturating_add(bytes),
                Growth::Last(bytes) => self.avoid_congestion(self.window.saturating_add(bytes)),
            }
            return;
        };
        let increase = slow_start_increase(self.window, threshold, acked);
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
        self.reduce(self.config.beta);
    }

    fn on_persistent_congestion(&mut self) {
        self.window = minimum_window(self.mtu);
        self.acked = 0;
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window = self.window.max(minimum_window(mtu));
    }

    fn resume(&mut self, window: u64) {
        self.avoid_congestion(window);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.threshold
    }
}

pub(crate) const RENO: ControllerRow = ControllerRow {
    name: "reno",
    summary: "NewReno of RFC 9002",
    parameters: &[INITIAL_WINDOW, HYSTART],
    build: ControllerBuild {
        uses_path: |_| false,
        factory: |values| {
            factory(Config {
                initial_window: InitialWindow::read(values, "iw"),
                slow_start: SlowStart::read(values, SlowStart::HyStart),
                ..Config::RENO
            })
        },
    },
};

pub(crate) const GAIMD: ControllerRow = ControllerRow {
    name: "gaimd",
    summary: "general AIMD, TCP(alpha, beta)",
    parameters: &row_parameters(Config::RENO),
    build: BUILD,
};

pub(crate) const SMOOTH_AIMD: ControllerRow = ControllerRow {
    name: "smooth-aimd",
    summary: "general AIMD in small steps, as fast as reno",
    parameters: &row_parameters(Config::SMOOTH),
    build: BUILD,
};

const BUILD: ControllerBuild = ControllerBuild {
    uses_path: |_| false,
    factory: |values| factory(Config::read_row(values)),
};

const fn row_parameters(default: Config) -> [SpecParameter; 4] {
    let [alpha, beta] = parameters(default);
    [alpha, beta, INITIAL_WINDOW, HYSTART]
}

fn factory(config: Config) -> Result<SharedFactory, SpecError> {
    Ok(adapt(move |_, mtu| Box::new(Gaimd::new(config, mtu))))
}

#[cfg(test)]
mod tests;
