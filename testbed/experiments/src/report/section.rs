//! One experiment of a report: its claims judged, its figures drawn, its runs listed.

use std::path::Path;

use super::command::Commands;
use super::document::{ClaimRow, KernelRow, NotRun, RunsRow, ends, median, number, shaped, stated};
use super::parts::Whole;
use crate::evaluate::claims::{Finding, PointValues, Verdict, judge};
use crate::evaluate::dataset::{Dataset, MetricError};
use crate::evaluate::figures::{Drawing, draw};
use crate::run::store::{Build, Record, StoreError};
use crate::spec::claim::Claim;
use crate::spec::experiment::{Experiment, ExperimentError, find};
use crate::spec::league::LeagueError;
use crate::spec::runs::{Extent, Point, Run};

/// Differences above this share of the value in virtual time need a reason.
const NOTABLE: f64 = 0.05;

/// A report that cannot be made. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A directory of results cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An experiment is wrong.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A case of the league is wrong.
    #[error(transparent)]
    League(#[from] LeagueError),
    /// An experiment reads what results do not have.
    #[error(transparent)]
    Metric(#[from] MetricError),
}

/// An experiment with what came out.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) experiment: Experiment,
    pub(super) claims: Vec<ClaimRow>,
    pub(super) not_run: Vec<NotRun>,
    /// Metrics on both backends.
    pub(super) kernel: Vec<KernelRow>,
    pub(super) runs: RunsRow,
    pub(super) builds: Vec<Build>,
    /// One for each figure.
    pub(super) drawings: Vec<Option<Drawing>>,
    /// The same for figures over time from runs on the kernel; empty without such runs.
    pub(super) kernel_drawings: Vec<Option<Drawing>>,
}

impl Section {
    /// What came of an experiment's runs in `main`, and of those on the kernel in `kernel`.
    pub(super) fn new(
        experiment: Experiment,
        main: &Whole,
        kernel: Option<&Whole>,
    ) -> Result<Self, ReportError> {
        let (records, missing) = main.records(&runs(&experiment, main)?)?;
        let kernel_records = match kernel {
            Some(whole) => whole.records(&runs(&experiment, whole)?)?.0,
            None => Vec::new(),
        };
        let data = Dataset::new(&experiment.scope, &main.plan, &records);
        let drawings = drawn(&experiment, &data)?;
        let kernel = kernel.filter(|_| !kernel_records.is_empty());
        let kernel =
            kernel.map(|whole| Dataset::new(&experiment.scope, &whole.plan, &kernel_records));
        let mut section = Self {
            claims: Vec::new(),
            not_run: Vec::new(),
            kernel: Vec::new(),
            runs: runs_row(&experiment, main, &records, &kernel_records, missing),
            builds: Vec::new(),
            drawings,
            kernel_drawings: Vec::new(),
            experiment: experiment.clone(),
        };
        if let Some(kernel) = &kernel {
            section.kernel_drawings = drawn(&experiment, kernel)?;
            for drawing in &mut section.kernel_drawings {
                drawing.take_if(|drawing| matches!(drawing, Drawing::Graph(_)));
            }
            section.kernel = kernel_rows(&experiment, &data, kernel);
        }
        for claim in &experiment.claims {
            let finding = judge(claim, &data);
            let kernel = kernel.as_ref().map(|kernel| judge(claim, kernel));
            match finding.verdict {
                Some(verdict) => {
                    let row = claim_row(&experiment, claim, (finding, verdict), kernel);
                    section.claims.push(row);
                }
                None => section.not_run.push(NotRun {
                    experiment: experiment.id.clone(),
                    figure: claim.file.figure.clone(),
                    claim: claim.file.claim.clone(),
                }),
            }
        }
        let missing = kernel.iter().chain([&data]).find_map(Dataset::missing);
        if let Some(message) = missing {
            return Err(metric_error(&experiment, message).into());
        }
        let all = records.iter().chain(&kernel_records);
        section.builds = all.map(|record| record.build.clone()).collect();
        Ok(section)
    }
}

/// The experiment's runs in a plan.
fn runs(experiment: &Experiment, whole: &Whole) -> Result<Vec<Run>, ExperimentError> {
    experiment.runs(whole.plan.extent(), whole.plan.seeds)
}

