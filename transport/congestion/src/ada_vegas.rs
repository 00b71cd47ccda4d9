//! AdaVegas: Vegas that grows faster the longer nothing speaks against it.
//!
//! A. Maor and Y. Mansour, "AdaVegas: Adaptive Control for TCP Vegas", section III-B. The number
//! of successive rounds with Diff < alpha picks a row of a table, and with it alpha, beta and the
//! increment. A window that proves too large gives back half of the last increment, then half of
//! that. All else is Vegas: Diff, slow start, and a loss halves the window.
//! What the paper leaves open: `docs/algorithms/ada-vegas.md`; deviations: `docs/deviations.md`.

use crate::controller::{Ack, Congestion, Controller, Round};
use crate::gaimd::Timeouts;
use crate::vegas::{self, RoundRtt, Step, Vegas};
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
    /// Which round trip time of a round counts.
    pub rtt: RoundRtt,
    /// Factor the window is reduced to on loss or mark, 0 to 1.
    pub keep: f64,
    /// What a probe timeout does.
    pub timeouts: Timeouts,
    /// The window to begin with.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Table I, and the reading that comes nearer to the paper's Table VII.
    pub const PAPER: Self = Self {
        table: &TABLE_I,
        relapse: true,
        gamma: vegas::Config::VEGAS_1.gamma,
        rtt: RoundRtt::Least,
        keep: vegas::Config::VEGAS_1.keep,
        timeouts: Timeouts::Quic,
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
            rtt: config.rtt,
            keep: config.keep,
            timeouts: config.timeouts,
            initial_window: config.initial_window,
            ..vegas::Config::VEGAS_1
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

    fn on_probe_timeout(&mut self) -> bool {
        let collapsed = self.vegas.on_probe_timeout();
        if collapsed {
            self.start_again();
        }
        collapsed
    }

    fn on_heavy_loss(&mut self) {
        self.vegas.on_heavy_loss();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{loss, round};

    const MTU: u16 = 1000;

    /// The row stays in force until the next round with Diff < alpha.
    const STAYS: Config = Config {
        relapse: false,
        ..Config::PAPER
    };

    /// The first row returns with every round without Diff < alpha.
    const RELAPSES: Config = Config {
        relapse: true,
        ..Config::PAPER
    };

    /// In congestion avoidance with a window of 20 packets and a BaseRTT of 100 ms.
    fn avoiding(config: Config) -> AdaVegas {
        let iw = InitialWindow::Packets(40);
        let config = Config {
            initial_window: iw,
            ..config
        };
        let mut ada = AdaVegas::new(config, MTU);
        ada.on_round(&round(100));
        ada.on_congestion(&loss());
        assert_eq!(ada.window(), 20_000);
        ada
    }

    /// After 16 rounds of growth: 71 packets, row 4, with BaseRTT 100 ms.
    fn at_full_speed(config: Config) -> AdaVegas {
        let mut ada = avoiding(config);
        for _ in 0..16 {
            ada.on_round(&round(100));
        }
        assert_eq!((ada.window(), ada.last_increment), (71_000, 8.0));
        ada
    }

    /// Rounds of (RTT in ms, window after in packets, succ after, lastInc after).
    fn follow(mut ada: AdaVegas, rounds: &[(u64, u64, u32, f64)]) {
        for (number, &(rtt, window, successes, last_increment)) in rounds.iter().enumerate() {
            ada.on_round(&round(rtt));
            assert_eq!(
                (ada.window(), ada.successes, ada.last_increment),
                (window * 1000, successes, last_increment),
                "round {number} of {rounds:?}"
            );
        }
    }

    #[test]
    fn growth_gathers_speed_as_table_i_says() {
        for config in [STAYS, RELAPSES] {
            let mut expected = 20;
            let mut rounds = Vec::new();
            for successes in 1..=18 {
                let increment = match successes {
                    1..=3 => 1,
                    4..=7 => 2,
                    8..=15 => 4,
                    _ => 8,
                };
                expected += increment;
                rounds.push((100, expected, successes, increment as f64));
            }
            follow(avoiding(config), &rounds);
        }
    }

    #[test]
    fn a_row_counts_from_the_round_after_the_one_that_reached_it() {
        // 3 rounds of growth to 23 packets. 106 ms: Diff = 23 * 6 / 106 = 1.30, from the first
        // row's alpha, 1, to its beta.
        let to_23 = [(100, 21, 1, 1.0), (100, 22, 2, 1.0), (100, 23, 3, 1.0)];
        follow(
            avoiding(STAYS),
            &[&to_23[..], &[(106, 23, 0, 1.0)]].concat(),
        );
        // One more, to 25 packets and row 2: Diff = 25 * 6 / 106 = 1.42 is below its alpha, 2.
        let to_row_2 = [(100, 25, 4, 2.0), (106, 27, 5, 2.0)];
        follow(avoiding(STAYS), &[&to_23[..], &to_row_2].concat());
        follow(avoiding(RELAPSES), &[&to_23[..], &to_row_2].concat());
    }

    #[test]
    fn without_relapse_the_row_stays_until_the_next_growth() {
        follow(
            at_full_speed(STAYS),
            &[
                (109, 71, 0, 8.0), // Diff = 71 * 9 / 109 = 5.86: from 4 to 8
                (109, 71, 0, 1.0), // the second steady round forgets the increment
                (115, 70, 0, 1.0), // Diff = 71 * 15 / 115 = 9.26 > 8
                (105, 71, 1, 1.0), // Diff = 70 * 5 / 105 = 3.33 < 4: succ 1, so row 1
                (105, 70, 0, 1.0), // Diff = 71 * 5 / 105 = 3.38 > 3
            ],
        );
    }

    #[test]
    fn with_relapse_the_first_row_is_in_force_after_any_round_without_growth() {
        follow(
            at_full_speed(RELAPSES),
            &[
                (109, 71, 0, 8.0), // Diff = 5.86 is judged by row 4 yet: keep
                (109, 67, 0, 4.0), // and now it is above 3
                (102, 67, 0, 4.0), // Diff = 67 * 2 / 102 = 1.31: from 1 to 3
                (101, 68, 1, 1.0), // Diff = 67 * 1 / 101 = 0.66 < 1
            ],
        );
    }

    #[test]
    fn an_overshoot_gives_back_half_of_the_last_increment_then_half_of_that() {
        follow(
            at_full_speed(STAYS),
            &[
                (115, 67, 0, 4.0), // Diff = 9.26 > 8
                (115, 65, 0, 2.0), // 8.74
                (115, 64, 0, 1.0), // 8.48
                (115, 63, 0, 1.0), // 8.35, and never less than a packet
                (109, 63, 0, 1.0),
            ],
        );
        // A steady round between does not forget the increment, nor do two that are not in a row.
        follow(
            at_full_speed(STAYS),
            &[
                (109, 71, 0, 8.0),
                (115, 67, 0, 4.0),
                (109, 67, 0, 4.0), // Diff = 5.53
                (115, 65, 0, 2.0),
            ],
        );
    }

    #[test]
    fn a_loss_halves_the_window_and_starts_the_table_again() {
        let mut ada = at_full_speed(STAYS);
        ada.on_congestion(&loss());
        assert_eq!(
            (ada.window(), ada.slow_start_threshold()),
            (35_500, Some(35_500))
        );
        // Diff = 35.5 * 5 / 105 = 1.69 is not below alpha = 1.
        ada.on_round(&round(105));
        assert_eq!((ada.window(), ada.last_increment), (35_500, 1.0));
        ada.on_round(&round(100));
        assert_eq!((ada.window(), ada.successes), (36_500, 1));
        ada.on_persistent_congestion();
        assert_eq!((ada.window(), ada.successes), (2000, 0));
    }

    #[test]
    fn a_round_that_leaves_the_window_unused_neither_grows_it_nor_counts() {
        let mut ada = at_full_speed(STAYS);
        ada.on_round(&Round {
            unused: 2001,
            ..round(100)
        });
        assert_eq!((ada.window(), ada.successes), (71_000, 16));
    }

    #[test]
    fn the_window_never_shrinks_below_two_packets() {
        let mut ada = at_full_speed(STAYS);
        ada.on_persistent_congestion();
        ada.on_congestion(&loss());
        // A queue of 4 packets at the least window: Diff = 2 * 900 / 1000 = 1.8 keeps, and
        // a table that tolerates none shrinks.
        ada.vegas.set_thresholds(0.5, 0.5);
        ada.on_round(&round(1000));
        assert_eq!(ada.window(), 2000);
    }

    #[test]
    fn what_a_loss_leaves_can_be_set() {
        let config = Config {
            keep: 0.75,
            ..Config::PAPER
        };
        let mut ada = AdaVegas::new(config, MTU);
        let before = ada.window();
        ada.on_congestion(&loss());
        assert_eq!(ada.window(), before / 4 * 3);
    }

    #[test]
    fn slow_start_is_that_of_vegas() {
        let mut ada = AdaVegas::new(Config::PAPER, MTU);
        let mut vegas = Vegas::new(vegas::Config::VEGAS_1, MTU);
        for rtt in [100, 100, 100, 103, 130, 130] {
            let ack = crate::testing::ack(crate::testing::epoch(), rtt, 5000);
            ada.on_ack(&ack);
            vegas.on_ack(&ack);
            ada.on_round(&round(rtt));
            vegas.on_round(&round(rtt));
            assert_eq!(ada.window(), vegas.window());
        }
        assert!(ada.slow_start_threshold().is_some());
        assert_eq!(ada.slow_start_threshold(), vegas.slow_start_threshold());
    }

    #[test]
    fn the_table_can_be_another() {
        const TABLE: [Row; 2] = [row(0, 1.0, 3.0, 0.5), row(2, 1.0, 3.0, 16.0)];
        let config = Config {
            table: &TABLE,
            ..STAYS
        };
        let mut ada = avoiding(config);
        for window in [20_500, 36_500, 52_500] {
            ada.on_round(&round(100));
            assert_eq!(ada.window(), window);
        }
    }

    #[test]
    #[should_panic(expected = "a row from 0 successes")]
    fn a_table_that_begins_late_is_refused() {
        const TABLE: [Row; 1] = [row(1, 1.0, 3.0, 1.0)];
        let config = Config {
            table: &TABLE,
            ..STAYS
        };
        AdaVegas::new(config, MTU);
    }
}
