//! The router daemons of a run, and what they say of their links.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::KernelError;
use super::plan::Plan;
use super::process::Process;
use super::site::Site;
use crate::metrics::{
    HeaderObservation, LinkObservation, QueueObservation, QueueSample, SojournObservation,
};
use crate::scenario::Scenario;

/// How long a daemon may take to come up or to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// All daemons of a run.
#[derive(Debug)]
pub(super) struct Routers {
    daemons: Vec<Daemon>,
    /// Per reported link of the scenario, in its order.
    links: Vec<Followed>,
}

#[derive(Debug)]
struct Daemon {
    process: Process,
    socket: PathBuf,
}

/// A reported link: where its figures come from, and what they were.
#[derive(Debug)]
struct Followed {
    has_stamps: bool,
    /// Which daemon, and which of its links; `None` for a link without a queue of ours.
    place: Option<(usize, usize)>,
    observation: LinkObservation,
}

impl Routers {
    /// Starts a daemon wherever the plan has one, and waits until all forward.
    pub(super) fn start(
        scenario: &Scenario,
        plan: &Plan,
        site: &dyn Site,
        program: &Path,
    ) -> Result<Self, KernelError> {
        let mut daemons = Vec::new();
        let mut places = vec![None; scenario.links.len()];
        for (node, namespace) in plan.namespaces.iter().enumerate() {
            let Some(config) = &namespace.router else {
                continue;
            };
            for (position, link) in namespace.routed.iter().enumerate() {
                places[link.0] = Some((daemons.len(), position));
            }
            let config = site.write(&format!("router-{node}.toml"), config)?;
            let arguments = [
                "run".into(),
                "--config".into(),
                config.display().to_string(),
            ];
            let what = format!("the router of {}", namespace.host);
            daemons.push(Daemon {
                process: Process::start(what, &namespace.place, program, &arguments)?,
                socket: Plan::socket(site.directory(), node),
            });
        }
        for daemon in &mut daemons {
            if daemon.process.line(PATIENCE)?.is_none() {
                return Err(daemon.process.failure());
            }
        }
        let links = scenario
            .links
            .iter()
            .zip(places)
            .filter(|(link, _)| link.reported);
        let links = links
            .map(|(link, place)| Followed {
                has_stamps: !link.stamps.is_empty(),
                place,
                observation: LinkObservation {
                    name: link.name.clone(),
                    rate_bps: link.mean_rate_bps(scenario.warmup, scenario.duration),
                    delay: link.delay,
                    emulator: place.map(|_| "evenkeel"),
                    ..LinkObservation::default()
                },
            })
            .collect();
        Ok(Self { daemons, links })
    }

    /// The warm-up is over: counters and averages begin.
    pub(super) fn restart_measurement(&mut self) -> Result<(), KernelError> {
        self.ask_all("restart-measurement").map(|_| ())
    }

    /// A sampling interval is over.
    pub(super) fn sample(&mut self) -> Result<(), KernelError> {
        let answers = self.ask_all("sample")?;
        for followed in &mut self.links {
            let link = followed
                .place
                .map(|(daemon, position)| &answers[daemon].links[position]);
            let queued = link.map_or(0, |link| link.queued.packets);
            let interval = link.and_then(|link| link.interval.as_ref());
            followed.observation.queue_series.push(QueueSample {
                packets: queued,
                max: interval.map_or(0, |interval| interval.queue_max),
            });
            let dropped = interval.map_or(0, |interval| {
                interval.dropped.packets + interval.ring_dropped
            });
            followed.observation.drop_series.push(dropped);
            let stamps = link.iter().flat_map(|link| &link.stamps);
            let figures = stamps.flat_map(|(stamp, figures)| {
                let figures = figures.iter();
                figures.map(|(figure, value)| (stamp.as_str(), figure.as_str(), *value))
            });
            followed.observation.sample_stamps(figures);
        }
        Ok(())
    }

    /// Whether all daemons still run.
    pub(super) fn check(&mut self) -> Result<(), KernelError> {
        match self
            .daemons
            .iter_mut()
            .find_map(|daemon| daemon.process.ended().map(|_| daemon))
        {
            Some(daemon) => Err(daemon.process.failure()),
            None => Ok(()),
        }
    }

    /// All that was seen of the reported links.
    pub(super) fn finish(mut self) -> Result<Vec<LinkObservation>, KernelError> {
        let answers = self.ask_all("status")?;
        let finish = |followed: Followed| {
            let mut observation = followed.observation;
            if let Some((daemon, position)) = followed.place {
                answers[daemon].links[position].fill(&mut observation);
                observation.headers = observation.headers.filter(|_| followed.has_stamps);
            }
            observation
        };
        let links = std::mem::take(&mut self.links);
        Ok(links.into_iter().map(finish).collect())
    }

    fn ask_all(&mut self, request: &str) -> Result<Vec<Status>, KernelError> {
        self.daemons
            .iter_mut()
            .map(|daemon| daemon.ask(request))
            .collect()
    }
}

impl Daemon {
    fn ask(&mut self, request: &str) -> Result<Status, KernelError> {
        let reason = match self.exchange(request) {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(status) => return Ok(status),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        // A daemon that dies closes its socket a moment before it is gone.
        if self.process.ends_within(Duration::from_millis(500)) {
            return Err(self.process.failure());
        }
        Err(KernelError::Protocol {
            what: self.socket.display().to_string(),
            reason,
        })
    }

    fn exchange(&self, request: &str) -> std::io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{{\"request\": \"{request}\"}}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    }
}

/// What a router answers, as docs/router.md describes it; what is not needed is left out.
#[derive(Debug, Deserialize)]
struct Status {
    links: Vec<LinkStatus>,
}

#[derive(Debug, Deserialize)]
struct LinkStatus {
    queued: Count,
    window: Counters,
    queue_packets: QueueFigures,
    sojourn_us: Option<SojournFigures>,
    interval: Option<Interval>,
    #[serde(default)]
    stamps: BTreeMap<String, BTreeMap<String, f64>>,
}

#[derive(Debug, Deserialize)]
struct Count {
    packets: u64,
    bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Counters {
    arrived: Count,
    forwarded: Count,
    dropped: Count,
    marked: Count,
    lost: Count,
    ring_dropped: u64,
    headers: Option<HeaderObservation>,
}

#[derive(Debug, Deserialize)]
struct QueueFigures {
    mean: f64,
    sd: f64,
    p95: u64,
    max: u64,
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
    dropped: Count,
    ring_dropped: u64,
}

impl LinkStatus {
    fn fill(&self, observation: &mut LinkObservation) {
        let us = |us: f64| Duration::from_secs_f64(us / 1e6);
        // A packet that found the TUN device's ring full was on its way to this queue.
        observation.arrived = self.window.arrived.packets + self.window.ring_dropped;
        observation.forwarded = self.window.forwarded.packets;
        observation.forwarded_bytes = self.window.forwarded.bytes;
        observation.dropped = self.window.dropped.packets + self.window.ring_dropped;
        observation.marked = self.window.marked.packets;
        observation.lost = self.window.lost.packets;
        observation.headers = self.window.headers;
        observation.queue = QueueObservation {
            mean: self.queue_packets.mean,
            sd: self.queue_packets.sd,
            p95: self.queue_packets.p95,
            max: self.queue_packets.max,
        };
        observation.sojourn = self.sojourn_us.as_ref().map(|sojourn| SojournObservation {
            p50: us(sojourn.p50),
            p95: us(sojourn.p95),
            p99: us(sojourn.p99),
        });
    }
}
