//! Installs what a router needs in the kernel, and removes it again.
//!
//! Each link gets a TUN device with its own settings, routes of the main table into it, its own
//! table with the routes onwards, and a rule that looks up packets from the device in that table.
//! Removing the device removes its settings and the routes into it. The rules and the table stay
//! until [`Plumbing`]'s destructor or the next start removes them.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use tracing::debug;

use crate::complaint::complain;
use crate::config::{Config, LinkSpec};
use crate::device::Device;
use crate::family::Family;
use crate::netlink::{MAIN_TABLE, Netlink, RouteEntry, RuleEntry, Way};
use crate::prefix::Prefix;
use crate::sysctl::Sysctl;

/// Priority of our rules: after the local table (0), before the main one (32766).
pub(crate) const RULE_PRIORITY: u32 = 1000;

/// Packets that a TUN device's ring holds while the router is busy: 50 ms at 1 Gb/s and 1500 bytes.
/// The kernel's own 500 (TUN_READQ_SIZE, drivers/net/tun.c) are 6 ms, less than a busy machine may
/// keep a process waiting.
const RING_PACKETS: u32 = 4096;

/// Metric of the route that ends a table: all others come first.
const LAST_METRIC: u32 = u32::MAX;

/// Where a configured route leaves the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Index of the device.
    pub(crate) device: u32,
    /// Source address of the router's own packets.
    pub(crate) source: Option<IpAddr>,
}

/// The exits of all routes: one list per link, in the order of the configuration.
pub(crate) type Exits = Vec<Vec<Exit>>;

/// Why something could not be installed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// No privilege.
    #[error("{what} is not permitted; run as root, or give the program CAP_NET_ADMIN")]
    NotPermitted {
        /// What the router tried.
        what: String,
    },
    /// The kernel refused.
    #[error("{what} failed: {source}; `evenkeel-router check` may tell more")]
    Failed {
        /// What the router tried.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Everything installed in the kernel. Dropping it removes rules and tables; closing the devices
/// removes them, their settings and the routes into them.
#[derive(Debug)]
pub(crate) struct Plumbing {
    netlink: Netlink,
    tuns: BTreeSet<String>,
    tables: BTreeSet<u32>,
}

/// Returns the metric of our routes in the main table: the lowest of the family, so that they come
/// before the host's own routes to the same destinations. (In IPv6, 0 means 1024.)
pub(crate) fn main_metric(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1,
    }
}

impl Plumbing {
    /// Installs everything, after removing what a killed router with the same configuration left.
    /// Returns the devices in the order of the links. Call it within a tokio runtime.
    pub(crate) fn install(
        config: &Config,
        exits: &Exits,
        netlink: Netlink,
    ) -> Result<(Self, Vec<Device>), SetupError> {
        let links = &config.links;
        let mut plumbing = Self {
            netlink,
            tuns: links.iter().map(|link| link.tun.clone()).collect(),
            tables: links.iter().map(|link| link.table).collect(),
        };
        plumbing
            .sweep()
            .map_err(failed("removing an earlier router's rules"))?;
        let mut tuns = Vec::new();
        for (link, exits) in links.iter().zip(exits) {
            tuns.push(plumbing.install_link(link, exits)?);
        }
        Ok((plumbing, tuns))
    }

    /// Returns how many packets found the ring of a device full, since its creation.
    pub(crate) fn ring_dropped(&mut self, tun: &str) -> io::Result<u64> {
        match self.netlink.interface(tun)? {
            Some(interface) => Ok(interface.tx_dropped),
            None => Err(io::Error::other(format!("device {tun} is gone"))),
        }
    }

    fn install_link(&mut self, link: &LinkSpec, exits: &[Exit]) -> Result<Device, SetupError> {
        let tun = self.make_tun(link)?;
        for family in link.families() {
            self.install_table(link, family)?;
        }
        for (route, exit) in link.routes.iter().zip(exits) {
            let way = Way::Out {
                device: exit.device,
                via: route.via,
            };
            self.add_route(&RouteEntry::ours(link.table, route.to, way), &route.dev)?;
        }
        // Last, so that no packet arrives before its way onwards is ready.
        let device = self.index_of(link)?;
        for (route, exit) in link.routes.iter().zip(exits) {
            let entry = RouteEntry {
                metric: main_metric(route.to.family()),
                source: exit.source,
                ..RouteEntry::ours(MAIN_TABLE, route.to, Way::Out { device, via: None })
            };
            self.add_route(&entry, &link.tun)?;
        }
        Ok(tun)
    }

    fn make_tun(&mut self, link: &LinkSpec) -> Result<Device, SetupError> {
        let what = format!("creating the TUN device {}", link.tun);
        let tun = Device::create(&link.tun, link.offload).map_err(failed(&what))?;
        let settings = settings(link);
        for (sysctl, value) in settings {
            debug!(name = %sysctl.name(), value, "setting");
            sysctl
                .set(value)
                .map_err(failed(&format!("setting {}", sysctl.name())))?;
        }
        let index = self.index_of(link)?;
        debug!(tun = link.tun, index, mtu = link.mtu, "bringing device up");
        let up = self.netlink.bring_up(index, link.mtu, RING_PACKETS);
        up.map_err(failed(&format!("switching {} on", link.tun)))?;
        Ok(tun)
    }

    fn index_of(&mut self, link: &LinkSpec) -> Result<u32, SetupError> {
        let what = format!("finding the TUN device {}", link.tun);
        match self.netlink.interface(&link.tun) {
            Ok(Some(interface)) => Ok(interface.index),
            Ok(None) => Err(failed(&what)(io::ErrorKind::NotFound.into())),
            Err(error) => Err(failed(&what)(error)),
        }
    }

    fn install_table(&mut self, link: &LinkSpec, family: Family) -> Result<(), SetupError> {
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
        self.add_route(&end, "nowhere")?;
        let rule = RuleEntry {
            family,
            from: Some(link.tun.clone()),
            table: link.table,
            priority: RULE_PRIORITY,
            is_ours: true,
        };
        let what = format!("adding the {family} rule for {}", link.tun);
        debug!(?rule, "adding rule");
        self.netlink.add_rule(&rule).map_err(failed(&what))
    }

    fn add_route(&mut self, route: &RouteEntry, to: &str) -> Result<(), SetupError> {
        let what = format!(
            "adding the route to {} by {to} in table {}",
            route.to, route.table
        );
        debug!(?route, "adding route");
        self.netlink.add_route(route).map_err(failed(&what))
    }

    /// Removes our rules and routes of these links.
    fn sweep(&mut self) -> io::Result<()> {
        for family in Family::ALL {
            for rule in self.netlink.rules(family)? {
                let is_of_links = self.tables.contains(&rule.table)
                    || rule
                        .from
                        .as_ref()
                        .is_some_and(|from| self.tuns.contains(from));
                if rule.is_ours && is_of_links {
                    debug!(?rule, "removing rule");
                    self.netlink.delete_rule(&rule)?;
                }
            }
            for route in self.netlink.routes(family)? {
                if route.is_ours && self.tables.contains(&route.table) {
                    debug!(?route, "removing route");
                    self.netlink.delete_route(&route)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Plumbing {
    fn drop(&mut self) {
        if let Err(error) = self.sweep() {
            complain(&format!(
                "cannot remove rules and routes: {error}; the next start will try again"
            ));
        }
    }
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

fn failed(what: &str) -> impl FnOnce(io::Error) -> SetupError {
    let what = what.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => SetupError::NotPermitted { what },
        _ => SetupError::Failed { what, source },
    }
}

#[cfg(test)]
mod tests;