fn claim_row(
    experiment: &Experiment,
    claim: &Claim,
    (finding, verdict): (Finding, Verdict),
    kernel: Option<Finding>,
) -> ClaimRow {
    let several = finding.values.len() > 1;
    let labels = |of: fn(&PointValues) -> bool| -> Vec<String> {
        let values = finding.values.iter().filter(|values| several && of(values));
        values.map(|values| values.point.label()).collect()
    };
    let terms = claim.test.expressions().into_iter();
    let kernel = kernel.unwrap_or_default();
    ClaimRow {
        paper: experiment.paper().to_owned(),
        experiment: experiment.id.clone(),
        figure: claim.file.figure.clone(),
        claim: claim.file.claim.clone(),
        paper_value: stated(claim.file.paper.as_ref()),
        ns2_value: stated(claim.file.ns2.as_ref()),
        criterion: claim.test.criterion(),
        terms: terms.map(|term| term.text.clone()).collect(),
        value: shaped(&finding.values, median),
        spread: shaped(&finding.values, ends),
        points: labels(|_| true),
        fails_at: labels(|values| !values.holds),
        verdict,
        value_without_cause: shaped(&finding.without_cause, median),
        commands: Commands::group(&finding.commands),
        reason: finding.reason,
        kernel_value: shaped(&kernel.values, median),
        kernel_verdict: kernel.verdict,
    }
}

/// Every metric that the experiment compares, at every point that was run on the kernel.
fn kernel_rows(
    experiment: &Experiment,
    simulated: &Dataset<'_>,
    kernel: &Dataset<'_>,
) -> Vec<KernelRow> {
    let groups = experiment.scope.groups.iter();
    let points = groups.flat_map(|group| group.points(Extent::Kernel));
    let mut rows = Vec::new();
    for point in points.filter(|point| !kernel.seeds(point).is_empty()) {
        let metrics = experiment.kernel.metrics.iter();
        rows.extend(
            metrics.map(|metric| kernel_row(experiment, metric, &point, [simulated, kernel])),
        );
    }
    rows
}

fn kernel_row(
    experiment: &Experiment,
    metric: &str,
    point: &Point,
    data: [&Dataset<'_>; 2],
) -> KernelRow {
    let expression = experiment.scope.expression(metric);
    let expression = expression.expect("metrics were checked");
    let [simulated, kernel] = data.map(|data| data.spread(&expression, point));
    let share = simulated
        .zip(kernel)
        .map(|(simulated, kernel)| kernel.median / simulated.median - 1.0);
    let share = share.filter(|share| share.is_finite());
    let notable = share.is_none_or(|share| share.abs() > NOTABLE);
    let because = &experiment.kernel.because;
    KernelRow {
        experiment: experiment.id.clone(),
        run: point.label(),
        metric: metric.to_owned(),
        simulated: simulated.map(median).into(),
        simulated_spread: simulated.map(ends).into(),
        kernel: kernel.map(median).into(),
        kernel_spread: kernel.map(ends).into(),
        difference_percent: share.map(|share| number(100.0 * share)).into(),
        notable,
        reason: because.get(metric).filter(|_| notable).cloned(),
    }
}

fn runs_row(
    experiment: &Experiment,
    whole: &Whole,
    records: &[Record],
    kernel: &[Record],
    missing: usize,
) -> RunsRow {
    let all = || records.iter().chain(kernel);
    let errors = all().flat_map(|record| {
        let point = Point {
            group: record.group.clone(),
            axes: record.axes.clone(),
        };
        let label = point.label_with(record.seed);
        let errors = record.errors().into_iter();
        errors.map(move |error| format!("{label}: {error}"))
    });
    let commands: Vec<String> = all().map(|record| record.command.clone()).collect();
    RunsRow {
        experiment: experiment.id.clone(),
        version: whole.plan.build.version.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        made: commands.len(),
        missing,
        seeds: records.iter().map(|record| record.seed).max().unwrap_or(0),
        open: experiment.open.clone(),
        commands: Commands::group(&commands),
        errors: errors.collect(),
    }
}

fn metric_error(experiment: &Experiment, message: String) -> MetricError {
    MetricError {
        experiment: experiment.id.clone(),
        message,
    }
}

fn drawn(experiment: &Experiment, data: &Dataset<'_>) -> Result<Vec<Option<Drawing>>, MetricError> {
    let drawings = experiment.figures.iter().map(|figure| {
        let name = &figure.file.figure;
        draw(figure, data)
            .map_err(|message| metric_error(experiment, format!("figure {name:?}: {message}")))
    });
    drawings.collect()
}

/// The experiment with exactly this id below `papers`.
pub(super) fn exactly(papers: &Path, id: &str) -> Result<Experiment, ExperimentError> {
    let mut found = find(papers, Some(id))?;
    found.retain(|experiment| experiment.id == id);
    let missing = || ExperimentError::NoMatch(papers.into(), id.into(), "others".into());
    found.pop().ok_or_else(missing)
}
