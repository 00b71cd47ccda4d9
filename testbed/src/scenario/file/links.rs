//! `[[links]]` and `[access]`.

use evenkeel_queue::description::{self, LinkDescription, LinkKeys};
use evenkeel_spec::document::{Fault, Joined, Located};
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

/// A link's keys beside those of its directions.
#[derive(Debug, Deserialize)]
#[serde(rename = "[[links]]")]
pub(super) struct LinkEnds {
    #[serde(deserialize_with = "super::name")]
    name: Located<String>,
    #[serde(default, deserialize_with = "super::name")]
    from: Option<Located<String>>,
    #[serde(default, deserialize_with = "super::name")]
    to: Option<Located<String>>,
    #[serde(default)]
    emulator: Emulator,
    reverse: Option<Joined<ReverseTable, LinkKeys>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename = "[links.reverse]")]
struct ReverseTable {
    emulator: Option<Emulator>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct Direction {
    #[serde(flatten)]
    pub(in crate::scenario) link: LinkDescription,
    #[serde(skip_serializing_if = "Emulator::is_auto")]
    pub(in crate::scenario) emulator: Emulator,
}

/// The links between generated hosts and their routers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename = "[access]")]
pub(in crate::scenario) struct AccessTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "description::rate_bps")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    #[serde(deserialize_with = "description::delay_ms")]
    pub(in crate::scenario) delay_ms: f64,
    #[serde(deserialize_with = "description::queue_packets")]
    pub(in crate::scenario) queue_packets: u32,
    pub(in crate::scenario) stamps: Vec<Located<String>>,
    #[serde(skip_serializing_if = "Emulator::is_auto")]
    pub(in crate::scenario) emulator: Emulator,
}

impl LinkTable {
    /// The link that the keys describe; a topology sets its ends.
    pub(super) fn complete(
        link: Located<Joined<LinkEnds, LinkKeys>>,
        topology: Option<Topology>,
    ) -> Result<Self, Fault> {
        for (key, end) in [("from", &link.value.0.from), ("to", &link.value.0.to)] {
            match end {
                None if topology.is_none() => {
                    return Err(link.fault(format!("[[links]] has no {key}; add one")));
                }
                Some(end) if topology.is_some() => {
                    return Err(end.fault(format!(
                        "{key} is set by the topology; remove it, or remove topology"
                    )));
                }
                _ => {}
            }
        }
        let Joined(own, keys) = link.value;
        let forward = Direction {
            link: keys.over(&LinkDescription::default())?,
            emulator: own.emulator,
        };
        let reverse = own.reverse.map(|Joined(own, keys)| -> Result<_, Fault> {
            Ok(Direction {
                link: keys.over(&forward.link)?,
                emulator: own.emulator.unwrap_or(forward.emulator),
            })
        });
        Ok(Self {
            name: own.name,
            from: own.from,
            to: own.to,
            reverse: reverse.transpose()?,
            forward,
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
