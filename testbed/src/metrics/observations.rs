//! What a backend has seen of a run, in packets and bytes. Nothing here is averaged over flows
//! or compared: that is the metrics' work.

use std::time::Duration;

use evenkeel::Pacing;
use evenkeel_apps::path::{HeaderReport, SampleRecord};
use evenkeel_apps::stream::{SentCounts, ViewReport};
use evenkeel_queue::description::LinkDescription;
use evenkeel_queue::{HeaderCounts, WireCounters};
use serde::{Deserialize, Serialize, Serializer};

use crate::scenario::{App, FlowSpec, LinkSpec, Scenario};
use crate::sim::PacketLog;

/// All that a backend reports of a run. Times count from the run's beginning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observations {
    /// One for each of the scenario's flows, in its order.
    pub flows: Vec<FlowObservation>,
    /// One for each direction of a link that is reported, in the scenario's order.
    pub links: Vec<LinkObservation>,
    /// IP packets that hosts have sent in the whole run; a backend that sees less says what it
    /// counts (docs/results.md).
    pub packets_sent: u64,
}

/// What was seen of one flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowObservation {
    /// The flow's name.
    pub name: String,
    /// Its group's name.
    pub group: String,
    /// Its controller, as the scenario spells it.
    pub controller: String,
    /// How its sender paced packets.
    pub pacing: Pacing,
    /// Whether its controller asked for a rate of its own, which `Pacing::Controller` alone heeds.
    /// Only virtual time sees this.
    pub asked_for_rate: bool,
    /// On every how many-th of its datagrams its sender was to put a path header; 0: on none.
    pub path_headers: u32,
    /// When it began.
    pub start: Duration,
    /// When it was stopped, had delivered all it had to, or died, whichever came first.
    pub stop: Duration,
    /// Bytes of IP packets that came from the sender to the receiver's host, lost copies and
    /// headers included where they arrived; per sampling interval from 0.
    pub delivered: Vec<u64>,
    /// Bytes handed to the receiving application, per sampling interval from 0.
    pub app_delivered: Vec<u64>,
    /// What had come, by the instant at which it stopped or died, of the sampling interval in which
    /// it did; `None` if it did not, or between two intervals.
    pub until_stop: Option<Arrived>,
    /// What its controller had decided at the end of each sampling interval; `None` without a
    /// connection.
    pub controller_state: Vec<Option<ControllerSample>>,
    /// Packets of each sampling interval from 0.
    pub packet_series: Vec<PacketSample>,
    /// How long the packets of each sampling interval were on their way to the receiver's host; empty
    /// if the backend cannot tell.
    pub one_way: Vec<Option<DelaySample>>,
    /// Round-trip times that the sender measured; those before the warm-up's end are ignored.
    pub rtt: Vec<RttSample>,
    /// What became of each packet that its sender sent; `None` unless that was asked for.
    pub packets: Option<PacketLog>,
    /// What became of its path headers, and what they told; `None` if none were agreed on.
    pub path: Option<PathObservation>,
    /// Packets that the sender sent after the warm-up.
    pub sent_packets: u64,
    /// Packets that the sender declared lost after the warm-up.
    pub lost_packets: u64,
    /// Its transfers, in order of their start.
    pub transfers: Vec<Transfer>,
    /// What its viewer saw, if it is a stream; `None` if it never began.
    pub stream: Option<StreamObservation>,
    /// Why the flow failed, in one line: the first reason of several.
    pub error: Option<String>,
    /// When its only connection failed; `None` if it lives, or goes on with other connections.
    pub died: Option<Duration>,
}

impl FlowObservation {
    /// That of a flow of which nothing has been seen yet.
    pub(crate) fn of(spec: &FlowSpec) -> Self {
        Self {
            name: spec.name.clone(),
            group: spec.group.clone(),
            controller: spec.controller.clone(),
            start: spec.start,
            stop: spec.stop,
            pacing: spec.pacing,
            path_headers: spec.path_headers,
            ..Self::default()
        }
    }

    /// The flow of `spec` failed `at` for the first time, for this `reason`. With its only
    /// connection it dies: what follows counts in no average. `stop` is as without the failure.
    pub(crate) fn failed(&mut self, spec: &FlowSpec, at: Duration, reason: String) {
        let has_others = match spec.app {
            App::Short { .. } => true,
            App::OnOff { reconnect, .. } => reconnect,
            App::Bulk(_) | App::Stream(_) | App::Tcp { .. } => false,
        };
        if !has_others {
            if at > self.stop {
                // It was over; only the farewell failed.
                return;
            }
            (self.stop, self.died) = (at, Some(at));
        }
        self.error = Some(reason);
    }
}

