//! Which rules and routes a link wants.

use std::net::IpAddr;

use crate::config::{Entry, LinkSpec, MAIN_TABLE, RULE_PRIORITY, RouteSpec, Selector};
use crate::family::Family;
use crate::netlink::{RouteEntry, RuleEntry, Way};
use crate::prefix::Prefix;

/// Metric of the route that ends a table: all others come first.
pub(super) const LAST_METRIC: u32 = u32::MAX;

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
pub(super) fn onward_metric(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1024,
    }
}

/// The route that ends a table.
pub(super) fn end(table: u32, family: Family) -> RouteEntry {
    let everything = match family {
        Family::V4 => Prefix::of(IpAddr::from([0; 4]), 0),
        Family::V6 => Prefix::of(IpAddr::from([0; 16]), 0),
    };
    RouteEntry {
        metric: LAST_METRIC,
        ..RouteEntry::ours(table, everything, Way::Unreachable)
    }
}

/// Whether rules lead to routes of a family into the link.
pub(super) fn has_rules(link: &LinkSpec, family: Family) -> bool {
    let mut routes = link.routes.iter();
    routes.any(|route| route.has_rule() && route.to.family() == family)
}

/// The table with a route into a link.
pub(super) fn entry_table(link: &LinkSpec, route: &RouteSpec) -> u32 {
    match route.entry {
        Entry::Table(table) => table,
        Entry::Rule(_) => link.entry_table(),
    }
}

/// The rule by which what comes out of a link's device goes on.
pub(super) fn rule_onward(link: &LinkSpec, family: Family) -> RuleEntry {
    let from_device = Selector {
        iif: Some(link.tun.clone()),
        ..Selector::default()
    };
    RuleEntry::ours(family, from_device, link.table, RULE_PRIORITY)
}

/// The rules that lead to a route into a link, in the order of their priorities. A default route
/// takes what no other route of the main table is for, as it does there.
pub(super) fn rules_to(link: &LinkSpec, route: &RouteSpec) -> Vec<RuleEntry> {
    let Entry::Rule(priority) = route.entry else {
        return Vec::new();
    };
    let family = route.to.family();
    let selector = &route.selector;
    let entry = RuleEntry {
        to: (!route.is_default()).then_some(route.to),
        ..RuleEntry::ours(family, selector.clone(), link.entry_table(), priority)
    };
    let others = RuleEntry {
        suppressed: Some(0),
        ..RuleEntry::ours(family, selector.clone(), MAIN_TABLE, priority - 1)
    };
    let others = route.is_default().then_some(others);
    others.into_iter().chain([entry]).collect()
}
