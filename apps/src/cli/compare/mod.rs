//! `evenkeel bulk compare` and `stream compare`: which controller is best on the user's own path.
//!
//! Every run has a connection of its own; the controllers take turns, so that what changes on the
//! path meets all of them.

pub(in crate::cli) mod args;
mod judge;
mod machine;
mod page;
mod plan;
mod report;
mod run;
mod store;
#[cfg(test)]
mod tests;

use evenkeel::Controllers;

use crate::cli::args::TransportArgs;
use crate::cli::client::Client;
use crate::cli::failure::{Failure, say};
use crate::cli::net::Transport;
use crate::cli::output::print;
use crate::path::HeaderUse;
use args::{CompareArgs, Directions};
pub(super) use judge::{Better, Scale};
pub(super) use machine::{Watch, since};
use plan::{Plan, Turn, calendar};
use report::{Comparison, title};
use run::{End, Run};
pub(super) use run::{Kind, Measured, Metric, Site};
use store::{Store, goes_on};

/// Controllers of a comparison.
const CONTROLLERS: std::ops::RangeInclusive<usize> = 2..=10;

/// Compares the controllers of `args`, of the table `controllers`, by runs of a kind; `buffer_ms` is
/// the viewer's, 0 of bulk transfers; `live`: says how it goes.
pub(crate) async fn run<K: Kind>(
    args: &CompareArgs,
    direction: Directions,
    buffer_ms: u64,
    live: bool,
    controllers: &Controllers,
) -> Result<(), Failure> {
    if !CONTROLLERS.contains(&args.controllers.0.len()) {
        let cause = format!(
            "--controllers names {}, not 2 to 10",
            args.controllers.0.len()
        );
        return Err(Failure::usage(cause, "write --controllers keel,cubic,bbr"));
    }
    let transports = transports::<K>(args, controllers)?;
    let plan = Plan::new(K::APPLICATION.name, args, direction, buffer_ms);
    let (plan, mut store, mut runs) = store::open(plan, args.seed.is_some(), args.out.clone())?;
    let client = Client::open(&args.reach, transports[0].clone(), live).await?;
    let mut turns = plan.turns();
    let all = turns.len();
    turns.retain(|turn| !runs.iter().any(|run| run.is_of(turn, &plan)));
    if live {
        let time = (plan.pause + plan.time).as_secs_f64() * turns.len() as f64;
        say(&format!(
            "{} of {all} runs to do, about {:.0} min; seed {}; Ctrl-C and --out {} continue later",
            turns.len(),
            (time / 60.0).ceil(),
            plan.seed,
            store.directory.display()
        ));
    }
    let mut failures = 0;
    for turn in turns {
        let done = one::<K>(&client, &transports, &plan, &turn, !runs.is_empty()).await;
        let done = done.map_err(|failure| match failure.is_interruption() {
            true => failure.saying(
                format!("interrupted in round {} of {}", turn.round, plan.rounds),
                goes_on(&store.directory),
            ),
            false => failure,
        })?;
        if live {
            say(&line(&done));
        }
        store.keep(&done)?;
        failures = match done.error {
            Some(_) => failures + 1,
            None => 0,
        };
        runs.push(done);
        check(&plan, &store, &runs, failures)?;
    }
    client.farewell().await;
    finish(args, live, &plan, &store, &runs)
}

/// Returns the settings of a connection for each controller, of one endpoint.
fn transports<K: Kind>(
    args: &CompareArgs,
    controllers: &Controllers,
) -> Result<Vec<Transport>, Failure> {
    let names = &args.controllers.0;
    let wrong = |error| Failure::usage(error, "write --controllers NAME,NAME:KEY=VALUE,...");
    let mut uses_headers = false;
    for name in names {
        uses_headers |= controllers.uses_path_headers(name).map_err(wrong)?;
    }
    let unasked = match uses_headers {
        true => HeaderUse::of_every(1),
        false => HeaderUse::Echo,
    };
    let first = TransportArgs::of(&names[0]);
    let first = Transport::new(K::APPLICATION, &first, unasked, None, controllers)?;
    let of = |name: &String| -> Result<Transport, Failure> {
        let factory = controllers.factory(name).map_err(wrong)?;
        Ok(first.controlled(factory))
    };
    names.iter().map(of).collect()
}

/// Does one run after a pause.
async fn one<K: Kind>(
    client: &Client<'_>,
    transports: &[Transport],
    plan: &Plan,
    turn: &Turn,
    is_known: bool,
) -> Result<Run<K>, Failure> {
    let began = calendar();
    let transport = &transports[turn.controller];
    Ok(
        match run::run(client, transport, plan, turn, is_known).await? {
            End::Measured(measured) => Run::measured(turn, plan, began, *measured),
            End::Failed(error) => Run::failed(turn, plan, began, error),
            End::Hopeless(failure) => return Err(failure),
        },
    )
}

/// Ends the comparison when as many runs as a round has have failed in a row.
fn check<K>(plan: &Plan, store: &Store, runs: &[Run<K>], failures: usize) -> Result<(), Failure> {
    match runs {
        [.., last] if failures == plan.round(1).len() => {
            let error = last.error.as_deref().unwrap_or_default();
            let cause = format!("the last {failures} runs failed: {error}");
            let remedy = format!("see to the server, and {}", goes_on(&store.directory));
            Err(Failure::failed(cause, remedy))
        }
        _ => Ok(()),
    }
}

/// Says in a line how a run went.
fn line<K: Kind>(run: &Run<K>) -> String {
    let what = match (&run.measured, &run.error) {
        (Some(measured), _) => K::words(measured),
        (None, error) => format!("failed: {}", error.as_deref().unwrap_or_default()),
    };
    format!("{}: {what}", title(run))
}

/// Writes the files and prints the table.
fn finish<K: Kind>(
    args: &CompareArgs,
    live: bool,
    plan: &Plan,
    store: &Store,
    runs: &[Run<K>],
) -> Result<(), Failure> {
    let comparison = Comparison::new(plan, runs);
    let document = store::json(&comparison);
    store.write("compare.json", &document)?;
    store.write("compare.html", &page::page(&comparison))?;
    let text = comparison.text();
    store.write("compare.txt", &text)?;
    print(match args.json {
        true => document.trim_end(),
        false => text.trim_end(),
    })?;
    if live {
        let page = store.directory.join("compare.html");
        say(&format!("the page is {}", page.display()));
    }
    Ok(())
}
