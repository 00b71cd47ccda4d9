//! `reproduce` and `report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use evenkeel::Controllers;
use evenkeel_experiments::{
    Build, Event, Experiment, Plan, Report, Run, Store, find, heaviest_first, run, shard,
};
use evenkeel_testbed::backend::sim;
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    Backend, CliError, interrupts, is_quiet, note, print_out, run_inside, say, signals, wall_clock,
};

#[derive(Debug, Args)]
pub(super) struct ReproduceArguments {
    /// Only experiments whose name (PAPER/EXPERIMENT) contains this [default: all]
    pattern: Option<String>,
    /// Only the decisive points of each experiment
    #[arg(long)]
    quick: bool,
    /// Run everything with the seeds 1 to N [default: as many as each experiment says; 1 with
    /// --quick and on a kernel]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Runs at a time [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Only part I of N; join the parts with `report`
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// What the runs run on
    #[arg(long, value_enum, default_value_t = Backend::Sim)]
    on: Backend,
    /// Where results and report go; what is there already is not run again
    #[arg(long, value_name = "DIR", default_value = "results/reproduce")]
    out: PathBuf,
    /// The directory of the experiments
    #[arg(long, value_name = "DIR", default_value = "testbed/experiments/papers")]
    papers: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ReportArguments {
    /// What `reproduce` wrote: one directory, or those of all shards
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Take experiments that no DIR has from the report in this directory
    #[arg(long, value_name = "REPORT")]
    earlier: Option<PathBuf>,
    /// Where report.html and report.json go [default: the first DIR]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Part `index` of `count`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
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

pub(super) fn reproduce(
    arguments: &ReproduceArguments,
    controllers: &Controllers,
) -> Result<ExitCode, CliError> {
    if arguments.on.starts_uml() {
        return run_inside(&[&arguments.out, &arguments.papers], None);
    }
    if arguments.quick && arguments.on != Backend::Sim {
        return Err(CliError::NoQuick);
    }
    let mut experiments = find(&arguments.papers, arguments.pattern.as_deref())?;
    if arguments.on != Backend::Sim {
        experiments.retain(Experiment::runs_on_kernel);
        if experiments.is_empty() {
            return Err(CliError::NotOnKernel);
        }
    }
    let plan = plan(arguments, &experiments)?;
    let store = Store::new(&arguments.out);
    let runs = pending(arguments, controllers, &plan, &experiments, &store)?;
    let files: Vec<_> = experiments.iter().flat_map(Experiment::files).collect();
    store.begin(&plan, &arguments.papers, &files)?;
    let jobs = arguments.jobs.map_or_else(cores, usize::from);
    let mut progress = Progress::new(&runs);
    let interrupt = interrupts()?;
    let outcome = run(runs, &plan, &store, jobs, interrupt, |event| {
        progress.tell(&event);
    })?;
    progress.bar.finish_and_clear();
    if outcome.interrupted {
        note(&format!(
            "interrupted: {} runs are kept; the same command goes on",
            outcome.finished
        ));
    }
    if arguments.shard.is_none() {
        let command = command_line();
        let report = Report::new(std::slice::from_ref(&arguments.out), &command)?;
        report.write(&arguments.out)?;
        print_out(&report.table())?;
        note(&format!(
            "report in {}",
            arguments.out.join("report.html").display()
        ));
    } else {
        note(&format!(
            "join the parts: evenkeel-testbed report {} ...",
            arguments.out.display()
        ));
    }
    Ok(match (outcome.interrupted, outcome.failed) {
        (true, _) => signals::interrupted().into(),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

pub(super) fn report(arguments: &ReportArguments) -> Result<ExitCode, CliError> {
    let mut report = Report::new(&arguments.directories, &command_line())?;
    if let Some(directory) = &arguments.earlier {
        report.take_over(directory)?;
    }
    let out = arguments.out.as_ref().unwrap_or(&arguments.directories[0]);
    report.write(out)?;
    print_out(&report.table())?;
    note(&format!("report in {}", out.join("report.html").display()));
    Ok(ExitCode::SUCCESS)
}

fn plan(arguments: &ReproduceArguments, experiments: &[Experiment]) -> Result<Plan, CliError> {
    let executable = std::env::current_exe().map_err(CliError::Executable)?;
    Ok(Plan {
        build: Build::of_executable(&executable).map_err(CliError::Executable)?,
        quick: arguments.quick,
        backend: arguments.on.name().into(),
        seeds: arguments.seeds,
        experiments: experiments.iter().map(|one| one.id.clone()).collect(),
    })
}

/// The runs of this shard that have not been made yet, in the order in which to make them.
fn pending(
    arguments: &ReproduceArguments,
    controllers: &Controllers,
    plan: &Plan,
    experiments: &[Experiment],
    store: &Store,
) -> Result<Vec<Run>, CliError> {
    let mut runs = Vec::new();
    for experiment in experiments {
        runs.extend(experiment.runs_with(plan.extent(), plan.seeds, controllers)?);
    }
    let runs = match arguments.shard {
        Some(Shard { index, count }) => shard(runs, index, count),
        None => heaviest_first(runs),
    };
    let all = runs.len();
    let mut pending = Vec::new();
    for run in runs {
        if store.find(&run, plan)?.is_none() {
            // The simulator checks a run as it begins it.
            if arguments.on != Backend::Sim {
                arguments
                    .on
                    .check(&run.scenario, &sim::Options::default())?;
            }
            pending.push(run);
        }
    }
    if pending.len() < all {
        note(&format!(
            "{} of {all} runs were made before",
            all - pending.len()
        ));
    }
    Ok(pending)
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
    under_way: std::collections::BTreeMap<String, f64>,
}

impl Progress {
    /// Resolution of the bar.
    const STEPS: f64 = 1e6;

    fn new(runs: &[Run]) -> Self {
        let style = ProgressStyle::with_template("{msg} [{wide_bar}] {percent}% ({eta} left)")
            .expect("the template is well formed")
            .progress_chars("=> ");
        Self {
            bar: if is_quiet() {
                ProgressBar::hidden()
            } else {
                ProgressBar::new(Self::STEPS as u64).with_style(style)
            },
            began: wall_clock(),
            runs: runs.len(),
            ended: 0,
            weight: runs.iter().map(Run::weight).sum(),
            done: 0.0,
            under_way: std::collections::BTreeMap::new(),
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

/// The command as it was typed, without the directory of the program.
fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    let mut line = program.to_string_lossy().into_owned();
    for word in words {
        line += " ";
        line += &word;
    }
    line
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
