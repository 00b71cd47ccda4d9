//! `compare`: one scenario with one controller after the other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, value_parser};
use evenkeel_spec::split_list;
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::report;
use evenkeel_testbed::scenario::{Controllers, Scenario};

use super::{
    Backend, CliError, DeadFlows, ScenarioArguments, check_directory, create_directory,
    longest_run, note, print_out, progress_bar, seed_and_backends, seed_override, warn,
};

#[derive(Debug, Args)]
pub(super) struct CompareArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// The controllers, separated by commas, with parameters as NAME:KEY=VALUE,KEY=VALUE; may be
    /// repeated
    #[arg(long, value_name = "NAME,...", default_value = "keel,cubic,bbr,vegas")]
    controllers: Vec<String>,
    /// The flows that get the controller: names of `[[flows]]`, separated by commas [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    flows: Vec<String>,
    /// Where to run it
    #[arg(long, value_enum, default_value_t = Backend::Sim)]
    on: Backend,
    /// Seed of every random choice, instead of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, that one and those after it: each figure is then its median, with the least and
    /// the greatest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Where the results go [default: results/NAME-seedSEED-compare]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print comparison.json to standard output instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dead_flows: DeadFlows,
}

impl CompareArguments {
    /// The command that makes the same comparison again.
    fn command(&self, scenario: &Scenario) -> String {
        let mut more = vec!["--controllers".to_owned(), self.controllers.join(",")];
        if !self.flows.is_empty() {
            more.extend(["--flows".to_owned(), self.flows.join(",")]);
        }
        if self.seeds > 1 {
            more.extend(["--seeds".to_owned(), self.seeds.to_string()]);
        }
        more.extend(seed_and_backends(scenario.seed, &[self.on]));
        self.scenario.command("compare", more)
    }
}

/// Runs each controller with each seed; says which was smoothest.
pub(super) fn compare(
    arguments: &CompareArguments,
    controllers: &Controllers,
) -> Result<ExitCode, CliError> {
    let options = sim::Options::default();
    // All scenarios are checked before the first runs.
    let plain = arguments
        .scenario
        .load(controllers, seed_override(arguments.seed))?;
    let seeds: Vec<u64> = (plain.seed..=u64::MAX)
        .take(arguments.seeds as usize)
        .collect();
    let (groups, flows) = groups(&plain, &arguments.flows)?;
    let mut scenarios = Vec::new();
    for controller in named_controllers(&arguments.controllers)? {
        let named = |group| format!("flows.{group}.controller={controller}");
        for seed in &seeds {
            let overrides = groups.iter().map(named).chain(seed_override(Some(*seed)));
            let scenario = arguments.scenario.load(controllers, overrides)?;
            arguments.on.check(&scenario, &options)?;
            scenarios.push((controller.clone(), scenario));
        }
    }
    let several = seeds.len() > 1;
    let named = match &seeds[..] {
        [first, .., last] => format!("seeds{first}-{last}"),
        _ => format!("seed{}", plain.seed),
    };
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| Path::new("results").join(format!("{}-{named}-compare", plain.name)));
    let durations = scenarios.iter().map(|(_, scenario)| scenario.duration);
    let limit = longest_run(durations.sum());
    let files: [&Path; 2] = [&arguments.scenario.file, &out];
    if let Some(code) = arguments.on.run_inside(&files, Some(limit))? {
        return Ok(code);
    }
    check_directory(&out)?;
    let mut runs = Vec::new();
    for (controller, scenario) in &scenarios {
        let mut directory = out.join(controller.replace([':', ',', '=', '/'], "-"));
        if several {
            directory.push(format!("seed{}", scenario.seed));
        }
        let bar =
            progress_bar(scenario).with_message(format!("{controller}, seed {}", scenario.seed));
        let observations = arguments.on.run(scenario, &options, &bar)?;
        create_directory(&directory)?;
        let names = groups.iter();
        let sets = names.map(|group| format!("flows.{group}.controller={controller}"));
        let more = sets.flat_map(|set| ["--set".to_owned(), set]);
        let more = more.chain(seed_and_backends(scenario.seed, &[arguments.on]));
        let command = arguments.scenario.command("run", more);
        let on = arguments.on.name();
        let document = report::write(&directory, scenario, on, &observations, &command)?;
        document.warnings.iter().for_each(|line| warn(line));
        runs.push((controller.clone(), scenario.seed, document, observations));
    }
    let command = arguments.command(&plain);
    let comparison = report::write_comparison(&out, &plain, &flows, &runs, &command)?;
    if arguments.json {
        print_out(&report::json(&comparison))?;
    } else {
        print_out(&report::comparison_table(&comparison))?;
    }
    note(&format!("results and plots in {}", out.display()));
    Ok(arguments.dead_flows.status(&comparison.failures()))
}

/// The controllers of one or several lists.
pub(super) fn named_controllers(lists: &[String]) -> Result<Vec<String>, CliError> {
    let split = |list: &String| split_list(list).map_err(CliError::Controllers);
    Ok(lists
        .iter()
        .map(split)
        .collect::<Result<Vec<_>, _>>()?
        .concat())
}

/// The numbers and the names of the `[[flows]]` tables of these names; of all without names.
fn groups(scenario: &Scenario, names: &[String]) -> Result<(Vec<usize>, Vec<String>), CliError> {
    let mut groups: Vec<String> = scenario.flows.iter().map(|f| f.group.clone()).collect();
    groups.dedup();
    if names.is_empty() {
        return Ok(((0..groups.len()).collect(), groups));
    }
    let find = |name: &String| {
        let found = groups.iter().position(|group| group == name);
        found.ok_or_else(|| CliError::NoFlow(name.clone(), groups.join(", ")))
    };
    let numbers = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok((numbers, names.to_vec()))
}
