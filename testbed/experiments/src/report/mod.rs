//! The report: every claim with its verdict, every figure drawn from our runs.

mod chart;
mod command;
mod document;
mod earlier;
mod html;
mod league;
mod parts;
mod section;
mod table;

use std::path::{Path, PathBuf};

pub use command::Commands;
pub use document::{ClaimRow, Document, KernelRow, NotRun, RunsRow};
pub use league::{
    CaseRow, CellRow, ControllerRow, DistributionRow, GroupRow, League, LeagueDocument, OverSeeds,
    RegretRow, ResultRow,
};
pub use section::ReportError;

use crate::run::store::{Store, StoreError};
use crate::spec::experiment::Experiment;
use earlier::Earlier;
use parts::{Whole, same_experiments};
use section::{Section, exactly};

/// The results of some experiments, ready to be written.
#[derive(Debug)]
pub struct Report {
    document: Document,
    sections: Vec<Section>,
    /// The first directory of results.
    directory: PathBuf,
    /// The rest, from a report that was made before.
    earlier: Option<Earlier>,
}

impl Report {
    /// The report on the results in `directories`, made by `command`; several directories are
    /// shards of one plan. Runs on the kernel are compared with the others.
    ///
    /// # Errors
    /// If they cannot be read, do not belong together, or lack what an experiment reads.
    pub fn new(directories: &[PathBuf], command: &str) -> Result<Self, ReportError> {
        let parts = parts::read(directories)?;
        same_experiments(&parts)?;
        let mut ids: Vec<String> = parts
            .iter()
            .flat_map(|part| part.plan.experiments.clone())
            .collect();
        ids.sort();
        ids.dedup();
        // Any of the directories has the experiment's file as it was run.
        let experiments = ids.iter().map(|id| {
            let holder = parts.iter().find(|part| part.plan.experiments.contains(id));
            let holder = holder.expect("the ids come from the plans");
            exactly(&holder.store.papers(), id)
        });
        let experiments: Vec<Experiment> = experiments.collect::<Result<_, _>>()?;
        let (kernel, simulated): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.plan.on_kernel());
        let mut wholes = [simulated, kernel]
            .into_iter()
            .filter(|parts| !parts.is_empty())
            .map(Whole::new);
        let main = wholes.next().expect("there is a directory")?;
        let beside = wholes.next().transpose()?;
        let sections = experiments
            .into_iter()
            .map(|experiment| Section::new(experiment, &main, beside.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        let all = sections.iter();
        let mut document = Document {
            version: main.plan.build.version.clone(),
            commit: main.plan.build.commit.clone(),
            command: command.to_owned(),
            plan: main.plan,
            kernel_plan: beside.map(|whole| whole.plan),
            builds: all.clone().flat_map(|one| one.builds.clone()).collect(),
            taken_over: Vec::new(),
            claims: all.clone().flat_map(|one| one.claims.clone()).collect(),
            not_run: all.clone().flat_map(|one| one.not_run.clone()).collect(),
            kernel: all.clone().flat_map(|one| one.kernel.clone()).collect(),
            runs: all.map(|one| one.runs.clone()).collect(),
        };
        document.builds.sort();
        document.builds.dedup();
        Ok(Self {
            document,
            sections,
            directory: main.parts[0].store.directory().to_owned(),
            earlier: None,
        })
    }

    /// Takes over the experiments that it does not have from the report in `directory`, unchanged.
    ///
    /// # Errors
    /// If there is no report, or one of another extent or kind of backend.
    pub fn take_over(&mut self, directory: &Path) -> Result<(), ReportError> {
        let mut earlier = Earlier::read(directory)?;
        earlier.check(&self.document.plan, &self.directory)?;
        let newer = |id: &str| self.sections.iter().any(|one| one.experiment.id == id);
        earlier.document.retain(|id| !newer(id));
        self.document.take_over(&earlier.document);
        self.earlier = Some(earlier);
        Ok(())
    }

    /// Writes `report.html` and `report.json` into `directory`.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), ReportError> {
        let store = Store::new(directory);
        let json = self.document.json();
        store.write(Path::new("report.json"), json.as_bytes())?;
        let page = html::page(&self.document, |id| self.figures(id))?;
        store.write(Path::new("report.html"), page.as_bytes())?;
        Ok(())
    }

    /// The figures of an experiment, as HTML.
    fn figures(&self, id: &str) -> Result<String, StoreError> {
        let mut sections = self.sections.iter();
        match (sections.find(|one| one.experiment.id == id), &self.earlier) {
            (Some(section), _) => Ok(html::figures(section)),
            (None, Some(earlier)) => earlier.figures(id).map(str::to_owned),
            (None, None) => Ok(String::new()),
        }
    }

    /// The contents of `report.json`.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The claims as a table for a terminal.
    pub fn table(&self) -> String {
        table::table(&self.document)
    }
}
