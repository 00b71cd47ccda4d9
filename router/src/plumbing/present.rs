//! What the kernel has of ours.

use std::collections::BTreeSet;
use std::io;

use tracing::debug;

use super::{bypass, failed};
use crate::failure::Failure;
use crate::family::Family;
use crate::netlink::{Netlink, RouteEntry, RuleEntry, Selection};

/// The kernel's rules, and our routes that it has.
pub(super) struct Present {
    pub(super) rules: Vec<RuleEntry>,
    pub(super) routes: Vec<RouteEntry>,
    /// The rules of other routers, if they have been asked for.
    pub(super) others: Vec<RuleEntry>,
}

impl Present {
    pub(super) fn read(netlink: &mut Netlink) -> io::Result<Self> {
        let (mut rules, mut routes) = (Vec::new(), Vec::new());
        for family in Family::ALL {
            rules.extend(netlink.rules(family)?);
            routes.extend(netlink.routes(family, Selection::Ours)?);
        }
        Ok(Self {
            rules,
            routes,
            others: Vec::new(),
        })
    }

    /// The same with the rules of other routers than the one with these TUN devices.
    pub(super) fn read_beside_others(
        netlink: &mut Netlink,
        tuns: &BTreeSet<String>,
    ) -> io::Result<Self> {
        let mut present = Self::read(netlink)?;
        present.others = bypass::rules_of_others(netlink, &present.rules, tuns)?;
        Ok(present)
    }

    /// Our route with the destination and metric of another.
    pub(super) fn in_place_of(&self, route: &RouteEntry) -> Option<&RouteEntry> {
        self.routes.iter().find(|entry| {
            (entry.table, entry.to, entry.metric) == (route.table, route.to, route.metric)
        })
    }

    /// Adds a route unless it is present; it may take the place of one of ours.
    pub(super) fn lay(
        &self,
        netlink: &mut Netlink,
        route: &RouteEntry,
        by: &str,
    ) -> Result<(), Failure> {
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

    /// Adds a rule unless it is present.
    pub(super) fn lay_rule(&self, netlink: &mut Netlink, rule: &RuleEntry) -> Result<(), Failure> {
        if self.rules.contains(rule) {
            return Ok(());
        }
        debug!(?rule, "adding rule");
        let RuleEntry {
            family, priority, ..
        } = rule;
        match netlink.add_rule(rule) {
            // Another router's, which looks in the main table as this one does.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            added => added.map_err(failed(&format!(
                "adding the {family} rule of priority {priority}"
            ))),
        }
    }

    /// Whether another router than the one with these tables has a rule behind this one.
    pub(super) fn is_shared(&self, rule: &RuleEntry, own: &[u32]) -> bool {
        let is_others = |other: &RuleEntry| {
            other.is_ours && !own.contains(&other.table) && rule.precedes(other)
        };
        self.rules.iter().any(is_others)
    }
}
