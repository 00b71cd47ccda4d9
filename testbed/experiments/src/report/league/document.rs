//! The contents of `league.json`; docs/league.md describes every field.

use std::collections::BTreeMap;

use evenkeel_testbed::scenario::Controllers;
use serde::{Serialize, Serializer};

use super::Standings;
use super::distributions::{DistributionRow, FIGURES, is_random};
use super::regret::{Outcome, RegretRow, regrets};
use super::{mean, to_three_digits};
use crate::evaluate::dataset::Spread;
use crate::report::document::{line, lines, object};
use crate::run::store::Plan;
use crate::spec::league::{Case, Figure, LeagueGroup, seeds};

/// The group of the table's last column: the mean of the others.
pub(super) const TOTAL: &str = "total";

/// The group of all cases in which flows of other controllers take part.
pub(super) const COEXISTENCE: &str = "coexistence";

/// All controllers, all cases, and what came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeagueDocument {
    /// Version of evenkeel-testbed.
    pub version: String,
    /// The commit that it was built from, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether it was played with one seed for a quick look.
    pub quick: bool,
    /// What the runs ran on: `sim`, `netns`, `uml` or `docker`.
    pub backend: String,
    /// Every run was made with the seeds from 1 to this; chaotic cases of a quick league with three.
    pub seeds: u64,
    /// Who played.
    pub controllers: Vec<ControllerRow>,
    /// The groups of cases.
    pub groups: Vec<GroupRow>,
    /// The cases.
    pub cases: Vec<CaseRow>,
    /// Scores of controllers in groups, and in total.
    pub table: Vec<CellRow>,
    /// How far controllers stay behind the best.
    pub regrets: Vec<RegretRow>,
    /// Scores and raw figures of controllers in cases.
    pub results: Vec<ResultRow>,
    /// Figures over networks drawn at random; empty without any.
    pub distributions: Vec<DistributionRow>,
}

/// A controller that plays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControllerRow {
    /// As it was asked for, with parameters.
    pub name: String,
    /// What it is, in short.
    pub summary: String,
    /// Whether the same seed gives the same result again.
    pub repeats: bool,
}

/// A group of cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupRow {
    /// Its name.
    pub name: String,
    /// For people.
    pub title: String,
    /// What its cases have in common.
    pub about: String,
}

/// A case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseRow {
    /// `GROUP/NAME`.
    pub case: String,
    /// What it models.
    pub models: String,
    /// Where that is from.
    pub source: String,
    /// What a good controller does there.
    pub good: String,
    /// Targets by figure.
    pub aims: BTreeMap<Figure, f64>,
    /// One seed hides much here, so that a quick league has three.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub chaotic: bool,
    /// False if the same seed gives another result each time, with any controller: an opponent's fault.
    pub repeats: bool,
    /// Makes one of its runs alone; `CONTROLLER` and `SEED` stand for what to choose.
    pub command: String,
}

/// A number over the seeds. In JSON `[median, least, greatest]`, or `[median]` where all are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverSeeds {
    /// Median.
    pub median: f64,
    /// Least.
    pub least: f64,
    /// Greatest.
    pub greatest: f64,
}

impl Serialize for OverSeeds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = [self.median, self.least, self.greatest];
        let shown = if self.least < self.greatest { 3 } else { 1 };
        all[..shown].serialize(serializer)
    }
}

/// A controller in a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellRow {
    /// The controller.
    pub controller: String,
    /// The group, `coexistence` or `total`.
    pub group: String,
    /// The mean of the cases, in total of the groups; `None` if runs are missing.
    pub score: Option<OverSeeds>,
}

/// A controller in a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultRow {
    /// The case.
    pub case: String,
    /// The controller.
    pub controller: String,
    /// Its score; `None` without a run.
    pub score: Option<OverSeeds>,
    /// By how much the best controller's median is above its own; `None` if a run of the case is
    /// missing.
    pub regret: Option<f64>,
    /// Seeds whose run is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u64>,
    /// Why runs failed, with the seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Median, least and greatest of the seeds that have a value.
    pub figures: BTreeMap<Figure, OverSeeds>,
}

