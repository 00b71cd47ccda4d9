//! Checks, before changing anything, that the host allows what the configuration asks for.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use crate::config::{Config, Entry, LinkSpec, RouteSpec, Via};
use crate::failure::Failure;
use crate::family::Family;
use crate::host::{find_exit, forwarding_problems, kernel, refuse, reverse_path_problem};
use crate::netlink::{Interface, Netlink, RouteEntry, RuleEntry, Selection, Way, dropping_chains};
use crate::plumbing::{bypass, main_metric};

/// Checks a configuration against the host. Of the router that runs it already, or an earlier
/// version of it, `running` names the TUN devices: they and what leads to them are in nobody's way.
///
/// # Errors
/// All that is wrong.
pub(crate) fn examine(
    config: &Config,
    running: &BTreeSet<String>,
    netlink: &mut Netlink,
) -> Result<(), Failure> {
    let tuns = config.links.iter().map(|link| link.tun.clone());
    let tuns = tuns.chain(running.iter().cloned()).collect();
    let mut host = Host::read(netlink, running, &tuns)?;
    let mut problems = Vec::new();
    problems.extend(device_problem(Path::new("/dev/net/tun")));
    problems.extend(permission_problem());
    for family in config.families() {
        problems.extend(forwarding_problems(family).unwrap_or_else(|error| vec![error]));
    }
    for link in &config.links {
        problems.extend(host.check_tun(link).err());
        problems.extend(host.check_table(link, link.table).err());
        if link.routes.iter().any(RouteSpec::has_rule) {
            problems.extend(host.check_table(link, link.entry_table()).err());
        }
        for route in &link.routes {
            problems.extend(host.check_route(link, route).err());
            problems.extend(host.check_rules(link, route).err());
        }
    }
    Failure::of(problems)
}

/// Says what may drop packets of links although nothing is wrong: a firewall that forwards nothing
/// but what its rules allow. Packets are forwarded twice, into the device of a link and out of it.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let families: Vec<_> = config.families().collect();
    // A kernel that does not tell has no nf_tables.
    let chains = dropping_chains().unwrap_or_default();
    let chains = chains
        .iter()
        .filter(|chain| families.iter().any(|family| chain.meets(*family)));
    let warning = |chain| {
        let tun = &config.links[0].tun;
        format!(
            "chain {chain} of nftables drops what no rule of it accepts: it must accept what goes \
             into links and what comes out of them, such as: nft insert rule {chain} oifname {tun} \
             accept; nft insert rule {chain} iifname {tun} accept"
        )
    };
    chains.map(warning).collect()
}

