//! What a comparison found: figures, intervals, who is best, and what disturbed it.

use rand_pcg::Pcg64;
use serde::Serialize;

use super::judge::{Better, LEAST_ROUNDS, Mean, Pair, best, mean, pair};
use super::plan::Plan;
use super::run::{Kind, Metric, Run};
use crate::bulk::Direction;

/// A run is disturbed if other programs took more of all processors' time than this.
const BUSY: f64 = 0.5;

/// Or if this program was woken later than this, in milliseconds.
const LATE_MS: f64 = 100.0;

/// Or if the round trip before it was longer than is usual by more than this share and these
/// milliseconds.
const MOVED: (f64, f64) = (0.25, 2.0);

/// A comparison, as `compare.json` has it.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "comparison")]
pub(super) struct Comparison<'a, K> {
    pub(super) plan: &'a Plan,
    /// Differences that share the error of 5 %.
    pub(super) comparisons: usize,
    pub(super) results: Vec<Finding>,
    pub(super) disturbances: Vec<String>,
    pub(super) failures: Vec<String>,
    pub(super) runs: &'a [Run<K>],
}

/// What was found of one figure in one direction.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) direction: Direction,
    pub(super) figure: &'static str,
    pub(super) unit: &'static str,
    better: Better,
    /// Of each controller, in the plan's order.
    pub(super) means: Vec<Option<Mean>>,
    /// Empty for a figure that is not judged.
    pub(super) differences: Vec<Pair>,
    /// The numbers of the best controllers, from 0: one is the winner, all are no difference. Empty
    /// for a figure that is not judged.
    pub(super) best: Vec<usize>,
}

impl<'a, K: Kind> Comparison<'a, K> {
    /// Judges the runs of `plan`.
    pub(super) fn new(plan: &'a Plan, runs: &'a [Run<K>]) -> Self {
        let (count, directions) = (plan.controllers.len(), plan.direction.list());
        let judged = (K::METRICS.iter())
            .filter(|metric| metric.scale.is_some())
            .count();
        let comparisons = judged * directions.len() * (count * (count - 1) / 2);
        // A stream of its own, apart from the rounds'.
        let mut rng = Pcg64::new(plan.seed.into(), u128::MAX);
        let mut results = Vec::new();
        for direction in directions {
            for metric in K::METRICS {
                let rows = rows(plan, runs, *direction, metric);
                results.push(Finding::new(
                    metric,
                    *direction,
                    &rows,
                    count,
                    comparisons,
                    &mut rng,
                ));
            }
        }
        Self {
            plan,
            comparisons,
            results,
            disturbances: disturbances(runs),
            failures: (runs.iter())
                .filter_map(|run| Some(format!("{}: {}", title(run), run.error.as_ref()?)))
                .collect(),
            runs,
        }
    }

    /// Returns in words who is best by a result; `None` if it is not judged.
    pub(super) fn verdict(&self, result: &Finding) -> Option<String> {
        if result.best.is_empty() {
            return None;
        }
        if result
            .differences
            .iter()
            .all(|pair| pair.interval.is_none())
        {
            return Some(format!("fewer than {LEAST_ROUNDS} rounds"));
        }
        if result.best.len() == self.plan.controllers.len() {
            return Some("no difference".into());
        }
        let names: Vec<_> = (result.best.iter())
            .map(|at| self.plan.controllers[*at].as_str())
            .collect();
        Some(names.join(" or "))
    }

    /// Formats the table for people, at most 100 columns wide, if names are not longer than 40.
    pub(super) fn text(&self) -> String {
        let plan = self.plan;
        let mut text = String::new();
        for direction in plan.direction.list() {
            text += &format!(
                "{}: {} rounds of {} s each, seed {}\n",
                K::way(*direction),
                plan.rounds,
                plan.time.as_secs_f64(),
                plan.seed
            );
            for result in (self.results.iter()).filter(|result| result.direction == *direction) {
                let heading = format!("{}, {}", result.figure, result.unit);
                let verdict = self.verdict(result).unwrap_or_default();
                text += format!("  {heading:<38}{verdict}").trim_end();
                text += "\n";
                for (name, mean) in plan.controllers.iter().zip(&result.means) {
                    text += &format!("    {name:<36}{}\n", show(mean.as_ref(), plan.rounds));
                }
            }
        }
        for line in self.failures.iter().chain(&self.disturbances) {
            text += &format!("{line}\n");
        }
        text
    }
}

