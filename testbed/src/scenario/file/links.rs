//! `[[links]]` and `[access]`.

use serde::Serialize;

use super::{MAX_DURATION_S, Topology, tables};
use crate::scenario::error::Fault;
use crate::scenario::reader::Reader;
use crate::scenario::spec::Emulator;
use crate::scenario::tree::{Located, Node};

/// Highest rate: 1 Tb/s, where a packet still takes over a nanosecond.
pub(super) const MAX_RATE_BPS: u64 = 1_000_000_000_000;

/// Longest delay: ten minutes, beyond any path there is.
pub(super) const MAX_DELAY_MS: f64 = 600_000.0;

/// Queue of a link that says nothing of it.
const DEFAULT_QUEUE_PACKETS: u32 = 100;

/// Queue of an access link that says nothing of it: long enough to drop at the bottleneck.
const DEFAULT_ACCESS_QUEUE_PACKETS: u32 = 1000;

const MAX_QUEUE_PACKETS: u64 = 10_000_000;
const MAX_QUEUE_BYTES: u64 = 1 << 40;

/// A link of the file: two directions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct LinkTable {
    pub(in crate::scenario) name: Located<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) from: Option<Located<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) to: Option<Located<String>>,
    #[serde(flatten)]
    pub(in crate::scenario) forward: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) reverse: Option<Direction>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct Direction {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) trace: Option<Located<String>>,
    pub(in crate::scenario) delay_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) queue_packets: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) queue_bytes: Option<u64>,
    pub(in crate::scenario) discipline: String,
    pub(in crate::scenario) stamps: Vec<String>,
    pub(in crate::scenario) loss: f64,
    pub(in crate::scenario) jitter_ms: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(in crate::scenario) reorder: f64,
    pub(in crate::scenario) blackouts: Vec<BlackoutTable>,
    pub(in crate::scenario) changes: Vec<ChangeTable>,
    #[serde(skip_serializing_if = "Emulator::is_auto")]
    pub(in crate::scenario) emulator: Emulator,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct BlackoutTable {
    pub(in crate::scenario) start_s: f64,
    pub(in crate::scenario) length_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct ChangeTable {
    pub(in crate::scenario) at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) queue_packets: Option<u32>,
}

/// The links between generated hosts and their routers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct AccessTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    pub(in crate::scenario) delay_ms: f64,
    pub(in crate::scenario) queue_packets: u32,
    pub(in crate::scenario) stamps: Vec<String>,
    #[serde(skip_serializing_if = "Emulator::is_auto")]
    pub(in crate::scenario) emulator: Emulator,
}

impl LinkTable {
    pub(super) fn read(node: &Node, topology: Option<Topology>) -> Result<Self, Fault> {
        const KEYS: &[&str] = &[
            "name",
            "from",
            "to",
            "rate_bps",
            "trace",
            "delay_ms",
            "queue_packets",
            "queue_bytes",
            "discipline",
            "stamps",
            "loss",
            "jitter_ms",
            "reorder",
            "blackouts",
            "changes",
            "emulator",
            "reverse",
        ];
        let link = Reader::open(node, "[[links]]", KEYS)?;
        let (from, to) = match topology {
            None => (
                Some(link.required("from", link.name("from")?)?),
                Some(link.required("to", link.name("to")?)?),
            ),
            Some(_) => {
                for key in ["from", "to"] {
                    link.refuse(key, "is set by the topology; remove it, or remove topology")?;
                }
                (None, None)
            }
        };
        let forward = Direction::read(&link, &Direction::default())?;
        let reverse = match link.node("reverse") {
            None => None,
            Some(node) => {
                let reverse = Reader::open(node, "[links.reverse]", &KEYS[3..KEYS.len() - 1])?;
                Some(Direction::read(&reverse, &forward)?)
            }
        };
        Ok(Self {
            name: link.required("name", link.name("name")?)?,
            from,
            to,
            forward,
            reverse,
        })
    }

    /// The two directions, forward first.
    pub(in crate::scenario) fn directions(&self) -> [&Direction; 2] {
        [
            &self.forward,
            self.reverse.as_ref().unwrap_or(&self.forward),
        ]
    }
}

impl Direction {
    /// Reads a direction; a key that is absent has the value of `base`.
    fn read(link: &Reader<'_>, base: &Self) -> Result<Self, Fault> {
        let rate_bps = link.integer("rate_bps", 1..=MAX_RATE_BPS)?;
        let trace = link.string("trace")?;
        if rate_bps.is_some() && trace.is_some() {
            return Err(link.fault(
                "trace",
                "a link has a rate_bps or a trace, not both; remove one",
            ));
        }
        let inherits_service = rate_bps.is_none() && trace.is_none();
        let queue_packets = queue_packets(link)?;
        let queue_bytes = link
            .integer("queue_bytes", 1..=MAX_QUEUE_BYTES)?
            .or(base.queue_bytes);
        let default_packets = if queue_bytes.is_some() {
            None
        } else {
            Some(DEFAULT_QUEUE_PACKETS)
        };
        let discipline = link.string("discipline")?.map(|name| name.value);
        let direction = Self {
            rate_bps: if inherits_service {
                base.rate_bps
            } else {
                rate_bps
            },
            trace: if inherits_service {
                base.trace.clone()
            } else {
                trace
            },
            delay_ms: link
                .number("delay_ms", 0.0..=MAX_DELAY_MS)?
                .unwrap_or(base.delay_ms),
            queue_packets: queue_packets.or(base.queue_packets).or(default_packets),
            queue_bytes,
            discipline: discipline.unwrap_or_else(|| base.discipline.clone()),
            stamps: link
                .strings("stamps")?
                .unwrap_or_else(|| base.stamps.clone()),
            loss: link.number("loss", 0.0..=1.0)?.unwrap_or(base.loss),
            jitter_ms: link
                .number("jitter_ms", 0.0..=MAX_DELAY_MS)?
                .unwrap_or(base.jitter_ms),
            reorder: link.number("reorder", 0.0..=1.0)?.unwrap_or(base.reorder),
            blackouts: match link.node("blackouts") {
                None => base.blackouts.clone(),
                Some(_) => tables(link, "blackouts", BlackoutTable::read)?,
            },
            changes: match link.node("changes") {
                None => base.changes.clone(),
                Some(_) => tables(link, "changes", ChangeTable::read)?,
            },
            emulator: link
                .word("emulator", Emulator::WORDS)?
                .unwrap_or(base.emulator),
        };
        direction.check(link)?;
        Ok(direction)
    }

