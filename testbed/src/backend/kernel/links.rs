//! The reported links of a run: what router daemons and netem report of them.

use std::io::Write as _;
use std::path::Path;
use std::process::ChildStdin;

use super::error::KernelError;
use super::netem::{self, Counters, Qdisc};
use super::network::Network;
use super::process::{PATIENCE, Process};
use super::routers::{Routers, Status};
use crate::metrics::{LinkObservation, QueueSample};
use crate::scenario::{LinkIndex, NodeIndex};

/// The links of a run, with the programs that report of them.
#[derive(Debug)]
pub(super) struct Links {
    routers: Routers,
    readers: Vec<QdiscReader>,
    /// In the scenario's order.
    reported: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    has_stamps: bool,
    source: Source,
    observation: LinkObservation,
}

/// Where a link's figures come from.
#[derive(Debug)]
enum Source {
    /// The link has no queue of ours.
    None,
    /// A link of a router: positions of both.
    Router(usize, usize),
    Netem(NetemSource),
}

#[derive(Debug)]
struct NetemSource {
    /// Position of the reader.
    reader: usize,
    /// The device that has the netems.
    ifb: String,
    has_rate: bool,
    /// When the warm-up ended, and at the last sample.
    base: Counters,
    last: Counters,
    /// Queue lengths in packets since the warm-up.
    lengths: Vec<u64>,
}

/// A `tc` on a host that is asked for its qdiscs again and again.
#[derive(Debug)]
struct QdiscReader {
    node: NodeIndex,
    input: ChildStdin,
    process: Process,
}

/// What all routers and readers reported at one time.
struct Answers {
    routers: Vec<Status>,
    qdiscs: Vec<Vec<Qdisc>>,
}

impl Links {
    /// Starts the routers, which begin to forward, and what reads netem's counters.
    pub(super) fn start(network: &Network, router: &Path) -> Result<Self, KernelError> {
        let mut readers = Vec::new();
        let mut reported = Vec::new();
        let scenario = &network.scenario;
        let links = scenario.links.iter().enumerate();
        for (index, link) in links.filter(|(_, link)| link.reported) {
            let source = source(network, LinkIndex(index), &mut readers)?;
            let emulator = match source {
                Source::None => None,
                Source::Router(..) => Some("evenkeel"),
                Source::Netem(_) => Some("netem"),
            };
            reported.push(Link {
                has_stamps: !link.description.stamps.is_empty(),
                source,
                observation: LinkObservation::of(link, scenario, emulator),
            });
        }
        Ok(Self {
            // Their clocks, by which links change, start with them: so they come last.
            routers: Routers::start(network, router)?,
            readers,
            reported,
        })
    }

    /// The warm-up is over: counters and averages begin.
    pub(super) fn restart_measurement(&mut self) -> Result<(), KernelError> {
        let answers = self.request("restart-measurement")?;
        for link in &mut self.reported {
            if let Source::Netem(netem) = &mut link.source {
                netem.base = netem.counters(&answers);
                netem.lengths.clear();
            }
        }
        Ok(())
    }

    /// A sampling interval is over. Fails if a router has ended.
    pub(super) fn sample(&mut self) -> Result<(), KernelError> {
        let answers = self.request("sample")?;
        for Link {
            source,
            observation,
            ..
        } in &mut self.reported
        {
            let (queue, dropped, forwarded) = match source {
                Source::None => (QueueSample::default(), 0, 0),
                Source::Router(router, link) => {
                    let status = &answers.routers[*router].links[*link];
                    observation.sample_stamps(status.stamps());
                    status.sample()
                }
                Source::Netem(netem) => netem.sample(&answers),
            };
            observation.queue_series.push(queue);
            observation.drop_series.push(dropped);
            observation.forwarded_series.push(forwarded);
        }
        self.routers.check()
    }

