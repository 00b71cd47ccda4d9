//! Compares runs that were written, as `compare` does.

use std::collections::HashMap;
use std::path::PathBuf;

use evenkeel_testbed::report::{self, Compared, SeededRun, comparison_table};
use evenkeel_testbed::scenario::App;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::ScenarioError;
use crate::run::Source;
use crate::table::{Described, Known};

/// The numbers and names of the `[[flows]]` tables of these names; without names of all that are
/// not the kernel's own TCP.
#[pyfunction]
pub(crate) fn compared_flows(
    source: Source,
    described: HashMap<String, Described>,
    names: Vec<String>,
) -> PyResult<Vec<(usize, String)>> {
    let known = Known::new(described)?;
    let scenario = source.load(&known)?;
    let groups = scenario.flows.chunk_by(|a, b| a.group == b.group);
    let groups: Vec<_> = groups.map(|flows| &flows[0]).enumerate().collect();
    if names.is_empty() {
        let ours = groups.iter();
        let ours = ours.filter(|(_, flow)| !matches!(flow.app, App::Tcp { .. }));
        return Ok(ours
            .map(|(number, flow)| (*number, flow.group.clone()))
            .collect());
    }
    let find = |name: String| {
        let mut all = groups.iter();
        match all.find(|(_, flow)| flow.group == name) {
            Some((number, _)) => Ok((*number, name)),
            None => {
                let known = groups.iter().map(|(_, flow)| flow.group.as_str());
                let known = known.collect::<Vec<_>>().join(", ");
                Err(ScenarioError::new_err(format!(
                    "no [[flows]] table has the name {name:?}; the scenario has {known}"
                )))
            }
        }
    };
    names.into_iter().map(find).collect()
}

/// Writes the comparison of runs (controller, seed, directory) into a directory; returns the table
/// and the text of comparison.json.
#[pyfunction]
pub(crate) fn write_comparison(
    source: Source,
    described: HashMap<String, Described>,
    flows: Vec<String>,
    runs: Vec<(String, u64, PathBuf)>,
    out: PathBuf,
) -> PyResult<(String, String)> {
    let known = Known::new(described)?;
    let scenario = source.load(&known)?;
    let runs = runs
        .into_iter()
        .map(|(controller, seed, directory)| SeededRun {
            controller,
            value: None,
            seed,
            directory,
        });
    let runs: Vec<_> = runs.collect();
    let compared = Compared {
        scenario: &scenario,
        flows: &flows,
        swept: None,
        command: "",
    };
    let document = report::write_comparison(&out, compared, &runs);
    let document = document.map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok((comparison_table(&document), report::json(&document)))
}
