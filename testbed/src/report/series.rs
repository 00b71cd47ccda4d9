//! The contents of `series.json`: what happened when.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_apps::path::SampleRecord;
use serde::Serialize;

use super::document::{by_stamp, milliseconds, rounded, timing, to_three_decimals};
use crate::metrics::{
    self, ControllerSample, DelaySample, FlowObservation, LinkObservation, Observations,
    PathObservation, PathSeries, Transfer,
};
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
    /// Mean of the round-trip times measured in the interval, in milliseconds.
    pub rtt_ms: Vec<Option<f64>>,
    /// The greatest of them.
    pub rtt_max_ms: Vec<Option<f64>>,
    /// Mean time that the packets of the interval were on their way, host to host, in milliseconds;
    /// not written if the backend cannot tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_way_ms: Vec<Option<f64>>,
    /// The greatest of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_way_max_ms: Vec<Option<f64>>,
    /// Packets that the sender sent in the interval.
    pub sent_packets: Vec<u64>,
    /// Packets that it declared lost in the interval.
    pub lost_packets: Vec<u64>,
    /// Congestion window at the end of the interval, in bytes; `None` without a connection.
    pub window_bytes: Vec<Option<u64>>,
    /// Window at which slow start ends, at the end of the interval, in bytes; `None` without one.
    pub slow_start_threshold_bytes: Vec<Option<u64>>,
    /// Bits of UDP payload per second at which packets are paced, at the end of the interval;
    /// `None` while they are not.
    pub pacing_rate_bps: Vec<Option<u64>>,
    /// What path headers told; `None` if none were agreed on.
    pub path: Option<HeaderSeries>,
    /// All its transfers.
    pub transfers: Vec<Transfer>,
    /// What its viewer saw, if it is a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSeries>,
}

/// What a stream's viewer saw in each interval; `None` where no frame arrived.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamSeries {
    /// Mean delay of the frames that arrived, in milliseconds.
    pub delay_ms: Vec<Option<f64>>,
    /// What the encoder aimed at with the last frame that has arrived, in bits per second.
    pub bitrate_bps: Vec<Option<u64>>,
}

/// What path headers told in each interval; `None` where none did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeaderSeries {
    /// What they told on the whole.
    #[serde(flatten)]
    pub series: PathSeries,
    /// Every sample, if the scenario asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<SampleRecord>>,
}

/// Series of one direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkSeries {
    /// Its name.
    pub name: String,
    /// Bits of IP packets per second that it transmitted.
    pub rate_bps: Vec<u64>,
    /// Bits of IP packets per second that it could have transmitted; `None` without limit, or if the
    /// backend cannot tell.
    pub capacity_bps: Vec<Option<u64>>,
    /// Queue length at the end of the interval, in packets.
    pub queue_packets: Vec<u64>,
    /// Greatest queue length in the interval, in packets.
    pub queue_packets_max: Vec<u64>,
    /// Packets that the queue refused in the interval.
    pub dropped: Vec<u64>,
    /// Figures of the link's stamps at the end of the interval, by stamp and name.
    pub stamps: BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>>,
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
                .map(|flow| FlowSeries::new(scenario, flow))
                .collect(),
            links: observations
                .links
                .iter()
                .map(|link| LinkSeries::new(link, interval_s))
                .collect(),
        }
    }

    /// The series as `series.json` holds them: on one line, which programs do not mind.
    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string(self).expect("series have string keys only");
        text + "\n"
    }
}

impl FlowSeries {
    fn new(scenario: &Scenario, flow: &FlowObservation) -> Self {
        let interval_s = scenario.sampling_interval.as_secs_f64();
        let controller = |value: &dyn Fn(&ControllerSample) -> Option<u64>| {
            let states = flow.controller_state.iter();
            states.map(|state| value(state.as_ref()?)).collect()
        };
        let rtt = metrics::rtt_series(flow, &timing(scenario), flow.delivered.len());
        let times = |samples: &[Option<DelaySample>], time: fn(&DelaySample) -> Duration| {
            let samples = samples.iter();
            let times = samples.map(|sample| sample.as_ref().map(|s| milliseconds(time(s))));
            times.collect::<Vec<_>>()
        };
        Self {
            name: flow.name.clone(),
            rate_bps: rates(&flow.delivered, interval_s),
            goodput_bps: rates(&flow.app_delivered, interval_s),
            rtt_ms: times(&rtt, |sample| sample.mean),
            rtt_max_ms: times(&rtt, |sample| sample.max),
            one_way_ms: times(&flow.one_way, |sample| sample.mean),
            one_way_max_ms: times(&flow.one_way, |sample| sample.max),
            sent_packets: flow.packet_series.iter().map(|p| p.sent).collect(),
            lost_packets: flow.packet_series.iter().map(|p| p.lost).collect(),
            window_bytes: controller(&|state| Some(state.window)),
            slow_start_threshold_bytes: controller(&|state| state.slow_start_threshold),
            pacing_rate_bps: controller(&|state| Some(state.pacing_rate?.saturating_mul(8))),
            path: flow
                .path
                .as_ref()
                .map(|path| HeaderSeries::new(scenario, path, flow.delivered.len())),
            transfers: flow.transfers.clone(),
            stream: flow.stream.as_ref().map(|stream| StreamSeries {
                delay_ms: stream
                    .series
                    .iter()
                    .map(|sample| sample.delay_ms.map(to_three_decimals))
                    .collect(),
                bitrate_bps: stream.series.iter().map(|s| s.bitrate_bps).collect(),
            }),
        }
    }
}

impl HeaderSeries {
    fn new(scenario: &Scenario, path: &PathObservation, intervals: usize) -> Self {
        let mut series = metrics::path_series(path, &timing(scenario), intervals);
        let there = series.forward_queueing_ms.iter_mut();
        let times = there.chain(&mut series.backward_queueing_ms).flatten();
        times.for_each(|time| *time = to_three_decimals(*time));
        let record = |sample: &SampleRecord| SampleRecord {
            at_s: (sample.at_s * 1e6).round() / 1e6,
            rtt_ms: to_three_decimals(sample.rtt_ms),
            forward_queueing_ms: sample.forward_queueing_ms.map(to_three_decimals),
            backward_queueing_ms: sample.backward_queueing_ms.map(to_three_decimals),
            ..sample.clone()
        };
        Self {
            series,
            samples: scenario
                .path_samples
                .then(|| path.samples.iter().map(record).collect()),
        }
    }
}

impl LinkSeries {
    fn new(link: &LinkObservation, interval_s: f64) -> Self {
        Self {
            name: link.name.clone(),
            rate_bps: rates(&link.forwarded_series, interval_s),
            capacity_bps: link.capacity_series.clone(),
            queue_packets: link
                .queue_series
                .iter()
                .map(|sample| sample.packets)
                .collect(),
            queue_packets_max: link.queue_series.iter().map(|sample| sample.max).collect(),
            dropped: link.drop_series.clone(),
            stamps: by_stamp(link, |figure| {
                figure
                    .series
                    .iter()
                    .map(|value| rounded(*value, 6))
                    .collect()
            }),
        }
    }
}

/// Bytes of each interval as bits per second.
fn rates(bytes: &[u64], interval_s: f64) -> Vec<u64> {
    let rate = |bytes: &u64| (*bytes as f64 * 8.0 / interval_s).round() as u64;
    bytes.iter().map(rate).collect()
}
