//! Finds what leads packets past a link.

use std::io;

use crate::failure::Failure;
use crate::netlink::{LOCAL_TABLE, MAIN_TABLE, Netlink, RouteEntry, RuleEntry, Selection, Way};
use crate::prefix::Prefix;

/// Returns a rule by which the kernel may look up packets to `to` in another table, and find a route
/// there, before it comes to the main table, where the link's routes are. `device` is the index of
/// the link's device, if there is one yet.
///
/// # Errors
/// The kernel's.
pub(crate) fn by_rule(
    netlink: &mut Netlink,
    rules: &[RuleEntry],
    to: Prefix,
    device: Option<u32>,
) -> io::Result<Option<Failure>> {
    let family = to.family();
    let rules = || rules.iter().filter(|rule| rule.family == family);
    let main = rules().filter(|rule| rule.table == MAIN_TABLE && !rule.selects);
    let main = main.map(|rule| rule.priority).min();
    for rule in rules() {
        let is_before = main.is_none_or(|main| rule.priority < main);
        // 0: the rule looks nothing up.
        let is_elsewhere = ![0, LOCAL_TABLE, MAIN_TABLE].contains(&rule.table);
        let concerns = rule
            .to
            .is_none_or(|other| other.covers(to) || to.covers(other));
        if rule.is_ours || !is_before || !is_elsewhere || !concerns {
            continue;
        }
        let routes = netlink.routes(family, Selection::Table(rule.table))?;
        let leads_past = |route: &RouteEntry| {
            route.to.covers(to)
                && !matches!(route.way, Way::Out { device: by, .. } if Some(by) == device)
        };
        if routes.iter().any(leads_past) {
            let RuleEntry {
                priority, table, ..
            } = rule;
            return Ok(Some(Failure::new(format!(
                "a rule (priority {priority}) leads packets to {to} past the link, by table {table}; \
                 remove it, or give it a priority above that of the main table (see `ip rule`)"
            ))));
        }
    }
    Ok(None)
}

/// Returns a route to just `to` that the kernel takes before the link's, which leads into the device
/// with this index.
pub(super) fn by_route(netlink: &mut Netlink, to: Prefix, device: u32) -> Option<Failure> {
    // A kernel that does not know the question (before Linux 5.6) tells nothing.
    let found = netlink.lookup(to.address()).ok().flatten()?;
    let is_ours = matches!(found.way, Way::Out { device: by, .. } if by == device);
    (found.table == MAIN_TABLE && found.to == to && !is_ours).then(|| {
        Failure::new(format!(
            "another route to {to} comes before the link's; remove it: ip route show {to} lists it first"
        ))
    })
}
