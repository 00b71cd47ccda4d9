//! What a backend has seen of a run, in packets and bytes. Nothing here is averaged over flows
//! or compared: that is the metrics' work.

use std::time::Duration;

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
    /// When it began.
    pub start: Duration,
    /// When it was stopped or had delivered all it had to, whichever came first.
    pub stop: Duration,
    /// Bytes of IP packets that came from the sender to the receiver's host, lost copies and
    /// headers included where they arrived; per sampling interval from 0.
    pub delivered: Vec<u64>,
    /// Bytes handed to the receiving application, per sampling interval from 0.
    pub app_delivered: Vec<u64>,
    /// Congestion window at the end of each sampling interval, in bytes (the sum over the
    /// flow's connections); `None` without a connection.
    pub window: Vec<Option<u64>>,
    /// Round-trip times that the sender measured; those before the warm-up's end are ignored.
    pub rtt: Vec<RttSample>,
    /// Packets that the sender sent after the warm-up.
    pub sent_packets: u64,
    /// Packets that the sender declared lost after the warm-up.
    pub lost_packets: u64,
    /// Its transfers, in order of their start.
    pub transfers: Vec<Transfer>,
    /// Why the flow failed, in one line.
    pub error: Option<String>,
}

/// A round-trip time and when it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttSample {
    /// When.
    pub at: Duration,
    /// The round-trip time.
    pub rtt: Duration,
}

/// One transfer of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// When it began.
    pub start: Duration,
    /// When the receiver had all of it; `None` if that has not happened.
    pub end: Option<Duration>,
    /// Application bytes that the receiver got.
    pub bytes: u64,
    /// Whether SHA-256 agreed; `None` if it was not compared.
    pub sha256_verified: Option<bool>,
}

/// What was seen of one direction of a link. Counters and queue figures begin after the
/// warm-up; series begin with the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkObservation {
    /// The link's name.
    pub name: String,
    /// Bits per second that it could carry, the mean over the time after the warm-up
    /// ([`LinkSpec::mean_rate_bps`](crate::scenario::LinkSpec::mean_rate_bps)); `None` without limit.
    pub rate_bps: Option<u64>,
    /// Propagation delay at the beginning.
    pub delay: Duration,
    /// Packets that came to the queue.
    pub arrived: u64,
    /// Packets whose transmission ended.
    pub forwarded: u64,
    /// Packets that the queue refused.
    pub dropped: u64,
    /// Packets that were lost behind the queue, by random loss or a blackout.
    pub lost: u64,
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
}

/// Length of a queue over a time, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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