impl LeagueDocument {
    /// What came of `plan`: the standings by the case's id.
    pub(super) fn new(
        plan: &Plan,
        groups: &[LeagueGroup],
        standings: &BTreeMap<String, Standings>,
        controllers: &Controllers,
    ) -> Self {
        let seeds = plan.seeds.unwrap_or(1);
        let cases = || groups.iter().flat_map(|group| &group.cases);
        let mut table = Vec::new();
        let mut results = Vec::new();
        for name in &plan.controllers {
            for case in cases() {
                let seeds = case.seeds(seeds, plan.quick);
                results.push(ResultRow::new(case, name, seeds, &standings[&case.id]));
            }
            table.extend(cells(plan, groups, standings, name));
        }
        compare(&mut results);
        let row = |group: &LeagueGroup| GroupRow {
            name: group.name.clone(),
            title: group.title.clone(),
            about: group.about.clone(),
        };
        let players = plan.controllers.iter();
        let players: Vec<_> = players
            .map(|name| ControllerRow::new(name, controllers))
            .collect();
        Self {
            version: plan.build.version.clone(),
            commit: plan.build.commit.clone(),
            quick: plan.quick,
            backend: plan.backend.clone(),
            seeds,
            distributions: distributions(&players, &results),
            regrets: players
                .iter()
                .map(|one| regret(&one.name, &results))
                .collect(),
            controllers: players,
            groups: groups.iter().map(row).collect(),
            cases: cases()
                .map(|case| CaseRow::new(case, &plan.backend, controllers))
                .collect(),
            table,
            results,
        }
    }

    /// As `league.json` holds it: an element of a list on each line.
    pub(super) fn json(&self) -> String {
        let mut fields = vec![("version", line(&self.version))];
        fields.extend(self.commit.iter().map(|commit| ("commit", line(commit))));
        fields.extend([
            ("quick", line(&self.quick)),
            ("backend", line(&self.backend)),
            ("seeds", line(&self.seeds)),
            ("controllers", lines(&self.controllers)),
            ("groups", lines(&self.groups)),
            ("cases", lines(&self.cases)),
            ("table", lines(&self.table)),
            ("regrets", lines(&self.regrets)),
            ("results", lines(&self.results)),
        ]);
        if !self.distributions.is_empty() {
            fields.push(("distributions", lines(&self.distributions)));
        }
        object(&fields)
    }

    /// The score of a controller in a group.
    pub fn score(&self, controller: &str, group: &str) -> Option<OverSeeds> {
        let mut cells = self.table.iter();
        let cell = cells.find(|cell| cell.controller == controller && cell.group == group);
        cell.and_then(|cell| cell.score)
    }

    /// With how many seeds a case was played.
    pub(super) fn seeds_of(&self, case: &CaseRow) -> u64 {
        seeds(self.seeds, self.quick, case.chaotic)
    }

    /// How many runs were made, and how many belong to the league.
    pub fn runs(&self) -> (u64, u64) {
        let seeds = self.cases.iter().map(|case| self.seeds_of(case));
        let all = seeds.sum::<u64>() * self.controllers.len() as u64;
        let missing = self.results.iter().map(|row| row.missing.len() as u64);
        (all - missing.sum::<u64>(), all)
    }

    /// Whether this network drawn at random is among the worst of a controller and figure.
    pub(super) fn is_among_the_worst(&self, case: &str) -> bool {
        let mut worst = self.distributions.iter().flat_map(|row| &row.worst);
        worst.any(|one| one == case)
    }

    /// How far a controller that plays stays behind the best.
    pub(super) fn regret(&self, controller: &str) -> &RegretRow {
        let mut rows = self.regrets.iter();
        let row = rows.find(|row| row.controller == controller);
        row.expect("each controller has a row")
    }
}

impl ControllerRow {
    fn new(name: &str, controllers: &Controllers) -> Self {
        let plain = name.split(':').next().unwrap_or(name);
        let row = controllers.rows().iter().find(|row| row.name == plain);
        Self {
            name: name.to_owned(),
            summary: row.map_or(String::new(), |row| row.summary.to_owned()),
            // Its runs were made, so that the name is known.
            repeats: controllers.repeats(name).unwrap_or(false),
        }
    }
}

impl CaseRow {
    fn new(case: &Case, backend: &str, controllers: &Controllers) -> Self {
        let repeats = |name: &String| controllers.repeats(name).unwrap_or(false);
        Self {
            repeats: case.opponents.iter().all(repeats),
            case: case.id.clone(),
            models: case.file.models.clone(),
            source: case.file.source.clone(),
            good: case.file.good.clone(),
            aims: case.aims.clone(),
            chaotic: case.file.chaotic,
            command: case.command(backend),
        }
    }
}

