//! `league`: each controller on each network.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use evenkeel::Controllers;
use evenkeel_experiments::{Case, League, Plan, Store, league as cases, random};

use super::runs::{Shard, build, check, exit_code, make, pending};
use crate::cli::compare::named_controllers;
use crate::cli::{Backend, CliError, note, print_out};

/// Seeds of a league that is not quick.
const SEEDS: u64 = 5;

/// The greatest number of a network drawn at random.
const MOST_NUMBER: u64 = 100_000;

#[derive(Debug, Args)]
pub(in crate::cli) struct LeagueArguments {
    /// The controllers, separated by commas, with parameters as NAME:KEY=VALUE,KEY=VALUE; may be
    /// repeated
    #[arg(
        long,
        value_name = "NAME,...",
        default_value = "keel,cubic,reno,bbr,noq-bbr3,vegas,ada-vegas,ro-vegas,abgd,acp"
    )]
    controllers: Vec<String>,
    /// Only cases whose name (GROUP/CASE) contains one of these, separated by commas [default: all]
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',')]
    cases: Vec<String>,
    /// Instead of the cases, networks drawn at random: the numbers 1 to N, or M to N; docs/league.md
    /// has the distributions
    #[arg(long, value_name = "N|M-N", conflicts_with = "cases")]
    random: Option<Numbers>,
    /// One seed only; three of a case that is marked chaotic
    #[arg(long, conflicts_with = "seeds")]
    quick: bool,
    /// Run everything with the seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = SEEDS, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Runs at a time [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// What the runs run on
    #[arg(long, value_enum, default_value_t = Backend::Sim)]
    on: Backend,
    /// Only part I of N; join the parts with --merge
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Run nothing; join what all shards have written
    #[arg(
        long,
        value_name = "DIR",
        num_args = 1..,
        conflicts_with_all = ["cases", "random", "quick", "seeds", "jobs", "on", "shard"]
    )]
    merge: Vec<PathBuf>,
    /// Where results, league.html and league.json go; what is there already is not run again
    #[arg(long, value_name = "DIR", default_value = "results/league")]
    out: PathBuf,
}

/// Numbers of networks drawn at random.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbers(RangeInclusive<u64>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or(("1", text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if (1..=last).contains(&first) && last <= MOST_NUMBER => {
                Ok(Self(first..=last))
            }
            _ => Err(format!(
                "write how many, or the first and the last as in 301-600; at most {MOST_NUMBER}"
            )),
        }
    }
}

pub(in crate::cli) fn league(
    arguments: &LeagueArguments,
    controllers: &Controllers,
) -> Result<ExitCode, CliError> {
    if !arguments.merge.is_empty() {
        write(&arguments.merge, arguments, controllers)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(code) = arguments.on.run_inside(&[&arguments.out], None)? {
        return Ok(code);
    }
    let groups = match &arguments.random {
        Some(Numbers(numbers)) => vec![random(numbers.clone())?],
        None => cases(&arguments.cases)?,
    };
    let all = || groups.iter().flat_map(|group| &group.cases);
    let names = named_controllers(&arguments.controllers)?;
    let seeds = if arguments.quick { 1 } else { arguments.seeds };
    let plan = Plan {
        build: build()?,
        quick: arguments.quick,
        backend: arguments.on.name().into(),
        seeds: Some(seeds),
        experiments: all().map(|case: &Case| case.id.clone()).collect(),
        controllers: names,
    };
    let store = Store::new(&arguments.out);
    let mut runs = Vec::new();
    for case in all() {
        let seeds = case.seeds(seeds, plan.quick);
        runs.extend(case.runs(&plan.controllers, seeds, controllers)?);
    }
    let (runs, _) = pending(runs, arguments.shard, &plan, &store)?;
    check(&runs, arguments.on)?;
    store.begin(&plan, &arguments.out, &[])?;
    let outcome = make(runs, &plan, &store, arguments.jobs)?;
    if arguments.shard.is_some() {
        note(&format!(
            "join the parts: evenkeel-testbed league --merge {} ...",
            arguments.out.display()
        ));
    } else {
        let directories = std::slice::from_ref(&arguments.out);
        write(directories, arguments, controllers)?;
    }
    // The page tells of flows that died.
    Ok(exit_code(&outcome, || ExitCode::SUCCESS))
}

fn write(
    directories: &[PathBuf],
    arguments: &LeagueArguments,
    controllers: &Controllers,
) -> Result<(), CliError> {
    let league = League::new(directories, controllers)?;
    league.write(&arguments.out)?;
    print_out(&league.table())?;
    let page = arguments.out.join("league.html");
    note(&format!("the page is {}", page.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_drawn_at_random_are_a_number_or_a_range() {
        assert_eq!("300".parse(), Ok(Numbers(1..=300)));
        assert_eq!("301-600".parse(), Ok(Numbers(301..=600)));
        for wrong in ["", "0", "0-3", "6-3", "-3", "a", "100001"] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }
}
