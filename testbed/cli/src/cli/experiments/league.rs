//! `league`: each controller on each network.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use clap::builder::ArgPredicate;
use evenkeel::Controllers;
use evenkeel_experiments::{
    Bottleneck, Case, League, LeagueError, LeagueGroup, Plan, Room, Store, Variant,
    league as cases, random, recorded, switches, variants,
};

use super::runs::{Shard, build, check, exit_code, make, pending};
use crate::cli::compare::named_controllers;
use crate::cli::{Backend, CliError, interrupts, note, print_out, warn};

/// Seeds of a league that is not quick.
const SEEDS: u64 = 5;

/// What recorded networks have by default: milliseconds each way, and packets of queue.
const DELAY_MS: f64 = 20.0;
const QUEUE_PACKETS: u64 = 1000;

/// The greatest number of a network drawn at random.
const MOST_NUMBER: u64 = 100_000;

#[derive(Debug, Args)]
pub(in crate::cli) struct LeagueArguments {
    /// The controllers, separated by commas, with parameters as NAME:KEY=VALUE,KEY=VALUE; may be
    /// repeated
    #[arg(
        long,
        value_name = "NAME,...",
        default_value = "keel,cubic,reno,bbr,noq-bbr3,vegas,ada-vegas,ro-vegas,abgd,acp",
        default_value_ifs = [
            ("without", ArgPredicate::IsPresent, Some("keel")),
            ("vary", ArgPredicate::IsPresent, Some("keel")),
            // What has played is joined whole.
            ("merge", ArgPredicate::IsPresent, None),
        ]
    )]
    controllers: Vec<String>,
    /// Only cases whose name (GROUP/CASE) contains one of these, separated by commas [default: all]
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',')]
    cases: Vec<String>,
    /// Instead of the cases, networks drawn at random: the numbers 1 to N, or M to N; docs/league.md
    /// has the distributions
    #[arg(long, value_name = "N|M-N", conflicts_with = "cases")]
    random: Option<Numbers>,
    /// Instead of the cases, recorded networks: the packet-delivery traces (mahimahi) in DIR, of
    /// which NAME.down and NAME.up are the ways there and back of one network
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cases", "random"])]
    traces: Option<PathBuf>,
    // clap waives `requires` where what is required conflicts with another option: hence the conflicts.
    /// With --traces, the delay each way [default: 20]
    #[arg(
        long,
        value_name = "MS",
        requires = "traces",
        conflicts_with_all = ["cases", "random", "merge"],
        value_parser = delay_ms
    )]
    delay_ms: Option<f64>,
    /// With --traces, how much may wait each way [default: 1000]
    #[arg(
        long,
        value_name = "N",
        requires = "traces",
        conflicts_with_all = ["cases", "random", "merge"],
        value_parser = clap::value_parser!(u64).range(1..=1_000_000)
    )]
    queue_packets: Option<u64>,
    /// The same in bytes
    #[arg(
        long,
        value_name = "BYTES",
        requires = "traces",
        conflicts_with_all = ["cases", "random", "merge", "queue_packets"],
        value_parser = clap::value_parser!(u64).range(1500..=1_000_000_000)
    )]
    queue_bytes: Option<u64>,
    /// Play the controller without each of these parts, too, one at a time, or without each that it
    /// has (all), and say what each is worth; no NAME lists them
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        num_args = 0..=1,
        default_missing_value = ""
    )]
    without: Vec<String>,
    /// The same with a constant times each of these factors, as in beta=x0.8,x1.25; all=... takes each
    /// constant; may be repeated; no NAME lists them
    #[arg(
        long,
        value_name = "NAME=xFACTOR,...",
        num_args = 0..=1,
        default_missing_value = ""
    )]
    vary: Vec<String>,
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
        conflicts_with_all = [
            "cases", "random", "traces", "quick", "seeds", "jobs", "on", "shard",
        ]
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

fn delay_ms(text: &str) -> Result<f64, String> {
    let delay = text.parse().ok();
    let delay = delay.filter(|delay| (0.0..=10_000.0).contains(delay));
    delay.ok_or_else(|| "write milliseconds, 0 to 10000".into())
}

impl LeagueArguments {
    /// Behind what recorded networks are played, if they are.
    fn bottleneck(&self) -> Option<Bottleneck> {
        self.traces.as_ref()?;
        Some(Bottleneck {
            delay_ms: self.delay_ms.unwrap_or(DELAY_MS),
            room: match (self.queue_packets, self.queue_bytes) {
                (_, Some(bytes)) => Room::Bytes(bytes),
                (packets, None) => Room::Packets(packets.unwrap_or(QUEUE_PACKETS)),
            },
        })
    }

