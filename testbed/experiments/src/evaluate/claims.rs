//! Judges claims: whether they hold for the runs that were made.

use serde::{Deserialize, Serialize};

use super::dataset::{Dataset, Spread};
use crate::spec::claim::Claim;
use crate::spec::runs::Point;

/// What came of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the paper says.
    Holds,
    /// Not as the paper says, for a reason that a run confirms.
    Differs,
    /// Not as the paper says.
    DoesNotHold,
}

/// A claim and what came out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finding {
    /// `None` if runs that it needs were not made.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) reason: Option<String>,
    /// The values at every point.
    pub(crate) values: Vec<PointValues>,
    /// The same where the named cause is absent, if it differs.
    pub(crate) without_cause: Vec<PointValues>,
    /// Commands of runs in which the named cause is absent.
    pub(crate) commands: Vec<String>,
}

/// The values that a claim compares, at one point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointValues {
    pub(crate) point: Point,
    /// One value, or those that are put in order.
    pub(crate) values: Vec<Option<Spread>>,
    pub(crate) holds: bool,
}

/// Judges a claim by the runs that there are. It has no verdict unless all runs of the extent are.
pub(crate) fn judge(claim: &Claim, data: &Dataset<'_>) -> Finding {
    let scope = data.scope;
    let planned = claim.planned(scope, data.extent);
    let mut finding = Finding::default();
    if planned.is_empty() || !planned.iter().all(|point| was_run(claim, data, point)) {
        return finding;
    }
    let values = planned.iter().map(|point| judged_at(claim, data, point));
    finding.values = values.collect();
    let failed: Vec<_> = finding.values.iter().filter(|one| !one.holds).collect();
    if failed.is_empty() {
        finding.verdict = Some(Verdict::Holds);
        return finding;
    }
    let note = claim.file.note.as_ref();
    let Some(differs) = &claim.file.differs else {
        finding.verdict = Some(Verdict::DoesNotHold);
        finding.reason = note.cloned();
        return finding;
    };
    let mut explained = true;
    for failed in failed {
        let without = scope.moved(&failed.point, &differs.at);
        let without = without.expect("it was checked when the claim was read");
        if !was_run(claim, data, &without) {
            explained = false;
            continue;
        }
        let values = judged_at(claim, data, &without);
        explained &= values.holds;
        finding.without_cause.push(values);
        let needed = needed(claim, data, &without).into_iter();
        let record = needed.filter_map(|point| data.record(&point, 1)).next();
        finding
            .commands
            .extend(record.map(|record| record.command.clone()));
    }
    if explained {
        finding.verdict = Some(Verdict::Differs);
        finding.reason = Some(differs.reason.clone());
    } else {
        finding.verdict = Some(Verdict::DoesNotHold);
        let note = note.map_or(String::new(), |note| format!("{note} "));
        finding.reason = Some(format!("{note}Not explained by this: {}", differs.reason));
    }
    finding
}

/// The points whose runs the claim needs at `point`.
fn needed(claim: &Claim, data: &Dataset<'_>, point: &Point) -> Vec<Point> {
    let expressions = claim.test.expressions().into_iter();
    let needed = expressions.flat_map(|expression| data.scope.needed(expression, point));
    needed.collect()
}

fn was_run(claim: &Claim, data: &Dataset<'_>, point: &Point) -> bool {
    needed(claim, data, point).iter().all(|point| {
        let mut seeds = data.planned_seeds(point).into_iter();
        seeds.all(|seed| data.record(point, seed).is_some())
    })
}

fn judged_at(claim: &Claim, data: &Dataset<'_>, point: &Point) -> PointValues {
    let expressions = claim.test.expressions().into_iter();
    let values: Vec<_> = expressions
        .map(|expression| data.spread(expression, point))
        .collect();
    let medians = values.iter().map(|value| Some((*value)?.median));
    let medians: Option<Vec<f64>> = medians.collect();
    PointValues {
        point: point.clone(),
        values,
        holds: medians.is_some_and(|medians| claim.test.holds(&medians)),
    }
}
