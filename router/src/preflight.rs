//! Checks, before changing anything, that the host allows what the configuration asks for.

use std::io;
use std::path::Path;

use crate::config::{Config, LinkSpec, Place, RouteSpec};
use crate::family::Family;
use crate::netlink::{Interface, MAIN_TABLE, Netlink, RouteEntry, RuleEntry, Way};
use crate::plumbing::{Exit, Exits, main_metric};
use crate::sysctl::Sysctl;

/// Why this host cannot run the configuration. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// The kernel has no TUN devices.
    #[error(
        "there is no /dev/net/tun; load it with `modprobe tun`, or give it to the container (--device /dev/net/tun)"
    )]
    NoTun,
    /// A setting of the host would swallow packets.
    #[error("{setting} is {value}, but {reason}; set it: sysctl -w {setting}={remedy}")]
    Setting {
        /// Its name, as sysctl(8) writes it.
        setting: String,
        /// Its present value.
        value: i64,
        /// What would happen.
        reason: String,
        /// The value it needs.
        remedy: i64,
    },
    /// The configuration does not fit the host.
    #[error("{place}: {message}")]
    Config {
        /// The line of the configuration.
        place: Place,
        /// The cause and the remedy.
        message: String,
    },
    /// The kernel does not answer.
    #[error(
        "cannot ask the kernel for its {what}: {source}; the router needs netlink and /proc/sys/net"
    )]
    Kernel {
        /// What the router asked for.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl HostError {
    /// Returns true if another configuration solves the problem.
    pub(crate) fn is_config(&self) -> bool {
        matches!(self, Self::Config { .. })
    }
}

/// Checks a configuration against the host, and finds where its routes leave it.
pub(crate) fn examine(config: &Config, netlink: &mut Netlink) -> Result<Exits, HostError> {
    if !Path::new("/dev/net/tun").exists() {
        return Err(HostError::NoTun);
    }
    let mut host = Host::read(netlink)?;
    for family in config.families() {
        check_forwarding(family)?;
    }
    let mut exits = Exits::new();
    for link in &config.links {
        host.check_tun(link)?;
        host.check_table(link)?;
        let of_link = link
            .routes
            .iter()
            .map(|route| host.check_route(link, route));
        exits.push(of_link.collect::<Result<_, _>>()?);
    }
    Ok(exits)
}

/// The routes and rules that the kernel has.
struct Host<'a> {
    netlink: &'a mut Netlink,
    routes: Vec<RouteEntry>,
    rules: Vec<RuleEntry>,
}

impl<'a> Host<'a> {
    fn read(netlink: &'a mut Netlink) -> Result<Self, HostError> {
        let (mut routes, mut rules) = (Vec::new(), Vec::new());
        for family in Family::ALL {
            routes.extend(netlink.routes(family).map_err(kernel("routes"))?);
            rules.extend(netlink.rules(family).map_err(kernel("rules"))?);
        }
        Ok(Self {
            netlink,
            routes,
            rules,
        })
    }

    fn interface(&mut self, name: &str) -> Result<Option<Interface>, HostError> {
        self.netlink.interface(name).map_err(kernel("interfaces"))
    }

    fn check_tun(&mut self, link: &LinkSpec) -> Result<(), HostError> {
        match self.interface(&link.tun)? {
            None => Ok(()),
            Some(_) => {
                let message = format!(
                    "tun = {:?}: there is an interface of this name; choose another, or stop the router that made it",
                    link.tun
                );
                Err(refuse(&link.place, message))
            }
        }
    }

    /// Allows in a table only what a killed router has left.
    fn check_table(&mut self, link: &LinkSpec) -> Result<(), HostError> {
        let table = link.table;
        let taken = |by: &str| {
            let message = format!(
                "table {table} of link {:?} is in use by {by}; choose another with table = NUMBER",
                link.name
            );
            Err(refuse(&link.place, message))
        };
        for rule in self.rules.clone().iter().filter(|rule| rule.table == table) {
            let from = rule.from.clone().unwrap_or_default();
            if !rule.is_ours {
                return taken(&format!("a rule (priority {})", rule.priority));
            }
            if from != link.tun && self.interface(&from)?.is_some() {
                return taken(&format!("another router's device {from:?}"));
            }
        }
        match self
            .routes
            .iter()
            .find(|route| route.table == table && !route.is_ours)
        {
            Some(route) => taken(&format!("a route to {}", route.to)),
            None => Ok(()),
        }
    }

