//! Virtual time and the kernel side by side.

use super::super::claim::Finding;
use super::super::dataset::Dataset;
use super::super::figure::Drawing;
use super::super::matrix::{Extent, Point};
use super::super::place::{self, Spread};

/// Differences above this share of the value in virtual time want a reason.
const NOTABLE: f64 = 0.05;

/// What came out of an experiment's runs on the kernel.
#[derive(Debug)]
pub(super) struct OnKernel {
    /// One for each claim.
    pub(super) findings: Vec<Finding>,
    /// One for each figure; only those over time are drawn.
    pub(super) drawings: Vec<Option<Drawing>>,
    pub(super) comparisons: Vec<Comparison>,
}

/// A metric of one run on both backends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) run: String,
    pub(super) metric: String,
    pub(super) simulated: Option<Spread>,
    pub(super) kernel: Option<Spread>,
    /// Share of the value in virtual time.
    pub(super) difference: Option<f64>,
    /// Why, if the difference is a notable one and the experiment says so.
    pub(super) reason: Option<String>,
}

impl Comparison {
    /// Every metric that the experiment compares, at every point that was run on the kernel.
    pub(super) fn all(simulated: &Dataset<'_>, kernel: &Dataset<'_>) -> Vec<Self> {
        let experiment = kernel.experiment;
        let points = experiment
            .groups
            .iter()
            .flat_map(|group| group.points(Extent::Kernel))
            .filter(|point| !kernel.seeds(point).is_empty());
        let compared = |point: Point| {
            let metrics = experiment.kernel.metrics.iter();
            metrics
                .map(|metric| Self::new(metric, &point, simulated, kernel))
                .collect::<Vec<_>>()
        };
        points.flat_map(compared).collect()
    }

    fn new(metric: &str, point: &Point, simulated: &Dataset<'_>, kernel: &Dataset<'_>) -> Self {
        let experiment = kernel.experiment;
        let expression = place::expression(experiment, metric).expect("metrics were checked");
        let value = |data: &Dataset<'_>| Spread::at(data, &expression, point);
        let mut comparison = Self {
            run: point.label(),
            metric: metric.to_owned(),
            simulated: value(simulated),
            kernel: value(kernel),
            difference: None,
            reason: None,
        };
        if let (Some(simulated), Some(kernel)) = (comparison.simulated, comparison.kernel) {
            let share = kernel.median / simulated.median - 1.0;
            comparison.difference = share.is_finite().then_some(share);
        }
        if comparison.is_notable() {
            comparison.reason = experiment.kernel.because.get(metric).cloned();
        }
        comparison
    }

    /// Whether the difference wants a reason.
    pub(super) fn is_notable(&self) -> bool {
        self.difference.is_none_or(|share| share.abs() > NOTABLE)
    }
}
