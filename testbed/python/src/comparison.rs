//! Compares runs that were written, as `compare` does.

use std::collections::HashMap;
use std::path::PathBuf;

use evenkeel_testbed::report::{self, Compared, SeededRun, comparison_table};
use evenkeel_testbed::scenario::{App, FlowSpec};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::ScenarioError;
use crate::run::Source;
use crate::table::{Described, Known};

/// Number, name, and whether it is one bulk flow, of the `[[flows]]` tables of these names; without
/// names of all that are not the kernel's own TCP.
#[pyfunction]
pub(crate) fn compared_flows(
    source: Source,
    described: HashMap<String, Described>,
    names: Vec<String>,
) -> PyResult<Vec<(usize, String, bool)>> {
    let known = Known::new(described)?;
    let scenario = source.load(&known)?;
    let groups = scenario.flows.chunk_by(|a, b| a.group == b.group);
    let groups: Vec<_> = groups.enumerate().collect();
    let shown = |(number, flows): &(usize, &[FlowSpec])| {
        let is_one = flows.len() == 1 && matches!(flows[0].app, App::Bulk(_));
        (*number, flows[0].group.clone(), is_one)
    };
    if names.is_empty() {
        let ours = groups.iter();
        let ours = ours.filter(|(_, flows)| !matches!(flows[0].app, App::Tcp { .. }));
        return Ok(ours.map(shown).collect());
    }
    let find = |name: String| {
        let mut all = groups.iter();
        match all.find(|(_, flows)| flows[0].group == name) {
            Some(found) => Ok(shown(found)),
            None => {
                let known = groups.iter().map(|(_, flows)| flows[0].group.as_str());
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
