//! The league's result: each controller on each network, in `league.json` and on one page.

mod distributions;
mod document;
mod page;
mod regret;
mod terminal;
mod variants;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use evenkeel_testbed::report::picture::{Axis, Line, Picture, Point, Style};
use evenkeel_testbed::scenario::Controllers;

pub use distributions::DistributionRow;
pub use document::{
    CaseRow, CellRow, ControllerRow, GroupRow, LeagueDocument, OverSeeds, ResultRow,
};
pub use regret::RegretRow;

use super::parts::{self, Whole};
use super::section::ReportError;
use crate::evaluate::dataset::MetricError;
use crate::evaluate::league::{Standing, rate};
use crate::evaluate::values::Samples;
use crate::run::store::{Record, Store};
use crate::spec::league::{CONTROLLER, Case, LeagueGroup, exactly, recorded};
use crate::spec::traces::{Recordings, TRACES};
use crate::spec::variants::Variant;

/// A league that was played, ready to be written.
#[derive(Debug)]
pub struct League {
    document: LeagueDocument,
    groups: Vec<LeagueGroup>,
    recordings: Recordings,
    /// By the case's id; those of one seed.
    pictures: BTreeMap<String, Picture>,
    /// How many programs made the runs.
    builds: usize,
}

/// What came of a case, by controller and seed.
pub(super) type Standings = BTreeMap<(String, u64), Standing>;

impl League {
    /// The result of the runs in `directories`; several are shards of one plan. Their controllers
    /// are from `controllers`.
    ///
    /// # Errors
    /// If the directories cannot be read, do not belong together, or are of other cases than this
    /// program's.
    pub fn new(directories: &[PathBuf], controllers: &Controllers) -> Result<Self, ReportError> {
        let parts = parts::read(directories)?;
        let builds = parts.iter().map(|part| &part.plan.build);
        let builds = builds.collect::<BTreeSet<_>>().len();
        let whole = Whole::new(parts)?;
        let within = |id: &String| {
            id.strip_prefix(TRACES)
                .is_some_and(|id| id.starts_with('/'))
        };
        let (traces, ids): (Vec<_>, Vec<_>) =
            whole.plan.experiments.iter().cloned().partition(within);
        let mut groups = exactly(&ids)?;
        let mut recordings = whole.recordings()?;
        recordings.retain(|name| traces.contains(&format!("{TRACES}/{name}")));
        if let Some(bottleneck) = &whole.plan.recorded {
            groups.push(recorded(&recordings, bottleneck)?);
        }
        let seeds = whole.plan.seeds.unwrap_or(1);
        let mut standings = BTreeMap::new();
        let mut pictures = BTreeMap::new();
        for case in groups.iter().flat_map(|group| &group.cases) {
            let seeds = case.seeds(seeds, whole.plan.quick);
            let runs = case.runs(&whole.plan.controllers, seeds, controllers)?;
            let (records, _) = whole.records(&runs)?;
            let mut of_case = Standings::new();
            for record in &records {
                let standing =
                    Standing::of(case, record).map_err(|message| lacks(case, message))?;
                of_case.insert((record.axes[CONTROLLER].clone(), record.seed), standing);
            }
            let picture = picture(case, &whole.plan.controllers, &records);
            let picture = picture.map_err(|message| lacks(case, message))?;
            pictures.insert(case.id.clone(), picture);
            standings.insert(case.id.clone(), of_case);
        }
        Ok(Self {
            document: LeagueDocument::new(&whole.plan, &groups, &standings, controllers),
            groups,
            recordings,
            pictures,
            builds,
        })
    }

    /// How many builds of this version made the runs.
    pub fn builds(&self) -> usize {
        self.builds
    }

    /// Writes `league.html` and `league.json` into `directory`, and the scenario of each case, so
    /// that `run` can look into a single one.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), ReportError> {
        let store = Store::new(directory);
        let json = self.document.json();
        store.write(Path::new("league.json"), json.as_bytes())?;
        let page = page::page(&self.document, &self.pictures);
        store.write(Path::new("league.html"), page.as_bytes())?;
        for case in self.groups.iter().flat_map(|group| &group.cases) {
            store.write(&case.file_name(), case.scenario().as_bytes())?;
        }
        store.keep_traces(&self.recordings)?;
        Ok(())
    }

    /// The contents of `league.json`.
    pub fn document(&self) -> &LeagueDocument {
        &self.document
    }

    /// Scores of groups for a terminal: a column for each controller.
    pub fn table(&self) -> String {
        self.document.table()
    }

    /// What the variants change, for a terminal. They and their whole controllers have played.
    pub fn variants(&self, variants: &[Variant]) -> String {
        self.document.variants(variants)
    }
}

/// The mean; `None` if a value is missing, or there is none.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.collect::<Option<_>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Three digits: more would be noise.
fn to_three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn lacks(case: &Case, message: String) -> MetricError {
    MetricError {
        experiment: case.id.clone(),
        message,
    }
}

/// The measured flows' rate over time with each controller and the first seed.
fn picture(case: &Case, controllers: &[String], records: &[Record]) -> Result<Picture, String> {
    let mut lines = Vec::new();
    let mut to_s: f64 = 0.0;
    for (colour, name) in controllers.iter().enumerate() {
        let mut of = records
            .iter()
            .filter(|record| record.axes[CONTROLLER] == *name);
        let Some(record) = of.next() else { continue };
        let Samples { bin_s, values, .. } = rate(case, record)?;
        to_s = to_s.max(bin_s * values.len() as f64);
        let middle = |at: usize| (at as f64 + 0.5) * bin_s;
        let points = values.iter().enumerate();
        lines.push(Line {
            name: name.clone(),
            colour,
            style: Style::Plain,
            points: points
                .map(|(at, bps)| Point::new(middle(at), bps.map(|bps| bps / 1e6)))
                .collect(),
        });
    }
    Ok(Picture {
        title: String::new(),
        x: Axis::Time(0.0, to_s),
        y_label: "Mb/s".into(),
        y_from: Some(0.0),
        warmup_s: 0.0,
        panels: vec![lines],
    })
}