impl Finding {
    fn new<K>(
        metric: &Metric<K>,
        direction: Direction,
        rows: &[Vec<Option<f64>>],
        count: usize,
        comparisons: usize,
        rng: &mut Pcg64,
    ) -> Self {
        let means = (0..count).map(|at| {
            let figures: Vec<f64> = rows.iter().filter_map(|row| row[at]).collect();
            mean(&figures, rng)
        });
        let means: Vec<_> = means.collect();
        let mut differences = Vec::new();
        let mut winners = Vec::new();
        if let Some(scale) = metric.scale {
            for second in 1..count {
                for first in 0..second {
                    let both: Vec<_> = (rows.iter())
                        .filter_map(|row| row[first].zip(row[second]))
                        .collect();
                    differences.push(pair((first, second), &both, scale, comparisons, rng));
                }
            }
            winners = best(count, &differences, scale, metric.better);
        }
        Self {
            direction,
            figure: metric.name,
            unit: metric.unit,
            better: metric.better,
            means,
            differences,
            best: winners,
        }
    }
}

/// Returns the figures of each round, of each controller.
pub(super) fn rows<K>(
    plan: &Plan,
    runs: &[Run<K>],
    direction: Direction,
    metric: &Metric<K>,
) -> Vec<Vec<Option<f64>>> {
    let of = |round: u32, controller: &String| {
        let run = runs.iter().find(|run| {
            run.round == round && run.direction == direction && run.controller == *controller
        });
        (metric.value)(run?.measured.as_ref()?).filter(|value| value.is_finite())
    };
    (1..=plan.rounds)
        .map(|round| {
            plan.controllers
                .iter()
                .map(|name| of(round, name))
                .collect()
        })
        .collect()
}

/// Says in which runs something else than the controllers was at work.
fn disturbances<K: Kind>(runs: &[Run<K>]) -> Vec<String> {
    let idle = |run: &Run<K>| Some(run.measured.as_ref()?.idle()?.p50);
    let mut usual: Vec<f64> = runs.iter().filter_map(idle).collect();
    usual.sort_unstable_by(f64::total_cmp);
    let usual = usual.get(usual.len() / 2).copied();
    let mut lines = Vec::new();
    for run in runs {
        let Some(machine) = run.measured.as_ref().map(|measured| measured.machine) else {
            continue;
        };
        let mut causes = Vec::new();
        if let Some(others) = machine.others.filter(|others| *others > BUSY) {
            causes.push(format!(
                "other programs took {:.0} % of the processors",
                others * 100.0
            ));
        }
        if machine.late_ms > LATE_MS {
            causes.push(format!(
                "this program was woken {:.0} ms late",
                machine.late_ms
            ));
        }
        if let Some((now, usual)) = idle(run).zip(usual)
            && now > usual * (1.0 + MOVED.0) + MOVED.1
        {
            causes.push(format!(
                "the round trip before it was {now:.1} ms, {usual:.1} usually: another flow?"
            ));
        }
        if !causes.is_empty() {
            lines.push(format!("disturbed, {}: {}", title(run), causes.join("; ")));
        }
    }
    lines
}

/// Names a run.
pub(super) fn title<K: Kind>(run: &Run<K>) -> String {
    format!(
        "round {}, {}, {}",
        run.round,
        K::way(run.direction),
        run.controller
    )
}

/// Formats a mean and its interval.
pub(super) fn show(mean: Option<&Mean>, rounds: u32) -> String {
    let Some(mean) = mean else {
        return "-".into();
    };
    let few = match u32::try_from(mean.rounds) == Ok(rounds) {
        true => String::new(),
        false => format!("  {} of {rounds} rounds", mean.rounds),
    };
    let [middle, low, high] = [mean.mean, mean.low, mean.high].map(digits);
    format!("{middle:>9}  {low} to {high}{few}")
}

/// Returns three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
