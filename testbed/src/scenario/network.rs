//! Nodes, one-way links and the routes over them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use evenkeel_queue::description::{LinkDescription, MAX_TRACE_BYTES};
use evenkeel_spec::document::{Fault, Located, shortened};

use super::file::{AccessTable, Direction, ScenarioFile, Topology};
use super::spec::{LinkSpec, NodeSpec, TraceFile};
use super::{LinkIndex, NodeIndex};

/// The network while it is put together.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) nodes: Vec<NodeSpec>,
    pub(super) links: Vec<LinkSpec>,
    by_name: BTreeMap<String, NodeIndex>,
    link_names: BTreeSet<String>,
}

impl Network {
    /// The links of the file and the nodes that they join.
    pub(super) fn of(file: &ScenarioFile, directory: &Path) -> Result<Self, Fault> {
        let mut network = Self::default();
        for host in file.hosts() {
            if network.by_name.contains_key(&host.name.value) {
                let message = format!("there are two hosts {:?}; rename one", host.name.value);
                return Err(Fault::new(&host.name.origin, message));
            }
            network.add_node(&host.name.value);
        }
        match file.topology {
            Some(Topology::Dumbbell) if file.links.len() != 1 => {
                let message =
                    "a dumbbell has one link; remove the others, or use topology = \"chain\"";
                return Err(Fault::new(&file.links[1].name.origin, message));
            }
            Some(topology) => {
                for index in 0..=file.links.len() {
                    network.add_node(&router(topology, index));
                }
            }
            None => {}
        }
        for (index, link) in file.links.iter().enumerate() {
            let (from, to) = match file.topology {
                Some(_) => (NodeIndex(index), NodeIndex(index + 1)),
                None => (
                    network.end_of_link(link.from.as_ref(), file)?,
                    network.end_of_link(link.to.as_ref(), file)?,
                ),
            };
            if from == to {
                let message = format!(
                    "{:?} leads from a node to itself; change from or to",
                    link.name.value
                );
                return Err(Fault::new(&link.name.origin, message));
            }
            let [forward, reverse] = link.directions();
            let name = &link.name.value;
            let forward = direction(name.clone(), (from, to), forward, directory)?;
            let reverse = direction(format!("{name}.reverse"), (to, from), reverse, directory)?;
            network.add_link(&link.name, forward)?;
            network.add_link(&link.name, reverse)?;
        }
        Ok(network)
    }

    pub(super) fn node(&self, name: &Located<String>) -> Result<NodeIndex, Fault> {
        self.by_name.get(&name.value).copied().ok_or_else(|| {
            let names: Vec<_> = self.by_name.keys().map(String::as_str).collect();
            let message = format!(
                "there is no node {:?}; there are {}",
                name.value,
                shortened(&names.join(", "))
            );
            Fault::new(&name.origin, message)
        })
    }

    /// Adds a host of one flow and joins it to a router by an access link.
    pub(super) fn add_host(
        &mut self,
        name: &str,
        router: NodeIndex,
        access: &AccessTable,
    ) -> NodeIndex {
        let host = self.add_node(name);
        let link = |name: String, from, to| LinkSpec {
            name,
            from,
            to,
            description: LinkDescription {
                rate_bps: access.rate_bps,
                delay_ms: access.delay_ms,
                queue_packets: Some(access.queue_packets),
                stamps: access.stamps.clone(),
                ..LinkDescription::default()
            },
            trace: None,
            emulator: access.emulator,
            reported: false,
        };
        self.links
            .push(link(format!("{name}.access"), host, router));
        self.links
            .push(link(format!("{name}.access.reverse"), router, host));
        host
    }

    fn add_node(&mut self, name: &str) -> NodeIndex {
        let index = NodeIndex(self.nodes.len());
        self.nodes.push(NodeSpec {
            name: name.to_owned(),
        });
        self.by_name.insert(name.to_owned(), index);
        index
    }

