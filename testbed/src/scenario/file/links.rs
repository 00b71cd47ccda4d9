//! `[[links]]` and `[access]`.

use evenkeel_queue::description::{self, LinkDescription, LinkKeys};
use evenkeel_spec::document::{self, Fault, Located, Node, Reader};
use serde::{Deserialize, Serialize};

use super::Topology;
use crate::scenario::spec::Emulator;

/// Queue of an access link that says nothing of it: long enough to drop at the bottleneck.
const DEFAULT_ACCESS_QUEUE_PACKETS: u32 = 1000;

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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(in crate::scenario) struct Direction {
    #[serde(flatten)]
    pub(in crate::scenario) link: LinkDescription,
    #[serde(skip_serializing_if = "Emulator::is_auto")]
    pub(in crate::scenario) emulator: Emulator,
}

/// The links between generated hosts and their routers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::scenario) struct AccessTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "description::rate_bps")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    #[serde(deserialize_with = "description::delay_ms")]
    pub(in crate::scenario) delay_ms: f64,
    #[serde(deserialize_with = "description::queue_packets")]
    pub(in crate::scenario) queue_packets: u32,
    pub(in crate::scenario) stamps: Vec<String>,
    #[serde(skip_serializing_if = "Emulator::is_auto")]
    pub(in crate::scenario) emulator: Emulator,
}

impl LinkTable {
    pub(super) fn read(node: &Node, topology: Option<Topology>) -> Result<Self, Fault> {
        const KEYS: &[&str] = &["name", "from", "to", "emulator", "reverse"];
        let (link, keys) = Reader::open_with(node, "[[links]]", KEYS)?;
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
        let forward = Direction::read(&link, keys, &Direction::default())?;
        let reverse = match link.node("reverse") {
            None => None,
            Some(node) => {
                let (reverse, keys) = Reader::open_with(node, "[links.reverse]", &["emulator"])?;
                Some(Direction::read(&reverse, keys, &forward)?)
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
    fn read(reader: &Reader<'_>, keys: LinkKeys, base: &Self) -> Result<Self, Fault> {
        Ok(Self {
            link: keys.over(&base.link)?,
            emulator: reader.get("emulator")?.unwrap_or(base.emulator),
        })
    }
}

impl Default for AccessTable {
    fn default() -> Self {
        Self {
            rate_bps: None,
            delay_ms: 0.0,
            queue_packets: DEFAULT_ACCESS_QUEUE_PACKETS,
            stamps: Vec::new(),
            emulator: Emulator::Auto,
        }
    }
}

impl AccessTable {
    /// Reads `[access]` of the scenario, or takes the defaults: no rate, no delay.
    pub(super) fn read(top: &Reader<'_>) -> Result<Self, Fault> {
        top.node("access").map_or_else(
            || Ok(Self::default()),
            |node| document::read(node, "[access]"),
        )
    }
}
