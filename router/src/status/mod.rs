//! A router's figures: the requests and answers on its status socket.
//!
//! Each line is one JSON object, both ways; docs/router.md describes every field. Programs that do
//! not link this crate read the JSON by its field names, so the names must not change.

mod client;
mod flows;
mod meter;
mod server;
mod table;

use std::collections::BTreeMap;
use std::ops::Sub;
use std::path::PathBuf;

use evenkeel_queue::{Amount, HeaderCounts, WireCounters};
use evenkeel_sandbox::Confinement;
use serde::{Deserialize, Serialize};

pub use client::{ask, find_socket};
pub use flows::{ClassStatus, FlowStatus};
pub(crate) use meter::Meter;
pub(crate) use server::{Server, SocketFile, bind, check_vacant, failed, is_served};
pub use table::table;

/// A request, such as `{"request": "status"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", content = "config")]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Asks for all figures.
    Status,
    /// Begins a new measurement window; the answer shows it still empty.
    RestartMeasurement,
    /// Asks for all figures, and those of the interval since the last sample. Only one client may
    /// sample: a second one would cut the first one's intervals.
    Sample,
    /// Reads the configuration again. The answer comes when it is in force, or says why it is not.
    Reload,
    /// Asks whether a reload would take over the configuration in this file. The answer says why
    /// not, or has all figures.
    Check(PathBuf),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// Answers every request that the router understood.
    Status(Status),
    /// Answers everything else.
    Error {
        /// The cause and the remedy, in a line for each cause.
        error: String,
        /// Whether another configuration mends it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        configuration: bool,
    },
}

/// A router's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The router's name.
    pub router: String,
    /// Its process id.
    pub pid: u32,
    /// What rights it has given up; `null` with `--no-sandbox`.
    #[serde(default)]
    pub sandbox: Option<Confinement>,
    /// Seconds since its links began; blackouts and changes count from then.
    pub uptime_s: f64,
    /// The file from which its configuration comes.
    #[serde(default)]
    pub config: PathBuf,
    /// How often it has taken over a changed configuration.
    #[serde(default)]
    pub reloads: u64,
    /// Seconds since it read the configuration that is in force.
    #[serde(default)]
    pub config_read_s: f64,
    /// Its links, in the order of the configuration.
    pub links: Vec<LinkStatus>,
}

/// An output link's figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The link's name.
    pub name: String,
    /// Its TUN device.
    pub tun: String,
    /// Its routing table.
    pub table: u32,
    /// What the link is: rate, delay, queue, discipline, impairments, as the keys of a file, with
    /// those that have default values.
    #[serde(default)]
    pub configured: serde_json::Value,
    /// What is routed over it.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Seconds since the link became what it is: since the start, or the reload that changed it.
    #[serde(default)]
    pub since_s: f64,
    /// What keeps packets from taking the link as configured; `null` if nothing does.
    #[serde(default)]
    pub degraded: Option<Degraded>,
    /// Its present rate in bits per second of IP packets; `null` if it has none, or one that varies.
    pub rate_bps: Option<u64>,
    /// Whether the rate follows a trace or a cellular walk instead.
    pub rate_varies: bool,
    /// Packets that wait in the queue now, without the one in transmission.
    pub queued: Amount,
    /// Packets anywhere in the link now: waiting, in transmission, or on the way to its far end.
    pub inside: Amount,
    /// Counters since the start.
    pub total: Counters,
    /// Length of the measurement window in seconds.
    pub window_s: f64,
    /// Counters of the measurement window.
    pub window: Counters,
    /// Queue length over the window in packets, weighted by time.
    pub queue_packets: QueueFigures,
    /// Waiting times of the window in microseconds; `null` if no packet left the queue.
    pub sojourn_us: Option<SojournFigures>,
    /// Share of the link used in the window, 0 to 1; `null` while nothing was offered.
    pub utilization: Option<f64>,
    /// Dropped / arrived packets in the window; `null` if none arrived.
    pub loss_rate: Option<f64>,
    /// Packets to the destinations of the link's routes that took another way, since the start;
    /// those of default routes do not count. `null` if the kernel does not count them.
    #[serde(default)]
    pub passed_beside: Option<Amount>,
    /// Figures of the link's stamps, by the stamp's name and the figure's (docs/queue.md).
    #[serde(default)]
    pub stamps: BTreeMap<String, BTreeMap<String, f64>>,
    /// The ten flows that sent most in the last second, the heaviest first, at a link whose
    /// discipline has queues for flows.
    #[serde(default)]
    pub flows: Vec<FlowStatus>,
    /// The classes of such a discipline.
    #[serde(default)]
    pub classes: Vec<ClassStatus>,
    /// Only in the answer to `sample`: figures since the last sample, or the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
}

