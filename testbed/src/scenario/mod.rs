//! Scenario files: TOML in, a network and its traffic as plain data out.

mod spec;

use std::time::Duration;

pub use spec::{
    AckSpec, App, Blackout, CrossSpec, FlowSpec, LinkChange, LinkIndex, LinkSpec, NodeIndex,
    NodeSpec, Payload, PeriodDistribution, Periods, QueueLimit, ServiceSpec, TraceFile,
};

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
    /// Hosts and routers.
    pub nodes: Vec<NodeSpec>,
    /// One-way links. A link of the file is two in a row: its own direction, then the reverse.
    pub links: Vec<LinkSpec>,
    /// Single flows.
    pub flows: Vec<FlowSpec>,
    /// Single sources of cross traffic.
    pub cross: Vec<CrossSpec>,
}
