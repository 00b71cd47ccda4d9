//! A scenario as hosts, links, addresses, routes and router configurations.
//!
//! Every node becomes a host with the address 10.0.0.1 + its index (as in the simulator) on its
//! loopback interface. A link becomes a pair of devices, one on each host, for both directions.
//! Their addresses of 10.128.0.0/9 serve routes only. Where a direction has a rate, a delay or an
//! impairment, netem makes it on the host that it leads to, or a router daemon on the host that it
//! leaves.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use evenkeel_queue::description::LinkDescription;

use super::netem;
use super::router_file::{Route, router_file};
use crate::scenario::{Emulator, LinkIndex, LinkSpec, NodeIndex, Scenario};

/// What has to be set up.
#[derive(Debug)]
pub(in crate::backend) struct Plan {
    /// One for each node, in the scenario's order.
    pub(in crate::backend) hosts: Vec<Host>,
    /// One for each link of the file.
    pub(in crate::backend) pairs: Vec<Pair>,
    /// The directions of links that netem makes.
    pub(super) netem: Vec<NetemLink>,
    /// Largest IP packet of all devices, in bytes.
    pub(in crate::backend) mtu: u16,
}

/// One node.
#[derive(Debug, Clone)]
pub(in crate::backend) struct Host {
    /// The node's name in the scenario.
    pub(in crate::backend) name: String,
    /// The name of its namespace or container: `ekPID-INDEX`.
    pub(in crate::backend) label: String,
    pub(super) address: Ipv4Addr,
    /// Arguments of `ip route add`, for destinations behind links without a router.
    pub(super) routes: Vec<String>,
    /// The links that leave here through a router.
    pub(super) routed: Vec<LinkIndex>,
    /// The router's configuration file (TOML), if one runs here.
    pub(super) router: Option<String>,
}

/// The devices of a link, of the same name on both hosts.
#[derive(Debug)]
pub(in crate::backend) struct Pair {
    pub(in crate::backend) device: String,
    /// Both ends: the node, and the address of its device.
    pub(in crate::backend) ends: [(NodeIndex, Ipv4Addr); 2],
}

/// A direction of a link that netem makes.
#[derive(Debug)]
pub(super) struct NetemLink {
    pub(super) index: LinkIndex,
    /// The node it leaves, and the one it leads to.
    pub(super) near: NodeIndex,
    pub(super) far: NodeIndex,
    /// The link's device, and the one at the far end that queues.
    device: String,
    pub(super) ifb: String,
    /// The arguments of `tc qdisc add dev IFB`, outermost first.
    qdiscs: Vec<String>,
}

/// What makes a direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    /// The pair of devices alone.
    Devices,
    Netem,
    Router,
}

/// What every host's kernel is told: it forwards, whichever way packets came.
pub(in crate::backend) const SETTINGS: [&str; 3] = [
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
];

/// First address of the nodes, as in the simulator.
const NODES: u32 = 0x0a00_0001;

/// First address of the ends of links: 10.128.0.0.
const LINKS: u32 = 0x0a80_0000;

impl Plan {
    /// A plan for a run whose files are in `directory`. `run` begins the labels of its hosts, and
    /// `has_netem` says whether the kernel has netem.
    pub(in crate::backend) fn new(
        scenario: &Scenario,
        run: &str,
        directory: &Path,
        has_netem: bool,
    ) -> Self {
        let pairs: Vec<_> = (0..scenario.links.len())
            .step_by(2)
            .map(|first| pair(scenario, first))
            .collect();
        let next_hops = scenario.next_hops();
        let host = |(node, hops): (usize, &Vec<Option<LinkIndex>>)| {
            let address = node_address(NodeIndex(node));
            let mut routes = Vec::new();
            let mut routed: Vec<(LinkIndex, Vec<Route>)> = Vec::new();
            for (destination, link) in hops.iter().enumerate() {
                let Some(link) = *link else { continue };
                let route = route(scenario, &pairs, link, NodeIndex(destination));
                if maker(&scenario.links[link.0], has_netem) != Maker::Router {
                    let Route { to, via, dev } = route;
                    routes.push(format!("{to} via {via} dev {dev} src {address}"));
                } else if let Some((_, routes)) =
                    routed.iter_mut().find(|(index, _)| *index == link)
                {
                    routes.push(route);
                } else {
                    routed.push((link, vec![route]));
                }
            }
            Host {
                name: scenario.nodes[node].name.clone(),
                label: format!("{run}-{node}"),
                address,
                routes,
                routed: routed.iter().map(|(link, _)| *link).collect(),
                router: (!routed.is_empty()).then(|| {
                    router_file(scenario, node, routed, Self::router_socket(directory, node))
                }),
            }
        };
        let netem = (0..scenario.links.len()).filter_map(|index| {
            let link = &scenario.links[index];
            (maker(link, has_netem) == Maker::Netem).then(|| NetemLink {
                index: LinkIndex(index),
                near: link.from,
                far: link.to,
                device: pairs[index / 2].device.clone(),
                ifb: format!("ifb{index}"),
                qdiscs: netem::qdiscs(link),
            })
        });
        Self {
            hosts: next_hops.iter().enumerate().map(host).collect(),
            netem: netem.collect(),
            mtu: scenario.mtu,
            pairs,
        }
    }

