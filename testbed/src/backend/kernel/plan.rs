//! A scenario as hosts, links, addresses, routes and router configurations.
//!
//! Every node becomes a host with the addresses of its node (as in the simulator) on its loopback
//! interface: one of IPv4, and one of IPv6 if anything in the scenario uses that. A link becomes a
//! pair of devices, one on each host, for both directions. Their addresses of 10.128.0.0/9 and
//! fd00::a80:0/105 serve routes only. Where a direction has a rate, a delay or an impairment, netem
//! makes it on the host that it leads to, or a router daemon on the host that it leaves.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use evenkeel_queue::description::LinkDescription;

use super::netem;
use super::router_file::{Route, router_file};
use crate::scenario::{Emulator, IpVersion, LinkIndex, LinkSpec, NodeIndex, Scenario};

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
    /// What the network carries: IPv4, and IPv6 if the scenario uses it.
    versions: Vec<IpVersion>,
    /// Whether a flow is the kernels' own TCP.
    has_tcp: bool,
}

/// One node.
#[derive(Debug, Clone)]
pub(in crate::backend) struct Host {
    /// The node's name in the scenario.
    pub(in crate::backend) name: String,
    /// The name of its namespace or container: `ekPID-INDEX`.
    pub(in crate::backend) label: String,
    node: NodeIndex,
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
    /// The nodes at both ends: those that the link leaves there and back.
    pub(in crate::backend) ends: [NodeIndex; 2],
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

/// What every host's kernel is told where a flow is TCP: no connection begins with what an earlier
/// one found out, and no buffer ends before 64 MiB, whatever this machine's own limits are.
const TCP_SETTINGS: [&str; 3] = [
    "net.ipv4.tcp_no_metrics_save=1",
    "net.ipv4.tcp_rmem=4096 131072 67108864",
    "net.ipv4.tcp_wmem=4096 16384 67108864",
];

/// Smallest MTU with IPv6 (RFC 8200, section 5).
const MIN_MTU_V6: u16 = 1280;

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
        let versions = versions(scenario);
        // Links come in twos, there and back: one pair for both.
        let links = scenario.links.iter().step_by(2).enumerate();
        let pairs: Vec<_> = links
            .map(|(pair, link)| Pair {
                device: device(pair),
                ends: [link.from, link.to],
            })
            .collect();
        let next_hops = scenario.next_hops();
        let host = |(node, hops): (usize, &Vec<Option<LinkIndex>>)| {
            let mut routes = Vec::new();
            let mut routed: Vec<(LinkIndex, Vec<Route>)> = Vec::new();
            for (destination, link) in hops.iter().enumerate() {
                let Some(link) = *link else { continue };
                let by_link = versions.iter().map(|version| {
                    let destination = NodeIndex(destination);
                    (version, route(*version, link, destination))
                });
                if maker(&scenario.links[link.0], has_netem) != Maker::Router {
                    routes.extend(by_link.map(|(version, Route { to, via, dev })| {
                        let own = NodeIndex(node).address(*version);
                        format!("{to} via {via} dev {dev} src {own}")
                    }));
                    continue;
                }
                let by_link = by_link.map(|(_, route)| route);
                match routed.iter_mut().find(|(index, _)| *index == link) {
                    Some((_, routes)) => routes.extend(by_link),
                    None => routed.push((link, by_link.collect())),
                }
            }
            Host {
                name: scenario.nodes[node].name.clone(),
                label: format!("{run}-{node}"),
                node: NodeIndex(node),
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
                device: device(index / 2),
                ifb: format!("ifb{index}"),
                qdiscs: netem::qdiscs(link),
            })
        });
        Self {
            hosts: next_hops.iter().enumerate().map(host).collect(),
            netem: netem.collect(),
            mtu: scenario.mtu,
            pairs,
            versions,
            has_tcp: scenario.needs_kernel(),
        }
    }

    /// Whether the network carries packets of this version.
    pub(in crate::backend) fn carries(&self, version: IpVersion) -> bool {
        self.versions.contains(&version)
    }

    /// Where a node's router answers, in the run's directory.
    pub(super) fn router_socket(directory: &Path, node: usize) -> PathBuf {
        directory.join(format!("router-{node}.sock"))
    }

    /// The lines of a hosts file that names every host.
    pub(in crate::backend) fn hosts_file(&self) -> String {
        let mut hosts = String::from("127.0.0.1 localhost\n");
        for host in &self.hosts {
            for version in &self.versions {
                let _ = writeln!(hosts, "{} {}", host.node.address(*version), host.name);
            }
        }
        hosts
    }

    /// What every host's kernel is told: it forwards, whichever way packets came; and what its TCP
    /// needs.
    pub(in crate::backend) fn settings(&self) -> Vec<&'static str> {
        let of_version = |version| match version {
            IpVersion::V4 => &[
                "net.ipv4.ip_forward=1",
                "net.ipv4.conf.all.rp_filter=0",
                "net.ipv4.conf.default.rp_filter=0",
            ][..],
            IpVersion::V6 => &["net.ipv6.conf.all.forwarding=1"],
        };
        let versions = self.versions.iter().copied();
        let mut settings: Vec<_> = versions.flat_map(of_version).copied().collect();
        if self.has_tcp {
            settings.extend(TCP_SETTINGS);
        }
        settings
    }

    /// The commands for `ip` that set up a host whose links' devices are there.
    pub(in crate::backend) fn ip_commands(&self, node: usize) -> String {
        let host = &self.hosts[node];
        let mut commands = String::from("link set lo up\n");
        for version in &self.versions {
            // Nobody else has it: it is good at once, and routes may name it as their source.
            let flag = match version {
                IpVersion::V4 => "",
                IpVersion::V6 => " nodad",
            };
            let own = host.node.address(*version);
            let _ = writeln!(commands, "address add {own} dev lo{flag}");
        }
        for (pair, Pair { device, ends }) in self.pairs.iter().enumerate() {
            let Some(end) = ends.iter().position(|end| end.0 == node) else {
                continue;
            };
            let near = LinkIndex(2 * pair + end);
            let far = back(near);
            // Neighbours know each other's devices: so no packet waits for a neighbour's answer,
            // which would take the link's time both ways.
            // Linux has no IPv6, and no such mode, on a device with a smaller MTU.
            let mode = match self.mtu {
                MIN_MTU_V6.. => "addrgenmode none ",
                _ => "",
            };
            let _ = write!(
                commands,
                "link set {device} {mode}address {}\nlink set {device} up\n",
                mac(near)
            );
            for version in &self.versions {
                // The device's address is for routes alone. What the host sends has the host's
                // own address, and the connected route says so: the router daemon takes the
                // source of its routes from there.
                let flag = match version {
                    IpVersion::V4 => "scope link",
                    IpVersion::V6 => "nodad",
                };
                let (own, end) = (host.node.address(*version), device_address(near, *version));
                let (to, length) = (device_address(far, *version), own_length(*version));
                let _ = write!(
                    commands,
                    "address add {end} dev {device} noprefixroute {flag}\n\
                     route add {to}/{length} dev {device} src {own}\n\
                     neighbour add {to} lladdr {} dev {device} nud permanent\n",
                    mac(far)
                );
            }
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

/// The versions of IP in a scenario's network: IPv4, and what its flows and sources use.
fn versions(scenario: &Scenario) -> Vec<IpVersion> {
    let flows = scenario.flows.iter().map(|flow| flow.ip_version);
    let mut used = flows.chain(scenario.cross.iter().map(|source| source.ip_version));
    let mut versions = vec![IpVersion::V4];
    versions.extend(used.find(|version| *version == IpVersion::V6));
    versions
}

/// The name of a pair's devices.
fn device(pair: usize) -> String {
    format!("link{pair}")
}

/// The same link's other direction.
fn back(link: LinkIndex) -> LinkIndex {
    LinkIndex(link.0 ^ 1)
}

/// The number of the device by which a link leaves a host.
fn device_number(link: LinkIndex) -> u32 {
    LINKS + u32::try_from(link.0).expect("scenarios are smaller than 10.128/9")
}

fn device_address(link: LinkIndex, version: IpVersion) -> IpAddr {
    version.address(device_number(link))
}

/// A locally administered address (IEEE 802, section 8.4).
fn mac(link: LinkIndex) -> String {
    let [a, b, c, d] = device_number(link).to_be_bytes();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// The length of a prefix that is one address, in bits.
fn own_length(version: IpVersion) -> u8 {
    match version {
        IpVersion::V4 => 32,
        IpVersion::V6 => 128,
    }
}

/// The route to a node by a link.
fn route(version: IpVersion, link: LinkIndex, destination: NodeIndex) -> Route {
    let (to, length) = (destination.address(version), own_length(version));
    Route {
        to: format!("{to}/{length}"),
        via: device_address(back(link), version).to_string(),
        dev: device(link.0 / 2),
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
