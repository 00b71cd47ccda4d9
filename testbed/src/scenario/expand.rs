//! From the file to single flows, sources and links.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel::Controllers;
use evenkeel_apps::bulk::{AckFrequency, Amount, Direction, Job, LossDetection};
use evenkeel_spec::document::{Fault, Located, Origin};
use rand::RngExt;
use rand_pcg::Pcg64;

use super::file::{AccessTable, AppName, CrossTable, Ends, FlowTable, ScenarioFile};
use super::network::{Network, next_hops_to, router, seconds};
use super::spec::{
    App, CrossSpec, FlowSpec, Payload, PeriodDistribution, Periods, Place, Remembered, StreamSpec,
};
use super::{IpVersion, LinkIndex, NodeIndex, Scenario};

/// Most flows and sources of a scenario: each may bring two hosts and four one-way links.
const MAX_INSTANCES: usize = 2000;

/// Most samples of all flows' series together: half a gigabyte of memory.
const MAX_SAMPLES: f64 = 20_000_000.0;

/// Smallest MTU with path headers: IPv4, UDP, the header, and QUIC's smallest full-size packet.
const MIN_HEADED_MTU: u16 = 20 + 8 + evenkeel_wire::PATH_HEADER_LEN as u16 + 1200;

/// Smallest MTU with IPv6 (RFC 8200, section 5); path headers fit in it.
const MIN_MTU_V6: u16 = 1280;

/// Generator stream of start times; the simulator's own are numbered from 1.
const START_STREAM: u128 = 100 << 64;

pub(super) fn expand(
    file: ScenarioFile,
    file_name: &str,
    controllers: &Controllers,
) -> Result<Scenario, Fault> {
    let directory = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let instances =
        |counts: &mut dyn Iterator<Item = u32>| counts.map(|count| count as usize).sum::<usize>();
    let flow_count = instances(&mut file.flows.iter().map(|flow| flow.value.count));
    let total = flow_count + instances(&mut file.cross.iter().map(|cross| cross.value.count));
    if total > MAX_INSTANCES {
        let message = format!(
            "{total} flows and cross-traffic sources are too many; lower count until they are {MAX_INSTANCES}"
        );
        return Err(Fault::new(first_origin(&file), message));
    }
    let samples =
        file.duration_s * 1000.0 / file.sampling.value.interval_ms as f64 * flow_count as f64;
    if samples > MAX_SAMPLES {
        let message = format!(
            "{samples:.0} samples are too many for memory; raise sampling.interval_ms or lower count or duration_s"
        );
        return Err(Fault::new(first_origin(&file), message));
    }
    let mut expansion = Expansion {
        network: Network::of(&file, directory)?,
        names: BTreeSet::new(),
        file: &file,
        file_name,
        directory,
    };
    let mut flows = Vec::with_capacity(flow_count);
    for (group, table) in file.flows.iter().enumerate() {
        expansion.flows(group, table, &mut flows)?;
    }
    let mut cross = Vec::new();
    for table in &file.cross {
        expansion.cross(table, &mut cross)?;
    }
    let Network { nodes, links, .. } = expansion.network;
    Ok(Scenario {
        name: file.name.clone(),
        description: file.description.clone(),
        duration: seconds(file.duration_s),
        warmup: seconds(file.warmup_s.value),
        seed: file.seed,
        mtu: file.mtu,
        sampling_interval: Duration::from_millis(file.sampling.value.interval_ms),
        path_samples: file.sampling.value.path_samples,
        nodes,
        links,
        flows,
        cross,
        controllers: controllers.clone(),
        config: file,
    })
}

/// When the senders of a table take packets for lost.
fn losses(table: &FlowTable) -> LossDetection {
    let default = LossDetection::default();
    LossDetection {
        packet_threshold: table.packet_threshold.unwrap_or(default.packet_threshold),
        time_threshold: table
            .time_threshold
            .map_or(default.time_threshold, |threshold| threshold as f32),
    }
}

/// The app of flow number `index`: each stream's encoder has noise of its own.
fn seeded(app: App, index: usize) -> App {
    match app {
        App::Stream(mut stream) => {
            stream.encoder.seed = stream.encoder.seed.wrapping_add((index as u64) << 32);
            App::Stream(stream)
        }
        other => other,
    }
}