/// Returns what keeps this process from making TUN devices by this file.
fn device_problem(path: &Path) -> Option<Failure> {
    let at = path.display();
    let message = match File::options().read(true).write(true).open(path) {
        Ok(file) => {
            let metadata = file.metadata().ok()?;
            (!metadata.file_type().is_char_device()).then(|| {
                format!("{at} is no device; make it anew: rm {at}; mknod -m 666 {at} c 10 200")
            })
        }
        // EPERM (errno(3)) is not of the file, but of a list of devices.
        Err(error) if error.raw_os_error() == Some(1) => Some(format!(
            "no device {at} is allowed here; give it to the container (--device {at}) or the unit \
             (DeviceAllow={at} rw)"
        )),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(format!(
            "this user may not open {at}; allow it: chmod 666 {at}"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(format!(
            "there is no {at}; load it with `modprobe tun`, or give it to the container \
             (--device {at})"
        )),
        Err(error) => Some(format!(
            "cannot open {at}: {error}; load it with `modprobe tun`"
        )),
    };
    message.map(Failure::new)
}

/// Returns what keeps this process from changing the host's network; nothing if that is not known.
fn permission_problem() -> Option<Failure> {
    let held = capabilities(None).ok()?.effective;
    (!held.contains(CapabilitySet::NET_ADMIN)).then(|| {
        Failure::new(
            "this user may not change the host's network; run as root, or give the program \
             CAP_NET_ADMIN",
        )
    })
}

/// The routes and rules that the kernel has.
struct Host<'a> {
    netlink: &'a mut Netlink,
    routes: Vec<RouteEntry>,
    rules: Vec<RuleEntry>,
    /// Those of other routers.
    others: Vec<RuleEntry>,
    running: &'a BTreeSet<String>,
    /// Indices of its devices.
    devices: Vec<u32>,
}

impl<'a> Host<'a> {
    /// Of the router with these TUN devices, `running` or not.
    fn read(
        netlink: &'a mut Netlink,
        running: &'a BTreeSet<String>,
        tuns: &BTreeSet<String>,
    ) -> Result<Self, Failure> {
        let (mut routes, mut rules) = (Vec::new(), Vec::new());
        for family in Family::ALL {
            routes.extend(
                netlink
                    .routes(family, Selection::All)
                    .map_err(kernel("routes"))?,
            );
            rules.extend(netlink.rules(family).map_err(kernel("rules"))?);
        }
        let others = bypass::rules_of_others(netlink, &rules, tuns);
        let others = others.map_err(kernel("interfaces"))?;
        let mut devices = Vec::new();
        for tun in running {
            let device = netlink.interface(tun).map_err(kernel("interfaces"))?;
            devices.extend(device.map(|device| device.index));
        }
        Ok(Self {
            netlink,
            routes,
            rules,
            others,
            running,
            devices,
        })
    }

    fn interface(&mut self, name: &str) -> Result<Option<Interface>, Failure> {
        self.netlink.interface(name).map_err(kernel("interfaces"))
    }

    fn check_tun(&mut self, link: &LinkSpec) -> Result<(), Failure> {
        match self.interface(&link.tun)? {
            Some(_) if self.running.contains(&link.tun) => Ok(()),
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
    fn check_table(&mut self, link: &LinkSpec, table: u32) -> Result<(), Failure> {
        let taken = |by: &str| {
            let message = format!(
                "table {table} of link {:?} is in use by {by}; choose another with table = NUMBER",
                link.name
            );
            Err(refuse(&link.place, message))
        };
        for rule in self.rules.clone().iter().filter(|rule| rule.table == table) {
            if !rule.is_ours {
                return taken(&format!("a rule (priority {})", rule.priority));
            }
            let from = match (&rule.selector.iif, table == link.table) {
                (Some(device), true) => device.clone(),
                _ => continue,
            };
            let is_known = from == link.tun || self.running.contains(&from);
            if !is_known && self.interface(&from)?.is_some() {
                return taken(&format!("another router's device {from:?}"));
            }
        }
        let others = self.routes.clone();
        for route in others
            .iter()
            .filter(|route| route.table == table && route.is_ours)
        {
            let Way::Out { device, .. } = route.way else {
                continue;
            };
            let is_entry = table == link.entry_table();
            if is_entry && !self.devices.contains(&device) {
                return taken("another router's routes");
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

    fn check_rules(&mut self, link: &LinkSpec, route: &RouteSpec) -> Result<(), Failure> {
        let device = self.interface(&link.tun)?.map(|device| device.index);
        let (rules, others) = (&self.rules, &self.others);
        let past = bypass::by_rule(self.netlink, rules, others, link, route, device);
        let mut found = past.map_err(kernel("routes"))?;
        if found.is_none() {
            let behind = bypass::behind(self.netlink, &self.rules, link, route);
            found = behind.map_err(kernel("routes"))?;
        }
        match found {
            Some(found) => Err(refuse(&route.place, found.to_string())),
            None => Ok(()),
        }
    }

    fn check_route(&mut self, link: &LinkSpec, route: &RouteSpec) -> Result<(), Failure> {
        find_exit(self.netlink, route)?;
        let (to, refuse) = (route.to, |message| Err(refuse(&route.place, message)));
        if let Some(iif) = &route.selector.iif
            && self.interface(iif)?.is_none()
        {
            return refuse(format!(
                "iif = {iif:?}: there is no such device; name one that `ip link` lists"
            ));
        }
        let is_host = to.length() == to.family().bits();
        if is_host && !self.netlink.leaves(to.address()) {
            return refuse(format!(
                "{to} is this host's own, so that packets to it take no link; leave the route out"
            ));
        }
        if let Via::Router(via) = route.via
            && !self.netlink.leaves(via)
        {
            return refuse(format!(
                "via = {via} is this host's own, or for all of a network; name the next router"
            ));
        }
        let family = route.to.family();
        if family == Family::V4 {
            Failure::of(reverse_path_problem(&route.dev)?)?;
        }
        let Entry::Table(table) = route.entry else {
            return Ok(());
        };
        let metric = main_metric(family);
        let is_running = |entry: &RouteEntry| {
            entry.is_ours
                && matches!(entry.way, Way::Out { device, .. } if self.devices.contains(&device))
        };
        let existing = self.routes.iter().find(|entry| {
            // One for some types of service comes first whatever its metric.
            let has_place = entry.to == to && (entry.metric == metric || entry.tos > 0);
            entry.table == table && has_place && !is_running(entry)
        });
        match existing {
            None => Ok(()),
            Some(_) => refuse(format!(
                "{to} is routed already (see `ip route show {to}`); remove that route, or route parts of it to link {:?}",
                link.name
            )),
        }
    }
}
