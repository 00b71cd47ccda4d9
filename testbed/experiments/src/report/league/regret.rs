//! How far controllers stay behind the best one: what a mean over networks hides.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{mean, to_three_digits};

/// How far a controller stays behind the best of each case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegretRow {
    /// The controller.
    pub controller: String,
    /// The mean over the cases; `None` if runs are missing.
    pub mean: Option<f64>,
    /// The greatest; `None` if runs are missing.
    pub greatest: Option<f64>,
    /// The case of the greatest.
    pub case: Option<String>,
    /// Cases that the controller failed with one seed or more.
    pub failed: Vec<String>,
}

/// What came of a case for a controller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome<'r> {
    pub(super) case: &'r str,
    /// `None` without a run.
    pub(super) regret: Option<f64>,
    pub(super) has_failed: bool,
}

/// How far each of these scores, given with its case, is behind the best of that case. Nobody knows
/// the best where a score is missing.
pub(super) fn regrets(scores: &[(&str, Option<f64>)]) -> Vec<Option<f64>> {
    let mut best: BTreeMap<&str, Option<f64>> = BTreeMap::new();
    for (case, score) in scores {
        let best = best.entry(case).or_insert(Some(0.0));
        *best = best.zip(*score).map(|(best, score)| best.max(score));
    }
    let regrets = scores
        .iter()
        .map(|(case, score)| Some(to_three_digits(best[case]? - (*score)?)));
    regrets.collect()
}

impl RegretRow {
    /// Of a controller, from what came of all cases.
    pub(super) fn new(controller: &str, outcomes: &[Outcome<'_>]) -> Self {
        let mean = mean(outcomes.iter().map(|one| one.regret));
        // Of several the first.
        let greatest = outcomes.iter().rev().max_by(|one, other| {
            let [one, other] = [one, other].map(|outcome| outcome.regret.unwrap_or_default());
            one.total_cmp(&other)
        });
        let greatest = greatest.filter(|_| mean.is_some());
        let failed = outcomes.iter().filter(|one| one.has_failed);
        Self {
            controller: controller.to_owned(),
            mean: mean.map(to_three_digits),
            greatest: greatest.and_then(|one| one.regret),
            case: greatest.map(|one| one.case.to_owned()),
            failed: failed.map(|one| one.case.to_owned()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(case: &str, regret: Option<f64>, has_failed: bool) -> Outcome<'_> {
        Outcome {
            case,
            regret,
            has_failed,
        }
    }

    #[test]
    fn regret_is_the_distance_to_the_best_of_a_case() {
        let scores = [
            ("a/1", Some(0.9)),
            ("a/2", Some(0.5)),
            ("a/1", Some(1.0)),
            ("a/2", Some(0.8)),
            ("a/3", None),
            ("a/3", Some(0.7)),
        ];
        let expected = [Some(0.1), Some(0.3), Some(0.0), Some(0.0), None, None];
        assert_eq!(regrets(&scores), expected);
    }

    #[test]
    fn the_greatest_regret_names_its_case_and_failed_cases_are_listed() {
        let row = RegretRow::new(
            "one",
            &[
                outcome("a/1", Some(0.1), false),
                outcome("a/2", Some(0.3), true),
                outcome("a/3", Some(0.0), false),
            ],
        );
        assert_eq!((row.mean, row.greatest), (Some(0.133), Some(0.3)));
        assert_eq!(row.case.as_deref(), Some("a/2"));
        assert_eq!(row.failed, ["a/2"]);
    }

    #[test]
    fn without_all_runs_there_is_no_regret() {
        let all = [
            outcome("a/1", Some(0.1), false),
            outcome("a/2", None, false),
        ];
        let row = RegretRow::new("one", &all);
        assert_eq!((row.mean, row.greatest, row.case), (None, None, None));
    }
}