/// What has come to a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes of IP packets.
    pub ip_bytes: u64,
    /// Bytes handed to the application.
    pub app_bytes: u64,
}

impl Arrived {
    /// What has come since it was `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            ip_bytes: self.ip_bytes - earlier.ip_bytes,
            app_bytes: self.app_bytes - earlier.app_bytes,
        }
    }
}

/// What the controllers of a flow had decided at an instant, over all its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerSample {
    /// Congestion windows in bytes.
    pub window: u64,
    /// Windows in bytes at which slow start ends, of the connections that have one.
    pub slow_start_threshold: Option<u64>,
    /// Bytes of UDP payload per second at which packets are paced, of the connections that are.
    pub pacing_rate: Option<u64>,
}

/// Path headers of a flow's sender.
#[derive(Debug, Clone, PartialEq)]
pub struct PathObservation {
    /// Whether headers were sent in the end, and how many there were after the warm-up.
    pub headers: HeaderReport,
    /// What they told in the whole run, in order; times are since its beginning.
    pub samples: Vec<SampleRecord>,
}

/// What was seen of a stream of live media.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamObservation {
    /// The viewer's figures after the warm-up.
    pub report: ViewReport,
    /// What the sender counted, in the whole run.
    pub sent: SentCounts,
    /// What the viewer saw in each sampling interval from 0.
    pub series: Vec<StreamSample>,
}

/// A stream in one sampling interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamSample {
    /// Mean delay of the frames that arrived, milliseconds; `None` without any.
    pub delay_ms: Option<f64>,
    /// What the encoder aimed at with the last of them, bits per second.
    pub bitrate_bps: Option<u64>,
}

/// A sender's packets in one sampling interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketSample {
    /// Packets that it sent.
    pub sent: u64,
    /// Packets that it declared lost, whenever they were sent.
    pub lost: u64,
}

/// Times of one sampling interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelaySample {
    /// Their mean.
    pub mean: Duration,
    /// The greatest of them.
    pub max: Duration,
}

/// A round-trip time and when it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSample {
    /// When.
    pub at: Duration,
    /// The round-trip time.
    pub rtt: Duration,
}

/// One transfer of a flow. `series.json` has its times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// When it began.
    #[serde(rename = "start_s", serialize_with = "in_seconds")]
    pub start: Duration,
    /// When the receiver had all of it; `None` if that has not happened.
    #[serde(rename = "end_s", serialize_with = "in_seconds")]
    pub end: Option<Duration>,
    /// Application bytes that the receiver got.
    pub bytes: u64,
    /// Whether SHA-256 agreed; `None` if it was not compared.
    pub sha256_verified: Option<bool>,
}

/// Seconds to the microsecond.
pub(crate) fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}

fn in_seconds<S: Serializer>(
    time: &(impl Copy + Into<Option<Duration>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*time).into().map(seconds).serialize(serializer)
}

/// What was seen of one direction of a link. Counters and queue figures begin after the
/// warm-up; series begin with the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkObservation {
    /// The link's name.
    pub name: String,
    /// Bits per second that it could carry, the mean over the time after the warm-up
    /// ([`LinkSpec::mean_rate_bps`](crate::scenario::LinkSpec::mean_rate_bps), or what a random rate
    /// has offered); `None` without limit.
    pub rate_bps: Option<u64>,
    /// Propagation delay at the beginning.
    pub delay: Duration,
    /// What made the link: `evenkeel` (evenkeel-queue) or `netem`; `None` where nothing had to.
    pub emulator: Option<&'static str>,
    /// Packets that came to the queue.
    pub arrived: u64,
    /// Packets whose transmission ended.
    pub forwarded: u64,
    /// Packets that the queue refused.
    pub dropped: u64,
    /// Those of them that the discipline dropped before the queue was full; `None` if the link's
    /// maker does not report it.
    pub dropped_early: Option<u64>,
    /// Packets that the queue marked as having met congestion (ECN); they are forwarded too.
    pub marked: u64,
    /// Packets that were lost behind the queue, by random loss, a blackout or their size.
    pub lost: u64,
    /// Packets that were changed behind the queue, or were too large.
    pub wire: WireObservation,
    /// Bytes of the forwarded packets.
    pub forwarded_bytes: u64,
    /// Queue length in packets, weighted by time.
    pub queue: QueueObservation,
    /// How long forwarded packets waited before their transmission; `None` if none was forwarded.
    pub sojourn: Option<SojournObservation>,
    /// The queue in each sampling interval from 0.
    pub queue_series: Vec<QueueSample>,
    /// Packets that the queue refused in each sampling interval from 0.
    pub drop_series: Vec<u64>,
    /// Bytes of the packets whose transmission ended in each sampling interval from 0.
    pub forwarded_series: Vec<u64>,
    /// Bits per second that it could carry in each sampling interval from 0; `None` without limit, or
    /// if the backend cannot tell.
    pub capacity_series: Vec<Option<u64>>,
    /// What became of path headers; `None` where nothing stamps them.
    pub headers: Option<HeaderCounts>,
    /// The figures of the link's stamps.
    pub stamps: Vec<StampObservation>,
}