impl ResultRow {
    fn new(case: &Case, controller: &str, seeds: u64, standings: &Standings) -> Self {
        let of = |seed: u64| standings.get(&(controller.to_owned(), seed));
        let made: Vec<_> = (1..=seeds)
            .filter_map(|seed| Some((seed, of(seed)?)))
            .collect();
        let mut figures: BTreeMap<Figure, Vec<f64>> = BTreeMap::new();
        for (_, standing) in &made {
            for (figure, value) in &standing.figures {
                figures.entry(*figure).or_default().push(*value);
            }
        }
        let failed = made.iter().flat_map(|(seed, standing)| {
            let failures = standing.failures.iter();
            failures.map(move |why| format!("seed {seed}: {why}"))
        });
        let figures = figures.into_iter();
        Self {
            case: case.id.clone(),
            controller: controller.to_owned(),
            score: over_seeds(made.iter().map(|(_, standing)| standing.score).collect()),
            regret: None,
            missing: (1..=seeds).filter(|seed| of(*seed).is_none()).collect(),
            failed: failed.collect(),
            figures: figures
                .filter_map(|(figure, values)| Some((figure, over_seeds(values)?)))
                .collect(),
        }
    }
}

/// Notes in each result how far it is behind the best of its case.
fn compare(results: &mut [ResultRow]) {
    let scores = results.iter();
    let scores = scores.map(|row| {
        let score = row.score.filter(|_| row.missing.is_empty());
        (row.case.as_str(), score.map(|score| score.median))
    });
    let regrets = regrets(&scores.collect::<Vec<_>>());
    for (row, regret) in results.iter_mut().zip(regrets) {
        row.regret = regret;
    }
}

/// Of a controller, from results that were compared.
fn regret(controller: &str, results: &[ResultRow]) -> RegretRow {
    let own = results.iter().filter(|row| row.controller == controller);
    let outcomes = own.map(|row| Outcome {
        case: &row.case,
        regret: row.regret,
        has_failed: !row.failed.is_empty(),
    });
    RegretRow::new(controller, &outcomes.collect::<Vec<_>>())
}

/// The scores of a controller in all groups, beside others, and in total. A case with fewer seeds
/// than the others has its seeds again.
fn cells(
    plan: &Plan,
    groups: &[LeagueGroup],
    standings: &BTreeMap<String, Standings>,
    controller: &str,
) -> Vec<CellRow> {
    let seeds_of = |case: &Case| case.seeds(plan.seeds.unwrap_or(1), plan.quick);
    let cases = || groups.iter().flat_map(|group| &group.cases);
    let seeds = cases().map(seeds_of).max().unwrap_or(1);
    let of_case = |case: &Case, seed: u64| {
        let seed = (seed - 1) % seeds_of(case) + 1;
        let standing = standings[&case.id].get(&(controller.to_owned(), seed));
        standing.map(|standing| standing.score)
    };
    let of_group = |group: &LeagueGroup, seed| {
        let cases = group.cases.iter();
        mean(cases.map(|case| of_case(case, seed)))
    };
    let cell = |group: &str, of: &dyn Fn(u64) -> Option<f64>| CellRow {
        controller: controller.to_owned(),
        group: group.to_owned(),
        score: (1..=seeds)
            .map(of)
            .collect::<Option<_>>()
            .and_then(over_seeds),
    };
    let mut table: Vec<_> = groups
        .iter()
        .map(|group| cell(&group.name, &|seed| of_group(group, seed)))
        .collect();
    if cases().any(Case::has_others) {
        table.push(cell(COEXISTENCE, &|seed| {
            let beside = cases().filter(|case| case.has_others());
            mean(beside.map(|case| of_case(case, seed)))
        }));
    }
    table.push(cell(TOTAL, &|seed| {
        mean(groups.iter().map(|group| of_group(group, seed)))
    }));
    table
}

/// Of all controllers and figures that networks drawn at random have.
fn distributions(controllers: &[ControllerRow], results: &[ResultRow]) -> Vec<DistributionRow> {
    let mut rows = Vec::new();
    for one in controllers {
        let results = results.iter();
        let results = results.filter(|row| row.controller == one.name && is_random(&row.case));
        let results: Vec<_> = results.collect();
        for figure in FIGURES {
            let value = |row: &&ResultRow| row.figures.get(&figure).map(|value| value.median);
            let values = results.iter();
            let values = values.filter_map(|row| Some((value(row)?, row.case.as_str())));
            rows.extend(DistributionRow::new(&one.name, figure, values.collect()));
        }
    }
    rows
}

/// These numbers in short; `None` without any.
fn over_seeds(values: Vec<f64>) -> Option<OverSeeds> {
    let spread = Spread::of(values)?;
    Some(OverSeeds {
        median: to_three_digits(spread.median),
        least: to_three_digits(spread.least),
        greatest: to_three_digits(spread.greatest),
    })
}
