//! Installs what a router needs in the kernel, and removes it again.
//!
//! Each link gets a TUN device with its own settings, routes of the main table into it, its own
//! table with the routes onwards, and a rule that looks up packets from the device in that table.
//! Removing the device removes its settings and the routes into it. The rules and the table stay
//! until [`Plumbing`]'s destructor or the next start removes them. What others take away,
//! [`Plumbing::mend`] puts back.

pub(crate) mod bypass;
mod explanation;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use crate::clock;
use crate::config::{Config, LinkSpec, RouteSpec};
use crate::device::Opened;
use crate::failure::Failure;
use crate::family::Family;
use crate::host;
use crate::netlink::{Interface, MAIN_TABLE, Netlink, RouteEntry, RuleEntry, Selection, Way};
use crate::prefix::Prefix;
use crate::sysctl::Sysctl;

pub(crate) use explanation::explain;

/// Priority of our rules: after the local table (0), before the main one (32766).
pub(crate) const RULE_PRIORITY: u32 = 1000;

/// Packets that a TUN device's ring holds while the router is busy: 50 ms at 1 Gb/s and 1500 bytes.
/// The kernel's own 500 (TUN_READQ_SIZE, drivers/net/tun.c) are 6 ms, less than a busy machine may
/// keep a process waiting.
const RING_PACKETS: u32 = 4096;

/// Metric of the route that ends a table: all others come first.
const LAST_METRIC: u32 = u32::MAX;

/// For how long a link is degraded after a route into it was missing: longer than it takes to put back
/// one that a program keeps removing.
const SUSPICION: Duration = Duration::from_secs(5);

/// No file descriptor was left (errno(3)): nothing is known then, and nothing lost.
const NO_FILES: [i32; 2] = [23, 24];

/// What a link has not got.
#[derive(Debug)]
pub(crate) enum Lack {
    /// Its device: there is no link any more.
    Device(io::Error),
    /// Something that is tried again; at least one.
    Parts(Vec<Failure>),
}

/// What a look at a link's parts in the kernel has found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The name of its device.
    pub(crate) tun: String,
    /// What it has not got.
    pub(crate) lack: Result<(), Lack>,
}

/// Everything installed in the kernel. Dropping it removes rules and tables; closing the devices
/// removes them, their settings and the routes into them.
#[derive(Debug)]
pub(crate) struct Plumbing {
    netlink: Netlink,
    links: Vec<Laid>,
}

/// A link in the kernel.
#[derive(Debug)]
struct Laid {
    spec: LinkSpec,
    /// Of its device, whatever somebody calls it.
    index: u32,
    /// Its device, which the thread that forwards lets go first.
    _device: Opened,
    /// What comes out of the device goes on by the link's table. Otherwise it would go round in
    /// circles, so that nothing may be routed into the device.
    leads_on: bool,
    /// What has been routed into the device.
    routed: Vec<Prefix>,
    /// The route into the device that was last put back, and when.
    put_back: Option<(Prefix, Instant)>,
}

/// The kernel's rules, and our routes that it has.
struct Present {
    rules: Vec<RuleEntry>,
    routes: Vec<RouteEntry>,
}

/// Returns the metric of our routes in the main table: the lowest of the family, so that they come
/// before the host's own routes to the same destinations. (In IPv6, 0 means 1024.)
pub(crate) fn main_metric(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

/// Returns the metric of routes in links' tables. (In IPv6, 0 means 1024: IP6_RT_PRIO_USER,
/// linux/ipv6_route.h.)
fn onward_metric(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1024,
    }
}

impl Plumbing {
    /// Has no link yet.
    pub(crate) fn empty(netlink: Netlink) -> Self {
        Self {
            netlink,
            links: Vec::new(),
        }
    }

