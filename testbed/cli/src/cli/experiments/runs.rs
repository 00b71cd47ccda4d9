//! Makes the runs of experiments or of the league, and tells how they get on.

use std::process::ExitCode;
use std::str::FromStr;

use evenkeel_experiments::{
    Build, Event, Outcome, Plan, Run, Store, StoreError, heaviest_first, run, shard,
};
use evenkeel_testbed::backend::sim;

use crate::cli::progress::{Progress, cores};
use crate::cli::{Backend, CliError, interrupts, note, signals};

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
        match store.find(&run, plan) {
            Ok(Some(record)) => failures.extend(record.failures(&run)),
            // A damaged one is made again.
            Ok(None) | Err(StoreError::Damaged(..)) => pending.push(run),
            Err(error) => return Err(error.into()),
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
    let weight = runs.iter().map(Run::weight).sum();
    let mut progress = Progress::new(runs.len(), weight);
    let outcome = run(
        runs,
        plan,
        store,
        jobs,
        interrupts()?,
        |event| match event {
            Event::Advanced(run, share) => progress.advanced(run.label(), run.weight() * share),
            Event::Finished(run) => progress.ended(&run.label(), run.weight(), None),
            Event::Failed(run, message) => {
                progress.ended(&run.label(), run.weight(), Some(message));
            }
        },
    )?;
    progress.finish();
    if outcome.interrupted {
        note(&format!(
            "interrupted: {} more runs are kept; the same command goes on",
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
}