impl LinkObservation {
    /// That of a link of which nothing has been seen yet; `emulator` makes it.
    pub(crate) fn of(spec: &LinkSpec, scenario: &Scenario, emulator: Option<&'static str>) -> Self {
        Self {
            name: spec.name.clone(),
            rate_bps: spec.mean_rate_bps(scenario.warmup, scenario.duration),
            capacity_series: spec.rate_series(scenario.sampling_interval, scenario.duration),
            delay: spec.description.delay(),
            emulator,
            wire: match emulator {
                // It does not count them.
                Some("netem") => WireObservation::default(),
                _ => WireObservation::of(&spec.description),
            },
            ..Self::default()
        }
    }

    /// A sampling interval is over: each figure of each stamp, always the same in the same order.
    pub(crate) fn sample_stamps<'a>(
        &mut self,
        figures: impl Iterator<Item = (&'a str, &'a str, f64)>,
    ) {
        for (index, (stamp, figure, value)) in figures.enumerate() {
            if self.stamps.len() == index {
                self.stamps.push(StampObservation {
                    stamp: stamp.to_owned(),
                    figure: figure.to_owned(),
                    series: Vec::new(),
                });
            }
            self.stamps[index].series.push(value);
        }
    }
}

/// What a link did to packets behind its queue; `None` for what it was not to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WireObservation {
    /// Packets marked as having met congestion, besides those that the queue marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked_on_wire: Option<u64>,
    /// Packets that left with another ECN codepoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_changed: Option<u64>,
    /// Packets with a flipped bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupted: Option<u64>,
    /// Packets that were lost because they were larger than the link's MTU: part of `lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_big: Option<u64>,
}

impl WireObservation {
    fn of(link: &LinkDescription) -> Self {
        let zero = |is_there: bool| is_there.then_some(0);
        Self {
            marked_on_wire: zero(link.mark.is_some()),
            ecn_changed: zero(link.recoding().is_some()),
            corrupted: zero(link.corrupt.is_some()),
            too_big: zero(link.has_mtu()),
        }
    }

    /// Takes over what was counted of that which is to be there.
    pub(crate) fn count(&mut self, counters: &WireCounters) {
        for (figure, amount) in [
            (&mut self.marked_on_wire, counters.marked_on_wire),
            (&mut self.ecn_changed, counters.ecn_changed),
            (&mut self.corrupted, counters.corrupted),
            (&mut self.too_big, counters.too_big),
        ] {
            *figure = figure.map(|_| amount.packets);
        }
    }
}

/// One figure of a stamp.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StampObservation {
    /// The stamp's name.
    pub stamp: String,
    /// The figure's name, with its unit.
    pub figure: String,
    /// Its value at the end of each sampling interval from 0.
    pub series: Vec<f64>,
}

impl PacketSample {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            lost: self.lost + other.lost,
        }
    }
}

impl ControllerSample {
    /// With another connection.
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (one, other) => one.or(other),
        };
        Self {
            window: self.window.saturating_add(other.window),
            slow_start_threshold: sum(self.slow_start_threshold, other.slow_start_threshold),
            pacing_rate: sum(self.pacing_rate, other.pacing_rate),
        }
    }
}

/// Length of a queue over a time, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct QueueObservation {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Length that is not exceeded for 95 % of the time.
    pub p95: u64,
    /// Greatest length.
    pub max: u64,
}

/// Waiting times in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SojournObservation {
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
}

/// Length of a queue in one sampling interval, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// At the end of the interval.
    pub packets: u64,
    /// Greatest within the interval.
    pub max: u64,
}
