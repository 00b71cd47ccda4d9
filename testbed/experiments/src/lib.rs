//! The experiments of the papers, as data: runs, the figures drawn from them, and what the papers
//! claim about them. docs/reproduce.md describes the files.

mod claim;
mod dataset;
mod experiment;
mod expression;
mod figure;
mod file;
mod matrix;
mod metric;
mod place;
mod report;
mod runner;
mod store;
#[cfg(test)]
mod tests;

pub use claim::Verdict;
pub use dataset::MetricError;
pub use experiment::{Experiment, ExperimentError, find};
pub use matrix::{Extent, Run, heaviest_first, shard};
pub use report::{ClaimRow, Commands, Document, KernelRow, NotRun, Report, ReportError, RunsRow};
pub use runner::{Event, Outcome, run};
pub use store::{Build, Plan, Record, Store, StoreError};
