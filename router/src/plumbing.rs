//! Installs what a router needs in the kernel, and removes it again.
//!
//! Each link gets a TUN device with its own settings, routes of the main table into it, its own
//! table with the routes onwards, and a rule that looks up packets from the device in that table.
//! Routes for some packets alone, and default routes, are in a second table of the link, to which
//! rules lead. Removing the device removes its settings and the routes into it. The rules and the
//! tables stay until [`Plumbing`]'s destructor or the next start removes them. What others take
//! away, [`Plumbing::mend`] puts back.

pub(crate) mod bypass;
mod counted;
mod explanation;
mod killed;
mod present;
mod settings;
mod suspicion;
mod tables;

use std::collections::{BTreeSet, HashMap};
use std::io;

use evenkeel_queue::Amount;
use tracing::{debug, warn};

use crate::config::{Config, Entry, LinkSpec, MAIN_TABLE, RouteSpec, Via};
use crate::device::Opened;
use crate::failure::Failure;
use crate::family::Family;
use crate::host;
use crate::netlink::{Interface, Netlink, RouteEntry, RuleEntry, Way, round};
use crate::prefix::Prefix;

use counted::Counted;
pub(crate) use explanation::explain;
use present::Present;
use settings::settings;
use suspicion::Suspicion;
pub(crate) use tables::main_metric;
use tables::{LAST_METRIC, end, entry_table, has_rules, onward_metric, rule_onward, rules_to};

/// Packets that a TUN device's ring holds while the router is busy: 50 ms at 1 Gb/s and 1500 bytes.
/// The kernel's own 500 (TUN_READQ_SIZE, drivers/net/tun.c) are 6 ms, less than a busy machine may
/// keep a process waiting.
const RING_PACKETS: u32 = 4096;

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
    /// Packets that come out of the device may come round into it.
    pub(crate) comes_round: bool,
}

/// Everything installed in the kernel. Dropping it removes rules and tables; closing the devices
/// removes them, their settings and the routes into them.
#[derive(Debug)]
pub(crate) struct Plumbing {
    netlink: Netlink,
    links: Vec<Laid>,
    beside: Counted,
}

/// What the kernel has counted of a link, since its device was created.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Packets that found the ring of its device full.
    pub(crate) ring_dropped: u64,
    /// What passed beside the link; `None` if that is not counted.
    pub(crate) beside: Option<Amount>,
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
    /// A rule of others leads it elsewhere, perhaps round in circles.
    comes_round: bool,
    /// What has been routed into the device, and in which tables.
    routed: Vec<(u32, Prefix)>,
    /// The tables in which something ever was. In others, a route of ours by the device is another
    /// router's, whose link leads on into this one.
    entered: BTreeSet<u32>,
    /// The rules that have led to its routes.
    ruled: Vec<RuleEntry>,
    suspicion: Suspicion,
}

impl Plumbing {
    /// Has no link yet.
    pub(crate) fn empty(netlink: Netlink) -> Self {
        Self {
            netlink,
            links: Vec::new(),
            beside: Counted::default(),
        }
    }

    /// Installs everything, after removing what killed routers left.
    /// Returns the devices in the order of the links.
    pub(crate) fn install(
        config: &Config,
        netlink: Netlink,
    ) -> Result<(Self, Vec<Opened>), Failure> {
        let mut plumbing = Self::empty(netlink);
        let swept = plumbing.sweep_killed().and_then(|()| {
            let mut links = config.links.iter();
            links.try_for_each(|link| plumbing.sweep(&link.tun, link.own_tables()))
        });
        swept.map_err(failed("removing an earlier router's rules"))?;
        let tuns = config.links.iter().map(|link| plumbing.add(link));
        let tuns = tuns.collect::<Result<_, _>>()?;
        plumbing.beside = Counted::open(&config.name);
        plumbing.count_beside();
        Ok((plumbing, tuns))
    }

    /// Returns what the kernel has counted of each link, by the names of the devices.
    pub(crate) fn counts(&mut self) -> io::Result<HashMap<String, Counts>> {
        let netlink = &mut self.netlink;
        let beside = self.beside.read();
        let links = self.links.iter();
        let counts = links.map(|link| {
            let tun = &link.spec.tun;
            let counts = Counts {
                ring_dropped: interface(netlink, link.index)?.tx_dropped,
                beside: beside.as_ref().and_then(|beside| beside.get(tun).copied()),
            };
            Ok((tun.clone(), counts))
        });
        counts.collect()
    }