    /// The node at one end of a link; where no hosts are listed, links make their nodes.
    fn end_of_link(
        &mut self,
        name: Option<&Located<String>>,
        file: &ScenarioFile,
    ) -> Result<NodeIndex, Fault> {
        let name = name.expect("links have ends where there is no topology");
        match self.by_name.get(&name.value) {
            Some(index) => Ok(*index),
            None if file.hosts().is_empty() => Ok(self.add_node(&name.value)),
            None => {
                let message = format!("{:?} is not among the [[hosts]]; add it there", name.value);
                Err(Fault::new(&name.origin, message))
            }
        }
    }

    fn add_link(&mut self, name: &Located<String>, link: LinkSpec) -> Result<(), Fault> {
        if !self.link_names.insert(link.name.clone()) {
            let message = format!("there are two links {:?}; rename one", link.name);
            return Err(Fault::new(&name.origin, message));
        }
        self.links.push(link);
        Ok(())
    }
}

/// Name of a router of a topology: `left` and `right`, or `r0`, `r1`, ...
pub(super) fn router(topology: Topology, index: usize) -> String {
    match (topology, index) {
        (Topology::Dumbbell, 0) => "left".to_owned(),
        (Topology::Dumbbell, _) => "right".to_owned(),
        (Topology::Chain, index) => format!("r{index}"),
    }
}

/// The link to take at each node towards `destination`, over the fewest links; of several, the
/// one that comes first in `links`. `None` at the destination and where there is no way.
pub(super) fn next_hops_to(
    destination: NodeIndex,
    nodes: usize,
    links: &[LinkSpec],
) -> Vec<Option<LinkIndex>> {
    routes(&[destination], nodes, links).remove(0)
}

/// [`next_hops_to`] for several destinations.
pub(super) fn routes(
    destinations: &[NodeIndex],
    nodes: usize,
    links: &[LinkSpec],
) -> Vec<Vec<Option<LinkIndex>>> {
    let mut arriving = vec![Vec::new(); nodes];
    for (index, link) in links.iter().enumerate() {
        arriving[link.to.0].push(LinkIndex(index));
    }
    let towards = |destination: &NodeIndex| {
        let mut hops = vec![None; nodes];
        let mut distance = vec![usize::MAX; nodes];
        distance[destination.0] = 0;
        let mut queue = VecDeque::from([*destination]);
        while let Some(node) = queue.pop_front() {
            for link in &arriving[node.0] {
                let from = links[link.0].from;
                let is_new = distance[from.0] == usize::MAX;
                if is_new {
                    distance[from.0] = distance[node.0] + 1;
                    queue.push_back(from);
                }
                let is_shortest = distance[from.0] == distance[node.0] + 1;
                if is_new || is_shortest && hops[from.0].is_some_and(|hop| *link < hop) {
                    hops[from.0] = Some(*link);
                }
            }
        }
        hops
    };
    destinations.iter().map(towards).collect()
}

fn direction(
    name: String,
    (from, to): (NodeIndex, NodeIndex),
    table: &Direction,
    directory: &Path,
) -> Result<LinkSpec, Fault> {
    let trace = table.link.trace.as_ref();
    let trace = trace.map(|trace| read_trace(trace, directory));
    Ok(LinkSpec {
        name,
        from,
        to,
        description: table.link.clone(),
        trace: trace.transpose()?,
        emulator: table.emulator,
        reported: true,
    })
}

fn read_trace(name: &Located<String>, directory: &Path) -> Result<TraceFile, Fault> {
    let path = directory.join(&name.value);
    let read = || -> io::Result<String> {
        // A pipe or a device might never end.
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        read_text(&path, MAX_TRACE_BYTES)
    };
    match read() {
        Ok(contents) => Ok(TraceFile {
            path,
            contents: contents.into(),
        }),
        Err(error) => {
            let message = format!(
                "cannot read the trace {}: {error}; paths are relative to the scenario's directory",
                path.display()
            );
            Err(Fault::new(&name.origin, message))
        }
    }
}

/// Reads a text file that is not longer than `max_bytes`.
pub(super) fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut contents = String::new();
    fs::File::open(path)?
        .take(max_bytes + 1)
        .read_to_string(&mut contents)?;
    if contents.len() as u64 > max_bytes {
        return Err(io::Error::other(format!(
            "it is longer than {max_bytes} bytes"
        )));
    }
    Ok(contents)
}

/// Seconds of a file; their range was checked when they were read.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}
