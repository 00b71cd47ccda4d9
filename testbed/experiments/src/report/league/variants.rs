//! What parts and constants of a controller are worth, as a table for a terminal.

use super::document::{LeagueDocument, TOTAL};
use crate::spec::variants::Variant;

/// A score's change, and where.
struct Change<'d> {
    place: &'d str,
    by: f64,
}

impl LeagueDocument {
    /// A row for each variant, under that of its whole controller: the total, its change, and where
    /// the score falls most.
    pub(super) fn variants(&self, variants: &[Variant]) -> String {
        let places = self.cases.iter().map(|case| case.case.len());
        let width = places.max().unwrap_or(0).max(12) + 2;
        let mut text = format!(
            "{:<28}{:>7}{:>8}{:>8}  {:<14}{:>8}  {:<width$}{:>8}\n",
            "", "total", "change", "failed", "worst group", "change", "worst network", "change"
        );
        let mut base = "";
        for variant in variants {
            if base != variant.base {
                base = &variant.base;
                text += &format!("{base:<28}{}", self.total(base));
                text += &format!("{:>8}{:>8}\n", "", self.failures(base));
            }
            let controller = &variant.controller;
            let groups = self.groups.iter().map(|group| group.name.as_str());
            let of_group =
                |controller: &str, group: &str| Some(self.score(controller, group)?.median);
            let total = self.change([base, controller], [TOTAL].into_iter(), of_group);
            let group = self.change([base, controller], groups, of_group);
            let cases = self.cases.iter().map(|case| case.case.as_str());
            let case = self.change([base, controller], cases, |controller, case| {
                let mut results = self.results.iter();
                let row = results.find(|row| row.controller == controller && row.case == case);
                Some(row?.score?.median)
            });
            // The worst of some cases says little of all.
            let is_whole = total.is_some();
            let (group, case) = (group.filter(|_| is_whole), case.filter(|_| is_whole));
            let by = |change: &Option<Change<'_>>| {
                change
                    .as_ref()
                    .map_or("-".into(), |change| format!("{:+.3}", change.by))
            };
            let place = |change: &Option<Change<'_>>| {
                change
                    .as_ref()
                    .map_or("-".to_owned(), |change| change.place.to_owned())
            };
            text += &format!(
                "  {:<26}{}{:>8}{:>8}  {:<14}{:>8}  {:<width$}{:>8}\n",
                variant.label,
                self.total(controller),
                by(&total),
                self.failures(controller),
                place(&group),
                by(&group),
                place(&case),
                by(&case),
            );
        }
        text
    }

    fn total(&self, controller: &str) -> String {
        let score = self.score(controller, TOTAL);
        score.map_or(format!("{:>7}", "-"), |score| {
            format!("{:>7.3}", score.median)
        })
    }

    /// The place with the least change from the first controller to the second; of several the first.
    fn change<'d>(
        &self,
        [base, controller]: [&str; 2],
        places: impl Iterator<Item = &'d str>,
        score: impl Fn(&str, &str) -> Option<f64>,
    ) -> Option<Change<'d>> {
        let changes = places.filter_map(|place| {
            let by = score(controller, place)? - score(base, place)?;
            Some(Change { place, by })
        });
        changes.min_by(|one, other| one.by.total_cmp(&other.by))
    }
}
