//! The options of comparisons.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::bulk::Direction;
use crate::cli::args::ReachArgs;
use crate::cli::controllers::{Names, names};
use crate::time::{seconds, within};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    /// Controllers to compare, 2 to 10, names separated by commas
    #[arg(long, value_name = "NAMES", value_parser = names, default_value = "keel,cubic,bbr")]
    pub(crate) controllers: Names,
    /// Rounds, 1 to 1000: in each, every controller has a run; with less than 6 nobody wins
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Length of a run, 0.5 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = within(0.5, 3600.0))]
    pub(crate) time: Duration,
    /// Silence before each run, for the queues of the one before to drain
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) pause: Duration,
    /// Number of the order of runs; by default one at random
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Directory for the page and the runs; one that holds a part of this comparison continues it
    /// [default: compare-SEED]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the comparison as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BulkCompareArgs {
    #[command(flatten)]
    pub(crate) common: CompareArgs,
    /// Who sends: this side, the server (which must allow the controllers), or both in turns
    #[arg(long, value_enum, default_value_t = Directions::Up)]
    pub(crate) direction: Directions,
}

#[derive(Debug, Args)]
pub(crate) struct StreamCompareArgs {
    #[command(flatten)]
    pub(crate) common: CompareArgs,
    /// Playout buffer of the viewer, 0 to 60000
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) buffer: u64,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Directions {
    /// This side
    Up,
    /// The server
    Down,
    /// One after the other
    Both,
}

impl Directions {
    pub(super) fn list(self) -> &'static [Direction] {
        match self {
            Self::Up => &[Direction::Up],
            Self::Down => &[Direction::Down],
            Self::Both => &[Direction::Up, Direction::Down],
        }
    }
}
