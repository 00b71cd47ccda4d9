//! `compare`: one scenario with one controller after the other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, value_parser};
use evenkeel_testbed::backend::{docker, netns, sim, uml};
use evenkeel_testbed::report::{self, ComparisonDocument};
use evenkeel_testbed::scenario::Scenario;

use super::{Backend, CliError, interrupts, longest_run, print_out, progress_bar, run_inside, say};

#[derive(Debug, Args)]
pub(super) struct CompareArguments {
    /// The scenario file (TOML; its keys are in docs/scenarios.md)
    scenario: PathBuf,
    /// The controllers, separated by commas; with parameters as NAME:KEY=VALUE;KEY=VALUE
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', required = true)]
    controllers: Vec<String>,
    /// Whose controller it is: names of `[[flows]]`, separated by commas [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    flows: Vec<String>,
    /// What the scenario runs on
    #[arg(long, value_enum, default_value_t = Backend::Sim)]
    on: Backend,
    /// Seed of every random choice, instead of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, that one and those after it: each figure is then its median, with the least and
    /// the greatest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Override a value, e.g. `links.0.rate_bps=2000000`; may be repeated
    #[arg(long = "set", value_name = "PATH.TO.KEY=VALUE")]
    overrides: Vec<String>,
    /// Where the results go [default: results/NAME-seedSEED-compare]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print comparison.json to standard output instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs all, each with each seed, and tells who was smoothest.
pub(super) fn compare(arguments: &CompareArguments) -> Result<ExitCode, CliError> {
    let mut overrides = arguments.overrides.clone();
    overrides.extend(arguments.seed.map(|seed| format!("seed={seed}")));
    // All scenarios are checked before the first runs.
    let plain = Scenario::load(&arguments.scenario, &overrides)?;
    let seeds: Vec<u64> = (plain.seed..=u64::MAX)
        .take(arguments.seeds as usize)
        .collect();
    let groups = groups(&plain, &arguments.flows)?;
    let mut scenarios = Vec::new();
    for controller in &arguments.controllers {
        let controller = controller.replace(';', ",");
        let mut overrides = overrides.clone();
        overrides.extend(
            groups
                .iter()
                .map(|group| format!("flows.{group}.controller={controller}")),
        );
        for seed in &seeds {
            let overrides = [&overrides[..], &[format!("seed={seed}")]].concat();
            let scenario = Scenario::load(&arguments.scenario, &overrides)?;
            match arguments.on {
                Backend::Sim => sim::check(&scenario, &sim::Options::default())?,
                Backend::Uml if !uml::is_inside() => netns::check_scenario(&scenario)?,
                Backend::Netns | Backend::Uml => netns::check(&scenario)?,
                Backend::Docker => docker::check(&scenario)?,
            }
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
    if arguments.on == Backend::Uml && !uml::is_inside() {
        let runs = scenarios.iter().map(|(_, scenario)| scenario.duration);
        let limit = longest_run(runs.sum());
        return run_inside(&[&arguments.scenario, &out], Some(limit));
    }
    let mut runs = Vec::new();
    for (controller, scenario) in &scenarios {
        let mut directory = out.join(controller.replace([':', ',', '=', '/'], "-"));
        if several {
            directory.push(format!("seed{}", scenario.seed));
        }
        std::fs::create_dir_all(&directory).map_err(|source| CliError::Output {
            path: directory.clone(),
            source,
        })?;
        let bar =
            progress_bar(scenario).with_message(format!("{controller}, seed {}", scenario.seed));
        let progress = |at: Duration| bar.set_position(at.as_millis() as u64);
        let observations = match arguments.on {
            Backend::Sim => sim::run(scenario, &sim::Options::default(), progress)?,
            Backend::Netns | Backend::Uml => netns::run(scenario, interrupts()?, progress)?,
            Backend::Docker => docker::run(scenario, interrupts()?, progress)?,
        };
        bar.finish_and_clear();
        let document = report::write(&directory, scenario, arguments.on.name(), &observations)?;
        runs.push((controller.clone(), scenario.seed, document, observations));
    }
    let comparison = report::write_comparison(&out, &plain, &runs)?;
    if arguments.json {
        print_out(&ComparisonDocument::json(&comparison))?;
    } else {
        print_out(&report::comparison_table(&comparison))?;
    }
    say(&format!("results and plots in {}", out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The numbers of the `[[flows]]` tables of these names; of all without names.
fn groups(scenario: &Scenario, names: &[String]) -> Result<Vec<usize>, CliError> {
    let mut groups: Vec<&str> = scenario.flows.iter().map(|f| f.group.as_str()).collect();
    groups.dedup();
    if names.is_empty() {
        return Ok((0..groups.len()).collect());
    }
    let find = |name: &String| {
        let found = groups.iter().position(|group| group == name);
        found.ok_or_else(|| CliError::NoFlow {
            name: name.clone(),
            known: groups.join(", "),
        })
    };
    names.iter().map(find).collect()
}
