//! A scenario as namespaces, veth pairs, addresses, routes and router configurations.
//!
//! Every node is a namespace with the address 10.0.0.1 + its index (as in the simulator) on its
//! loopback interface. A link is a veth pair between two namespaces, for both directions; its
//! ends have addresses of 10.128.0.0/9 that only routes use. Where a direction has a rate, a delay
//! or an impairment, the namespace it leaves runs a router daemon that queues for it.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::place::Place;

use crate::scenario::{Emulator, LinkIndex, LinkSpec, NodeIndex, Scenario, ServiceSpec};

/// What has to be set up.
#[derive(Debug)]
pub(in crate::backend) struct Plan {
    /// One namespace per node, in the scenario's order.
    pub(in crate::backend) namespaces: Vec<Namespace>,
    /// One veth pair per link of the file.
    pub(in crate::backend) pairs: Vec<Pair>,
    /// The directions of links that the kernel's netem makes.
    pub(in crate::backend) netem: Vec<NetemLink>,
}

/// A direction of a link that netem makes.
#[derive(Debug)]
pub(in crate::backend) struct NetemLink {
    pub(in crate::backend) index: LinkIndex,
    /// The namespace it leaves, and the one it leads to.
    pub(in crate::backend) near: NodeIndex,
    pub(in crate::backend) far: NodeIndex,
    /// The device at both its ends, and the one that queues at the far end.
    pub(in crate::backend) device: String,
    pub(in crate::backend) ifb: String,
}

/// One node.
#[derive(Debug)]
pub(in crate::backend) struct Namespace {
    /// The node's name in the scenario.
    pub(in crate::backend) host: String,
    /// The namespace's name, unique on this machine.
    pub(in crate::backend) name: String,
    pub(in crate::backend) place: Place,
    pub(in crate::backend) address: Ipv4Addr,
    /// Arguments of `ip route add`, for destinations behind links without a queue of ours.
    pub(in crate::backend) routes: Vec<String>,
    /// The links that leave here through a router, with their place in the scenario.
    pub(in crate::backend) routed: Vec<LinkIndex>,
    /// The router's configuration file (TOML), if one runs here.
    pub(in crate::backend) router: Option<String>,
}

/// A veth pair.
#[derive(Debug)]
pub(in crate::backend) struct Pair {
    pub(in crate::backend) device: String,
    /// Both ends: the namespace's position, and the address of its device.
    pub(in crate::backend) ends: [(NodeIndex, Ipv4Addr); 2],
}

/// First address of the nodes, as in the simulator.
const NODES: u32 = 0x0a00_0001;

/// The discipline that netem's queue has too.
const DROP_TAIL: &str = "drop-tail";

/// First address of the ends of links: 10.128.0.0.
const LINKS: u32 = 0x0a80_0000;

impl Plan {
    /// `run` tells this run from all others on the machine; `directory` is for its files. `netem`
    /// says whether the kernel has it, `place` makes a node's place of its name.
    pub(in crate::backend) fn new(
        scenario: &Scenario,
        run: &str,
        directory: &Path,
        netem: bool,
        place: impl Fn(String) -> Place,
    ) -> Self {
        let pairs: Vec<_> = (0..scenario.links.len())
            .step_by(2)
            .map(|first| pair(scenario, first))
            .collect();
        let next_hops = scenario.next_hops();
        let namespaces = scenario
            .nodes
            .iter()
            .enumerate()
            .map(|(node, spec)| {
                let mut namespace = Namespace {
                    host: spec.name.clone(),
                    name: format!("{run}-{node}"),
                    place: place(format!("{run}-{node}")),
                    address: node_address(node),
                    routes: Vec::new(),
                    routed: Vec::new(),
                    router: None,
                };
                let mut links: Vec<(LinkIndex, Vec<RouteTable>)> = Vec::new();
                for (destination, hop) in next_hops[node].iter().enumerate() {
                    let Some(link) = *hop else { continue };
                    let route = route(scenario, &pairs, link, destination);
                    let spec = &scenario.links[link.0];
                    if is_plain(spec) || netem && may_be_netem(spec) {
                        let RouteTable { to, via, dev } = route;
                        namespace.routes.push(format!(
                            "{to} via {via} dev {dev} src {}",
                            namespace.address
                        ));
                    } else if let Some((_, routes)) =
                        links.iter_mut().find(|(routed, _)| *routed == link)
                    {
                        routes.push(route);
                    } else {
                        links.push((link, vec![route]));
                    }
                }
                if !links.is_empty() {
                    namespace.routed = links.iter().map(|(link, _)| *link).collect();
                    namespace.router = Some(router(scenario, node, links, directory));
                }
                namespace
            })
            .collect();
        let by_netem = |(index, link): (usize, &LinkSpec)| {
            let wanted = netem && may_be_netem(link) && !is_plain(link);
            wanted.then(|| NetemLink {
                index: LinkIndex(index),
                near: link.from,
                far: link.to,
                device: pairs[index / 2].device.clone(),
                ifb: format!("ifb{index}"),
            })
        };
        let netem = scenario.links.iter().enumerate().filter_map(by_netem);
        Self {
            namespaces,
            netem: netem.collect(),
            pairs,
        }
    }