    fn check(&self, link: &Reader<'_>) -> Result<(), Fault> {
        let overlap = |pair: &[BlackoutTable]| pair[0].start_s + pair[0].length_s > pair[1].start_s;
        if self.blackouts.windows(2).any(overlap) {
            let message = "blackouts overlap or are out of order; order them by start_s and let each end before the next";
            return Err(link.fault("blackouts", message));
        }
        if self
            .changes
            .windows(2)
            .any(|pair| pair[0].at_s > pair[1].at_s)
        {
            return Err(link.fault("changes", "changes are out of order; order them by at_s"));
        }
        let changed = self.changes.iter().filter_map(|change| change.delay_ms);
        let has_delay = || changed.chain([self.delay_ms]).any(|delay| delay > 0.0);
        if self.reorder > 0.0 && !has_delay() {
            let message = "reorder needs a delay that packets can jump; give the link a delay_ms";
            return Err(link.fault("reorder", message));
        }
        if self.rate_bps.is_none() && self.changes.iter().any(|change| change.rate_bps.is_some()) {
            let message =
                "changes set a rate on a link that begins without one; give the link a rate_bps";
            return Err(link.fault("changes", message));
        }
        Ok(())
    }
}

impl Default for Direction {
    fn default() -> Self {
        Self {
            rate_bps: None,
            trace: None,
            delay_ms: 0.0,
            queue_packets: None,
            queue_bytes: None,
            discipline: "drop-tail".to_owned(),
            stamps: Vec::new(),
            loss: 0.0,
            jitter_ms: 0.0,
            reorder: 0.0,
            blackouts: Vec::new(),
            changes: Vec::new(),
            emulator: Emulator::Auto,
        }
    }
}

impl BlackoutTable {
    fn read(node: &Node) -> Result<Self, Fault> {
        let blackout = Reader::open(node, "blackouts", &["start_s", "length_s"])?;
        Ok(Self {
            start_s: blackout
                .required("start_s", blackout.number("start_s", 0.0..=MAX_DURATION_S)?)?,
            length_s: blackout
                .required("length_s", blackout.positive("length_s", MAX_DURATION_S)?)?,
        })
    }
}

impl ChangeTable {
    fn read(node: &Node) -> Result<Self, Fault> {
        const KEYS: &[&str] = &["at_s", "rate_bps", "delay_ms", "loss", "queue_packets"];
        let change = Reader::open(node, "changes", KEYS)?;
        let table = Self {
            at_s: change.required("at_s", change.number("at_s", 0.0..=MAX_DURATION_S)?)?,
            rate_bps: change.integer("rate_bps", 1..=MAX_RATE_BPS)?,
            delay_ms: change.number("delay_ms", 0.0..=MAX_DELAY_MS)?,
            loss: change.number("loss", 0.0..=1.0)?,
            queue_packets: queue_packets(&change)?,
        };
        if KEYS[1..].iter().all(|key| change.node(key).is_none()) {
            let message = format!(
                "the change changes nothing; add one of {}",
                KEYS[1..].join(", ")
            );
            return Err(Fault::new(change.origin(), message));
        }
        Ok(table)
    }
}

impl AccessTable {
    /// Reads `[access]` of the scenario, or takes the defaults: no rate, no delay.
    pub(super) fn read(top: &Reader<'_>) -> Result<Self, Fault> {
        let Some(node) = top.node("access") else {
            return Ok(Self {
                rate_bps: None,
                delay_ms: 0.0,
                queue_packets: DEFAULT_ACCESS_QUEUE_PACKETS,
                stamps: Vec::new(),
                emulator: Emulator::Auto,
            });
        };
        const KEYS: &[&str] = &[
            "rate_bps",
            "delay_ms",
            "queue_packets",
            "stamps",
            "emulator",
        ];
        let access = Reader::open(node, "[access]", KEYS)?;
        Ok(Self {
            rate_bps: access.integer("rate_bps", 1..=MAX_RATE_BPS)?,
            delay_ms: access
                .number("delay_ms", 0.0..=MAX_DELAY_MS)?
                .unwrap_or(0.0),
            queue_packets: queue_packets(&access)?.unwrap_or(DEFAULT_ACCESS_QUEUE_PACKETS),
            stamps: access.strings("stamps")?.unwrap_or_default(),
            emulator: access
                .word("emulator", Emulator::WORDS)?
                .unwrap_or_default(),
        })
    }
}

/// Left out of results then: a link's description is what it was before links could reorder.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn queue_packets(reader: &Reader<'_>) -> Result<Option<u32>, Fault> {
    let packets = reader.integer("queue_packets", 1..=MAX_QUEUE_PACKETS)?;
    Ok(packets.map(|packets| packets as u32))
}