    /// Installs everything, after removing what a killed router with the same configuration left.
    /// Returns the devices in the order of the links.
    pub(crate) fn install(
        config: &Config,
        netlink: Netlink,
    ) -> Result<(Self, Vec<Opened>), Failure> {
        let mut plumbing = Self::empty(netlink);
        for link in &config.links {
            plumbing
                .sweep(link)
                .map_err(failed("removing an earlier router's rules"))?;
        }
        let tuns = config.links.iter().map(|link| plumbing.add(link));
        let tuns = tuns.collect::<Result<_, _>>()?;
        Ok((plumbing, tuns))
    }

    /// Returns how many packets found the ring of each link's device full, since its creation, by
    /// the names of the devices.
    pub(crate) fn ring_dropped(&mut self) -> io::Result<HashMap<String, u64>> {
        let netlink = &mut self.netlink;
        let links = self.links.iter();
        let counts = links.map(|link| {
            let device = interface(netlink, link.index)?;
            Ok((link.spec.tun.clone(), device.tx_dropped))
        });
        counts.collect()
    }

    /// Returns true if a route is ours or may have taken the place of one of ours.
    pub(crate) fn concerns(&self, route: &RouteEntry) -> bool {
        route.is_ours
            || self.links.iter().any(|link| {
                let mut routes = link.spec.routes.iter();
                let may_precede = |ours: &RouteSpec| match route.table {
                    MAIN_TABLE => route.to == ours.to,
                    _ => route.to.covers(ours.to),
                };
                route.table == link.spec.table || routes.any(may_precede)
            })
    }

    /// Puts back what links have lost and can have again. Looks at devices and settings, and only
    /// if `thoroughly` at rules and routes. Returns what each link has not got.
    pub(crate) fn mend(&mut self, thoroughly: bool) -> Vec<Found> {
        let present = thoroughly.then(|| Present::read(&mut self.netlink));
        let present = match present.transpose() {
            Ok(present) => present,
            Err(error) => {
                let lack = failed("reading rules and routes")(error);
                let lack = |link: &Laid| Found {
                    tun: link.spec.tun.clone(),
                    lack: Err(Lack::Parts(vec![lack.clone()])),
                };
                return self.links.iter().map(lack).collect();
            }
        };
        let netlink = &mut self.netlink;
        let links = self.links.iter_mut();
        let found = links.map(|link| Found {
            lack: link.lay(netlink, present.as_ref()),
            tun: link.spec.tun.clone(),
        });
        let found = found.collect();
        if let Some(present) = present {
            self.clear(&present);
        }
        found
    }

    /// Takes over what links want now; they keep their devices and tables. [`Plumbing::mend`] then
    /// makes it so, and removes the routes of links that are not among them.
    pub(crate) fn adopt(&mut self, specs: &[LinkSpec]) {
        for link in &mut self.links {
            link.spec.routes.clear();
            if let Some(spec) = specs.iter().find(|spec| spec.tun == link.spec.tun) {
                link.spec = spec.clone();
            }
            let routes = &link.spec.routes;
            link.routed
                .retain(|to| routes.iter().any(|route| route.to == *to));
        }
        let position = |link: &Laid| specs.iter().position(|spec| spec.tun == link.spec.tun);
        self.links
            .sort_by_key(|link| position(link).unwrap_or(usize::MAX));
    }

    /// Removes rules and tables of links that have no routes any more.
    pub(crate) fn forget(&mut self) {
        let links = std::mem::take(&mut self.links);
        for link in links {
            if link.spec.routes.is_empty() {
                self.sweep_or_warn(&link.spec);
            } else {
                self.links.push(link);
            }
        }
    }

    /// Removes a link that [`Plumbing::add`] has made; its device goes when it is closed.
    pub(crate) fn undo(&mut self, spec: &LinkSpec) {
        self.links.retain(|link| link.spec.tun != spec.tun);
        self.sweep_or_warn(spec);
    }

    fn sweep_or_warn(&mut self, link: &LinkSpec) {
        if let Err(error) = self.sweep(link) {
            warn!("cannot remove rules and routes: {error}; the next start will try again");
        }
    }

