//! Results: `result.json` and `series.json`, a table for people, and plots.

mod comparison;
mod csv;
mod document;
mod fairness;
pub mod page;
mod plot;
mod series;
mod side_by_side;
mod summary;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use evenkeel_picture as picture;

pub use comparison::{
    Compared, ComparedFigures, ComparedRun, ComparedStreams, ComparisonDocument, ComparisonError,
    LostResult, OverSeeds, SeededRun, comparison_table, is_kept, warnings, write_comparison,
};
pub use document::{
    FlowResult, LinkResult, PathResult, Percentiles, QueueResult, ResultDocument, RttResult,
    StreamResult, Totals, TransfersResult,
};
pub use fairness::{Fairness, FairnessFigures, FairnessOfSet};
pub use series::{FlowSeries, HeaderSeries, LinkSeries, Series, StreamSeries};
pub use side_by_side::{BackendFigures, FlowFigures, LinkFigures, SideBySide, UnreadableResult};
pub use summary::table;

use crate::metrics::Observations;
use crate::scenario::Scenario;

/// Name of the file of time series.
const SERIES_FILE: &str = "series.json";

/// Columns of CSV files that come first.
const FIRST_COLUMNS: [&str; 1] = ["name"];

/// A result that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {1}; choose another place with --out", path = .0.display())]
pub struct ReportError(pub PathBuf, #[source] pub io::Error);

/// Computes the figures of a run and writes `result.json`, `series.json`, the same as `flows.csv`,
/// `links.csv` and `series.csv`, the page `result.html` and the plots on it into `directory`, which must exist: `rate.svg`, `window.svg` and `queue.svg`,
/// `delay.svg` and `bitrate.svg` of streams, `queueing.svg` and `grant.svg` if path headers gave
/// such values. The page shows the `command` that makes the run again, unless it is empty. The same
/// scenario, observations and command give the same bytes.
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    directory: &Path,
    scenario: &Scenario,
    backend: &str,
    observations: &Observations,
    command: &str,
) -> Result<ResultDocument, ReportError> {
    let document = ResultDocument::new(scenario, backend, observations);
    let series = Series::new(scenario, observations);
    save(&directory.join(SERIES_FILE), series.json().as_bytes())?;
    save_with(&directory.join("series.csv"), |mut file| {
        csv::write_series(&series, &mut file)
    })?;
    let flows = csv::of_objects(&document.flows, &FIRST_COLUMNS);
    save(&directory.join("flows.csv"), flows.as_bytes())?;
    let links = csv::of_objects(&document.links, &FIRST_COLUMNS);
    save(&directory.join("links.csv"), links.as_bytes())?;
    let mut pictures = Vec::new();
    for (name, picture) in plot::all(scenario, observations) {
        save(&directory.join(name), picture.file().as_bytes())?;
        pictures.push((String::new(), picture.inline()));
    }
    let mut page = summary::page(&document, page::About::new(scenario, command));
    page.plots.push(page::Plot {
        title: "Plots".into(),
        pictures,
    });
    save(&directory.join("result.html"), page.html().as_bytes())?;
    // The last: where it is, all is.
    save(&directory.join("result.json"), json(&document).as_bytes())?;
    Ok(document)
}

/// Writes a file whole or not at all: a disk that is full leaves what was there before.
///
/// # Errors
/// If it cannot be written.
pub fn save(path: &Path, contents: &[u8]) -> Result<(), ReportError> {
    save_with(path, |file| file.write_all(contents))
}

/// As [`save`], with what `write` writes.
fn save_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<fs::File>) -> io::Result<()>,
) -> Result<(), ReportError> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".part{}", std::process::id()));
    let written = fs::File::create(&part).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        fs::rename(&part, path)
    });
    if written.is_err() {
        // What fails here has failed above, and was told there.
        let _ = fs::remove_file(&part);
    }
    written.map_err(|error| ReportError(path.to_owned(), error))
}

/// A document as its file holds it: `result.json`, `comparison.json` or `backends.json`.
///
/// # Panics
/// If it has keys that are no strings.
pub fn json(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document).expect("a document has string keys only");
    text + "\n"
}
