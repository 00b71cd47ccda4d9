//! The scenario file as it is written: every key read, ranges checked, defaults filled in.
//! Serialised, it is the effective configuration, and a scenario file again.

mod links;
mod stream;
mod traffic;

use evenkeel::Controllers;
use evenkeel_queue::description::LinkKeys;
use evenkeel_spec::document::{self, Fault, Joined, Located, NAME_LENGTH, Node};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::Unit;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use links::LinkEnds;

use super::IpVersion;

pub(super) use links::{AccessTable, Direction, LinkTable};
pub(super) use traffic::{AppName, CrossTable, Ends, FlowTable};

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "the scenario")]
pub struct ScenarioFile {
    #[serde(deserialize_with = "name")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(deserialize_with = "length_s")]
    pub(super) duration_s: f64,
    #[serde(default, deserialize_with = "warmup_s")]
    pub(super) warmup_s: Located<f64>,
    #[serde(default = "default::<1, _>", deserialize_with = "seed")]
    pub(super) seed: u64,
    #[serde(default = "default::<1500, _>", deserialize_with = "mtu")]
    pub(super) mtu: u16,
    #[serde(default, skip_serializing_if = "IpVersion::is_v4")]
    pub(super) ip_version: IpVersion,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) topology: Option<Topology>,
    #[serde(default)]
    pub(super) sampling: Located<Sampling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) access: Option<Located<AccessTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<Located<Vec<HostTable>>>,
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<LinkTable>,
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub(super) flows: Vec<Located<FlowTable>>,
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub(super) cross: Vec<Located<CrossTable>>,
}

/// The keys of [`ScenarioFile`] whose tables are completed before they are in their final form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Tables {
    links: Vec<Located<Joined<LinkEnds, LinkKeys>>>,
    flows: Vec<Located<Joined<FlowTable, Ends>>>,
    cross: Vec<Located<Joined<CrossTable, Ends>>>,
}

/// How links and hosts are put together for the writer of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Topology {
    Dumbbell,
    Chain,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename = "[sampling]")]
pub(super) struct Sampling {
    #[serde(deserialize_with = "interval_ms")]
    pub(super) interval_ms: u64,
    pub(super) path_samples: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "[[hosts]]")]
pub(super) struct HostTable {
    #[serde(deserialize_with = "name")]
    pub(super) name: Located<String>,
}

keys! {
    name: String = name(NAME_LENGTH);
    length_s: f64 = positive(Unit::Seconds, MAX_DURATION_S);
    warmup_s: f64 = number(Unit::Seconds, 0.0..=MAX_DURATION_S);
    seed: u64 = whole(Unit::None, 0..=i64::MAX as u64);
    mtu: u16 = whole(Unit::None, MIN_MTU..=MAX_MTU);
    any_interval_ms: u64 = whole(Unit::Milliseconds, 1..=PAPER_INTERVAL_MS);
}

impl ScenarioFile {
    pub(super) fn read(root: &Node, controllers: &Controllers) -> Result<Self, Fault> {
        let Joined(mut file, tables): Joined<Self, Tables> = document::read(root)?;
        let topology = file.topology;
        let links = tables.links.into_iter();
        let links = links.map(|link| LinkTable::complete(link, topology));
        file.links = links.collect::<Result<_, _>>()?;
        let flows = tables.flows.into_iter();
        let flows = flows.map(|flow| FlowTable::complete(flow, controllers));
        file.flows = flows.collect::<Result<_, _>>()?;
        let cross = tables.cross.into_iter().map(CrossTable::complete);
        file.cross = cross.collect::<Result<_, _>>()?;
        file.check_times()?;
        match (topology, &file.access, &file.hosts) {
            (None, Some(access), _) => {
                let message = "access needs topology = \"dumbbell\" or \"chain\"; here, write the access links as [[links]]";
                return Err(access.fault(message));
            }
            (Some(_), _, Some(hosts)) => {
                let message = "hosts are made by the topology; remove them, or remove topology";
                return Err(hosts.fault(message));
            }
            (Some(_), None, None) => file.access = Some(Located::default()),
            _ => {}
        }
        if file.links.is_empty() {
            return Err(Fault::new(&root.origin, "there is no link; add [[links]]"));
        }
        if file.flows.is_empty() && file.cross.is_empty() {
            let message = "nothing is sent; add [[flows]] or [[cross]]";
            return Err(Fault::new(&root.origin, message));
        }
        Ok(file)
    }

    /// The hosts that the file lists; if any, links may name no others.
    pub(super) fn hosts(&self) -> &[HostTable] {
        self.hosts.as_ref().map_or(&[], |hosts| &hosts.value)
    }

    fn check_times(&self) -> Result<(), Fault> {
        let (duration_s, warmup_s) = (self.duration_s, &self.warmup_s);
        if warmup_s.value >= duration_s {
            return Err(warmup_s.fault(format!(
                "warmup_s = {} leaves nothing of a run of {duration_s} s; make it less than duration_s",
                warmup_s.value
            )));
        }
        let intervals = duration_s * 1000.0 / self.sampling.value.interval_ms as f64;
        if intervals > MAX_INTERVALS {
            return Err(self.sampling.fault(format!(
                "{intervals:.0} sampling intervals are too many; raise sampling.interval_ms or lower duration_s until they are {MAX_INTERVALS}"
            )));
        }
        let directions = self.links.iter().flat_map(LinkTable::directions);
        for Direction { link, .. } in directions {
            let blackouts = link.blackouts.iter();
            self.check_begin("blackouts", blackouts, |one| one.start_s)?;
            self.check_begin("changes", link.changes.iter(), |one| one.at_s)?;
        }
        for Located { value: flow, .. } in &self.flows {
            self.check_begin("pauses", flow.pauses.iter(), |one| one.start_s)?;
            self.check_begin("rebinds_s", flow.rebinds_s.iter(), |one| one.0)?;
        }
        Ok(())
    }

    /// Checks that all that is listed under a key happens before the run ends.
    fn check_begin<'a, T: 'a>(
        &self,
        key: &str,
        mut all: impl Iterator<Item = &'a Located<T>>,
        at_s: impl Fn(&T) -> f64,
    ) -> Result<(), Fault> {
        let late = all.find(|one| at_s(&one.value) >= self.duration_s);
        late.map_or(Ok(()), |late| {
            Err(late.fault(format!(
                "{key} has one at {} s, but the run ends at {} s; remove it, or raise duration_s",
                at_s(&late.value),
                self.duration_s
            )))
        })
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            interval_ms: 100,
            path_samples: false,
        }
    }
}

fn interval_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let interval_ms: u64 = any_interval_ms(deserializer)?;
    if !PAPER_INTERVAL_MS.is_multiple_of(interval_ms) {
        return Err(D::Error::custom(format!(
            "= {interval_ms} does not divide 500; use 1, 2, 4, 5, 10, 20, 25, 50, 100, 125, 250 or 500"
        )));
    }
    Ok(interval_ms)
}

/// A default.
fn default<const NUMBER: u16, T: From<u16>>() -> T {
    NUMBER.into()
}
