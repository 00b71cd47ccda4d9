//! What a comparison consists of, and the directory that keeps it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::args::{CompareArgs, Directions};
use super::judge::below;
use super::run::Run;
use crate::bulk::Direction;
use crate::cli::failure::Failure;
use crate::time::micros;

/// The file of the plan.
const PLAN: &str = "plan.json";

/// The file of the runs, each on a line.
const RUNS: &str = "runs.jsonl";

/// What is to be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Of the program that began.
    pub(super) version: String,
    pub(super) server: String,
    pub(super) controllers: Vec<String>,
    pub(super) direction: Directions,
    pub(super) rounds: u32,
    /// Length of a run.
    #[serde(rename = "time_us", with = "micros")]
    pub(super) time: Duration,
    /// Silence before each.
    #[serde(rename = "pause_us", with = "micros")]
    pub(super) pause: Duration,
    pub(super) seed: u64,
}

/// A run of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// From 1.
    pub(super) round: u32,
    /// The controller's number, from 0.
    pub(super) controller: usize,
    pub(super) direction: Direction,
}

/// A directory with a plan, and with the runs so far.
pub(super) struct Store {
    pub(super) directory: PathBuf,
    runs: File,
}

impl Plan {
    pub(super) fn new(args: &CompareArgs, seed: u64) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server: args.reach.server.to_string(),
            controllers: args.controllers.0.clone(),
            direction: args.direction,
            rounds: args.rounds,
            time: args.time,
            pause: args.pause,
            seed,
        }
    }

    /// Returns the runs of a round in their order, which depends on the seed and the round alone.
    pub(super) fn round(&self, round: u32) -> Vec<Turn> {
        let mut rng = Pcg64::new(self.seed.into(), round.into());
        let directions = self.direction.list().iter();
        let mut turns: Vec<_> = directions
            .flat_map(|direction| {
                (0..self.controllers.len()).map(move |controller| Turn {
                    round,
                    controller,
                    direction: *direction,
                })
            })
            .collect();
        // Fisher and Yates.
        for last in (1..turns.len()).rev() {
            let bound = u64::try_from(last + 1).expect("usize has at most 64 bits");
            turns.swap(last, below(bound, &mut rng) as usize);
        }
        turns
    }

    /// Returns all runs in their order.
    pub(super) fn turns(&self) -> Vec<Turn> {
        (1..=self.rounds)
            .flat_map(|round| self.round(round))
            .collect()
    }

    pub(super) fn number(&self, controller: &str) -> Option<usize> {
        self.controllers.iter().position(|name| name == controller)
    }
}

/// Begins the comparison of `args`, or continues the one in its directory. `fresh` is the seed of a
/// new one if the user gives none.
pub(super) fn open(args: &CompareArgs, fresh: u64) -> Result<(Plan, Store, Vec<Run>), Failure> {
    let seed = args.seed.unwrap_or(fresh);
    let directory = args.out.clone();
    let directory = directory.unwrap_or_else(|| format!("compare-{seed}").into());
    let path = directory.join(PLAN);
    let mut plan = Plan::new(args, seed);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let remedy = "choose another --out, or move it away";
            let before: Plan = serde_json::from_str(&text).map_err(|error| {
                Failure::failed(format!("{} is no plan: {error}", path.display()), remedy)
            })?;
            plan.seed = args.seed.unwrap_or(before.seed);
            if plan != before {
                let cause = format!("{} is of another comparison: {text}", path.display());
                return Err(Failure::failed(cause, remedy));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(&directory).map_err(Failure::unwritable(&directory, "--out"))?;
            save(&path, &json(&plan))?;
        }
        Err(error) => return Err(Failure::unreadable(&path, "--out")(error)),
    }
    let path = directory.join(RUNS);
    let (runs, file) = runs(&path)?;
    Ok((
        plan,
        Store {
            directory,
            runs: file,
        },
        runs,
    ))
}

/// Reads the runs so far. What the last line lacks was never written: it is cut off.
fn runs(path: &Path) -> Result<(Vec<Run>, File), Failure> {
    let failure = Failure::unwritable(path, "--out");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(&failure)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(&failure)?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    file.set_len(whole as u64).map_err(&failure)?;
    file.seek(SeekFrom::End(0)).map_err(&failure)?;
    let runs = text[..whole].lines().enumerate().map(|(number, line)| {
        serde_json::from_str(line).map_err(|error| {
            let cause = format!("{}:{}: {error}", path.display(), number + 1);
            Failure::failed(cause, "choose another --out, or remove that line")
        })
    });
    Ok((runs.collect::<Result<_, _>>()?, file))
}

impl Store {
    /// Keeps a run, so that it need not be made again.
    pub(super) fn keep(&mut self, run: &Run) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(run).expect("a run has string keys only");
        line.push(b'\n');
        let path = self.directory.join(RUNS);
        let written = self
            .runs
            .write_all(&line)
            .and_then(|()| self.runs.sync_data());
        written.map_err(Failure::unwritable(&path, "--out"))
    }

    /// Writes a file of the directory, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        save(&self.directory.join(name), text)
    }
}

/// Formats a document for its file.
pub(super) fn json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("documents have string keys only") + "\n"
}

fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(Failure::unwritable(path, "--out"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan {
            version: "0".into(),
            server: "h:4433".into(),
            controllers: vec!["keel".into(), "cubic".into(), "bbr".into()],
            direction: Directions::Both,
            rounds: 40,
            time: Duration::from_secs(1),
            pause: Duration::ZERO,
            seed,
        }
    }

    #[test]
    fn every_round_has_each_controller_once_in_each_direction_in_an_order_of_its_own() {
        let mut orders = BTreeSet::new();
        for round in 1..=40 {
            let turns = plan(1).round(round);
            assert_eq!(turns, plan(1).round(round), "the seed repeats it");
            let of = |turn: &Turn| (turn.direction == Direction::Up, turn.controller);
            let order: Vec<_> = turns.iter().map(of).collect();
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 6);
            orders.insert(order);
        }
        assert!(orders.len() > 30, "{} orders", orders.len());
        assert_ne!(plan(1).turns(), plan(2).turns());
    }

    #[test]
    fn a_plan_reads_back_as_written() {
        assert_eq!(
            serde_json::from_str::<Plan>(&json(&plan(7))).unwrap(),
            plan(7)
        );
    }

    #[test]
    fn a_line_that_was_cut_off_is_forgotten_and_a_broken_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.jsonl");
        let run = Run::failed(&plan(1).turns()[0], &plan(1), 5.0, "no".into());
        let line = serde_json::to_string(&run).unwrap();
        fs::write(&path, format!("{line}\n{}", &line[..20])).unwrap();
        let (read, mut file) = runs(&path).unwrap();
        assert_eq!(read, [run]);
        file.write_all(b"{}\n").unwrap();
        let told = runs(&path).map(|_| ()).unwrap_err().to_string();
        assert!(told.contains("runs.jsonl:2: "), "{told}");
    }
}
