//! One scenario on several backends: `backends.json`, `backends.html` and a table.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::document::rounded;
use super::page::{About, Page, Plot};
use super::table::{MBPS, MS, NONE, Table, Unit};
use super::{ReportError, json, save};
use crate::scenario::Scenario;

/// Plots that are shown of each backend, if it has them.
const PLOTS: [(&str, &str); 3] = [
    ("rate.svg", "Rates of the flows"),
    ("window.svg", "Congestion windows"),
    ("queue.svg", "Queues"),
];

/// One scenario on several backends, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideBySide {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// The backend that the others are compared with: the first.
    pub reference: String,
    /// One for each backend, in the order in which they ran.
    pub backends: Vec<BackendFigures>,
}

/// What came out on one backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendFigures {
    /// Its name; its own results are in the directory of that name.
    pub backend: String,
    /// Sum of the flows' throughputs, bits of IP packets per second.
    pub throughput_bps: u64,
    /// By how much that differs from the reference, as a share of it; `None` if that has none.
    pub difference: Option<f64>,
    /// One for each flow, in the scenario's order.
    pub flows: Vec<FlowFigures>,
    /// One for each direction of the scenario's links.
    pub links: Vec<LinkFigures>,
}

/// A flow on one backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowFigures {
    /// Its name.
    pub name: String,
    /// Bits of IP packets per second.
    pub throughput_bps: Option<u64>,
    /// By how much that differs from the reference, as a share of it; `None` if either has none.
    pub difference: Option<f64>,
    /// Median round-trip time, milliseconds.
    pub rtt_p50_ms: Option<f64>,
    /// 95th percentile of it, milliseconds.
    pub rtt_p95_ms: Option<f64>,
    /// Packets that it declared lost.
    pub lost_packets: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// A direction of a link on one backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkFigures {
    /// Its name.
    pub name: String,
    /// What made it: `evenkeel` or `netem`; `None` where nothing had to.
    pub emulator: Option<String>,
    /// Share of its rate that was used, 0 to 1; `None` without a rate.
    pub utilization: Option<f64>,
    /// Mean queue, packets.
    pub queue_mean: Option<f64>,
    /// Packets that the queue refused.
    pub dropped: u64,
}

/// A result of a run that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {1}; run that backend again", path = .0.display())]
pub struct UnreadableResult(PathBuf, #[source] io::Error);

impl SideBySide {
    /// Reads what runs on `backends` have left in directories of these names in `directory`.
    ///
    /// # Errors
    /// If a result is missing or makes no sense.
    ///
    /// # Panics
    /// Without backends.
    pub fn read(directory: &Path, backends: &[&str]) -> Result<Self, UnreadableResult> {
        let results = backends
            .iter()
            .map(|backend| result(&directory.join(backend).join("result.json")))
            .collect::<Result<Vec<_>, _>>()?;
        let reference = results.first().expect("there are backends");
        let figures = backends
            .iter()
            .zip(&results)
            .map(|(backend, result)| BackendFigures::new(backend, result, reference));
        Ok(Self {
            scenario: text(&reference["scenario"]).unwrap_or_default(),
            seed: reference["seed"].as_u64().unwrap_or_default(),
            reference: backends[0].into(),
            backends: figures.collect(),
        })
    }

    /// Writes `backends.json` and `backends.html` into `directory`, with the plots of each backend's own
    /// directory, and with the `command` that makes the runs of `scenario` again.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(
        &self,
        directory: &Path,
        scenario: &Scenario,
        command: &str,
    ) -> Result<(), ReportError> {
        let page = self.page(directory, About::new(scenario, command));
        save(&directory.join("backends.html"), page.as_bytes())?;
        save(&directory.join("backends.json"), json(self).as_bytes())
    }

    /// A line for people for each flow that died or failed, with its backend.
    pub fn failures(&self) -> Vec<String> {
        let flows = self.backends.iter().flat_map(|backend| {
            let flows = backend.flows.iter();
            flows.map(move |flow| (&backend.backend, flow))
        });
        let failed = flows.filter_map(|(backend, flow)| {
            let error = flow.error.as_ref()?;
            Some(format!("{} failed on {backend}: {error}", flow.name))
        });
        failed.collect()
    }

    /// As aligned plain text.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}, seed {}; differences from {}\n\n{}",
            self.scenario,
            self.seed,
            self.reference,
            self.flows().text()
        );
        let links = self.links();
        if !links.is_empty() {
            text += "\n";
            text += &links.text();
        }
        text
    }

    /// A row for each flow on each backend; for all of them together too where there are several.
    fn flows(&self) -> Table {
        let columns = [
            ("flow", ""),
            ("on", ""),
            ("throughput", "Mb/s"),
            ("difference", "%"),
            ("RTT p50", "ms"),
            ("p95", "ms"),
            ("lost", "packets"),
        ];
        let mut rows = Vec::new();
        for index in 0..self.backends[0].flows.len() {
            for backend in &self.backends {
                let Some(flow) = backend.flows.get(index) else {
                    continue;
                };
                let mut row = vec![
                    flow.name.clone(),
                    backend.backend.clone(),
                    MBPS.text(flow.throughput_bps.map(|bps| bps as f64)),
                    difference(flow.difference),
                    MS.text(flow.rtt_p50_ms),
                    MS.text(flow.rtt_p95_ms),
                    flow.lost_packets.to_string(),
                ];
                if let Some(error) = &flow.error {
                    row[2] = format!("failed: {error}");
                }
                rows.push(row);
            }
        }
        if self.backends[0].flows.len() > 1 {
            rows.extend(self.backends.iter().map(|backend| {
                let mut row = vec![
                    "all".to_owned(),
                    backend.backend.clone(),
                    MBPS.text(Some(backend.throughput_bps as f64)),
                    difference(backend.difference),
                ];
                row.resize(columns.len(), String::new());
                row
            }));
        }
        Table::new(2, &columns, rows)
    }

    /// A row for each direction of a link on each backend.
    fn links(&self) -> Table {
        let names = ["link", "on", "made by", "used, %", "mean queue", "dropped"];
        let mut rows = Vec::new();
        for index in 0..self.backends[0].links.len() {
            for backend in &self.backends {
                let Some(link) = backend.links.get(index) else {
                    continue;
                };
                rows.push(vec![
                    link.name.clone(),
                    backend.backend.clone(),
                    link.emulator.clone().unwrap_or_else(|| NONE.into()),
                    Unit::new("%", 100.0, 1).text(link.utilization),
                    Unit::new("packets", 1.0, 2).text(link.queue_mean),
                    link.dropped.to_string(),
                ]);
            }
        }
        Table::new(3, &names.map(|name| (name, "")), rows)
    }

    fn page(&self, directory: &Path, about: About) -> String {
        let plots = PLOTS.iter().map(|(file, what)| {
            let of_backend = |backend: &BackendFigures| {
                let path = directory.join(&backend.backend).join(file);
                Some((backend.backend.clone(), fs::read_to_string(path).ok()?))
            };
            Plot {
                title: (*what).to_owned(),
                pictures: self.backends.iter().filter_map(of_backend).collect(),
            }
        });
        let names = self.backends.iter().map(|one| one.backend.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let page = Page {
            title: format!("{} on {names}", self.scenario),
            about,
            intro: format!(
                "Seed {}. Differences are from {}.",
                self.seed, self.reference
            ),
            tables: vec![("Flows", self.flows()), ("Links", self.links())],
            notes: Vec::new(),
            plots: plots.filter(|plot| !plot.pictures.is_empty()).collect(),
        };
        page.html()
    }
}

