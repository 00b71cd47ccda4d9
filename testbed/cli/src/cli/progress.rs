//! Tells how several runs get on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel_log::complain;
use indicatif::ProgressBar;

use super::{bar, note, wall_clock};

/// A bar on a terminal; elsewhere a line for each run that ends.
pub(super) struct Progress {
    bar: ProgressBar,
    began: Instant,
    runs: usize,
    ended: usize,
    /// Of all runs, of those that have ended, and of what is done of those under way by their label.
    weight: f64,
    done: f64,
    under_way: BTreeMap<String, f64>,
}

impl Progress {
    /// Resolution of the bar.
    const STEPS: f64 = 1e6;

    /// Shows the progress of `runs` runs whose weights add up to `weight`.
    pub(super) fn new(runs: usize, weight: f64) -> Self {
        Self {
            bar: bar(Self::STEPS as u64),
            began: wall_clock(),
            runs,
            ended: 0,
            weight,
            done: 0.0,
            under_way: BTreeMap::new(),
        }
    }

    /// So much of a run is done.
    pub(super) fn advanced(&mut self, label: String, weight: f64) {
        self.under_way.insert(label, weight);
        self.show();
    }

    /// A run of this weight has ended, with an error or without.
    pub(super) fn ended(&mut self, label: &str, weight: f64, error: Option<&str>) {
        self.under_way.remove(label);
        self.done += weight;
        self.ended += 1;
        if let Some(error) = error {
            self.bar
                .suspend(|| complain("evenkeel-testbed", &format!("{label} failed: {error}")));
        } else if self.bar.is_hidden() {
            let left = left(wall_clock() - self.began, self.share());
            let (ended, runs) = (self.ended, self.runs);
            note(&format!("[{ended}/{runs}] {label}; about {left} left"));
        }
        self.show();
    }

    /// No run is under way any more.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn show(&self) {
        let share = self.share();
        self.bar.set_position((share * Self::STEPS) as u64);
        self.bar
            .set_message(format!("{} of {} runs", self.ended, self.runs));
    }

    fn share(&self) -> f64 {
        let under_way: f64 = self.under_way.values().sum();
        ((self.done + under_way) / self.weight.max(1.0)).min(1.0)
    }
}

/// The time that remains, if work goes on as it has until `share` was done.
fn left(spent: Duration, share: f64) -> String {
    let seconds = spent.as_secs_f64() * (1.0 - share) / share.max(1e-6);
    if seconds < 100.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

/// As many as the machine has.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_was_done() {
        assert_eq!(left(Duration::from_secs(10), 0.25), "30 s");
        assert_eq!(left(Duration::from_secs(100), 0.1), "15 min");
    }
}
