//! The command line: arguments in, results and messages out.

mod backend;
mod compare;
mod dead_flows;
#[cfg(feature = "experiments")]
mod experiments;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(not(target_os = "linux"))]
#[path = "cli/no_kernel.rs"]
mod kernel;
mod list;
mod progress;
mod side_by_side;
mod signals;
mod sweep;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
#[cfg(feature = "experiments")]
use evenkeel_experiments::{ExperimentError, LeagueError, ReportError, StoreError};
use evenkeel_log::{LogArgs, LogError};
use evenkeel_spec::SpecError;
use evenkeel_testbed::backend::clock::{pause, wall_clock};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::report;
use evenkeel_testbed::scenario::{Controllers, Scenario, ScenarioError};
use indicatif::{ProgressBar, ProgressStyle};

use backend::Backend;
use dead_flows::DeadFlows;
use signals::interrupts;

/// Run network scenarios on the code that ships: real QUIC, real controllers, real queues.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    command: Command,
}

/// What was asked for of standard error; set once, before anything is printed there.
static LOG: OnceLock<LogArgs> = OnceLock::new();

const EXAMPLES: &str = "\
Examples:
  evenkeel-testbed run testbed/scenarios/dumbbell.toml
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --set flows.0.controller=reno --seed 7
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --set flows.0.count=8
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --pcap bottleneck --out /tmp/run
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --on netns
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --on uml
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --on docker
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --on sim,netns,uml,docker
  evenkeel-testbed compare testbed/scenarios/bufferbloat.toml
  evenkeel-testbed compare testbed/scenarios/bufferbloat.toml --controllers vegas,abgd,cubic
  evenkeel-testbed exec testbed/scenarios/lossy.toml --host client -- ping -c 3 server
  evenkeel-testbed reproduce --quick
  evenkeel-testbed reproduce smoothness --seeds 5
  evenkeel-testbed league --quick
  evenkeel-testbed league --controllers cubic,vegas --cases media/,beside/
  evenkeel-testbed league --quick --on netns --controllers keel,cubic --cases jitter/";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario; print its figures; write result.json, series and plots
    Run(RunArguments),
    /// Run a scenario with one controller after the other; say which was smoothest
    Compare(compare::CompareArguments),
    #[command(flatten)]
    Kernel(kernel::Commands),
    #[cfg(feature = "experiments")]
    #[command(flatten)]
    Experiments(experiments::Experiments),
    /// List controllers, queue disciplines, stamps, example scenarios and experiments
    List,
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Where to run it; several, separated by commas, give one report on how they differ
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sim")]
    on: Vec<Backend>,
    /// Seed of every random choice, instead of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// Where the results go, those of several backends in directories of their names [default:
    /// results/NAME-seedSEED]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print result.json (of several backends backends.json) to standard output instead of the table
    #[arg(long)]
    json: bool,
    /// Capture what leaves a link (NAME or NAME.reverse) as DIR/LINK.pcap; may be repeated
    #[arg(long = "pcap", value_name = "LINK")]
    captures: Vec<String>,
    /// Write a qlog of every flow's sender as DIR/FLOW.sqlog
    #[arg(long)]
    qlog: bool,
    #[command(flatten)]
    dead_flows: DeadFlows,
}

/// A scenario file, with changes.
#[derive(Debug, Args)]
struct ScenarioArguments {
    /// The scenario file (TOML; docs/scenarios.md has its keys)
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Override a value, e.g. `links.0.rate_bps=2000000`; may be repeated
    #[arg(long = "set", value_name = "PATH.TO.KEY=VALUE")]
    overrides: Vec<String>,
}

impl ScenarioArguments {
    /// Reads the file, whose flows may name `controllers`; applies `more` after the user's own
    /// overrides.
    fn load(
        &self,
        controllers: &Controllers,
        more: impl IntoIterator<Item = String>,
    ) -> Result<Scenario, ScenarioError> {
        let overrides: Vec<_> = self.overrides.iter().cloned().chain(more).collect();
        Scenario::load_with(&self.file, &overrides, controllers)
    }
}

