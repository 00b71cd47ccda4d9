//! One scenario on several backends: `backends.json`, `backends.html` and a table.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::document::{QueueResult, RttResult, rounded};
use super::page::{Page, Plot};
use super::table::{MBPS, MS, NONE, Table, Unit};
use super::{ReportError, json, save};

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
#[error("cannot read {path}: {source}; run that backend again", path = .path.display())]
pub struct UnreadableResult {
    path: PathBuf,
    source: io::Error,
}

/// `result.json` as far as it is needed.
#[derive(Debug, Deserialize)]
struct Outcome {
    scenario: String,
    seed: u64,
    flows: Vec<Flow>,
    links: Vec<Link>,
}

#[derive(Debug, Deserialize)]
struct Flow {
    name: String,
    throughput_bps: Option<u64>,
    rtt_ms: Option<RttResult>,
    lost_packets: u64,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Link {
    name: String,
    emulator: Option<String>,
    utilization: Option<f64>,
    queue_packets: QueueResult,
    dropped: u64,
}

impl SideBySide {
    /// Reads what runs on `backends` have left in directories of these names in `directory`.
    ///
    /// # Errors
    /// If a result is missing or makes no sense.
    ///
    /// # Panics
    /// Without backends.
    pub fn read(directory: &Path, backends: &[&str]) -> Result<Self, UnreadableResult> {
        let outcomes: Vec<Outcome> = backends
            .iter()
            .map(|backend| outcome(&directory.join(backend).join("result.json")))
            .collect::<Result<_, _>>()?;
        let reference = outcomes.first().expect("there are backends");
        let figures = backends
            .iter()
            .zip(&outcomes)
            .map(|(backend, outcome)| BackendFigures::new(backend, outcome, reference));
        Ok(Self {
            scenario: reference.scenario.clone(),
            seed: reference.seed,
            reference: backends[0].into(),
            backends: figures.collect(),
        })
    }

    /// Writes `backends.json` and `backends.html` into `directory`, with the plots of each backend's own
    /// directory.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), ReportError> {
        save(directory, "backends.html", &self.page(directory))?;
        save(directory, "backends.json", &json(self))
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

    fn page(&self, directory: &Path) -> String {
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
        let page = Page {
            title: format!("{} on {}", self.scenario, self.names()),
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

    fn names(&self) -> String {
        let names: Vec<&str> = self
            .backends
            .iter()
            .map(|one| one.backend.as_str())
            .collect();
        names.join(", ")
    }
}

impl BackendFigures {
    fn new(backend: &str, outcome: &Outcome, reference: &Outcome) -> Self {
        let flows = outcome.flows.iter().map(|flow| {
            let same = reference.flows.iter().find(|other| other.name == flow.name);
            FlowFigures {
                name: flow.name.clone(),
                throughput_bps: flow.throughput_bps,
                difference: share(
                    flow.throughput_bps,
                    same.and_then(|flow| flow.throughput_bps),
                ),
                rtt_p50_ms: flow.rtt_ms.as_ref().map(|rtt| rtt.p50),
                rtt_p95_ms: flow.rtt_ms.as_ref().map(|rtt| rtt.p95),
                lost_packets: flow.lost_packets,
                error: flow.error.clone(),
            }
        });
        let links = outcome.links.iter().map(|link| LinkFigures {
            name: link.name.clone(),
            emulator: link.emulator.clone(),
            utilization: link.utilization,
            queue_mean: link.queue_packets.mean,
            dropped: link.dropped,
        });
        Self {
            backend: backend.into(),
            throughput_bps: outcome.throughput_bps(),
            difference: share(
                Some(outcome.throughput_bps()),
                Some(reference.throughput_bps()),
            ),
            flows: flows.collect(),
            links: links.collect(),
        }
    }
}

impl Outcome {
    fn throughput_bps(&self) -> u64 {
        self.flows
            .iter()
            .filter_map(|flow| flow.throughput_bps)
            .sum()
    }
}

fn outcome(path: &Path) -> Result<Outcome, UnreadableResult> {
    let read = fs::read_to_string(path).and_then(|text| {
        serde_json::from_str(&text)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    });
    read.map_err(|source| UnreadableResult {
        path: path.to_owned(),
        source,
    })
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