    /// Counts what passes beside the links as they are now.
    fn count_beside(&mut self) {
        self.beside.count(self.links.iter().map(|link| &link.spec));
    }

    /// Returns true if a route is ours or may have taken the place of one of ours.
    pub(crate) fn concerns(&self, route: &RouteEntry) -> bool {
        route.is_ours
            || self.links.iter().any(|link| {
                let mut routes = link.spec.routes.iter();
                let may_precede = |ours: &RouteSpec| match route.table {
                    // A default route may have another gateway now.
                    MAIN_TABLE => {
                        route.to == ours.to || (ours.via == Via::Default && route.to.length() == 0)
                    }
                    _ => route.to.covers(ours.to),
                };
                link.spec.own_tables().contains(&route.table) || routes.any(may_precede)
            })
    }

    /// Puts back what links have lost and can have again. Looks at devices and settings, and only
    /// if `thoroughly` at rules and routes. Returns what each link has not got.
    pub(crate) fn mend(&mut self, thoroughly: bool) -> Vec<Found> {
        let tuns = self.links.iter().map(|link| link.spec.tun.clone());
        let tuns = tuns.collect();
        let present = thoroughly.then(|| Present::read_beside_others(&mut self.netlink, &tuns));
        let present = match present.transpose() {
            Ok(present) => present,
            Err(error) => {
                let lack = failed("reading rules and routes")(error);
                let lack = |link: &Laid| Found {
                    tun: link.spec.tun.clone(),
                    lack: Err(Lack::Parts(vec![lack.clone()])),
                    comes_round: link.comes_round,
                };
                return self.links.iter().map(lack).collect();
            }
        };
        let netlink = &mut self.netlink;
        let links = self.links.iter_mut();
        let found = links.map(|link| Found {
            lack: link.lay(netlink, present.as_ref()),
            tun: link.spec.tun.clone(),
            comes_round: link.comes_round,
        });
        let found = found.collect();
        if let Some(present) = present {
            self.clear(&present);
        }
        self.note_rounds();
        found
    }

    /// Notes for the next look which links packets have come round into, and by no rule that is known.
    fn note_rounds(&mut self) {
        let counts = self.beside.read().unwrap_or_default();
        for link in &mut self.links {
            let tun = &link.spec.tun;
            let packets = counts.get(&round(tun)).map_or(0, |amount| amount.packets);
            link.suspicion.came_round(tun, packets, link.comes_round);
        }
    }