/// Expansion under way.
struct Expansion<'a> {
    file: &'a ScenarioFile,
    file_name: &'a str,
    directory: &'a Path,
    network: Network,
    /// Names of flows and cross-traffic sources.
    names: BTreeSet<String>,
}

impl Expansion<'_> {
    fn flows(
        &mut self,
        group: usize,
        flow: &Located<FlowTable>,
        flows: &mut Vec<FlowSpec>,
    ) -> Result<(), Fault> {
        let app = self.app(flow)?;
        self.check_job(flow, &app)?;
        let Located {
            value: table,
            origin,
        } = flow;
        let path_headers = table.path_headers.unwrap_or(0);
        if path_headers > 0 && self.file.mtu < MIN_HEADED_MTU {
            let message = format!(
                "path headers make packets of {MIN_HEADED_MTU} bytes, and the mtu is {}; raise mtu, or set path_headers = 0",
                self.file.mtu
            );
            return Err(flow.fault(message));
        }
        let ip_version = self.ip_version(&table.ends, origin)?;
        let mut rng = Pcg64::new(u128::from(self.file.seed), START_STREAM | group as u128);
        let remembered = table.remembered.as_ref().map(|memory| Remembered {
            rate_bps: memory.value.rate_bps,
            min_rtt: Duration::from_secs_f64(memory.value.rtt_ms / 1e3),
        });
        for instance in 0..table.count {
            let name = self.instance_name(&table.name, instance, table.count)?;
            let spread: f64 = rng.random();
            let start_s = table.start_s
                + f64::from(instance) * table.stagger_s
                + spread * table.start_spread_s;
            let (start, stop) = self.times(&name, start_s, table.stop_s, origin)?;
            let (from, to) = self.ends(&name, &table.ends, origin)?;
            let pauses = table.pauses.iter().map(|pause| pause.value);
            let pauses = pauses.map(|pause| (seconds(pause.start_s), seconds(pause.length_s)));
            let rebinds = table.rebinds_s.iter().map(|at| seconds(at.value.0));
            flows.push(FlowSpec {
                name,
                group: table.name.value.clone(),
                app: seeded(app.clone(), flows.len()),
                controller: table.controller.value.clone(),
                controller_place: Place::of(&table.controller.origin, self.file_name),
                from,
                to,
                ip_version,
                start,
                stop,
                streams: table.streams,
                verify: table.verify,
                acks: AckFrequency {
                    every: table.ack_every,
                    max_delay: Duration::from_millis(u64::from(table.max_ack_delay_ms)),
                },
                mtu_discovery: table.mtu_discovery,
                pacing: table.pacing,
                ecn: table.ecn,
                path_headers,
                idle_timeout: table.idle_timeout_s.map(Duration::from_secs_f64),
                probe_interval: table.probe_interval_s.map(Duration::from_secs_f64),
                losses: losses(table),
                pauses: pauses.collect(),
                rebinds: rebinds.collect(),
                remembered,
            });
        }
        Ok(())
    }

    fn cross(
        &mut self,
        cross: &Located<CrossTable>,
        sources: &mut Vec<CrossSpec>,
    ) -> Result<(), Fault> {
        let Located {
            value: table,
            origin,
        } = cross;
        if table.packet_bytes > u32::from(self.file.mtu) {
            let message = format!(
                "packets of {} bytes do not fit the mtu of {}; lower packet_bytes or raise mtu",
                table.packet_bytes, self.file.mtu
            );
            return Err(Fault::new(origin, message));
        }
        let ip_version = self.ip_version(&table.ends, origin)?;
        let headers = ip_version.header_bytes();
        if (table.packet_bytes as usize) < headers {
            let message = format!(
                "packets of {} bytes have no room for the headers of IPv6; raise packet_bytes to {headers}",
                table.packet_bytes
            );
            return Err(Fault::new(origin, message));
        }
        let headed = headers + evenkeel_wire::PATH_HEADER_LEN;
        if table.acp_rtt_ms.is_some() && (table.packet_bytes as usize) < headed {
            let message = format!(
                "packets of {} bytes have no room for a path header; raise packet_bytes to {headed} or remove acp_rtt_ms",
                table.packet_bytes
            );
            return Err(Fault::new(origin, message));
        }
        for instance in 0..table.count {
            let name = self.instance_name(&table.name, instance, table.count)?;
            let (start, stop) = self.times(&name, table.start_s, table.stop_s, origin)?;
            let (from, to) = self.ends(&name, &table.ends, origin)?;
            let Some((rate_bps, periods)) = self.rate_and_periods(cross, from, to)? else {
                continue;
            };
            sources.push(CrossSpec {
                name,
                group: table.name.value.clone(),
                from,
                to,
                ip_version,
                rate_bps,
                packet_bytes: table.packet_bytes,
                acp_rtt: table.acp_rtt_ms.map(|ms| Duration::from_secs_f64(ms / 1e3)),
                periods,
                start,
                stop,
            });
        }
        Ok(())
    }

    /// The version of IP of a flow or source.
    fn ip_version(&self, ends: &Ends, origin: &Origin) -> Result<IpVersion, Fault> {
        let version = ends.ip_version.unwrap_or(self.file.ip_version);
        if version == IpVersion::V6 && self.file.mtu < MIN_MTU_V6 {
            let message = format!(
                "IPv6 needs an mtu of {MIN_MTU_V6}, and it is {}; raise mtu, or set ip_version = 4",
                self.file.mtu
            );
            return Err(Fault::new(origin, message));
        }
        Ok(version)
    }

    fn app(&self, flow: &Located<FlowTable>) -> Result<App, Fault> {
        let table = &flow.value;
        let missing = |key: &str| flow.fault(format!("[[flows]] has no {key}; add one"));
        Ok(match table.app {
            AppName::Bulk => App::Bulk(match (&table.bytes, &table.file) {
                (Some(_), Some(file)) => {
                    let message = "a flow sends its bytes or a file, not both; remove one";
                    return Err(file.fault(message));
                }
                (None, Some(file)) => Payload::File(self.payload(file)?),
                (Some(bytes), None) => Payload::Bytes(bytes.value),
                (None, None) => Payload::Endless,
            }),
            AppName::OnOff => {
                let onoff = table.onoff.as_ref().ok_or_else(|| missing("onoff"))?;
                let onoff = &onoff.value;
                App::OnOff {
                    periods: Periods {
                        on: seconds(onoff.on_s),
                        off: seconds(onoff.off_s),
                        distribution: distribution(onoff.shape.as_ref()),
                    },
                    begins: onoff.begins,
                    reconnect: onoff.reconnect,
                }
            }
            AppName::Short => {
                let short = table.short.as_ref().ok_or_else(|| missing("short"))?;
                App::Short {
                    arrivals_per_s: short.value.arrivals_per_s,
                    mean_bytes: short.value.mean_bytes,
                    shape: short.value.shape,
                }
            }
            AppName::Stream => {
                let stream = table.stream.as_ref().ok_or_else(|| missing("stream"))?;
                App::Stream(StreamSpec {
                    encoder: stream.value.encoder(self.file.seed),
                    send: stream.value.send(),
                    tracks: stream.value.tracks().into(),
                    buffer: stream.value.buffer(),
                    latency: stream.value.latency(),
                })
            }
            AppName::Tcp => App::Tcp {
                bytes: table.bytes.as_ref().map(|bytes| bytes.value),
            },
        })
    }

    /// Checks that `evenkeel bulk`, in virtual time or on a kernel, takes the flow's transfers.
    fn check_job(&self, flow: &Located<FlowTable>, app: &App) -> Result<(), Fault> {
        let amount = match app {
            App::Bulk(Payload::Bytes(bytes)) => Amount::Bytes(*bytes),
            App::Bulk(Payload::Endless) | App::OnOff { .. } => {
                Amount::Duration(seconds(self.file.duration_s))
            }
            // Streams and the kernel's TCP are no such transfers; no file and no short one is too long.
            App::Bulk(Payload::File(_)) | App::Short { .. } | App::Stream(_) | App::Tcp { .. } => {
                return Ok(());
            }
        };
        let job = Job {
            streams: u16::try_from(flow.value.streams).unwrap_or(u16::MAX),
            ..Job::new(Direction::Up, amount)
        };
        job.check().map_err(|error| {
            let name = &flow.value.name.value;
            flow.fault(format!(
                "no application carries out {name}: {error}; lower duration_s, or give the flow bytes"
            ))
        })
    }

    fn payload(&self, file: &Located<String>) -> Result<PathBuf, Fault> {
        let path = self.directory.join(&file.value);
        if path.is_file() {
            return Ok(path);
        }
        Err(file.fault(format!(
            "there is no file {}; paths are relative to the scenario's directory",
            path.display()
        )))
    }

    fn instance_name(
        &mut self,
        group: &Located<String>,
        instance: u32,
        count: u32,
    ) -> Result<String, Fault> {
        let name = match count {
            1 => group.value.clone(),
            _ => format!("{}-{instance}", group.value),
        };
        if self.names.insert(name.clone()) {
            return Ok(name);
        }
        let message = format!("there are two flows or sources {name:?}; rename one");
        Err(Fault::new(&group.origin, message))
    }

    fn times(
        &self,
        name: &str,
        start_s: f64,
        stop_s: Option<f64>,
        origin: &Origin,
    ) -> Result<(Duration, Duration), Fault> {
        let end_s = self.file.duration_s;
        let (start, stop) = (
            seconds(start_s),
            seconds(stop_s.unwrap_or(end_s).min(end_s)),
        );
        if start >= seconds(end_s) {
            let message = format!(
                "{name} starts at {start_s} s but the run ends at {end_s} s; lower start_s, stagger_s or count, or raise duration_s"
            );
            return Err(Fault::new(origin, message));
        }
        if stop <= start {
            let message = format!(
                "{name} stops at {} s, before its start at {start_s} s; raise stop_s or lower start_s",
                stop.as_secs_f64()
            );
            return Err(Fault::new(origin, message));
        }
        Ok((start, stop))
    }

    /// The hosts of a flow or source, made here if the scenario has a topology.
    fn ends(
        &mut self,
        name: &str,
        ends: &Ends,
        origin: &Origin,
    ) -> Result<(NodeIndex, NodeIndex), Fault> {
        let Some(topology) = self.file.topology else {
            if let Some(delay) = &ends.access_delay_ms {
                let message = "access_delay_ms needs topology = \"dumbbell\" or \"chain\"; here, set delay_ms of a link";
                return Err(delay.fault(message));
            }
            let missing = || {
                Fault::new(
                    origin,
                    format!("{name} needs from and to, the names of its hosts; add them"),
                )
            };
            let from = self.network.node(ends.from.as_ref().ok_or_else(missing)?)?;
            let to = self.network.node(ends.to.as_ref().ok_or_else(missing)?)?;
            self.check_ends(name, from, to, origin)?;
            // Links lead both ways: where there is a way there, there is one back.
            if self.hops_to(to)[from.0].is_none() {
                let node = |index: NodeIndex| &self.network.nodes[index.0].name;
                let message = format!(
                    "{name} has no way from {} to {}; add a link",
                    node(from),
                    node(to)
                );
                return Err(Fault::new(origin, message));
            }
            return Ok((from, to));
        };
        let end = |set: &Option<Located<String>>, default: usize| match set {
            Some(set) => self.network.node(set),
            None => Ok(NodeIndex(default)),
        };
        // Routers are the first nodes; the hosts that earlier flows brought are nobody else's.
        let routers = self.file.links.len();
        let (from, to) = (end(&ends.from, 0)?, end(&ends.to, routers)?);
        if from.0 > routers || to.0 > routers {
            let names: Vec<_> = (0..=routers).map(|index| router(topology, index)).collect();
            let message = format!(
                "{name} must go between routers; use two of {}",
                names.join(", ")
            );
            return Err(Fault::new(origin, message));
        }
        self.check_ends(name, from, to, origin)?;
        let access = self.file.access.as_ref();
        let access = &access.expect("a topology has access links").value;
        let delay_ms = ends.access_delay_ms.as_ref();
        let access = AccessTable {
            delay_ms: delay_ms.map_or(access.delay_ms, |delay| delay.value),
            ..access.clone()
        };
        let sender = self
            .network
            .add_host(&format!("{name}.sender"), from, &access);
        let receiver = self
            .network
            .add_host(&format!("{name}.receiver"), to, &access);
        Ok((sender, receiver))
    }

    fn check_ends(
        &self,
        name: &str,
        from: NodeIndex,
        to: NodeIndex,
        origin: &Origin,
    ) -> Result<(), Fault> {
        if from == to {
            let node = &self.network.nodes[from.0].name;
            let message = format!("{name} goes from {node} to itself; change from or to");
            return Err(Fault::new(origin, message));
        }
        Ok(())
    }

    /// Rate while ON, and the periods; `None` for a source whose load is 0.
    fn rate_and_periods(
        &self,
        cross: &Located<CrossTable>,
        from: NodeIndex,
        to: NodeIndex,
    ) -> Result<Option<(u64, Option<Periods>)>, Fault> {
        let table = &cross.value;
        let mean_bps = match &table.load {
            None => None,
            Some(load) if load.value == 0.0 => return Ok(None),
            Some(load) => {
                let capacity = self.crossed_rate_bps(from, to, &load.origin)?;
                Some(load.value * capacity / f64::from(table.count))
            }
        };
        let Some(on_s) = table.on_s.as_ref().map(|on| on.value) else {
            let rate_bps = table.rate_bps.map_or(mean_bps, |rate| Some(rate as f64));
            let rate_bps = rate_bps.expect("the file has a rate or a load");
            return Ok(Some((whole_rate(rate_bps, cross)?, None)));
        };
        let off_s = table.off_s.as_ref().map(|off| off.value);
        // mean = rate x on / (on + off): any two of mean, rate and off give the third.
        let (rate_bps, off_s) = match (table.rate_bps, mean_bps, off_s) {
            (Some(rate_bps), None, Some(off_s)) => (rate_bps, off_s),
            (None, Some(mean_bps), Some(off_s)) => {
                (whole_rate(mean_bps * (on_s + off_s) / on_s, cross)?, off_s)
            }
            (Some(rate_bps), Some(mean_bps), None) => {
                (rate_bps, on_s * (rate_bps as f64 / mean_bps - 1.0))
            }
            _ => unreachable!("the file has two of rate_bps, load and off_s"),
        };
        // An OFF period of a nanosecond is the shortest there is, one longer than any run useless.
        if !(1e-9..=super::file::MAX_DURATION_S).contains(&off_s) {
            let message = format!(
                "a load of {} and {rate_bps} bit/s while ON make OFF periods of {off_s} s; change load or rate_bps",
                table.load.as_ref().map_or(0.0, |load| load.value),
            );
            return Err(cross.fault(message));
        }
        let periods = Periods {
            on: seconds(on_s),
            off: seconds(off_s),
            distribution: distribution(table.shape.as_ref()),
        };
        Ok(Some((rate_bps, Some(periods))))
    }

    /// The rate of the first link of the file, in the direction in which `from` to `to` crosses
    /// it; forward if it does not.
    fn crossed_rate_bps(
        &self,
        from: NodeIndex,
        to: NodeIndex,
        origin: &Origin,
    ) -> Result<f64, Fault> {
        const FORWARD: usize = 0;
        const REVERSE: usize = 1;
        let hops = self.hops_to(to);
        let mut at = from;
        let mut crossed = FORWARD;
        while let Some(LinkIndex(hop)) = hops[at.0] {
            if hop == REVERSE {
                crossed = REVERSE;
            }
            at = self.network.links[hop].to;
        }
        let rate_bps = self.network.links[crossed].mean_rate_bps(Duration::ZERO, Duration::ZERO);
        rate_bps.map(|rate_bps| rate_bps as f64).ok_or_else(|| {
            let message = "load is a share of the first link's rate, which has none; give links.0 a rate_bps or use rate_bps here";
            Fault::new(origin, message)
        })
    }

    fn hops_to(&self, destination: NodeIndex) -> Vec<Option<LinkIndex>> {
        next_hops_to(destination, self.network.nodes.len(), &self.network.links)
    }
}

/// Pareto's distribution alone has a shape.
fn distribution(shape: Option<&Located<f64>>) -> PeriodDistribution {
    shape.map_or(PeriodDistribution::Exponential, |shape| {
        PeriodDistribution::Pareto { shape: shape.value }
    })
}

/// A rate that followed from a load, in whole bits per second.
fn whole_rate(rate_bps: f64, cross: &Located<CrossTable>) -> Result<u64, Fault> {
    let rate_bps = rate_bps.round();
    if (1.0..=1e12).contains(&rate_bps) {
        return Ok(rate_bps as u64);
    }
    let message = format!("the load makes a rate of {rate_bps} bit/s; change load, count or off_s");
    Err(cross.fault(message))
}

fn first_origin(file: &ScenarioFile) -> &Origin {
    let flows = file.flows.first().map(|flow| &flow.origin);
    let cross = file.cross.first().map(|cross| &cross.origin);
    flows
        .or(cross)
        .expect("a scenario has flows or cross traffic")
}
