//! How figures are distributed over networks drawn at random, and where they are worst.

use evenkeel_testbed::report::picture::{Axis, Line, Picture, Point, Style};
use serde::Serialize;

use crate::spec::league::Figure;
use crate::spec::random::RANDOM;

/// Percentiles of `league.json`, by nearest rank.
pub(super) const PERCENTILES: [u32; 13] = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99];

/// The figures that are looked at.
pub(super) const FIGURES: [Figure; 4] = [
    Figure::Share,
    Figure::Others,
    Figure::QueueingP95Ms,
    Figure::Loss,
];

/// Networks that are named as the worst.
const WORST: usize = 10;

/// A figure of a controller over all networks drawn at random.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DistributionRow {
    /// The controller.
    pub controller: String,
    /// The figure.
    pub figure: Figure,
    /// Networks that have a value.
    pub networks: usize,
    /// The percentiles 1, 5, 10, 20, ... 90, 95 and 99 of the networks' medians over the seeds.
    pub percentiles: Vec<f64>,
    /// The ten worst networks, the worst first.
    pub worst: Vec<String>,
}

impl DistributionRow {
    /// Of the networks' values and names; `None` without any.
    pub(super) fn new(
        controller: &str,
        figure: Figure,
        mut values: Vec<(f64, &str)>,
    ) -> Option<Self> {
        values.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let rank = |percent: u32| (values.len() * percent as usize).div_ceil(100);
        let percentiles = PERCENTILES
            .iter()
            .map(|percent| values.get(rank(*percent).checked_sub(1)?))
            .map(|value| value.map(|(value, _)| *value))
            .collect::<Option<_>>()?;
        let name = |(_, case): &(f64, &str)| (*case).to_owned();
        let worst = match figure.more_is_better() {
            true => values.iter().take(WORST).map(name).collect(),
            false => values.iter().rev().take(WORST).map(name).collect(),
        };
        Some(Self {
            controller: controller.to_owned(),
            figure,
            networks: values.len(),
            percentiles,
            worst,
        })
    }

    /// One of [`PERCENTILES`].
    pub(super) fn at(&self, percent: u32) -> f64 {
        let place = PERCENTILES.iter().position(|one| *one == percent);
        self.percentiles[place.expect("one of those that there are")]
    }
}

/// Whether a case was drawn at random.
pub(super) fn is_random(case: &str) -> bool {
    let within = case.strip_prefix(RANDOM);
    within.is_some_and(|rest| rest.starts_with('/'))
}

/// A figure's percentiles, a line for each controller.
pub(super) fn picture(rows: &[&DistributionRow], label: String, by: f64) -> Picture {
    let lines = rows.iter().enumerate().map(|(colour, row)| Line {
        name: row.controller.clone(),
        colour,
        style: Style::Plain,
        points: PERCENTILES
            .iter()
            .zip(&row.percentiles)
            .map(|(percent, value)| Point::new(f64::from(*percent), Some(value * by)))
            .collect(),
    });
    Picture {
        title: String::new(),
        x: Axis::Numbers(
            "percentile of the networks".into(),
            PERCENTILES.map(f64::from).to_vec(),
            false,
        ),
        y_label: label,
        y_from: Some(0.0),
        warmup_s: 0.0,
        panels: vec![lines.collect()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_networks_of_a_share_are_the_least_and_of_a_loss_the_greatest() {
        let names: Vec<_> = (1..=100).map(|number| format!("random/{number}")).collect();
        let row = |figure| {
            let values = names.iter().rev().zip((1..=100_u32).rev());
            let values = values.map(|(name, value)| (f64::from(value) / 100.0, name.as_str()));
            DistributionRow::new("keel", figure, values.collect()).expect("values")
        };
        let share = row(Figure::Share);
        assert_eq!((share.at(1), share.at(50), share.at(99)), (0.01, 0.5, 0.99));
        assert_eq!(share.worst[0], "random/1");
        assert_eq!((share.networks, share.worst.len()), (100, WORST));
        assert_eq!(row(Figure::Loss).worst[0], "random/100");
        assert_eq!(DistributionRow::new("keel", Figure::Others, vec![]), None);
    }
}
