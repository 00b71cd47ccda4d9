//! `evenkeel bulk compare`: which controller is best on the user's own path.
//!
//! Every run is a transfer over a connection of its own; the controllers take turns, so that what
//! changes on the path meets all of them.

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
use quinn::{Runtime, TokioRuntime};

use crate::cli::args::TransportArgs;
use crate::cli::client::Client;
use crate::cli::failure::{Failure, say};
use crate::cli::net::{BULK, Transport};
use crate::cli::output::print;
use crate::path::HeaderUse;
use crate::time::sleep_until;
use args::CompareArgs;
use plan::{Plan, Turn};
use report::{Comparison, title};
use run::{End, Run, calendar};
use store::Store;

/// Seeds that the program takes by itself: short ones, which are easy to type.
const SEEDS: u64 = 1_000_000;

/// Controllers of a comparison.
const CONTROLLERS: std::ops::RangeInclusive<usize> = 2..=10;

/// Compares the controllers of `args`, of the table `controllers`; `live`: says how it goes.
pub(crate) async fn run(
    args: CompareArgs,
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
    let transports = transports(&args, controllers)?;
    let (plan, mut store, mut runs) = store::open(&args, (calendar() * 1e6) as u64 % SEEDS)?;
    let client = Client::open(&args.reach, transports[0].clone(), live).await?;
    let turns = plan.turns();
    if live {
        let time = plan.pause + plan.time;
        let left = turns
            .iter()
            .filter(|turn| !is_done(&runs, turn, &plan))
            .count();
        say(&format!(
            "{left} of {} runs to do, about {:.0} min; seed {}; Ctrl-C and --out {} continue later",
            turns.len(),
            (time.as_secs_f64() * left as f64 / 60.0).ceil(),
            plan.seed,
            store.directory.display()
        ));
    }
    for turn in turns {
        if is_done(&runs, &turn, &plan) {
            continue;
        }
        let done = one(&client, &transports, &plan, &turn).await;
        let done = done.map_err(|failure| match failure.is_interruption() {
            true => failure.saying(
                format!("interrupted in round {} of {}", turn.round, plan.rounds),
                format!(
                    "the same command with --out {} goes on",
                    store.directory.display()
                ),
            ),
            false => failure,
        })?;
        if live {
            say(&line(&done));
        }
        store.keep(&done)?;
        runs.push(done);
        check(&plan, &runs)?;
    }
    client.farewell().await;
    finish(&args, live, &plan, &store, &runs)
}

/// Returns the settings of a connection for each controller, of one endpoint.
fn transports(args: &CompareArgs, controllers: &Controllers) -> Result<Vec<Transport>, Failure> {
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
    let first = Transport::new(BULK, &first, unasked, None, controllers)?;
    let of = |name: &String| -> Result<Transport, Failure> {
        let factory = controllers.factory(name).map_err(wrong)?;
        Ok(first.controlled(factory))
    };
    names.iter().map(of).collect()
}

/// Returns whether the runs so far include this one.
fn is_done(runs: &[Run], turn: &Turn, plan: &Plan) -> bool {
    runs.iter().any(|run| run.is_of(turn, plan))
}

/// Does one run after a pause.
async fn one(
    client: &Client<'_>,
    transports: &[Transport],
    plan: &Plan,
    turn: &Turn,
) -> Result<Run, Failure> {
    let pause = async {
        sleep_until(&TokioRuntime, TokioRuntime.now() + plan.pause).await;
        Ok(())
    };
    client.signals.or_signal(pause).await?;
    let began = calendar();
    let transport = &transports[turn.controller];
    Ok(match run::run(client, transport, plan, turn).await? {
        End::Measured(measured) => Run::measured(turn, plan, began, *measured),
        End::Failed(error) => Run::failed(turn, plan, began, error),
        End::Hopeless(failure) => return Err(failure),
    })
}

/// Ends the comparison after a first round in which nothing went well.
fn check(plan: &Plan, runs: &[Run]) -> Result<(), Failure> {
    let is_first_over = runs.len() == plan.round(1).len();
    match runs {
        [.., last] if is_first_over && runs.iter().all(|run| run.measured.is_none()) => {
            let error = last.error.as_deref().unwrap_or_default();
            let cause = format!("every run of the first round failed: {error}");
            let remedy = "try `evenkeel bulk client` with the same server, then another --out";
            Err(Failure::failed(cause, remedy))
        }
        _ => Ok(()),
    }
}

/// Says in a line how a run went.
fn line(run: &Run) -> String {
    let what = match (&run.measured, &run.error) {
        (Some(measured), _) => {
            let rate = measured.receiver.goodput_bps.unwrap_or(0.0) / 1e6;
            let lost = measured.sender.retransmitted_ratio * 100.0;
            let delay = report::loaded(measured);
            let delay = delay.map_or("-".into(), |delay| format!("{:.1} ms", delay.p95));
            format!("{rate:.1} Mb/s, round trip p95 {delay}, {lost:.2} % lost")
        }
        (None, error) => format!("failed: {}", error.as_deref().unwrap_or_default()),
    };
    format!("{}: {what}", title(run))
}

/// Writes the files and prints the table.
fn finish(
    args: &CompareArgs,
    live: bool,
    plan: &Plan,
    store: &Store,
    runs: &[Run],
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
