//! AdaVegas: Vegas that grows faster the longer Diff stays below alpha.
//!
//! A. Maor and Y. Mansour, "AdaVegas: Adaptive Control for TCP Vegas", section III-B. The number of
//! successive rounds with Diff < alpha selects a row of a table, which sets alpha, beta and the
//! increment. A window that proves too large gives back half of the last increment, then half of
//! that. Diff, slow start and the reaction to losses are Vegas's.
//! What the paper leaves open: `docs/algorithms/ada-vegas.md`; deviations: `docs/deviations.md`.

use evenkeel_spec::{SpecParameter, SpecValues};

use crate::adapter::adapt;
use crate::controller::{Ack, Congestion, Controller, Round};
use crate::diff::{DiffWindow, Step, Thresholds};
use crate::row::{ControllerBuild, ControllerRow};
use crate::vegas;
use crate::window::{INITIAL_WINDOW, InitialWindow};

/// The least number of packets by which a round above beta lowers the window (section III-B).
const LEAST_DECREMENT: f64 = 1.0;

/// Successive rounds with Diff from alpha to beta after which the last increment is forgotten
/// (section III-B: "after two RTTs of steady state").
const STEADY_ROUNDS: u32 = 2;

/// How to grow from some number of successive rounds of growth on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Successive rounds with Diff < alpha, the present one included, from which the row applies.
    pub successes: u32,
    /// The window grows below this Diff, in packets.
    pub alpha: f64,
    /// The window shrinks above this Diff, in packets. Not below alpha.
    pub beta: f64,
    /// Packets added in a round of growth.
    pub increment: f64,
}

/// Table I. The paper prints its third row as 4 to 15, which the second contradicts: 8 to 15.
pub const TABLE_I: [Row; 4] = [
    row(0, 1.0, 3.0, 1.0),
    row(4, 2.0, 4.0, 2.0),
    row(8, 2.0, 4.0, 4.0),
    row(16, 4.0, 8.0, 8.0),
];

const fn row(successes: u32, alpha: f64, beta: f64, increment: f64) -> Row {
    Row {
        successes,
        alpha,
        beta,
        increment,
    }
}

/// Looks up Table I: returns the last row that `successes` reaches.
fn row_for(table: &'static [Row], successes: u32) -> &'static Row {
    table
        .iter()
        .rfind(|row| row.successes <= successes)
        .expect("the table begins with a row from 0 successes")
}

/// Turns the steps that Diff asks for into window changes.
#[derive(Debug, Clone)]
pub struct Acceleration {
    table: &'static [Row],
    relapse: bool,
    /// The row in force.
    row: &'static Row,
    /// Successive rounds with Diff < alpha: succ.
    successes: u32,
    /// lastInc: packets that the last round of growth added, halved by every round above beta
    /// since.
    last_increment: f64,
    /// Successive rounds with Diff from alpha to beta.
    steady_rounds: u32,
}

impl Acceleration {
    /// Starts with the first row of `table`, whose rows are in ascending order of `successes`.
    /// With `relapse` a round without Diff < alpha restores the first row; otherwise the row stays
    /// in force until the next round with Diff < alpha.
    ///
    /// # Panics
    ///
    /// If the table is empty or its first row does not begin at 0 successes.
    pub fn new(table: &'static [Row], relapse: bool) -> Self {
        Self {
            table,
            relapse,
            row: row_for(table, 0),
            successes: 0,
            last_increment: LEAST_DECREMENT,
            steady_rounds: 0,
        }
    }

    /// Returns the row in force.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// Follows `step` of congestion avoidance. Returns the packets to add to the window; a negative
    /// number lowers it.
    pub fn change(&mut self, step: Step) -> f64 {
        self.steady_rounds = match step {
            Step::Hold => self.steady_rounds.saturating_add(1),
            Step::Grow | Step::Shrink => 0,
        };
        if step == Step::Grow {
            self.successes = self.successes.saturating_add(1);
            self.row = row_for(self.table, self.successes);
            self.last_increment = self.row.increment;
            return self.last_increment;
        }
        self.successes = 0;
        if self.relapse {
            self.row = row_for(self.table, 0);
        }
        if step == Step::Shrink {
            self.last_increment = (self.last_increment / 2.0).max(LEAST_DECREMENT);
            return -self.last_increment;
        }
        if self.steady_rounds >= STEADY_ROUNDS {
            self.last_increment = LEAST_DECREMENT;
        }
        0.0
    }

    /// Forgets the increments that led to a loss.
    pub fn restart(&mut self) {
        *self = Self::new(self.table, self.relapse);
    }
}

/// Settings of AdaVegas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// The rows in ascending order of `successes`, the first from 0.
    pub table: &'static [Row],
    /// Whether a round without Diff < alpha restores the first row. Otherwise the row stays in
    /// force until the next round with Diff < alpha. The paper allows both readings.
    pub relapse: bool,
    /// Slow start ends above this number of queued packets.
    pub gamma: f64,
    /// The initial window.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Table I, and the reading that matches the paper's Table VII better.
    pub const PAPER: Self = Self {
        table: &TABLE_I,
        relapse: true,
        gamma: vegas::Config::VEGAS_1.thresholds.gamma,
        initial_window: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::PAPER
    }
}