    /// Where a node's router answers, below the run's directory.
    pub(in crate::backend) fn socket(directory: &Path, node: usize) -> PathBuf {
        directory.join(format!("router-{node}.sock"))
    }

    /// The lines of a hosts file that names every node.
    pub(in crate::backend) fn hosts(&self) -> String {
        let mut hosts = String::from("127.0.0.1 localhost\n");
        for namespace in &self.namespaces {
            let _ = writeln!(hosts, "{} {}", namespace.address, namespace.host);
        }
        hosts
    }
}

pub(in crate::backend) fn node_address(node: usize) -> Ipv4Addr {
    Ipv4Addr::from(NODES + u32::try_from(node).expect("scenarios are smaller than 10/9"))
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

/// Whether nothing but the veth pair is needed.
fn is_plain(link: &LinkSpec) -> bool {
    link.service == ServiceSpec::Unlimited
        && link.delay.is_zero()
        && link.jitter.is_zero()
        && link.loss == 0.0
        && link.blackouts.is_empty()
        && link.changes.is_empty()
        && link.stamps.is_empty()
}

/// Whether netem may make this link: it can do it, and nothing else is asked for.
fn may_be_netem(link: &LinkSpec) -> bool {
    link.emulator != Emulator::Evenkeel && beyond_netem(link).is_none()
}

/// Whether some link would be netem's if the kernel had it.
pub(in crate::backend) fn wants_netem(scenario: &Scenario) -> bool {
    let links = &mut scenario.links.iter();
    links.any(|link| !is_plain(link) && may_be_netem(link))
}

/// The first key of a link that netem cannot do as this project does it.
pub(in crate::backend) fn beyond_netem(link: &LinkSpec) -> Option<&'static str> {
    let has_rate = matches!(link.service, ServiceSpec::Rate(_));
    let keys = [
        ("trace", matches!(link.service, ServiceSpec::Trace(_))),
        // What jumps netem's delay also jumps the netem with rate and queue behind it.
        ("reorder beside rate_bps", has_rate && link.reorder > 0.0),
        ("discipline", link.discipline != DROP_TAIL),
        ("stamps", !link.stamps.is_empty()),
        ("queue_bytes", link.queue.bytes.is_some()),
        ("blackouts", !link.blackouts.is_empty()),
        ("changes", !link.changes.is_empty()),
    ];
    keys.into_iter()
        .find(|(_, is_set)| *is_set)
        .map(|(key, _)| key)
}

/// Whether the link has a rate and nothing behind its queue.
pub(in crate::backend) fn is_single_rate(link: &LinkSpec) -> bool {
    matches!(link.service, ServiceSpec::Rate(_))
        && link.delay.is_zero()
        && link.jitter.is_zero()
        && link.loss == 0.0
}

fn route(scenario: &Scenario, pairs: &[Pair], link: LinkIndex, destination: usize) -> RouteTable {
    let pair = &pairs[link.0 / 2];
    let far = scenario.links[link.0].to;
    let via = pair
        .ends
        .iter()
        .find(|(node, _)| *node == far)
        .expect("a link ends at its far node")
        .1;
    RouteTable {
        to: format!("{}/32", node_address(destination)),
        via: via.to_string(),
        dev: pair.device.clone(),
    }
}

fn router(
    scenario: &Scenario,
    node: usize,
    links: Vec<(LinkIndex, Vec<RouteTable>)>,
    directory: &Path,
) -> String {
    let tables = links.into_iter().map(|(index, routes)| {
        let link = &scenario.links[index.0];
        LinkTable {
            name: link.name.clone(),
            tun: format!("tun{}", index.0),
            mtu: scenario.mtu,
            rate_bps: match link.service {
                ServiceSpec::Rate(rate) => Some(rate),
                ServiceSpec::Unlimited | ServiceSpec::Trace(_) => None,
            },
            trace: match &link.service {
                ServiceSpec::Trace(trace) => Some(absolute(&trace.path)),
                ServiceSpec::Unlimited | ServiceSpec::Rate(_) => None,
            },
            delay_ms: link.delay.as_secs_f64() * 1e3,
            jitter_ms: link.jitter.as_secs_f64() * 1e3,
            reorder: link.reorder,
            loss: link.loss,
            queue_packets: link.queue.packets,
            queue_bytes: link.queue.bytes,
            discipline: link.discipline.clone(),
            stamps: link.stamps.clone(),
            blackouts: link
                .blackouts
                .iter()
                .map(|b| BlackoutTable {
                    start_s: b.start.as_secs_f64(),
                    length_s: b.length.as_secs_f64(),
                })
                .collect(),
            changes: link
                .changes
                .iter()
                .map(|c| ChangeTable {
                    at_s: c.at.as_secs_f64(),
                    rate_bps: c.rate_bps,
                    delay_ms: c.delay.map(|delay| delay.as_secs_f64() * 1e3),
                    loss: c.loss,
                    queue_packets: c.queue_packets,
                })
                .collect(),
            routes,
        }
    });
    let file = RouterFile {
        name: format!("router-{node}"),
        // Links of different routers draw from different generators.
        seed: (scenario.seed & (i64::MAX as u64)) ^ ((node as u64) << 32),
        socket: Plan::socket(directory, node),
        links: tables.collect(),
    };
    toml::to_string(&file).expect("every part of a router's configuration is TOML")
}

