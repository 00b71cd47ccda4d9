//! Scenario files: TOML in, a network and its traffic as plain data out.

mod builder;
mod error;
mod expand;
mod file;
mod network;
mod spec;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

pub use evenkeel::Controllers;
use evenkeel_spec::document;

pub use builder::{FlowBuilder, LinkBuilder, ScenarioBuilder, Value};
pub use error::ScenarioError;
pub use evenkeel_sim::{IpVersion, LinkIndex, NodeIndex};
pub use file::ScenarioFile;
pub use spec::{
    App, Begins, CrossSpec, Emulator, FlowSpec, LinkSpec, NodeSpec, Payload, PeriodDistribution,
    Periods, Place, Remembered, StreamSpec, TraceFile,
};

/// Largest scenario file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A scenario, checked and expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name; also names the directory of its results.
    pub name: String,
    /// What it is about, if the file says.
    pub description: Option<String>,
    /// How long it runs.
    pub duration: Duration,
    /// What is left out of all averages; shorter than the run.
    pub warmup: Duration,
    /// Seed of every random choice.
    pub seed: u64,
    /// Largest IP packet that links carry, in bytes.
    pub mtu: u16,
    /// Width of the intervals of time series; divides 500 ms.
    pub sampling_interval: Duration,
    /// Whether results list what every path header told.
    pub path_samples: bool,
    /// Hosts and routers.
    pub nodes: Vec<NodeSpec>,
    /// One-way links. A link of the file is two in a row: its own direction, then the reverse.
    pub links: Vec<LinkSpec>,
    /// Single flows.
    pub flows: Vec<FlowSpec>,
    /// Single sources of cross traffic.
    pub cross: Vec<CrossSpec>,
    /// The controllers that flows may name.
    pub controllers: Controllers,
    /// The effective configuration, from which all of the above follows.
    pub config: ScenarioFile,
}

impl Scenario {
    /// Reads a scenario file and applies overrides, such as `flows.0.controller=reno`, in order.
    ///
    /// # Errors
    /// If the file cannot be read, or it or an override makes no sense: one line that names
    /// the line of the file, or the override.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, ScenarioError> {
        Self::load_with(path, overrides, &crate::controllers())
    }

    /// As [`Scenario::load`], with flows that may name other controllers than the testbed's own.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_with(
        path: &Path,
        overrides: &[String],
        controllers: &Controllers,
    ) -> Result<Self, ScenarioError> {
        let text = network::read_text(path, MAX_FILE_BYTES)
            .map_err(|error| ScenarioError::Read(path.to_owned(), error))?;
        Self::parse_with(&text, &path.display().to_string(), overrides, controllers)
    }

    /// Reads a scenario from its text. `file_name` appears in errors; the traces and files that
    /// the scenario names are looked for in its directory.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: &str, file_name: &str, overrides: &[String]) -> Result<Self, ScenarioError> {
        Self::parse_with(text, file_name, overrides, &crate::controllers())
    }

    /// As [`Scenario::parse`], with flows that may name other controllers than the testbed's own.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse_with(
        text: &str,
        file_name: &str,
        overrides: &[String],
        controllers: &Controllers,
    ) -> Result<Self, ScenarioError> {
        let read = || {
            let mut root = document::parse(text)?;
            for text in overrides {
                document::set(&mut root, text)?;
            }
            expand::expand(
                ScenarioFile::read(&root, controllers)?,
                file_name,
                controllers,
            )
        };
        read().map_err(|fault| ScenarioError::from_fault(file_name, fault))
    }

    /// The link to take at a node towards each destination: `next_hops()[node][destination]`.
    /// Routes have the fewest links; of several, the link that comes first in
    /// [`Scenario::links`]. `None` at the destination itself and where no way leads to it.
    pub fn next_hops(&self) -> Vec<Vec<Option<LinkIndex>>> {
        let nodes: Vec<_> = (0..self.nodes.len()).map(NodeIndex).collect();
        let towards = network::routes(&nodes, nodes.len(), &self.links);
        nodes
            .iter()
            .map(|node| towards.iter().map(|hops| hops[node.0]).collect())
            .collect()
    }

    /// Whether it has flows of a kernel's own TCP, so that it cannot run in virtual time.
    pub fn needs_kernel(&self) -> bool {
        let mut flows = self.flows.iter();
        flows.any(|flow| matches!(flow.app, App::Tcp { .. }))
    }

    /// For each flow, in order, the number of its set: flows are of one set if their data crosses a
    /// link in the same direction, or if a chain of such flows joins them. Sets are numbered from 0
    /// in the order of their first flows.
    pub fn sharing_sets(&self) -> Vec<usize> {
        // A link leads to another of its set, or is the one that stands for it.
        let mut leads_to: Vec<usize> = (0..self.links.len()).collect();
        let ways = self.ways();
        for way in &ways {
            for link in way {
                let set = representative(&mut leads_to, way[0].0);
                leads_to[set] = representative(&mut leads_to, link.0);
            }
        }
        let mut sets = Vec::new();
        let number = |link: usize| {
            let set = representative(&mut leads_to, link);
            let known = sets.iter().position(|known| *known == set);
            known.unwrap_or_else(|| {
                sets.push(set);
                sets.len() - 1
            })
        };
        ways.iter().map(|way| way[0].0).map(number).collect()
    }

    /// The links that each flow's data crosses, at least one, from its sender on.
    pub(crate) fn ways(&self) -> Vec<Vec<LinkIndex>> {
        let mut destinations: Vec<_> = self.flows.iter().map(|flow| flow.to).collect();
        destinations.sort_unstable();
        destinations.dedup();
        let towards = network::routes(&destinations, self.nodes.len(), &self.links);
        let way = |flow: &FlowSpec| {
            let hops = destinations.binary_search(&flow.to);
            let hops = &towards[hops.expect("each flow's destination is among them")];
            let mut at = flow.from;
            let mut way = Vec::new();
            while let Some(link) = hops[at.0] {
                way.push(link);
                at = self.links[link.0].to;
            }
            way
        };
        self.flows.iter().map(way).collect()
    }

    /// The effective configuration as a scenario file: overrides applied, defaults written out.
    pub fn to_toml(&self) -> String {
        // By way of a value: it puts plain keys before tables, as TOML needs them.
        let value =
            toml::Value::try_from(&self.config).expect("every part of a configuration is TOML");
        toml::to_string(&value).expect("a TOML value prints")
    }
}

/// The link that stands for a link's set.
fn representative(leads_to: &mut [usize], mut link: usize) -> usize {
    while leads_to[link] != link {
        leads_to[link] = leads_to[leads_to[link]];
        link = leads_to[link];
    }
    link
}