    /// Takes over what links want now; they keep their devices and tables. [`Plumbing::mend`] then
    /// makes it so, and removes the routes of links that are not among them.
    pub(crate) fn adopt(&mut self, specs: &[LinkSpec]) {
        for link in &mut self.links {
            link.spec.routes.clear();
            if let Some(spec) = specs.iter().find(|spec| spec.tun == link.spec.tun) {
                link.spec = spec.clone();
            }
            let spec = &link.spec;
            link.routed.retain(|(table, to)| {
                let mut routes = spec.routes.iter();
                routes.any(|route| route.to == *to && entry_table(spec, route) == *table)
            });
            link.ruled.retain(|rule| {
                let mut routes = spec.routes.iter();
                routes.any(|route| rules_to(spec, route).contains(rule))
            });
        }
        let position = |link: &Laid| specs.iter().position(|spec| spec.tun == link.spec.tun);
        self.links
            .sort_by_key(|link| position(link).unwrap_or(usize::MAX));
        self.count_beside();
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
        if let Err(error) = self.sweep(&link.tun, link.own_tables()) {
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
            comes_round: false,
            routed: Vec::new(),
            entered: BTreeSet::new(),
            ruled: Vec::new(),
            suspicion: Suspicion::default(),
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
        let links = self.links.iter();
        let wanted = links.flat_map(|link| {
            let routes = link.spec.routes.iter();
            routes.flat_map(|route| rules_to(&link.spec, route))
        });
        let wanted: Vec<_> = wanted.collect();
        let own: Vec<_> = self
            .links
            .iter()
            .map(|link| link.spec.entry_table())
            .collect();
        let over = present.rules.iter().filter(|rule| {
            let leads_to_own = own.contains(&rule.table);
            // One that looks in the main table first belongs to the one behind it.
            let is_before = rule.table == MAIN_TABLE && !present.is_shared(rule, &own);
            let is_ours = rule.is_ours && (leads_to_own || is_before);
            is_ours && !wanted.contains(rule)
        });
        for rule in over {
            debug!(?rule, "removing rule");
            let _ = self.netlink.delete_rule(rule);
        }
        for link in &self.links {
            for route in present.routes.iter().filter(|route| link.has_over(route)) {
                debug!(?route, "removing route");
                let _ = self.netlink.delete_route(route);
            }
        }
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
            self.comes_round = false;
            let Present { rules, others, .. } = present;
            for route in &self.spec.routes.clone() {
                self.lay_route(netlink, present, route, &mut parts);
                let device = Some(self.index);
                let by_rule = bypass::by_rule(netlink, rules, others, &self.spec, route, device);
                let behind = bypass::behind(netlink, rules, &self.spec, route).unwrap_or_default();
                self.comes_round |= behind.is_some();
                parts.extend(by_rule.unwrap_or_default().or(behind));
                if self.leads_on && route.entry == Entry::Table(MAIN_TABLE) {
                    parts.extend(bypass::by_route(netlink, route.to, self.index));
                }
            }
        }
        if parts.is_empty() {
            parts.extend(self.suspicion.lasting());
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
        // If a device goes down, the kernel removes the routes over it. Without this end of the
        // table, packets would then find the main table and loop.
        present.lay(netlink, &end(link.table, family), "nowhere")?;
        if has_rules(link, family) {
            // Nor do packets pass beside the link if somebody removes the route into it.
            present.lay(netlink, &end(link.entry_table(), family), "nowhere")?;
        }
        present.lay_rule(netlink, &rule_onward(link, family))
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
                via: exit.via,
            };
            let entry = RouteEntry {
                metric: onward_metric(family),
                ..RouteEntry::ours(self.spec.table, route.to, way)
            };
            if self.is_first(route, |other| other.to == route.to) {
                parts.extend(present.lay(netlink, &entry, &route.dev).err());
            }
        }
        if self.leads_on {
            let way = Way::Out {
                device: self.index,
                via: None,
            };
            let table = entry_table(&self.spec, route);
            let entry = RouteEntry {
                metric: main_metric(family),
                source: exit.and_then(|exit| exit.source),
                ..RouteEntry::ours(table, route.to, way)
            };
            let is_alike =
                |other: &RouteSpec| other.to == route.to && entry_table(&self.spec, other) == table;
            let key = (table, route.to);
            let is_first = self.is_first(route, is_alike);
            let was_routed = self.routed.contains(&key);
            self.entered.insert(table);
            match present.lay(netlink, &entry, &self.spec.tun) {
                _ if !is_first => {}
                Err(error) => parts.push(error),
                Ok(()) if !was_routed => self.routed.push(key),
                Ok(()) if parts.is_empty() && present.in_place_of(&entry).is_none() => {
                    self.suspicion
                        .removed(&format!("the route to {}", route.to));
                }
                Ok(()) => {}
            }
            for rule in rules_to(&self.spec, route) {
                let was_there = self.ruled.contains(&rule);
                match present.lay_rule(netlink, &rule) {
                    Err(error) => parts.push(error),
                    Ok(()) if !was_there => self.ruled.push(rule),
                    Ok(()) if parts.is_empty() && !present.rules.contains(&rule) => {
                        let what = format!("the rule of priority {}", rule.priority);
                        self.suspicion.removed(&what);
                    }
                    Ok(()) => {}
                }
            }
        }
    }

    /// Whether no route of the link before this one is alike.
    fn is_first(&self, route: &RouteSpec, is_alike: impl Fn(&RouteSpec) -> bool) -> bool {
        let mut routes = self.spec.routes.iter();
        routes.find(|other| is_alike(other)) == Some(route)
    }

    /// Whether a route of ours is this link's, and the link does not want it.
    fn has_over(&self, route: &RouteEntry) -> bool {
        let spec = &self.spec;
        if route.table == spec.table {
            let mut routes = spec.routes.iter();
            return route.metric != LAST_METRIC && !routes.any(|ours| ours.to == route.to);
        }
        if route.table == spec.entry_table() && route.metric == LAST_METRIC {
            return !has_rules(spec, route.to.family());
        }
        let into = matches!(route.way, Way::Out { device, .. } if device == self.index)
            && self.entered.contains(&route.table);
        let is_alike =
            |ours: &RouteSpec| ours.to == route.to && entry_table(spec, ours) == route.table;
        into && !(spec.routes.iter().any(is_alike) && self.leads_on)
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
