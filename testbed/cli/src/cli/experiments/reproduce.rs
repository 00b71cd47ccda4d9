//! `reproduce` and `report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use evenkeel::Controllers;
use evenkeel_experiments::{Experiment, Plan, Report, Store, find};

use super::runs::{Shard, build, check, exit_code, make, pending};
use crate::cli::{Backend, CliError, DeadFlows, interrupts, note, print_out};

#[derive(Debug, Args)]
pub(in crate::cli) struct ReproduceArguments {
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
    #[command(flatten)]
    dead_flows: DeadFlows,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReportArguments {
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

pub(in crate::cli) fn reproduce(
    arguments: &ReproduceArguments,
    controllers: &Controllers,
) -> Result<ExitCode, CliError> {
    let files: [&Path; 2] = [&arguments.out, &arguments.papers];
    if let Some(code) = arguments.on.run_inside(&files, None)? {
        return Ok(code);
    }
    if arguments.quick && arguments.on != Backend::Sim {
        return Err(CliError::NoQuick);
    }
    interrupts()?;
    let mut experiments = find(&arguments.papers, arguments.pattern.as_deref())?;
    if arguments.on != Backend::Sim {
        experiments.retain(Experiment::runs_on_kernel);
        if experiments.is_empty() {
            return Err(CliError::NotOnKernel);
        }
    }
    let plan = plan(arguments, &experiments)?;
    let store = Store::new(&arguments.out);
    let mut runs = Vec::new();
    for experiment in &experiments {
        runs.extend(experiment.runs_with(plan.extent(), plan.seeds, controllers)?);
    }
    let (runs, mut failures) = pending(runs, arguments.shard, &plan, &store)?;
    check(&runs, arguments.on)?;
    let files: Vec<_> = experiments.iter().flat_map(Experiment::files).collect();
    store.begin(&plan, &arguments.papers, &files)?;
    let mut outcome = make(runs, &plan, &store, arguments.jobs)?;
    failures.append(&mut outcome.dead_flows);
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
    Ok(exit_code(&outcome, || {
        arguments.dead_flows.status(&failures)
    }))
}

pub(in crate::cli) fn report(arguments: &ReportArguments) -> Result<ExitCode, CliError> {
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
    Ok(Plan {
        build: build()?,
        quick: arguments.quick,
        backend: arguments.on.name().into(),
        seeds: arguments.seeds,
        experiments: experiments.iter().map(|one| one.id.clone()).collect(),
        controllers: Vec::new(),
        recorded: None,
    })
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
