//! The figures of flows and classes at a link.

use evenkeel_queue::{Amount, ClassFigures, FlowFigures, FlowReport};
use serde::{Deserialize, Serialize};

use super::LinkStatus;

/// One of the flows that sent most in the last second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Protocol, source and destination: `udp 10.0.1.1:5000 > 10.0.2.1:443`.
    pub flow: String,
    /// Its class: `sparse` or `bulk`, `guided` or `others`; `null` if the discipline has none.
    pub class: Option<String>,
    /// What it sent in the last whole second, in bits per second of IP packets.
    pub rate_bps: u64,
    /// What has left since it was first seen.
    pub forwarded: Amount,
    /// What waits now.
    pub queued: Amount,
    /// Packets dropped since it was first seen.
    pub dropped: u64,
    /// Packets marked since it was first seen.
    pub marked: u64,
    /// The rate that its last stamped header offers it, in bits per second; `null` without one.
    pub grant_bps: Option<u64>,
}

/// A class of flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub class: String,
    /// Flows that sent something in this second or the last one; flows that share one of 2048 slots
    /// count once.
    pub flows: u64,
    /// What waits now.
    pub queued: Amount,
    /// What has left since the start.
    pub forwarded: Amount,
    /// What was dropped at the queue since the start.
    pub dropped: Amount,
    /// What was marked at the queue since the start.
    pub marked: Amount,
}

impl From<FlowFigures> for FlowStatus {
    fn from(figures: FlowFigures) -> Self {
        Self {
            flow: figures.flow.to_string(),
            class: figures.class.map(str::to_owned),
            rate_bps: figures.rate_bps,
            forwarded: figures.forwarded,
            queued: figures.queued,
            dropped: figures.dropped,
            marked: figures.marked,
            grant_bps: figures.grant_bps,
        }
    }
}

impl From<ClassFigures> for ClassStatus {
    fn from(figures: ClassFigures) -> Self {
        Self {
            class: figures.class.to_owned(),
            flows: figures.flows,
            queued: figures.queued,
            forwarded: figures.forwarded,
            dropped: figures.dropped,
            marked: figures.marked,
        }
    }
}

/// Returns what a port reports, for the status.
pub(super) fn figures(report: FlowReport) -> (Vec<FlowStatus>, Vec<ClassStatus>) {
    let FlowReport { heaviest, classes } = report;
    (
        heaviest.into_iter().map(FlowStatus::from).collect(),
        classes.into_iter().map(ClassStatus::from).collect(),
    )
}

/// Lines about classes and flows, for people.
pub(super) fn lines(link: &LinkStatus) -> String {
    let mut text = String::new();
    for class in &link.classes {
        text += &format!(
            "  {:10} {} flows, {} packets and {} bytes sent, {} wait, {} dropped, {} marked\n",
            class.class,
            class.flows,
            class.forwarded.packets,
            class.forwarded.bytes,
            class.queued.packets,
            class.dropped.packets,
            class.marked.packets,
        );
    }
    for flow in &link.flows {
        let class = flow.class.as_deref();
        let class = class.map_or(String::new(), |class| format!(" {class}"));
        let grant = flow.grant_bps.map_or(String::new(), |grant| {
            format!(", offered {:.3} Mb/s", grant as f64 / 1e6)
        });
        text += &format!(
            "  flow       {}{class}: {:.3} Mb/s, {} bytes, {} wait, {} dropped, {} marked{grant}\n",
            flow.flow,
            flow.rate_bps as f64 / 1e6,
            flow.forwarded.bytes,
            flow.queued.packets,
            flow.dropped,
            flow.marked,
        );
    }
    text
}
