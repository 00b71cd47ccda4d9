//! `run` on several backends: one after the other, and a report on all of them.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use evenkeel_log::LogArgs;
use evenkeel_testbed::report::{self, SideBySide};
use evenkeel_testbed::scenario::Scenario;

use super::{Backend, CliError, LOG, RunArguments, interrupts, note, pause, print_out, signals};

/// Runs the scenario on each backend, as a command of its own would, and compares what came out.
pub(super) fn run(
    arguments: &RunArguments,
    scenario: &Scenario,
    out: &Path,
) -> Result<ExitCode, CliError> {
    let program = std::env::current_exe().map_err(CliError::Executable)?;
    interrupts()?;
    for backend in &arguments.on {
        if signals::heard().is_some() {
            return Ok(signals::interrupted().into());
        }
        let name = backend.name();
        let mut command = Command::new(&program);
        // What died is judged when all have run.
        command
            .args(["run", "--allow-dead-flows"])
            .arg(&arguments.scenario.file)
            .args(["--on", name, "--out"])
            .arg(out.join(name));
        for value in &arguments.scenario.overrides {
            command.args(["--set", value]);
        }
        command.args(LOG.get().map(LogArgs::flags).unwrap_or_default());
        if let Some(seed) = arguments.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        note(&format!("{}: on {name}", scenario.name));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut child = child.map_err(CliError::Executable)?;
        let mut told = false;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(CliError::Executable)? {
                break status;
            }
            // A terminal tells both, others this program alone; to be told twice does no harm.
            if let Some(signal) = signals::heard()
                && !told
            {
                signals::pass_on(signal, &mut child);
                told = true;
            }
            pause(Duration::from_millis(50));
        };
        if !status.success() {
            // It has said why.
            return Ok(signals::status_of(status).into());
        }
    }
    let names: Vec<&str> = arguments.on.iter().map(|backend| backend.name()).collect();
    let side_by_side = SideBySide::read(out, &names)?;
    side_by_side.write(out, scenario, &arguments.command(scenario))?;
    if arguments.json {
        print_out(&report::json(&side_by_side))?;
    } else {
        print_out(&side_by_side.table())?;
    }
    note(&format!(
        "seed {}; report in {}",
        scenario.seed,
        out.join("backends.html").display()
    ));
    Ok(arguments.dead_flows.status(&side_by_side.failures()))
}

/// Whether no backend comes twice.
pub(super) fn check(backends: &[Backend]) -> Result<(), CliError> {
    let twice = |index: usize| backends[..index].contains(&backends[index]);
    match (1..backends.len()).find(|index| twice(*index)) {
        Some(index) => Err(CliError::Twice(backends[index].name())),
        None => Ok(()),
    }
}