    /// The networks to play; traces are copied into `store`.
    fn groups(&self, store: &Store) -> Result<Vec<LeagueGroup>, CliError> {
        if let (Some(folder), Some(bottleneck)) = (&self.traces, self.bottleneck()) {
            let (recordings, broken) = store.take_traces(folder)?;
            for line in broken {
                note(&format!("left out: {line}"));
            }
            return Ok(vec![recorded(&recordings, &bottleneck)?]);
        }
        Ok(match &self.random {
            Some(Numbers(numbers)) => vec![random(numbers.clone())?],
            None => cases(&self.cases)?,
        })
    }

    /// What to play beside the controllers to see what their parts and constants are worth.
    fn variants(
        &self,
        names: &[String],
        controllers: &Controllers,
    ) -> Result<Vec<Variant>, CliError> {
        let found = variants(names, &self.without, &self.vary, controllers)?;
        if !found.is_empty() && self.on != Backend::Sim {
            let message = "--without and --vary need virtual time; use --on sim";
            return Err(LeagueError::Variant(message.into()).into());
        }
        Ok(found)
    }
}

pub(in crate::cli) fn league(
    arguments: &LeagueArguments,
    controllers: &Controllers,
) -> Result<ExitCode, CliError> {
    if [&arguments.without, &arguments.vary]
        .iter()
        .any(|names| matches!(&names[..], [name] if name.is_empty()))
    {
        print_out(&switches(controllers))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut names = named_controllers(&arguments.controllers)?;
    for name in &names {
        controllers.factory(name).map_err(CliError::Controllers)?;
    }
    let variants = arguments.variants(&names, controllers)?;
    if !arguments.merge.is_empty() {
        if variants.is_empty() && !names.is_empty() {
            let message = "--merge joins what has played; leave out --controllers";
            return Err(LeagueError::Variant(message.into()).into());
        }
        write(&arguments.merge, arguments, &variants, controllers)?;
        return Ok(ExitCode::SUCCESS);
    }
    // To plan takes seconds; Ctrl-C meanwhile ends with a word on how to go on, too.
    interrupts()?;
    names.extend(variants.iter().map(|variant| variant.controller.clone()));
    let mut files = vec![arguments.out.as_path()];
    files.extend(arguments.traces.as_deref());
    if let Some(code) = arguments.on.run_inside(&files, None)? {
        return Ok(code);
    }
    let store = Store::new(&arguments.out);
    let groups = arguments.groups(&store)?;
    let all = || groups.iter().flat_map(|group| &group.cases);
    let seeds = if arguments.quick { 1 } else { arguments.seeds };
    let plan = Plan {
        build: build()?,
        quick: arguments.quick,
        backend: arguments.on.name().into(),
        seeds: Some(seeds),
        experiments: all().map(|case: &Case| case.id.clone()).collect(),
        controllers: names,
        recorded: arguments.bottleneck(),
    };
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
        write(directories, arguments, &variants, controllers)?;
    }
    // The page tells of flows that died.
    Ok(exit_code(&outcome, || ExitCode::SUCCESS))
}

fn write(
    directories: &[PathBuf],
    arguments: &LeagueArguments,
    variants: &[Variant],
    controllers: &Controllers,
) -> Result<(), CliError> {
    let league = League::new(directories, controllers)?;
    let played = &league.document().controllers;
    for name in variants.iter().flat_map(|one| [&one.base, &one.controller]) {
        if !played.iter().any(|row| row.name == *name) {
            let message = format!("{name} has not played in what --merge joins");
            return Err(LeagueError::Variant(message).into());
        }
    }
    league.write(&arguments.out)?;
    let (made, all) = league.document().runs();
    if made < all {
        warn(&format!(
            "{} of {all} runs are missing: what needs them has no score",
            all - made
        ));
    }
    if league.builds() > 1 {
        note(&format!(
            "{} builds made these runs: compare their results only if all are of the same code",
            league.builds()
        ));
    }
    match variants {
        [] => print_out(&league.table())?,
        _ => print_out(&league.variants(variants))?,
    }
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

    #[test]
    fn delays_and_queues_of_recorded_networks_are_refused_beside_other_networks() {
        #[derive(Debug, clap::Parser)]
        struct Program {
            #[command(flatten)]
            _league: LeagueArguments,
        }
        let reads = |options: &[&str]| {
            let arguments = ["league"].iter().chain(options);
            <Program as clap::Parser>::try_parse_from(arguments).is_ok()
        };
        for option in ["--delay-ms", "--queue-packets", "--queue-bytes"] {
            assert!(reads(&["--traces", "folder", option, "2000"]), "{option}");
            for others in [&[][..], &["--cases", "start"], &["--random", "3"]] {
                let options = [others, &[option, "2000"]].concat();
                assert!(!reads(&options), "{options:?}");
            }
        }
    }
}