    /// Makes the device of a link, and everything that leads into and out of it.
    pub(crate) fn add(&mut self, spec: &LinkSpec) -> Result<Opened, Failure> {
        let what = format!("creating the TUN device {}", spec.tun);
        let tun = Opened::create(&spec.tun, spec.offload).map_err(failed(&what))?;
        let interface = self.netlink.interface(&spec.tun).map_err(failed(&what))?;
        let gone = || failed(&what)(io::ErrorKind::NotFound.into());
        let index = interface.ok_or_else(gone)?.index;
        let mut link = Laid {
            spec: spec.clone(),
            index,
            _device: tun.clone(),
            leads_on: false,
            routed: Vec::new(),
            put_back: None,
        };
        let present =
            Present::read(&mut self.netlink).map_err(failed("reading rules and routes"))?;
        let laid = link.lay(&mut self.netlink, Some(&present));
        self.links.push(link);
        let error = match laid {
            Ok(()) => return Ok(tun),
            Err(Lack::Device(error)) => failed(&what)(error),
            Err(Lack::Parts(parts)) => parts.into_iter().next().expect("at least one"),
        };
        self.undo(spec);
        Err(error)
    }

    /// Removes rules and routes of ours that links do not want. A failure shows when they are in
    /// the way.
    fn clear(&mut self, present: &Present) {
        for link in &self.links {
            for route in present.routes.iter().filter(|route| link.has_over(route)) {
                debug!(?route, "removing route");
                let _ = self.netlink.delete_route(route);
            }
        }
    }

    /// Removes our rules and routes of a link.
    fn sweep(&mut self, link: &LinkSpec) -> io::Result<()> {
        let present = Present::read(&mut self.netlink)?;
        for rule in present.rules.into_iter().filter(|rule| rule.is_ours) {
            if rule.table == link.table || rule.from.as_ref() == Some(&link.tun) {
                debug!(?rule, "removing rule");
                self.netlink.delete_rule(&rule)?;
            }
        }
        for route in present.routes {
            if route.table == link.table {
                debug!(?route, "removing route");
                self.netlink.delete_route(&route)?;
            }
        }
        Ok(())
    }
}

impl Laid {
    /// Makes everything so that packets take this link; leaves what is so already.
    fn lay(&mut self, netlink: &mut Netlink, present: Option<&Present>) -> Result<(), Lack> {
        let mut parts = Vec::new();
        let is_named = self.lay_device(netlink, &mut parts)?;
        for family in self.spec.families() {
            // One that cannot be read tells nothing.
            parts.extend(host::forwarding_problems(family).unwrap_or_default());
        }
        for route in &self.spec.routes {
            if route.to.family() == Family::V4 {
                parts.extend(host::reverse_path_problem(&route.dev).ok().flatten());
            }
        }
        if let Some(present) = present {
            let before = parts.len();
            for family in self.spec.families() {
                parts.extend(self.lay_table(netlink, present, family).err());
            }
            self.leads_on = is_named && parts.len() == before;
            for route in &self.spec.routes.clone() {
                self.lay_route(netlink, present, route, &mut parts);
                let by_rule = bypass::by_rule(netlink, &present.rules, route.to, Some(self.index));
                parts.extend(by_rule.unwrap_or_default());
                if self.leads_on {
                    parts.extend(bypass::by_route(netlink, route.to, self.index));
                }
            }
        }
        if parts.is_empty() {
            parts.extend(self.suspicion());
        }
        if parts.is_empty() {
            return Ok(());
        }
        // Something is missing because the device has gone meanwhile.
        interface(netlink, self.index).map_err(Lack::Device)?;
        Err(Lack::Parts(parts))
    }

