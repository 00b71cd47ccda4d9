//! The contents of `series.json`: what happened when.

use serde::Serialize;

use super::document::seconds;
use crate::metrics::{FlowObservation, LinkObservation, Observations};
use crate::scenario::Scenario;

/// Time series of a run. Element i of a series is about the time from i to i + 1 intervals
/// after the run's beginning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Width of an interval in seconds.
    pub interval_s: f64,
    /// One for each flow, in the scenario's order.
    pub flows: Vec<FlowSeries>,
    /// One for each direction of the scenario's links.
    pub links: Vec<LinkSeries>,
}

/// Series of one flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSeries {
    /// Its name.
    pub name: String,
    /// Bits of IP packets per second that reached the receiver.
    pub rate_bps: Vec<u64>,
    /// Bits of application data per second.
    pub goodput_bps: Vec<u64>,
    /// Congestion window at the end of the interval, in bytes; `None` without a connection.
    pub window_bytes: Vec<Option<u64>>,
    /// All its transfers.
    pub transfers: Vec<TransferRecord>,
}

/// One transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferRecord {
    /// When it began, in seconds.
    pub start_s: f64,
    /// When the receiver had all of it, in seconds.
    pub end_s: Option<f64>,
    /// Application bytes that the receiver got.
    pub bytes: u64,
    /// Whether SHA-256 agreed, if it was compared.
    pub sha256_verified: Option<bool>,
}

/// Series of one direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkSeries {
    /// Its name.
    pub name: String,
    /// Queue length at the end of the interval, in packets.
    pub queue_packets: Vec<u64>,
    /// Greatest queue length in the interval, in packets.
    pub queue_packets_max: Vec<u64>,
    /// Packets that the queue refused in the interval.
    pub dropped: Vec<u64>,
}

impl Series {
    /// The series of a run of `scenario`.
    pub fn new(scenario: &Scenario, observations: &Observations) -> Self {
        let interval_s = scenario.sampling_interval.as_secs_f64();
        Self {
            interval_s,
            flows: observations
                .flows
                .iter()
                .map(|flow| FlowSeries::new(flow, interval_s))
                .collect(),
            links: observations.links.iter().map(LinkSeries::new).collect(),
        }
    }

    /// The series as `series.json` holds them: on one line, which programs do not mind.
    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string(self).expect("series have string keys only");
        text + "\n"
    }
}

impl FlowSeries {
    fn new(flow: &FlowObservation, interval_s: f64) -> Self {
        let rates = |bytes: &[u64]| {
            let rate = |bytes: &u64| (*bytes as f64 * 8.0 / interval_s).round() as u64;
            bytes.iter().map(rate).collect()
        };
        let transfers = flow.transfers.iter().map(|transfer| TransferRecord {
            start_s: seconds(transfer.start),
            end_s: transfer.end.map(seconds),
            bytes: transfer.bytes,
            sha256_verified: transfer.sha256_verified,
        });
        Self {
            name: flow.name.clone(),
            rate_bps: rates(&flow.delivered),
            goodput_bps: rates(&flow.app_delivered),
            window_bytes: flow.window.clone(),
            transfers: transfers.collect(),
        }
    }
}

impl LinkSeries {
    fn new(link: &LinkObservation) -> Self {
        Self {
            name: link.name.clone(),
            queue_packets: link
                .queue_series
                .iter()
                .map(|sample| sample.packets)
                .collect(),
            queue_packets_max: link.queue_series.iter().map(|sample| sample.max).collect(),
            dropped: link.drop_series.clone(),
        }
    }
}
