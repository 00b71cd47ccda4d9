//! Makes the runs of experiments or of the league, and tells how they get on.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use evenkeel_experiments::{Build, Event, Outcome, Plan, Run, Store, heaviest_first, run, shard};
use evenkeel_testbed::backend::sim;
use indicatif::ProgressBar;

use crate::cli::{Backend, CliError, bar, interrupts, note, say, signals, wall_clock};

/// Part `index` of `count`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) struct Shard {
    index: usize,
    count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parsed =
            parts.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err("write I/N with I from 1 to N, e.g. 2/4".into()),
        }
    }
}

/// This program.
pub(in crate::cli) fn build() -> Result<Build, CliError> {
    let executable = std::env::current_exe().map_err(CliError::Executable)?;
    Build::of_executable(&executable).map_err(CliError::Executable)
}

/// Those of `runs` that belong to the shard and have not been made yet, in the order in which to
/// make them; and a line for each flow that died in those that have.
pub(in crate::cli) fn pending(
    runs: Vec<Run>,
    part: Option<Shard>,
    plan: &Plan,
    store: &Store,
) -> Result<(Vec<Run>, Vec<String>), CliError> {
    let runs = match part {
        Some(Shard { index, count }) => shard(runs, index, count),
        None => heaviest_first(runs),
    };
    let all = runs.len();
    let (mut pending, mut failures) = (Vec::new(), Vec::new());
    for run in runs {
        match store.find(&run, plan)? {
            Some(record) => failures.extend(record.failures(&run)),
            None => pending.push(run),
        }
    }
    if pending.len() < all {
        note(&format!(
            "{} of {all} runs were made before",
            all - pending.len()
        ));
    }
    Ok((pending, failures))
}

/// Whether a kernel can make the runs, or none needs one. The simulator checks all else of a run as
/// it begins it.
pub(in crate::cli) fn check(runs: &[Run], on: Backend) -> Result<(), CliError> {
    let of_kernel = |run: &&Run| on != Backend::Sim || run.scenario.needs_kernel();
    for run in runs.iter().filter(of_kernel) {
        let checked = on.check(&run.scenario, &sim::Options::default());
        checked.map_err(|error| CliError::Run(run.label(), Box::new(error)))?;
    }
    Ok(())
}

/// Makes the runs, `jobs` at a time or as many as the machine has cores, and keeps them.
pub(in crate::cli) fn make(
    runs: Vec<Run>,
    plan: &Plan,
    store: &Store,
    jobs: Option<u16>,
) -> Result<Outcome, CliError> {
    let jobs = jobs.map_or_else(cores, usize::from);
    let mut progress = Progress::new(&runs);
    let outcome = run(runs, plan, store, jobs, interrupts()?, |event| {
        progress.tell(&event);
    })?;
    progress.bar.finish_and_clear();
    if outcome.interrupted {
        note(&format!(
            "interrupted: {} runs are kept; the same command goes on",
            outcome.finished
        ));
    }
    Ok(outcome)
}

/// With what the program ends after such runs: `complete` says it if all were made.
pub(in crate::cli) fn exit_code(
    outcome: &Outcome,
    complete: impl FnOnce() -> ExitCode,
) -> ExitCode {
    match (outcome.interrupted, outcome.failed) {
        (true, _) => signals::interrupted().into(),
        (false, 0) => complete(),
        (false, _) => ExitCode::FAILURE,
    }
}

/// A bar on a terminal; elsewhere a line for each run that ends.
struct Progress {
    bar: ProgressBar,
    began: std::time::Instant,
    runs: usize,
    ended: usize,
    /// Of all runs, of those that have ended, and of those under way by their label.
    weight: f64,
    done: f64,
    under_way: BTreeMap<String, f64>,
}

impl Progress {
    /// Resolution of the bar.
    const STEPS: f64 = 1e6;

    fn new(runs: &[Run]) -> Self {
        Self {
            bar: bar(Self::STEPS as u64),
            began: wall_clock(),
            runs: runs.len(),
            ended: 0,
            weight: runs.iter().map(Run::weight).sum(),
            done: 0.0,
            under_way: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: &Event<'_>) {
        match event {
            Event::Advanced(run, share) => {
                self.under_way.insert(run.label(), run.weight() * share);
            }
            Event::Finished(run) => self.end(run, None),
            Event::Failed(run, message) => self.end(run, Some(message)),
        }
        let share = self.share();
        self.bar.set_position((share * Self::STEPS) as u64);
        self.bar
            .set_message(format!("{} of {} runs", self.ended, self.runs));
    }

    fn end(&mut self, run: &Run, error: Option<&str>) {
        self.under_way.remove(&run.label());
        self.done += run.weight();
        self.ended += 1;
        if let Some(error) = error {
            self.bar
                .suspend(|| say(&format!("{} failed: {error}", run.label())));
        } else if self.bar.is_hidden() {
            let left = left(wall_clock() - self.began, self.share());
            note(&format!(
                "[{}/{}] {}; about {left} left",
                self.ended,
                self.runs,
                run.label()
            ));
        }
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

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_of_some() {
        assert_eq!("2/4".parse(), Ok(Shard { index: 2, count: 4 }));
        for text in ["0/4", "5/4", "1/0", "2", "a/b", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_left_follows_from_what_was_done() {
        assert_eq!(left(Duration::from_secs(10), 0.25), "30 s");
        assert_eq!(left(Duration::from_secs(100), 0.1), "15 min");
    }
}