impl Config {
    /// Reads the parameters `relapse`, `gamma` and `iw`.
    pub fn read(values: &SpecValues) -> Self {
        Self {
            table: &TABLE_I,
            relapse: values.flag("relapse"),
            gamma: values.number("gamma"),
            initial_window: InitialWindow::read(values, "iw"),
        }
    }
}

/// The parameter `relapse`.
pub const RELAPSE: SpecParameter = SpecParameter::flag(
    "relapse",
    "whether a round without growth restores the table's first row at once",
    Config::PAPER.relapse,
);

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct AdaVegas {
    gamma: f64,
    window: DiffWindow,
    acceleration: Acceleration,
}

impl AdaVegas {
    /// Creates a controller in slow start, for full-size packets of `mtu` bytes.
    ///
    /// # Panics
    ///
    /// As [`Acceleration::new`].
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            gamma: config.gamma,
            window: DiffWindow::new(config.initial_window, mtu),
            acceleration: Acceleration::new(config.table, config.relapse),
        }
    }
}

impl Controller for AdaVegas {
    fn on_ack(&mut self, ack: &Ack) {
        self.window.on_ack(ack);
    }

    fn on_round(&mut self, round: &Round) {
        let base_rtt = self.window.base_rtt(round);
        let least = self.window.diff(base_rtt, round.rtt_min);
        let end = self.window.diff(base_rtt, round.rtt_end);
        let row = self.acceleration.row();
        let thresholds = Thresholds {
            alpha: row.alpha,
            beta: row.beta,
            gamma: self.gamma,
        };
        if let Some(step) = self.window.end_round(round, &thresholds, least, end) {
            self.window.change(self.acceleration.change(step));
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        self.window.reduce(vegas::LOSS_FACTOR);
        self.acceleration.restart();
    }

    fn on_persistent_congestion(&mut self) {
        self.window.collapse();
        self.acceleration.restart();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.window.on_mtu(mtu);
    }

    fn resume(&mut self, window: u64) {
        self.window.avoid_congestion(window);
        self.acceleration.restart();
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.window.slow_start_threshold()
    }
}

pub(crate) const ROW: ControllerRow = ControllerRow {
    name: "ada-vegas",
    summary: "AdaVegas: grows by 1 to 8, the faster the longer nothing speaks against it",
    parameters: &[RELAPSE, vegas::GAMMA, INITIAL_WINDOW],
    build: ControllerBuild {
        uses_path: |_| false,
        factory: |values| {
            let config = Config::read(values);
            Ok(adapt(move |_, mtu| Box::new(AdaVegas::new(config, mtu))))
        },
    },
};

#[cfg(test)]
mod tests;