    /// Returns whether the device has its name.
    fn lay_device(&self, netlink: &mut Netlink, parts: &mut Vec<Failure>) -> Result<bool, Lack> {
        let link = &self.spec;
        let Interface {
            name, is_up, mtu, ..
        } = interface(netlink, self.index).map_err(Lack::Device)?;
        if name != link.tun {
            debug!(name, tun = link.tun, "renaming device");
            let what = format!("renaming {name} to {} again", link.tun);
            if let Err(error) = netlink.rename(self.index, &link.tun) {
                parts.push(failed(&what)(error));
                return Ok(false);
            }
        }
        for (sysctl, value) in settings(link) {
            match sysctl.set(value) {
                Err(error) if error.raw_os_error().is_some_and(|n| NO_FILES.contains(&n)) => {}
                set => parts.extend(
                    set.map_err(failed(&format!("setting {}", sysctl.name())))
                        .err(),
                ),
            }
        }
        if !is_up || mtu != link.mtu {
            debug!(
                tun = link.tun,
                index = self.index,
                mtu = link.mtu,
                "bringing device up"
            );
            let up = netlink.bring_up(self.index, link.mtu, RING_PACKETS);
            parts.extend(
                up.map_err(failed(&format!("switching {} on", link.tun)))
                    .err(),
            );
        }
        Ok(true)
    }

    fn lay_table(
        &self,
        netlink: &mut Netlink,
        present: &Present,
        family: Family,
    ) -> Result<(), Failure> {
        let link = &self.spec;
        let everything = match family {
            Family::V4 => Prefix::of(IpAddr::from([0; 4]), 0),
            Family::V6 => Prefix::of(IpAddr::from([0; 16]), 0),
        };
        // If a device goes down, the kernel removes the routes over it. Without this end of the
        // table, packets would then find the main table and loop.
        let end = RouteEntry {
            metric: LAST_METRIC,
            ..RouteEntry::ours(link.table, everything, Way::Unreachable)
        };
        present.lay(netlink, &end, "nowhere")?;
        let rule = RuleEntry {
            family,
            to: None,
            selects: true,
            from: Some(link.tun.clone()),
            table: link.table,
            priority: RULE_PRIORITY,
            is_ours: true,
        };
        if present.rules.contains(&rule) {
            return Ok(());
        }
        let what = format!("adding the {family} rule for {}", link.tun);
        debug!(?rule, "adding rule");
        netlink.add_rule(&rule).map_err(failed(&what))
    }

    /// First the way onwards, so that no packet arrives before it is ready. Without it packets are
    /// unreachable by this link, but do not pass beside it.
    fn lay_route(
        &mut self,
        netlink: &mut Netlink,
        present: &Present,
        route: &RouteSpec,
        parts: &mut Vec<Failure>,
    ) {
        let family = route.to.family();
        let exit = match host::find_exit(netlink, route) {
            Ok(exit) => Some(exit),
            Err(error) => {
                parts.push(error);
                None
            }
        };
        if let Some(exit) = exit {
            let way = Way::Out {
                device: exit.device,
                via: route.via,
            };
            let entry = RouteEntry {
                metric: onward_metric(family),
                ..RouteEntry::ours(self.spec.table, route.to, way)
            };
            parts.extend(present.lay(netlink, &entry, &route.dev).err());
        }
        if self.leads_on {
            let way = Way::Out {
                device: self.index,
                via: None,
            };
            let entry = RouteEntry {
                metric: main_metric(family),
                source: exit.and_then(|exit| exit.source),
                ..RouteEntry::ours(MAIN_TABLE, route.to, way)
            };
            let was_routed = self.routed.contains(&route.to);
            match present.lay(netlink, &entry, &self.spec.tun) {
                Err(error) => parts.push(error),
                Ok(()) if !was_routed => self.routed.push(route.to),
                Ok(()) if parts.is_empty() && present.in_place_of(&entry).is_none() => {
                    self.put_back = Some((route.to, clock::now()));
                }
                Ok(()) => {}
            }
        }
    }

