//! An earlier report, from which experiments can be taken over.

use std::fs;
use std::path::{Path, PathBuf};

use super::document::Document;
use super::html::figures_of;
use crate::run::store::{Plan, StoreError, read_json};

/// What [`Report::write`](super::Report::write) wrote into a directory.
#[derive(Debug)]
pub(super) struct Earlier {
    directory: PathBuf,
    pub(super) document: Document,
    page: String,
}

impl Earlier {
    pub(super) fn read(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("report.html");
        Ok(Self {
            directory: directory.to_owned(),
            document: read_json(&directory.join("report.json"))?,
            page: fs::read_to_string(&path).map_err(|error| StoreError::Read(path, error))?,
        })
    }

    /// Checks that its experiments fit those of `plan`, whose results are in `directory`. Its program
    /// may be another: each experiment states its own version.
    pub(super) fn check(&self, plan: &Plan, directory: &Path) -> Result<(), StoreError> {
        let mut theirs = self.document.plan.clone();
        theirs.build.clone_from(&plan.build);
        plan.apart(&theirs).map_or(Ok(()), |what| {
            Err(StoreError::Apart(
                directory.into(),
                self.directory.clone(),
                what.into(),
            ))
        })
    }

    /// The figures of an experiment on the page.
    pub(super) fn figures(&self, id: &str) -> Result<&str, StoreError> {
        figures_of(&self.page, id).ok_or_else(|| {
            let message = format!("it does not have {id}, which report.json has");
            StoreError::Damaged(self.directory.join("report.html"), message)
        })
    }
}
