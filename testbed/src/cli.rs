//! What was typed, and what is printed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand, ValueEnum};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::report;
use evenkeel_testbed::scenario::{Scenario, ScenarioError};
use indicatif::{ProgressBar, ProgressStyle};

/// Run network scenarios on the code that ships: real QUIC, real controllers, real queues.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel-testbed run testbed/scenarios/dumbbell.toml
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --set flows.0.controller=reno --seed 7
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --set flows.0.count=8 --set flows.0.stagger_s=20
  evenkeel-testbed run testbed/scenarios/dumbbell.toml --pcap bottleneck --out /tmp/run";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario; print its figures; write result.json, series and plots
    Run(RunArguments),
    /// List the controllers and queue disciplines that a scenario may name
    List,
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The scenario file (TOML; its keys are in docs/scenarios.md)
    scenario: PathBuf,
    /// What the scenario runs on
    #[arg(long, value_enum, default_value_t = Backend::Sim)]
    on: Backend,
    /// Seed of every random choice, instead of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// Override a value, e.g. `links.0.rate_bps=2000000`; may be repeated
    #[arg(long = "set", value_name = "PATH.TO.KEY=VALUE")]
    overrides: Vec<String>,
    /// Where the results go [default: results/NAME-seedSEED]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print result.json to standard output instead of the table
    #[arg(long)]
    json: bool,
    /// Capture what leaves a link (NAME or NAME.reverse) as DIR/LINK.pcap; may be repeated
    #[arg(long = "pcap", value_name = "LINK")]
    captures: Vec<String>,
    /// Write a qlog of every flow's sender as DIR/FLOW.qlog
    #[arg(long)]
    qlog: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// Virtual time, in this process
    Sim,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Sim(#[from] sim::SimError),
    #[error(transparent)]
    Report(#[from] report::ReportError),
    #[error("cannot write to {path}: {source}; choose another place with --out", path = .path.display())]
    Output { path: PathBuf, source: io::Error },
}

impl CliError {
    /// 2 for what the user can mend in the command or the scenario, 1 for what failed.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Scenario(error) if error.is_usage() => 2,
            Self::Sim(error) if error.is_usage() => 2,
            _ => 1,
        }
    }
}

/// Carries out what was asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CliError> {
    match &arguments.command {
        Command::Run(run) => run_scenario(run),
        Command::List => {
            print_out(&list());
            Ok(())
        }
    }
}

fn run_scenario(arguments: &RunArguments) -> Result<(), CliError> {
    let mut overrides = arguments.overrides.clone();
    overrides.extend(arguments.seed.map(|seed| format!("seed={seed}")));
    let scenario = Scenario::load(&arguments.scenario, &overrides)?;
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
    };
    sim::check(&scenario, &options)?;
    std::fs::create_dir_all(&out).map_err(|source| CliError::Output {
        path: out.clone(),
        source,
    })?;
    let bar = progress_bar(&scenario);
    let began = wall_clock();
    let observations = match arguments.on {
        Backend::Sim => sim::run(&scenario, &options, |at| {
            bar.set_position(at.as_millis() as u64);
        })?,
    };
    let wall = wall_clock() - began;
    bar.finish_and_clear();
    let document = report::write(&out, &scenario, "sim", &observations)?;
    if arguments.json {
        print_out(&report::json(&document));
    } else {
        print_out(&report::table(&document));
    }
    eprintln!(
        "{}",
        speed(observations.packets_sent, scenario.duration, wall)
    );
    eprintln!(
        "seed {}; results and plots in {}",
        scenario.seed,
        out.display()
    );
    Ok(())
}

fn speed(packets: u64, simulated: Duration, wall: Duration) -> String {
    let per_second = packets as f64 / wall.as_secs_f64().max(1e-9);
    format!(
        "{:.0} s of virtual time in {:.2} s: {packets} packets, {per_second:.0} packets a second",
        simulated.as_secs_f64(),
        wall.as_secs_f64(),
    )
}

fn list() -> String {
    let mut text = String::from("Controllers (parameters as NAME:KEY=VALUE,KEY=VALUE):\n");
    for row in evenkeel::controllers() {
        text += &format!("  {:<12} {}\n", row.name, row.summary);
        for parameter in row.parameters {
            text += &format!("  {:<12}   {}\n", "", parameter);
        }
    }
    text += "Queue disciplines:\n";
    for row in evenkeel_queue::disciplines() {
        text += &format!("  {:<12} {}\n", row.name, row.summary);
    }
    text
}

/// Prints to standard output; a reader that has closed the pipe has seen enough.
fn print_out(text: &str) {
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

fn progress_bar(scenario: &Scenario) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} [{wide_bar}] {percent}% ({eta} left)")
        .expect("the template is well formed")
        .progress_chars("=> ");
    // indicatif draws on a terminal only and stays silent in a pipe.
    ProgressBar::new(scenario.duration.as_millis() as u64)
        .with_style(style)
        .with_message(scenario.name.clone())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the binary tells how long a run took"
)]
fn wall_clock() -> Instant {
    Instant::now()
}