/// Destinations that are routed over a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The destinations: an address, a slash, and the length of the prefix.
    pub to: String,
    /// The next router; `default` for the gateway of the device's default route; `null` if there is
    /// none.
    pub via: Option<String>,
    /// The device by which packets leave.
    pub dev: String,
    /// Which packets to them, as in `ip rule`; left out if all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub only: String,
    /// The table to which rules of the host lead; left out for the main one and the link's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
}

/// A link that has lost something which the router cannot put back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Degraded {
    /// The cause and the remedy, in one line.
    pub reason: String,
    /// For how many seconds something has been missing.
    pub since_s: f64,
}

/// Counts at a link. In total, and at any moment:
/// `arrived + duplicated = dropped + lost + delivered + inside`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Arrived at the queue.
    pub arrived: Amount,
    /// Left the queue: their transmission ended.
    pub forwarded: Amount,
    /// Dropped at the queue, for whatever reason.
    pub dropped: Amount,
    /// Part of `dropped`: the queue was full.
    pub dropped_full: Amount,
    /// Part of `dropped`: the discipline dropped them.
    pub dropped_early: Amount,
    /// Marked with congestion experienced; they count as forwarded too.
    pub marked: Amount,
    /// Copies that were made after the queue.
    #[serde(default)]
    pub duplicated: Amount,
    /// Lost after the queue: by chance, in a blackout, by a policer, because of their size.
    pub lost: Amount,
    /// What was changed after the queue, and the part of `lost` that was too large.
    #[serde(flatten)]
    pub wire: WireCounters,
    /// Came out at the far end and went back to the kernel.
    pub delivered: Amount,
    /// Part of `delivered`: the kernel refused them as malformed, or the device was down.
    pub refused: Amount,
    /// Packets of `delivered` that arrived with a TTL of 255, so that they go on with one hop less.
    pub full_ttl: u64,
    /// Read from the TUN device but not traffic of the link: multicast, broadcast, link-local.
    pub link_scope: Amount,
    /// Read from the TUN device but not IP packets.
    pub not_ip: Amount,
    /// Packets that found the TUN device's ring full: this program was too slow for them.
    pub ring_dropped: u64,
    /// Path headers that the stamps have seen; zero at a link without stamps.
    #[serde(default)]
    pub headers: HeaderCounts,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            arrived: self.arrived - earlier.arrived,
            forwarded: self.forwarded - earlier.forwarded,
            dropped: self.dropped - earlier.dropped,
            dropped_full: self.dropped_full - earlier.dropped_full,
            dropped_early: self.dropped_early - earlier.dropped_early,
            marked: self.marked - earlier.marked,
            duplicated: self.duplicated - earlier.duplicated,
            lost: self.lost - earlier.lost,
            wire: self.wire - earlier.wire,
            delivered: self.delivered - earlier.delivered,
            refused: self.refused - earlier.refused,
            full_ttl: self.full_ttl - earlier.full_ttl,
            link_scope: self.link_scope - earlier.link_scope,
            not_ip: self.not_ip - earlier.not_ip,
            ring_dropped: self.ring_dropped.saturating_sub(earlier.ring_dropped),
            headers: self.headers - earlier.headers,
        }
    }
}

/// Queue length in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueFigures {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// 95th percentile.
    pub p95: u64,
    /// Maximum.
    pub max: u64,
}

/// Times from arrival to the start of transmission, in microseconds. Percentiles are at most
/// 1.6 % too high.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SojournFigures {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
}

/// A link's figures since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean queue length in packets, weighted by time.
    pub queue_mean: f64,
    /// Greatest queue length in packets.
    pub queue_max: u64,
    /// Arrived at the queue.
    pub arrived: Amount,
    /// Left the queue.
    pub forwarded: Amount,
    /// Dropped at the queue.
    pub dropped: Amount,
    /// Lost after the queue.
    pub lost: Amount,
    /// Packets that found the TUN device's ring full.
    pub ring_dropped: u64,
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{LinkStatus, Status};

    /// A router with links of these names, up for ten seconds: 8 Mb/s, and nothing has come.
    pub(crate) fn status(links: &[&str]) -> Status {
        let links = links.iter().map(|name| LinkStatus {
            name: (*name).to_owned(),
            tun: "ek-bn".to_owned(),
            table: 1001,
            rate_bps: Some(8_000_000),
            window_s: 10.0,
            ..LinkStatus::default()
        });
        Status {
            router: "r1".to_owned(),
            pid: 4711,
            sandbox: None,
            uptime_s: 10.0,
            config: "/etc/evenkeel/r1.toml".into(),
            reloads: 0,
            config_read_s: 10.0,
            links: links.collect(),
        }
    }
}