    /// What the link lacked a moment ago.
    fn suspicion(&self) -> Option<Failure> {
        let (to, at) = self.put_back?;
        (clock::now() - at < SUSPICION).then(|| {
            Failure::new(format!(
                "another program has removed the route to {to}: packets passed beside the link until it \
                 was put back; find that program with `ip monitor route`"
            ))
        })
    }

    /// Whether a route of ours is this link's, and the link does not want it.
    fn has_over(&self, route: &RouteEntry) -> bool {
        let mut routes = self.spec.routes.iter();
        let is_routed = routes.any(|ours| ours.to == route.to);
        if route.table == self.spec.table {
            return route.metric != LAST_METRIC && !is_routed;
        }
        let into = matches!(route.way, Way::Out { device, .. } if device == self.index);
        route.table == MAIN_TABLE && into && !(is_routed && self.leads_on)
    }
}

impl Present {
    fn read(netlink: &mut Netlink) -> io::Result<Self> {
        let (mut rules, mut routes) = (Vec::new(), Vec::new());
        for family in Family::ALL {
            rules.extend(netlink.rules(family)?);
            routes.extend(netlink.routes(family, Selection::Ours)?);
        }
        Ok(Self { rules, routes })
    }

    /// Our route with the destination and metric of another.
    fn in_place_of(&self, route: &RouteEntry) -> Option<&RouteEntry> {
        self.routes.iter().find(|entry| {
            (entry.table, entry.to, entry.metric) == (route.table, route.to, route.metric)
        })
    }

    /// Adds a route unless it is present; it may take the place of one of ours.
    fn lay(&self, netlink: &mut Netlink, route: &RouteEntry, by: &str) -> Result<(), Failure> {
        let added = match self.in_place_of(route) {
            Some(entry) if entry == route => return Ok(()),
            Some(_) => {
                debug!(?route, "replacing route");
                netlink.replace_route(route)
            }
            None => {
                debug!(?route, "adding route");
                netlink.add_route(route)
            }
        };
        let RouteEntry { table, to, .. } = *route;
        added.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::new(format!(
                "another route to {to} is in the place of the link's; remove it: \
                 ip route del {to} table {table}"
            )),
            _ => failed(&format!(
                "adding the route to {to} by {by} in table {table}"
            ))(error),
        })
    }
}

impl Drop for Plumbing {
    fn drop(&mut self) {
        for link in std::mem::take(&mut self.links) {
            self.sweep_or_warn(&link.spec);
        }
    }
}

fn interface(netlink: &mut Netlink, index: u32) -> io::Result<Interface> {
    let interface = netlink.interface_at(index)?;
    interface.ok_or_else(|| io::Error::other("there is no such device any more"))
}

/// Returns the settings that let packets come back out of a TUN device.
fn settings(link: &LinkSpec) -> Vec<(Sysctl, i64)> {
    let tun = &link.tun;
    let v4 = |name, value| (Sysctl::of_interface("ipv4", tun, name), value);
    let v6 = |name, value| (Sysctl::of_interface("ipv6", tun, name), value);
    let mut settings = Vec::new();
    for family in link.families() {
        settings.extend(match family {
            // Packets come from anywhere, even from the host's own addresses, and the way back does
            // not lead here; the kernel forwards them.
            Family::V4 => vec![
                v4("rp_filter", 0),
                v4("accept_local", 1),
                v4("forwarding", 1),
            ],
            // No address of its own (1: none, Documentation/networking/ip-sysctl.rst), and none
            // learned from router advertisements.
            Family::V6 => vec![
                v6("disable_ipv6", 0),
                v6("addr_gen_mode", 1),
                v6("accept_ra", 0),
            ],
        });
    }
    settings
}

fn failed(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |source| {
        Failure::new(match source.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("{what} is not permitted; run as root, or give the program CAP_NET_ADMIN")
            }
            _ => format!("{what} failed: {source}; `evenkeel-router check` may tell more"),
        })
    }
}

#[cfg(test)]
mod tests;
