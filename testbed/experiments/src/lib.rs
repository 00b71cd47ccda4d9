//! The experiments of the papers, as data: runs, the figures drawn from them, and what the papers
//! claim about them. docs/reproduce.md describes the files. On the same machinery, the league of
//! controllers: docs/league.md.
//!
//! Internal to evenkeel-testbed: no promise, the API may change with every version.
//!
//! Four layers, each of which imports only from those above it: `spec` reads experiments, `run`
//! makes their runs and stores the results, `evaluate` computes metrics and judges claims, and
//! `report` writes what came out.

mod evaluate;
mod report;
mod run;
mod spec;
#[cfg(test)]
mod tests;

pub use evaluate::claims::Verdict;
pub use evaluate::dataset::MetricError;
pub use report::{
    CaseRow, CellRow, ClaimRow, Commands, ControllerRow, DistributionRow, Document, GroupRow,
    KernelRow, League, LeagueDocument, NotRun, OverSeeds, RegretRow, Report, ReportError,
    ResultRow, RunsRow,
};
pub use run::runner::{Event, Outcome, run};
pub use run::store::{Build, Plan, Record, Store, StoreError};
pub use spec::experiment::{Experiment, ExperimentError, find};
pub use spec::league::{
    Case, Figure, LeagueError, LeagueGroup, league, random, recorded, variants,
};
pub use spec::runs::{Extent, Run, heaviest_first, shard};
pub use spec::traces::{Bottleneck, Recordings, Room};
pub use spec::variants::{Variant, switches};
