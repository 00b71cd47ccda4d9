//! AdaVegas: Vegas that grows faster the longer nothing speaks against it.
//!
//! A. Maor and Y. Mansour, "AdaVegas: Adaptive Control for TCP Vegas", section III-B. The number
//! of successive rounds with Diff < alpha picks a row of a table, and with it alpha, beta and the
//! increment. A window that proves too large gives back half of the last increment, then half of
//! that. All else is Vegas: Diff, slow start, and a loss halves the window.
//! What the paper leaves open: `docs/algorithms/ada-vegas.md`; deviations: `docs/deviations.md`.

use crate::controller::{Ack, Congestion, Controller, Round};
use crate::vegas::{self, Step, Vegas};
use crate::window::InitialWindow;

/// Least number of packets that a round above beta takes from the window (section III-B).
const LEAST_DECREMENT: f64 = 1.0;

/// Rounds from alpha to beta in a row after which the last increment is forgotten
/// (section III-B: "after two RTTs of steady state").
const STEADY_ROUNDS: u32 = 2;

/// How to grow from some number of successive rounds of growth on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Successive rounds with Diff < alpha, the present one included, from which the row holds.
    pub successes: u32,
    /// Fewer queued packets than this: the window grows.
    pub alpha: f64,
    /// More queued packets than this: the window shrinks. Not below alpha.
    pub beta: f64,
    /// Packets added in a round of growth.
    pub increment: f64,
}

/// Table I. Its third row is printed as 4 to 15, which the second contradicts: 8 to 15.
pub const TABLE_I: [Row; 4] = [
    row(0, 1.0, 3.0, 1.0),
    row(4, 2.0, 4.0, 2.0),
    row(8, 2.0, 4.0, 4.0),
    row(16, 4.0, 8.0, 8.0),
];

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// The rows by ascending `successes`, the first from 0.
    pub table: &'static [Row],
    /// Whether a round without Diff < alpha brings the first row back. Otherwise the row stays
    /// in force until the next round with Diff < alpha. The paper can be read both ways.
    pub relapse: bool,
    /// More queued packets than this: slow start ends.
    pub gamma: f64,
    /// The window to begin with.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Table I, and the reading that comes nearer to the paper's Table VII.
    pub const PAPER: Self = Self {
        table: &TABLE_I,
        relapse: false,
        gamma: vegas::Config::VEGAS_1.gamma,
        initial_window: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::PAPER
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct AdaVegas {
    table: &'static [Row],
    relapse: bool,
    /// Window, BaseRTT and slow start; its thresholds are those of the row in force.
    vegas: Vegas,
    /// Successive rounds with Diff < alpha: succ.
    successes: u32,
    /// Packets that the last round of growth added, halved by every round above beta since:
    /// lastInc.
    last_increment: f64,
    /// Successive rounds with Diff from alpha to beta.
    steady_rounds: u32,
}

impl AdaVegas {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    ///
    /// # Panics
    ///
    /// If the table is empty or its first row does not hold from 0 successes.
    pub fn new(config: Config, mtu: u16) -> Self {
        let first = row_for(config.table, 0);
        let vegas = vegas::Config {
            alpha: first.alpha,
            beta: first.beta,
            increment: first.increment,
            gamma: config.gamma,
            initial_window: config.initial_window,
        };
        Self {
            table: config.table,
            relapse: config.relapse,
            vegas: Vegas::new(vegas, mtu),
            successes: 0,
            last_increment: LEAST_DECREMENT,
            steady_rounds: 0,
        }
    }

    fn on_step(&mut self, step: Step) {
        self.steady_rounds = match step {
            Step::Keep => self.steady_rounds.saturating_add(1),
            Step::Grow | Step::Shrink => 0,
        };
        match step {
            Step::Grow => {
                self.successes = self.successes.saturating_add(1);
                let row = self.enforce_row();
                self.vegas.grow(row.increment);
                self.last_increment = row.increment;
                return;
            }
            Step::Keep if self.steady_rounds >= STEADY_ROUNDS => {
                self.last_increment = LEAST_DECREMENT;
            }
            Step::Keep => {}
            Step::Shrink => {
                self.last_increment = (self.last_increment / 2.0).max(LEAST_DECREMENT);
                self.vegas.shrink(self.last_increment);
            }
        }
        self.successes = 0;
        if self.relapse {
            self.enforce_row();
        }
    }

    /// Puts the row of the present number of successes in force.
    fn enforce_row(&mut self) -> &'static Row {
        let row = row_for(self.table, self.successes);
        self.vegas.set_thresholds(row.alpha, row.beta);
        row
    }

    /// Forgets the increments that led to a loss.
    fn start_again(&mut self) {
        self.successes = 0;
        self.last_increment = LEAST_DECREMENT;
        self.steady_rounds = 0;
        self.enforce_row();
    }
}

const fn row(successes: u32, alpha: f64, beta: f64, increment: f64) -> Row {
    Row {
        successes,
        alpha,
        beta,
        increment,
    }
}

/// Table I: the last row that `successes` reaches.
fn row_for(table: &'static [Row], successes: u32) -> &'static Row {
    table
        .iter()
        .rfind(|row| row.successes <= successes)
        .expect("the table begins with a row from 0 successes")
}

impl Controller for AdaVegas {
    fn on_ack(&mut self, ack: &Ack) {
        self.vegas.on_ack(ack);
    }

    fn on_round(&mut self, round: &Round) {
        if let Some(step) = self.vegas.observe(round) {
            self.on_step(step);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.vegas.on_congestion(event);
        self.start_again();
    }

    fn on_persistent_congestion(&mut self) {
        self.vegas.on_persistent_congestion();
        self.start_again();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.vegas.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.vegas.window()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.vegas.slow_start_threshold()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
