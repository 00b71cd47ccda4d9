//! The scenario file as it is written: every key read, ranges checked, defaults filled in.
//! Serialised, it is the effective configuration, and a scenario file again.

mod links;
mod stream;
mod traffic;

use evenkeel::Controllers;
use evenkeel_spec::document::{Fault, Located, Node, Reader};
use evenkeel_spec::quantity::Unit;
use serde::{Deserialize, Serialize};

pub(super) use links::{AccessTable, Direction, LinkTable};
pub(super) use traffic::{AppTable, CrossKind, CrossTable, Ends, FlowTable};

/// Longest run: over a day, and series stay small enough to keep.
pub(super) const MAX_DURATION_S: f64 = evenkeel_queue::description::MAX_TIME_S;

/// Most intervals of a time series.
const MAX_INTERVALS: f64 = 1_000_000.0;

/// Widest sampling interval; the papers' metrics sample every 500 ms (smoothness, section 4).
const PAPER_INTERVAL_MS: u64 = 500;

/// Largest IP packet (RFC 791: a 16-bit length).
const MAX_MTU: u64 = 65_535;

/// Smallest MTU: QUIC needs UDP payloads of 1200 bytes (RFC 9000 section 14), in IPv4.
const MIN_MTU: u64 = 1228;

/// The effective configuration: what the file and the overrides say, with all defaults.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioFile {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    pub(super) duration_s: f64,
    pub(super) warmup_s: f64,
    pub(super) seed: u64,
    pub(super) mtu: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) topology: Option<Topology>,
    pub(super) sampling: Sampling,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) access: Option<AccessTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<HostTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<LinkTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) flows: Vec<FlowTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) cross: Vec<CrossTable>,
}

/// How links and hosts are put together for the writer of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Topology {
    Dumbbell,
    Chain,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sampling {
    pub(super) interval_ms: u64,
    pub(super) path_samples: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HostTable {
    pub(super) name: Located<String>,
}

impl ScenarioFile {
    pub(super) fn read(root: &Node, controllers: &Controllers) -> Result<Self, Fault> {
        const KEYS: &[&str] = &[
            "name",
            "description",
            "duration_s",
            "warmup_s",
            "seed",
            "mtu",
            "topology",
            "sampling",
            "access",
            "hosts",
            "links",
            "flows",
            "cross",
        ];
        let top = Reader::open(root, "the scenario", KEYS)?;
        let duration_s = top.required(
            "duration_s",
            top.positive("duration_s", Unit::Seconds, MAX_DURATION_S)?,
        )?;
        let warmup_s = top
            .number("warmup_s", Unit::Seconds, 0.0..=MAX_DURATION_S)?
            .unwrap_or(0.0);
        if warmup_s >= duration_s {
            let message = format!(
                "warmup_s = {warmup_s} leaves nothing of a run of {duration_s} s; make it less than duration_s"
            );
            return Err(top.fault("warmup_s", message));
        }
        let topology = top.get("topology")?;
        if topology.is_none() {
            top.refuse("access", "needs topology = \"dumbbell\" or \"chain\"; here, write the access links as [[links]]")?;
        } else {
            top.refuse(
                "hosts",
                "are made by the topology; remove them, or remove topology",
            )?;
        }
        let file = Self {
            name: top.required("name", top.name("name")?)?.value,
            description: top.string("description")?.map(|text| text.value),
            duration_s,
            warmup_s,
            seed: top
                .whole("seed", Unit::None, 0..=i64::MAX as u64)?
                .unwrap_or(1),
            mtu: top
                .whole("mtu", Unit::None, MIN_MTU..=MAX_MTU)?
                .unwrap_or(1500) as u16,
            topology,
            sampling: Sampling::read(&top, duration_s)?,
            access: topology.map(|_| AccessTable::read(&top)).transpose()?,
            hosts: top.tables("hosts", HostTable::read)?,
            links: top.tables("links", |node| LinkTable::read(node, topology))?,
            flows: top.tables("flows", |node| FlowTable::read(node, controllers))?,
            cross: top.tables("cross", CrossTable::read)?,
        };
        if file.links.is_empty() {
            return Err(Fault::new(top.origin(), "there is no link; add [[links]]"));
        }
        if file.flows.is_empty() && file.cross.is_empty() {
            return Err(Fault::new(
                top.origin(),
                "nothing is sent; add [[flows]] or [[cross]]",
            ));
        }
        Ok(file)
    }
}

impl Sampling {
    fn read(top: &Reader<'_>, duration_s: f64) -> Result<Self, Fault> {
        let mut interval_ms = 100;
        let mut path_samples = false;
        if let Some(node) = top.node("sampling") {
            let sampling = Reader::open(node, "[sampling]", &["interval_ms", "path_samples"])?;
            path_samples = sampling.get("path_samples")?.unwrap_or(false);
            if let Some(set) =
                sampling.whole("interval_ms", Unit::Milliseconds, 1..=PAPER_INTERVAL_MS)?
            {
                interval_ms = set;
            }
            if !PAPER_INTERVAL_MS.is_multiple_of(interval_ms) {
                let message = format!(
                    "interval_ms = {interval_ms} does not divide 500; use 1, 2, 4, 5, 10, 20, 25, 50, 100, 125, 250 or 500"
                );
                return Err(sampling.fault("interval_ms", message));
            }
        }
        let intervals = duration_s * 1000.0 / interval_ms as f64;
        if intervals > MAX_INTERVALS {
            let message = format!(
                "{intervals:.0} sampling intervals are too many; raise sampling.interval_ms or lower duration_s until they are {MAX_INTERVALS}"
            );
            return Err(top.fault("sampling", message));
        }
        Ok(Self {
            interval_ms,
            path_samples,
        })
    }
}

impl HostTable {
    fn read(node: &Node) -> Result<Self, Fault> {
        let host = Reader::open(node, "[[hosts]]", &["name"])?;
        Ok(Self {
            name: host.required("name", host.name("name")?)?,
        })
    }
}