pub(in crate::backend) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The router daemon's configuration, as docs/router.md describes it.
#[derive(Serialize)]
struct RouterFile {
    name: String,
    seed: u64,
    socket: PathBuf,
    links: Vec<LinkTable>,
}

#[derive(Serialize)]
struct LinkTable {
    name: String,
    tun: String,
    mtu: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<PathBuf>,
    delay_ms: f64,
    jitter_ms: f64,
    reorder: f64,
    loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_packets: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_bytes: Option<u64>,
    discipline: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stamps: Vec<String>,
    blackouts: Vec<BlackoutTable>,
    changes: Vec<ChangeTable>,
    routes: Vec<RouteTable>,
}

#[derive(Serialize)]
struct BlackoutTable {
    start_s: f64,
    length_s: f64,
}

#[derive(Serialize)]
struct ChangeTable {
    at_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_packets: Option<u32>,
}

#[derive(Serialize)]
struct RouteTable {
    to: String,
    via: String,
    dev: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let scenario =
            Scenario::parse(text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        Plan::new(
            &scenario,
            "ek1",
            Path::new("/run/test"),
            false,
            Place::Namespace,
        )
    }

    #[test]
    fn netem_makes_what_it_can_and_the_router_the_rest() {
        let with_stamps = LINE.replace("[[flows]]", "stamps = ['aqt']\n[[flows]]");
        let text = with_stamps.replace("[[flows]]", "rate_bps = 5000000\n[[flows]]");
        let scenario = Scenario::parse(&text, "test.toml", &[]);
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        assert!(wants_netem(&scenario));
        let plan = Plan::new(
            &scenario,
            "ek1",
            Path::new("/run/test"),
            true,
            Place::Namespace,
        );
        let made: Vec<_> = plan
            .netem
            .iter()
            .map(|link| (scenario.links[link.index.0].name.as_str(), link.far.0))
            .collect();
        assert_eq!(made, [("ab", 1), ("ab.reverse", 0)]);
        let [a, b, c] = &plan.namespaces[..] else {
            panic!("three nodes")
        };
        assert!(a.router.is_none(), "netem needs none");
        assert_eq!(a.routes.len(), 2, "and is routed to as usual");
        assert!(
            b.router.is_some() && c.router.is_some(),
            "netem cannot stamp"
        );
    }

    const LINE: &str = "name = 'line'\nduration_s = 1\n\
        [[links]]\nname = 'ab'\nfrom = 'a'\nto = 'b'\nrate_bps = 1000000\ndelay_ms = 2.5\n\
        [[links]]\nname = 'bc'\nfrom = 'b'\nto = 'c'\n\
        [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'a'\nto = 'c'\n";

    #[test]
    fn every_node_is_a_namespace_and_every_link_a_pair_with_addresses_of_its_own() {
        let plan = plan(LINE);
        let names: Vec<_> = plan
            .namespaces
            .iter()
            .map(|n| (n.host.as_str(), n.name.as_str()))
            .collect();
        assert_eq!(names, [("a", "ek1-0"), ("b", "ek1-1"), ("c", "ek1-2")]);
        assert_eq!(plan.pairs.len(), 2);
        let mut addresses: Vec<_> = plan
            .pairs
            .iter()
            .flat_map(|p| p.ends.map(|(_, address)| address))
            .collect();
        addresses.extend(plan.namespaces.iter().map(|n| n.address));
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 7);
    }

    #[test]
    fn a_router_runs_only_where_a_link_needs_one_and_knows_its_routes() {
        let plan = plan(LINE);
        let [a, b, c] = &plan.namespaces[..] else {
            panic!("three nodes")
        };
        let config = a
            .router
            .as_deref()
            .expect("a sends over a link with a rate");
        let config: toml::Table = config.parse().expect("it is TOML");
        let link = &config["links"].as_array().expect("links")[0];
        assert_eq!(link["rate_bps"].as_integer(), Some(1_000_000));
        assert_eq!(link["delay_ms"].as_float(), Some(2.5));
        let routes: Vec<_> = link["routes"]
            .as_array()
            .expect("routes")
            .iter()
            .map(|r| r["to"].as_str())
            .collect();
        assert_eq!(routes, [Some("10.0.0.2/32"), Some("10.0.0.3/32")]);
        assert!(a.routes.is_empty());
        assert_eq!(
            b.routes,
            ["10.0.0.3/32 via 10.128.0.3 dev link1 src 10.0.0.2"]
        );
        assert!(b.router.is_some(), "the way back over ab has the rate too");
        assert!(c.router.is_none());
        assert_eq!(c.routes.len(), 2);
    }
}