    /// Returns the device of a route, and the source address of the router's own packets on it.
    fn check_route(&mut self, link: &LinkSpec, route: &RouteSpec) -> Result<Exit, HostError> {
        let refuse = |message: String| Err(refuse(&route.place, message));
        let dev = &route.dev;
        let Some(interface) = self.interface(dev)? else {
            return refuse(format!(
                "there is no device {dev:?}; name one that `ip link` lists"
            ));
        };
        if !interface.is_up {
            return refuse(format!(
                "device {dev:?} is down; switch it on: ip link set {dev} up"
            ));
        }
        let family = route.to.family();
        if family == Family::V4 {
            check_reverse_path(dev)?;
        }
        let metric = main_metric(family);
        let existing = self.routes.iter().find(|entry| {
            entry.table == MAIN_TABLE && entry.to == route.to && entry.metric == metric
        });
        if existing.is_some() {
            return refuse(format!(
                "{} is routed already (see `ip route show {}`); remove that route, or route parts of it to link {:?}",
                route.to, route.to, link.name
            ));
        }
        let on_link = |entry: &&RouteEntry| {
            entry.way
                == Way::Out {
                    device: interface.index,
                    via: None,
                }
        };
        let mut local = self
            .routes
            .iter()
            .filter(|entry| entry.table == MAIN_TABLE)
            .filter(on_link);
        let source = match route.via {
            None => local
                .find(|entry| entry.to.family() == family && entry.source.is_some())
                .and_then(|entry| entry.source),
            Some(via) => match local
                .filter(|entry| entry.to.contains(via))
                .max_by_key(|entry| entry.to.length())
            {
                Some(entry) => entry.source,
                None => {
                    return refuse(format!(
                        "no route to {via} by device {dev:?}; give {dev} an address in the same subnet as {via}"
                    ));
                }
            },
        };
        Ok(Exit {
            device: interface.index,
            source,
        })
    }
}

fn check_forwarding(family: Family) -> Result<(), HostError> {
    match family {
        Family::V4 => {
            let reason = "the kernel forwards no IPv4 packets";
            demand(Sysctl::of("ipv4/ip_forward"), |value| value == 1, reason, 1)?;
            // The larger of `all` and the interface's own counts, so our device's 0 is not enough.
            let reason =
                "packets that come back from the router's TUN device would be taken for spoofed";
            demand(
                Sysctl::of_interface("ipv4", "all", "rp_filter"),
                |value| value == 0,
                reason,
                0,
            )
        }
        Family::V6 => {
            let reason = "the kernel forwards no IPv6 packets";
            demand(
                Sysctl::of_interface("ipv6", "all", "forwarding"),
                |value| value >= 1,
                reason,
                1,
            )
        }
    }
}

/// Answers arrive by the device at which a link leaves, while the route back leads to the link's
/// TUN device. The strict filter (RFC 3704, section 2.2) takes that for spoofing.
fn check_reverse_path(dev: &str) -> Result<(), HostError> {
    let reason =
        format!("packets that come in by {dev} from where a link leads would be taken for spoofed");
    demand(
        Sysctl::of_interface("ipv4", dev, "rp_filter"),
        |value| value != 1,
        &reason,
        0,
    )
}

fn demand(
    sysctl: Sysctl,
    allows: impl Fn(i64) -> bool,
    reason: &str,
    remedy: i64,
) -> Result<(), HostError> {
    let setting = sysctl.name();
    let value = sysctl.read().map_err(kernel(&setting))?;
    if allows(value) {
        return Ok(());
    }
    Err(HostError::Setting {
        setting,
        value,
        reason: reason.to_owned(),
        remedy,
    })
}

fn refuse(place: &Place, message: String) -> HostError {
    HostError::Config {
        place: place.clone(),
        message,
    }
}

fn kernel(what: &str) -> impl FnOnce(io::Error) -> HostError {
    let what = what.to_owned();
    move |source| HostError::Kernel { what, source }
}