    /// Where a node's router answers, in the run's directory.
    pub(super) fn router_socket(directory: &Path, node: usize) -> PathBuf {
        directory.join(format!("router-{node}.sock"))
    }

    /// The lines of a hosts file that names every host.
    pub(in crate::backend) fn hosts_file(&self) -> String {
        let mut hosts = String::from("127.0.0.1 localhost\n");
        for host in &self.hosts {
            let _ = writeln!(hosts, "{} {}", host.address, host.name);
        }
        hosts
    }

    /// The commands for `ip` that set up a host whose links' devices are there.
    pub(in crate::backend) fn ip_commands(&self, node: usize) -> String {
        let host = &self.hosts[node];
        let address = host.address;
        let mut commands = format!("link set lo up\naddress add {address}/32 dev lo\n");
        for Pair { device, ends } in &self.pairs {
            let Some((_, end)) = ends.iter().find(|(end, _)| end.0 == node) else {
                continue;
            };
            // The device's address is for routes alone. What the host sends has the host's own
            // address, and the connected route says so: the router daemon takes the source of
            // its routes from there.
            let network = ends[0].1;
            let _ = write!(
                commands,
                "address add {end}/31 dev {device} scope link noprefixroute\n\
                 link set {device} up\n\
                 route add {network}/31 dev {device} scope link src {address}\n"
            );
        }
        for route in &host.routes {
            let _ = writeln!(commands, "route add {route}");
        }
        for link in &self.netem {
            if link.near.0 == node {
                let _ = writeln!(commands, "link set {} gso_max_segs 1", link.device);
            }
            if link.far.0 == node {
                let (ifb, mtu) = (&link.ifb, self.mtu);
                let _ = write!(
                    commands,
                    "link add {ifb} mtu {mtu} type ifb\nlink set {ifb} up\n"
                );
            }
        }
        commands
    }

    /// The commands for `tc` that set up netem for the links that lead to a host; empty without
    /// such a link.
    pub(in crate::backend) fn tc_commands(&self, node: usize) -> String {
        let mut commands = String::new();
        for link in self.netem.iter().filter(|link| link.far.0 == node) {
            commands += &netem::redirection(&link.device, &link.ifb);
            for qdisc in &link.qdiscs {
                let _ = writeln!(commands, "qdisc add dev {} {qdisc}", link.ifb);
            }
        }
        commands
    }
}

/// The address of a node.
pub(super) fn node_address(node: NodeIndex) -> Ipv4Addr {
    Ipv4Addr::from(NODES + u32::try_from(node.0).expect("scenarios are smaller than 10/9"))
}

/// Links come in twos, there and back: one pair for both.
fn pair(scenario: &Scenario, first: usize) -> Pair {
    let link = &scenario.links[first];
    let address = LINKS + u32::try_from(first).expect("scenarios are smaller than 10.128/9");
    Pair {
        device: format!("link{}", first / 2),
        ends: [
            (link.from, Ipv4Addr::from(address)),
            (link.to, Ipv4Addr::from(address + 1)),
        ],
    }
}

fn route(scenario: &Scenario, pairs: &[Pair], link: LinkIndex, destination: NodeIndex) -> Route {
    let Pair { device, ends } = &pairs[link.0 / 2];
    let far = scenario.links[link.0].to;
    let next_hop = ends.iter().find(|(node, _)| *node == far);
    Route {
        to: format!("{}/32", node_address(destination)),
        via: next_hop.expect("a link ends at its far node").1.to_string(),
        dev: device.clone(),
    }
}

/// What makes `link` on a kernel.
fn maker(link: &LinkSpec, has_netem: bool) -> Maker {
    let nothing = LinkDescription::default();
    // Where nothing is slow, nothing queues.
    let without_queue = LinkDescription {
        queue_packets: None,
        queue_bytes: None,
        discipline: nothing.discipline.clone(),
        ..link.description.clone()
    };
    if without_queue == nothing {
        Maker::Devices
    } else if has_netem
        && link.emulator != Emulator::Evenkeel
        && netem::unsupported_key(link).is_none()
    {
        Maker::Netem
    } else {
        Maker::Router
    }
}

/// Whether netem would make a link if the kernel had it.
pub(in crate::backend) fn wants_netem(scenario: &Scenario) -> bool {
    let mut links = scenario.links.iter();
    links.any(|link| maker(link, true) == Maker::Netem)
}

/// The links that demand netem.
pub(in crate::backend) fn needing_netem(scenario: &Scenario) -> impl Iterator<Item = &LinkSpec> {
    let links = scenario.links.iter();
    links.filter(|link| link.emulator == Emulator::Netem)
}

#[cfg(test)]
mod tests;