impl BackendFigures {
    fn new(backend: &str, result: &Value, reference: &Value) -> Self {
        let throughput = |flow: &Value| flow["throughput_bps"].as_u64();
        let total = |result: &Value| {
            elements(result, "flows")
                .filter_map(throughput)
                .sum::<u64>()
        };
        let flows = elements(result, "flows").map(|flow| {
            let same = elements(reference, "flows").find(|other| other["name"] == flow["name"]);
            FlowFigures {
                name: text(&flow["name"]).unwrap_or_default(),
                throughput_bps: throughput(flow),
                difference: share(throughput(flow), same.and_then(throughput)),
                rtt_p50_ms: flow["rtt_ms"]["p50"].as_f64(),
                rtt_p95_ms: flow["rtt_ms"]["p95"].as_f64(),
                lost_packets: flow["lost_packets"].as_u64().unwrap_or_default(),
                error: text(&flow["error"]),
            }
        });
        let links = elements(result, "links").map(|link| LinkFigures {
            name: text(&link["name"]).unwrap_or_default(),
            emulator: text(&link["emulator"]),
            utilization: link["utilization"].as_f64(),
            queue_mean: link["queue_packets"]["mean"].as_f64(),
            dropped: link["dropped"].as_u64().unwrap_or_default(),
        });
        Self {
            backend: backend.into(),
            throughput_bps: total(result),
            difference: share(Some(total(result)), Some(total(reference))),
            flows: flows.collect(),
            links: links.collect(),
        }
    }
}

/// The contents of a `result.json`, which has flows and links.
fn result(path: &Path) -> Result<Value, UnreadableResult> {
    let read = || -> io::Result<Value> {
        let result: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        match ["flows", "links"]
            .iter()
            .find(|key| !result[key].is_array())
        {
            Some(key) => Err(io::Error::other(format!("it has no {key}"))),
            None => Ok(result),
        }
    };
    read().map_err(|error| UnreadableResult(path.to_owned(), error))
}

fn elements<'v>(result: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    result[key].as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// By how much a value differs from the reference, as a share of it.
fn share(value: Option<u64>, reference: Option<u64>) -> Option<f64> {
    let (value, reference) = (value?, reference?);
    rounded(value as f64 / reference as f64 - 1.0, 6)
}

/// A share in percent, with its sign.
fn difference(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.into(), |share| format!("{:+.1}", share * 100.0))
}

#[cfg(test)]
mod tests;
