//! The router daemons of a run, and what they report.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_queue::{Amount, HeaderCounts, WireCounters};
use serde::Deserialize;
use tracing::trace;

use super::error::KernelError;
use super::network::Network;
use super::plan::Plan;
use super::process::{PATIENCE, Process};
use crate::metrics::{LinkObservation, QueueObservation, QueueSample, SojournObservation};
use crate::scenario::NodeIndex;

/// All daemons of a run, in the order of their hosts.
#[derive(Debug)]
pub(super) struct Routers(Vec<Daemon>);

#[derive(Debug)]
struct Daemon {
    process: Process,
    socket: PathBuf,
}

impl Routers {
    /// Starts a daemon on every host that needs one, and waits until all forward.
    pub(super) fn start(network: &Network, program: &Path) -> Result<Self, KernelError> {
        let platform = &network.platform;
        let mut daemons = Vec::new();
        for (node, host) in network.plan.hosts.iter().enumerate() {
            let Some(config) = &host.router else {
                continue;
            };
            let config = platform.write(&format!("router-{node}.toml"), config)?;
            let arguments = ["run", "--config", &config.display().to_string()].map(String::from);
            let what = format!("the router of {}", host.name);
            daemons.push(Daemon {
                process: Process::start(network, what, NodeIndex(node), program, &arguments)?,
                socket: Plan::router_socket(platform.directory(), node),
            });
        }
        for daemon in &mut daemons {
            if daemon.process.line(PATIENCE)?.is_none() {
                return Err(daemon.process.failure());
            }
        }
        Ok(Self(daemons))
    }

    /// Fails if one has ended.
    pub(super) fn check(&mut self) -> Result<(), KernelError> {
        let mut daemons = self.0.iter_mut();
        daemons.try_for_each(|daemon| daemon.process.check())
    }

    /// Sends all the same request and returns their answers.
    pub(super) fn request(&mut self, request: &str) -> Result<Vec<Status>, KernelError> {
        let daemons = self.0.iter_mut();
        daemons.map(|daemon| daemon.request(request)).collect()
    }
}

impl Daemon {
    fn request(&mut self, request: &str) -> Result<Status, KernelError> {
        let answer = self.exchange(request);
        let status = answer.and_then(|line| serde_json::from_str(&line).map_err(Into::into));
        status.or_else(|error: std::io::Error| {
            // A daemon that dies closes its socket a moment before it is gone.
            self.process.check_for(Duration::from_millis(500))?;
            let socket = self.socket.display().to_string();
            Err(KernelError::Protocol(socket, error.to_string()))
        })
    }

    fn exchange(&self, request: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{{\"request\": \"{request}\"}}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        trace!(socket = %self.socket.display(), request, line, "answer of a router");
        Ok(line)
    }
}

/// What a router answers, as docs/router.md describes it; what is not needed is left out.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) links: Vec<LinkStatus>,
}

#[derive(Debug, Deserialize)]
pub(super) struct LinkStatus {
    queued: Amount,
    rate_varies: bool,
    window_s: f64,
    window: Counters,
    utilization: Option<f64>,
    queue_packets: QueueObservation,
    sojourn_us: Option<SojournFigures>,
    interval: Option<Interval>,
    #[serde(default)]
    stamps: BTreeMap<String, BTreeMap<String, f64>>,
}

#[derive(Debug, Deserialize)]
struct Counters {
    arrived: Amount,
    forwarded: Amount,
    dropped: Amount,
    dropped_early: Amount,
    marked: Amount,
    lost: Amount,
    #[serde(flatten)]
    wire: WireCounters,
    ring_dropped: u64,
    headers: Option<HeaderCounts>,
}

#[derive(Debug, Deserialize)]
struct SojournFigures {
    p50: f64,
    p95: f64,
    p99: f64,
}

#[derive(Debug, Deserialize)]
struct Interval {
    queue_max: u64,
    forwarded: Amount,
    dropped: Amount,
    ring_dropped: u64,
}

impl LinkStatus {
    /// The queue in the interval that is over, the packets that it refused, and the bytes that it
    /// forwarded.
    pub(super) fn sample(&self) -> (QueueSample, u64, u64) {
        let interval = self.interval.as_ref();
        let queue = QueueSample {
            packets: self.queued.packets,
            max: interval.map_or(0, |interval| interval.queue_max),
        };
        let dropped = |interval: &Interval| interval.dropped.packets + interval.ring_dropped;
        let forwarded = interval.map_or(0, |interval| interval.forwarded.bytes);
        (queue, interval.map_or(0, dropped), forwarded)
    }

    /// Each figure of each stamp: the stamp's name, the figure's name, its value.
    pub(super) fn stamps(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.stamps.iter().flat_map(|(stamp, figures)| {
            let figures = figures.iter();
            figures.map(|(figure, value)| (stamp.as_str(), figure.as_str(), *value))
        })
    }

    /// Puts what was counted since the warm-up into `observation`.
    pub(super) fn fill(&self, observation: &mut LinkObservation) {
        let us = |us: f64| Duration::from_secs_f64(us / 1e6);
        let window = &self.window;
        // A packet that found the TUN device's ring full was on its way to this queue.
        observation.arrived = window.arrived.packets + window.ring_dropped;
        observation.rate_bps = self.offered_bps().or(observation.rate_bps);
        observation.forwarded = window.forwarded.packets;
        observation.forwarded_bytes = window.forwarded.bytes;
        observation.dropped = window.dropped.packets + window.ring_dropped;
        observation.dropped_early = Some(window.dropped_early.packets);
        observation.marked = window.marked.packets;
        observation.lost = window.lost.packets;
        observation.wire.count(&window.wire);
        observation.headers = window.headers;
        observation.queue = self.queue_packets;
        observation.sojourn = self.sojourn_us.as_ref().map(|sojourn| SojournObservation {
            p50: us(sojourn.p50),
            p95: us(sojourn.p95),
            p99: us(sojourn.p99),
        });
    }

    /// What a link whose rate varies has offered since the warm-up, in bits per second, as far as
    /// the share of it that was used tells.
    fn offered_bps(&self) -> Option<u64> {
        let used = self
            .utilization
            .filter(|used| self.rate_varies && *used > 0.0)?;
        let bits = self.window.forwarded.bytes as f64 * 8.0;
        Some((bits / used / self.window_s).round() as u64)
    }
}
