//! TCP Vegas: keeps alpha to beta of its own packets queued in the network.
//!
//! Y.-C. Chan, C.-T. Chan and Y.-C. Chen, "RoVegas", section 2.1, Eq. (1), after L. Brakmo and
//! L. Peterson (JSAC 1995). Once a round, Diff = (Expected - Actual) BaseRTT decides: below
//! alpha the window grows by an increment (1 packet in Vegas; 8 in the Vegas_8 of A. Maor and
//! Y. Mansour, "AdaVegas"), above beta it shrinks by one packet. Slow start doubles the window
//! every other round until Diff > gamma, then takes an eighth off. A loss halves the window.
//! Deviations, with reasons: `docs/deviations.md`.

use evenkeel_spec::{SpecError, SpecParameter, SpecValues};

use crate::adapter::adapt;
use crate::controller::{Ack, Congestion, Controller, Round};
use crate::diff::{DiffWindow, Step, Thresholds};
use crate::row::{ControllerBuild, ControllerRow};
use crate::window::{INITIAL_WINDOW, InitialWindow};

/// Factor of the window after a loss (AdaVegas, section III-A: "cut in half").
pub(crate) const LOSS_FACTOR: f64 = 0.5;

/// Packets by which a round above beta lowers the window (RoVegas, Eq. 4).
const DECREMENT: f64 = 1.0;

/// Settings of Vegas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Values of Diff at which the window changes.
    pub thresholds: Thresholds,
    /// Packets added in a round of growth.
    pub increment: f64,
    /// The initial window.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Vegas_1 (AdaVegas, Table I, row 1), with the gamma of ns-2's Vegas.
    pub const VEGAS_1: Self = Self {
        thresholds: Thresholds {
            alpha: 1.0,
            beta: 3.0,
            gamma: 1.0,
        },
        increment: 1.0,
        initial_window: InitialWindow::Rfc9002,
    };

    /// Vegas_8 (AdaVegas, section II and Table I, last row).
    pub const VEGAS_8: Self = Self {
        thresholds: Thresholds {
            alpha: 4.0,
            beta: 8.0,
            gamma: 1.0,
        },
        increment: 8.0,
        initial_window: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::VEGAS_1
    }
}

impl Config {
    /// Reads the parameters of [`parameters`] and `iw`.
    ///
    /// # Errors
    ///
    /// If alpha is above beta.
    pub fn read(values: &SpecValues) -> Result<Self, SpecError> {
        values.in_order("alpha", "beta")?;
        Ok(Self {
            thresholds: Thresholds {
                alpha: values.number("alpha"),
                beta: values.number("beta"),
                gamma: values.number("gamma"),
            },
            increment: values.number("inc"),
            initial_window: InitialWindow::read(values, "iw"),
        })
    }

    /// Returns the packets by which `step` changes the window (RoVegas, Eq. 4).
    pub fn change(&self, step: Option<Step>) -> f64 {
        match step {
            Some(Step::Grow) => self.increment,
            Some(Step::Shrink) => -DECREMENT,
            Some(Step::Hold) | None => 0.0,
        }
    }
}

/// The parameter `gamma`.
pub const GAMMA: SpecParameter = SpecParameter::number(
    "gamma",
    "slow start ends above this many packets of its own queued",
    0.0,
    1000.0,
    Some(Config::VEGAS_1.thresholds.gamma),
);

/// Returns the parameters `alpha`, `beta`, `inc` and `gamma` with these defaults.
pub const fn parameters(default: Config) -> [SpecParameter; 4] {
    [
        SpecParameter::number(
            "alpha",
            "the window grows below this many packets of its own queued",
            0.0,
            1000.0,
            Some(default.thresholds.alpha),
        ),
        SpecParameter::number(
            "beta",
            "the window shrinks above this many packets of its own queued",
            0.0,
            1000.0,
            Some(default.thresholds.beta),
        ),
        SpecParameter::number(
            "inc",
            "packets added in a round of growth",
            0.01,
            100.0,
            Some(default.increment),
        ),
        GAMMA,
    ]
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Vegas {
    config: Config,
    window: DiffWindow,
}

impl Vegas {
    /// Creates a controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            config,
            window: DiffWindow::new(config.initial_window, mtu),
        }
    }
}

impl Controller for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        self.window.on_ack(ack);
    }

    fn on_round(&mut self, round: &Round) {
        let base_rtt = self.window.base_rtt(round);
        let least = self.window.diff(base_rtt, round.rtt_min);
        let end = self.window.diff(base_rtt, round.rtt_end);
        let thresholds = &self.config.thresholds;
        let step = self.window.end_round(round, thresholds, least, end);
        self.window.change(self.config.change(step));
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.window.reduce(LOSS_FACTOR);
    }

    fn on_persistent_congestion(&mut self) {
        self.window.collapse();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.window.on_mtu(mtu);
    }

    fn resume(&mut self, window: u64) {
        self.window.avoid_congestion(window);
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.window.slow_start_threshold()
    }
}

pub(crate) const VEGAS: ControllerRow = ControllerRow {
    name: "vegas",
    summary: "TCP Vegas: keeps 1 to 3 packets queued",
    parameters: &row_parameters(Config::VEGAS_1),
    build: BUILD,
};

pub(crate) const VEGAS_8: ControllerRow = ControllerRow {
    name: "vegas8",
    summary: "Vegas_8 of the AdaVegas paper: grows by 8, keeps 4 to 8 packets queued",
    parameters: &row_parameters(Config::VEGAS_8),
    build: BUILD,
};

const BUILD: ControllerBuild = ControllerBuild {
    uses_path: |_| false,
    factory: |values| {
        let config = Config::read(values)?;
        Ok(adapt(move |_, mtu| Box::new(Vegas::new(config, mtu))))
    },
};

const fn row_parameters(default: Config) -> [SpecParameter; 5] {
    let [alpha, beta, increment, gamma] = parameters(default);
    [alpha, beta, increment, gamma, INITIAL_WINDOW]
}

#[cfg(test)]
mod tests;