    /// All that was seen of the links.
    pub(super) fn finish(mut self) -> Result<Vec<LinkObservation>, KernelError> {
        let answers = self.request("status")?;
        let finish = |link: Link| {
            let mut observation = link.observation;
            match link.source {
                Source::None => {}
                Source::Router(router, position) => {
                    answers.routers[router].links[position].fill(&mut observation);
                    observation.headers = observation.headers.filter(|_| link.has_stamps);
                }
                Source::Netem(netem) => netem.fill(&answers, &mut observation),
            }
            observation
        };
        Ok(self.reported.into_iter().map(finish).collect())
    }

    fn request(&mut self, request: &str) -> Result<Answers, KernelError> {
        let routers = self.routers.request(request)?;
        let readers = self.readers.iter_mut();
        let qdiscs = readers.map(QdiscReader::read).collect::<Result<_, _>>()?;
        Ok(Answers { routers, qdiscs })
    }
}

/// Where the figures of a link come from; a reader that they need is started.
fn source(
    network: &Network,
    index: LinkIndex,
    readers: &mut Vec<QdiscReader>,
) -> Result<Source, KernelError> {
    let hosts = network.plan.hosts.iter();
    let routed = hosts
        .filter(|host| host.router.is_some())
        .map(|host| &host.routed);
    for (router, links) in routed.enumerate() {
        if let Some(position) = links.iter().position(|link| *link == index) {
            return Ok(Source::Router(router, position));
        }
    }
    let mut links = network.plan.netem.iter();
    let Some(link) = links.find(|link| link.index == index) else {
        return Ok(Source::None);
    };
    let known = readers.iter().position(|reader| reader.node == link.far);
    let reader = match known {
        Some(reader) => reader,
        None => {
            readers.push(QdiscReader::start(network, link.far)?);
            readers.len() - 1
        }
    };
    let description = &network.scenario.links[index.0].description;
    Ok(Source::Netem(NetemSource {
        reader,
        ifb: link.ifb.clone(),
        has_rate: description.rate_bps.is_some(),
        base: Counters::default(),
        last: Counters::default(),
        lengths: Vec::new(),
    }))
}

impl NetemSource {
    fn counters(&self, answers: &Answers) -> Counters {
        Counters::of(&answers.qdiscs[self.reader], &self.ifb, self.has_rate)
    }

    fn sample(&mut self, answers: &Answers) -> (QueueSample, u64, u64) {
        let counters = self.counters(answers);
        let packets = counters.inside.saturating_sub(1);
        self.lengths.push(packets);
        let dropped = counters.dropped - self.last.dropped;
        let forwarded = counters.forwarded_bytes - self.last.forwarded_bytes;
        self.last = counters;
        // netem reports the present only, so the greatest length is that.
        let max = packets;
        (QueueSample { packets, max }, dropped, forwarded)
    }

    fn fill(self, answers: &Answers, observation: &mut LinkObservation) {
        let (now, base) = (self.counters(answers), self.base);
        observation.forwarded = now.forwarded - base.forwarded;
        observation.forwarded_bytes = now.forwarded_bytes - base.forwarded_bytes;
        observation.dropped = now.dropped - base.dropped;
        observation.lost = now.lost - base.lost;
        let came = observation.forwarded + observation.dropped + now.inside;
        observation.arrived = came.saturating_sub(base.inside);
        observation.queue = netem::summary(self.lengths);
    }
}

impl QdiscReader {
    fn start(network: &Network, node: NodeIndex) -> Result<Self, KernelError> {
        let what = format!("tc on {}", network.plan.hosts[node.0].name);
        let arguments = ["-s", "-j", "-batch", "-"].map(Into::into);
        let mut process = Process::start(network, what, node, Path::new("tc"), &arguments)?;
        let input = process.stdin().expect("it is asked for once");
        Ok(Self {
            node,
            input,
            process,
        })
    }

    fn read(&mut self) -> Result<Vec<Qdisc>, KernelError> {
        // If it has ended, there is no answer, and its last words say why.
        let _ = self.input.write_all(b"qdisc show\n");
        let Some(line) = self.process.line(PATIENCE)? else {
            return Err(self.process.failure());
        };
        serde_json::from_str(&line.text)
            .map_err(|error| KernelError::Protocol("tc".into(), error.to_string()))
    }
}