impl ScenarioArguments {
    /// The command that does this with the scenario again, with these `more` words.
    fn command(&self, verb: &str, more: impl IntoIterator<Item = String>) -> String {
        let words = ["evenkeel-testbed", verb].map(String::from).into_iter();
        let file = [self.file.display().to_string()];
        let sets = self.overrides.iter();
        let sets = sets.flat_map(|set| ["--set".to_owned(), set.clone()]);
        let words = words.chain(file).chain(sets).chain(more);
        words
            .map(|word| quoted(&word))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// A word of a command, quoted for a shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:=+/".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Words that choose seed and backends.
fn seed_and_backends(seed: u64, on: &[Backend]) -> Vec<String> {
    let mut words = vec!["--seed".to_owned(), seed.to_string()];
    if on != [Backend::Sim] {
        let names: Vec<&str> = on.iter().map(|backend| backend.name()).collect();
        words.extend(["--on".to_owned(), names.join(",")]);
    }
    words
}

/// The override that sets the seed, if one was given.
fn seed_override(seed: Option<u64>) -> Option<String> {
    seed.map(|seed| format!("seed={seed}"))
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Sim(#[from] sim::SimError),
    #[error(transparent)]
    Kernel(#[from] kernel::Failure),
    #[error("--pcap and --qlog need virtual time; use --on sim, or run tcpdump with exec")]
    SimOnly,
    #[error("--on names {0} twice; name each backend once")]
    Twice(&'static str),
    #[error(transparent)]
    Unreadable(#[from] report::UnreadableResult),
    #[cfg(feature = "experiments")]
    #[error(
        "the kernel has no decisive points of its own beside those that it runs; leave out --quick, or use --on sim"
    )]
    NoQuick,
    #[cfg(feature = "experiments")]
    #[error(
        "none of these experiments has runs for the kernel; leave out the pattern, or use --on sim"
    )]
    NotOnKernel,
    #[cfg(feature = "experiments")]
    #[error("{0}: {1}")]
    Run(String, #[source] Box<Self>),
    #[error("no [[flows]] table has the name {0:?}; the scenario has {1}")]
    NoFlow(String, String),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("--controllers: {0}")]
    Controllers(SpecError),
    #[error("--set gives several values to {0} and to {1}; compare over one key at a time")]
    TwoSweeps(String, String),
    #[error("--set {0}: the comparison sets it; use {1}")]
    SetByCompare(String, &'static str),
    #[error("--set {0}: all rows of a comparison have the same names; give one")]
    SweptName(String),
    #[error(transparent)]
    Comparison(#[from] report::ComparisonError),
    #[error(transparent)]
    Lost(#[from] report::LostResult),
    #[error("{0}: {1}")]
    Panic(String, String),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    #[error(transparent)]
    Report(#[from] report::ReportError),
    #[cfg(feature = "experiments")]
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    #[cfg(feature = "experiments")]
    #[error(transparent)]
    League(#[from] LeagueError),
    #[cfg(feature = "experiments")]
    #[error(transparent)]
    Store(#[from] StoreError),
    #[cfg(feature = "experiments")]
    #[error(transparent)]
    Reproduced(#[from] ReportError),
    #[error("cannot read this program's own file: {0}")]
    Executable(io::Error),
    #[error("cannot write to standard output: {0}; send it elsewhere")]
    Stdout(io::Error),
    #[error("cannot write to {path}: {1}; choose another place with --out", path = .0.display())]
    Output(PathBuf, #[source] io::Error),
}

impl CliError {
    /// 2 for what the user can mend in the command or the scenario, 128 and its number for a signal, 1 for what failed.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Scenario(error) if error.is_usage() => 2,
            Self::Sim(error) if error.is_usage() => 2,
            Self::Kernel(failure) => failure.exit_code(),
            #[cfg(feature = "experiments")]
            Self::Run(_, error) => error.exit_code(),
            Self::SimOnly
            | Self::Twice(_)
            | Self::Controllers(_)
            | Self::TwoSweeps(..)
            | Self::SetByCompare(..)
            | Self::SweptName(_)
            | Self::NoFlow(..)
            | Self::Log(_) => 2,
            #[cfg(feature = "experiments")]
            Self::NoQuick
            | Self::NotOnKernel
            | Self::Experiment(_)
            | Self::League(_)
            | Self::Store(StoreError::Traces(_)) => 2,
            _ => 1,
        }
    }
}

/// Carries out what was asked for. Scenarios may name `controllers`.
pub(crate) fn run(arguments: &Arguments, controllers: &Controllers) -> Result<ExitCode, CliError> {
    // The applications start a log of their own.
    if !matches!(&arguments.command, Command::Kernel(command) if command.has_own_log()) {
        arguments.log.start()?;
    }
    LOG.get_or_init(|| arguments.log.clone());
    match &arguments.command {
        Command::Run(run) => return run_scenario(run, controllers),
        Command::Compare(arguments) => return compare::compare(arguments, controllers),
        Command::Kernel(command) => return command.run(controllers),
        #[cfg(feature = "experiments")]
        Command::Experiments(command) => return command.run(controllers),
        Command::List => print_out(&list::list(controllers))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_scenario(arguments: &RunArguments, controllers: &Controllers) -> Result<ExitCode, CliError> {
    let file = &arguments.scenario.file;
    let scenario = arguments
        .scenario
        .load(controllers, seed_override(arguments.seed))?;
    let out = arguments.out.clone().unwrap_or_else(|| {
        Path::new("results").join(format!("{}-seed{}", scenario.name, scenario.seed))
    });
    let options = sim::Options {
        captures: arguments
            .captures
            .iter()
            .map(|link| (link.clone(), out.join(format!("{link}.pcap"))))
            .collect(),
        qlog: arguments.qlog.then(|| out.clone()),
        ..sim::Options::default()
    };
    // All are checked before the first runs.
    side_by_side::check(&arguments.on)?;
    for backend in &arguments.on {
        if options.records() && arguments.on[..] != [Backend::Sim] {
            return Err(CliError::SimOnly);
        }
        backend.check(&scenario, &options)?;
        backend.check_inside(&[file, &out])?;
    }
    check_directory(&out)?;
    let &[backend] = &arguments.on[..] else {
        return side_by_side::run(arguments, &scenario, &out);
    };
    if let Some(code) = backend.run_inside(&[file, &out], Some(longest_run(scenario.duration)))? {
        return Ok(code);
    }
    if options.records() {
        create_directory(&out)?;
    }
    let bar = progress_bar(&scenario);
    let began = wall_clock();
    let progress = |at: Duration| bar.set_position(at.as_millis() as u64);
    let observations = backend.run(&scenario, &options, progress)?;
    bar.finish_and_clear();
    let wall = wall_clock() - began;
    create_directory(&out)?;
    let command = arguments.command(&scenario);
    let document = report::write(&out, &scenario, backend.name(), &observations, &command)?;
    if arguments.json {
        print_out(&report::json(&document))?;
    } else {
        print_out(&report::table(&document))?;
    }
    document.warnings.iter().for_each(|line| warn(line));
    if backend == Backend::Sim {
        note(&speed(observations.packets_sent, scenario.duration, wall));
    }
    note(&format!(
        "seed {}; results and plots in {}",
        scenario.seed,
        out.display()
    ));
    Ok(arguments.dead_flows.status(&document.failures()))
}

impl RunArguments {
    /// The command that makes the same results again.
    fn command(&self, scenario: &Scenario) -> String {
        let more = seed_and_backends(scenario.seed, &self.on);
        self.scenario.command("run", more)
    }
}

fn create_directory(path: &Path) -> Result<(), CliError> {
    std::fs::create_dir_all(path).map_err(|error| CliError::Output(path.to_owned(), error))
}

/// Checks that the directory is there or can be made, before work whose results it is for. A run
/// that is interrupted leaves no empty directory: it is made when there is something to put in.
fn check_directory(path: &Path) -> Result<(), CliError> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    let made = create_directory(path);
    for directory in missing {
        // Somebody else may have put something in.
        let _ = std::fs::remove_dir(directory);
    }
    made
}

/// When to give up a run inside user-mode Linux: twice its time, and the set-up of a large network.
fn longest_run(duration: Duration) -> Duration {
    2 * duration + Duration::from_secs(300)
}

fn speed(packets: u64, simulated: Duration, wall: Duration) -> String {
    let per_second = packets as f64 / wall.as_secs_f64().max(1e-9);
    format!(
        "{:.0} s of virtual time in {:.2} s: {packets} packets, {per_second:.0} packets a second",
        simulated.as_secs_f64(),
        wall.as_secs_f64(),
    )
}

/// Prints to standard output; a reader that has closed the pipe has seen enough.
fn print_out(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Stdout(error)),
        _ => Ok(()),
    }
}

/// A warning on standard error: nothing with `-q`.
fn warn(line: &str) {
    if !is_quiet() {
        evenkeel_log::caution(line);
    }
}

/// A line on standard error that is no failure: nothing with `-q`.
fn note(line: &str) {
    if !is_quiet() {
        evenkeel_log::remark(line);
    }
}

fn is_quiet() -> bool {
    LOG.get().is_some_and(|log| log.quiet)
}

/// A progress bar of `steps` steps; hidden with `-q`.
fn bar(steps: u64) -> ProgressBar {
    if is_quiet() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {percent}% ({eta} left)")
        .expect("the template is well formed")
        .progress_chars("=> ");
    // indicatif draws on a terminal only and stays silent in a pipe.
    ProgressBar::new(steps).with_style(style)
}

fn progress_bar(scenario: &Scenario) -> ProgressBar {
    bar(scenario.duration.as_millis() as u64).with_message(scenario.name.clone())
}
