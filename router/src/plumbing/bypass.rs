//! Finds what leads packets past a link, or astray behind it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;

use super::tables::{entry_table, rule_onward, rules_to};
use crate::config::{Entry, LinkSpec, MAIN_TABLE, Mark, RULE_PRIORITY, RouteSpec, Selector};
use crate::failure::Failure;
use crate::family::Family;
use crate::host::{self, Exit};
use crate::netlink::{Action, LOCAL_TABLE, Netlink, RouteEntry, RuleEntry, Selection, Way};
use crate::prefix::Prefix;

/// Returns those rules that other routers have than the one with these TUN devices.
///
/// # Errors
/// The kernel's.
pub(crate) fn rules_of_others(
    netlink: &mut Netlink,
    rules: &[RuleEntry],
    tuns: &BTreeSet<String>,
) -> io::Result<Vec<RuleEntry>> {
    let mut tables = BTreeSet::new();
    for rule in rules.iter().filter(|rule| rule.is_ours) {
        if let Some(tun) = &rule.selector.iif
            && rule.priority == RULE_PRIORITY
            && !tuns.contains(tun)
            && netlink.interface(tun)?.is_some()
        {
            tables.insert(rule.table + LinkSpec::ENTRY_TABLE_OFFSET);
        }
    }
    let leads_in = |rule: &RuleEntry| rule.is_ours && tables.contains(&rule.table);
    let is_theirs = |rule: &&RuleEntry| {
        let mut entries = rules.iter().filter(|rule| leads_in(rule));
        leads_in(rule) || (rule.is_ours && entries.any(|entry| rule.precedes(entry)))
    };
    Ok(rules.iter().filter(is_theirs).cloned().collect())
}

/// Returns a rule by which the kernel may look up packets of `route` in another table, and find a
/// route there, before it comes to the link's route; or says that no rule comes to it. `others` are
/// rules of [other routers](rules_of_others); of these it must be for all packets of the route, which
/// may leave some to another link on purpose. `device` is the index of the link's device, if there is
/// one yet.
///
/// # Errors
/// The kernel's.
pub(crate) fn by_rule(
    netlink: &mut Netlink,
    rules: &[RuleEntry],
    others: &[RuleEntry],
    link: &LinkSpec,
    route: &RouteSpec,
    device: Option<u32>,
) -> io::Result<Option<Failure>> {
    let to = route.to;
    let family = to.family();
    let rules = || rules.iter().filter(|rule| rule.family == family);
    let own = rules_to(link, route).pop();
    let least = match route.entry {
        Entry::Rule(priority) => Some(priority),
        Entry::Table(MAIN_TABLE) => {
            let main = rules().filter(|rule| rule.table == MAIN_TABLE && rule.heeds(to));
            main.map(|rule| rule.priority).min()
        }
        // Which packets come to a table of the host's own is the host's affair.
        Entry::Table(table) if rules().any(|rule| rule.table == table) => return Ok(None),
        Entry::Table(table) => {
            return Ok(Some(Failure::new(format!(
                "no {family} rule leads to table {table}, so that nothing takes the link; add one, such \
                 as: ip rule add fwmark 1 lookup {table}"
            ))));
        }
    };
    let before = rules().take_while(|rule| {
        // Of equal priority the first one comes first, and ours may have to come yet.
        let is_before = |own: &RuleEntry| **rule != *own && rule.priority <= own.priority;
        let is_below = least.is_none_or(|least| rule.priority < least);
        own.as_ref().map_or(is_below, is_before)
    });
    for rule in before {
        // 0: the rule looks nothing up.
        let is_elsewhere =
            ![0, LOCAL_TABLE].contains(&rule.table) && route.entry != Entry::Table(rule.table);
        // What comes out of the link has been there.
        let is_behind = rule.selector.iif.as_ref() == Some(&link.tun) && !rule.is_inverted;
        let may_meet = rule.may_meet(to, &route.selector) && !is_behind;
        let is_theirs = others.contains(rule);
        let is_for_route = match rule.is_ours {
            true => is_theirs && rule.describes_all(to, &route.selector),
            false => may_meet,
        };
        // They have been looked for in the main table.
        let is_late = route.entry == Entry::Table(MAIN_TABLE)
            && rules().any(|other| other.precedes(rule) && !other.suppresses(to));
        if is_for_route && !is_late && rule.action == Action::Drop {
            return Ok(Some(Failure::new(format!(
                "a rule (priority {}) drops packets to {to} before they come to the link; remove it \
                 (see `ip rule`)",
                rule.priority
            ))));
        }
        if !is_elsewhere || !is_for_route || is_late {
            continue;
        }
        let routes = netlink.routes(family, Selection::Table(rule.table))?;
        let leads_past = |route: &RouteEntry| {
            !rule.suppresses(route.to)
                && route.to.covers(to)
                && !matches!(route.way, Way::Out { device: by, .. } if Some(by) == device)
        };
        if routes.iter().any(leads_past) {
            let RuleEntry {
                priority, table, ..
            } = rule;
            let above = match route.entry {
                Entry::Rule(own) => format!("{own}, the link's own"),
                Entry::Table(_) => "that of the main table".to_owned(),
            };
            let past = format!(
                "(priority {priority}) leads packets to {to} past the link, by table {table}"
            );
            return Ok(Some(Failure::new(match is_theirs {
                true => format!(
                    "a rule of another router {past}; have both links in one router, which orders them"
                ),
                false => format!(
                    "a rule {past}; remove it, or give it a priority above {above} (see `ip rule`)"
                ),
            })));
        }
    }
    Ok(None)
}

/// Returns a rule that keeps packets of `route` from going on when they come out of the link's device:
/// it comes before the link's own, and most often leads them into the device again.
///
/// # Errors
/// The kernel's.
pub(crate) fn behind(
    netlink: &mut Netlink,
    rules: &[RuleEntry],
    link: &LinkSpec,
    route: &RouteSpec,
) -> io::Result<Option<Failure>> {
    let RouteSpec { to, dev, .. } = route;
    let own = rule_onward(link, to.family());
    let packets = Selector {
        // They come out without one.
        mark: Mark::new(0, u32::MAX),
        iif: Some(link.tun.clone()),
        ..route.selector.clone()
    };
    let before = rules
        .iter()
        .filter(|rule| rule.family == own.family)
        .take_while(|rule| **rule != own && rule.priority <= own.priority);
    for rule in before.filter(|rule| !rule.is_ours && rule.may_meet(*to, &packets)) {
        let does = match rule.action {
            Action::Lookup if leads_astray(netlink, rule, link, route)? => {
                format!("looks in table {}", rule.table)
            }
            Action::Goto(priority) if priority > own.priority => {
                format!("goes on with the rule of priority {priority}")
            }
            Action::Drop => "drops them".to_owned(),
            _ => continue,
        };
        return Ok(Some(Failure::new(format!(
            "a rule (priority {}) keeps packets to {to} that come out of the link from leaving by \
             {dev}: it {does}; remove it, or give it a priority above {}, that of the link's own rule \
             (see `ip rule`)",
            rule.priority, own.priority
        ))));
    }
    Ok(None)
}

/// Whether the table in which a rule looks has another way to the destinations of a route than the
/// route's.
fn leads_astray(
    netlink: &mut Netlink,
    rule: &RuleEntry,
    link: &LinkSpec,
    route: &RouteSpec,
) -> io::Result<bool> {
    let to = route.to;
    if [0, LOCAL_TABLE].contains(&rule.table) {
        return Ok(false);
    }
    // The route into the link is there, or will be.
    if rule.table == entry_table(link, route) && !rule.suppresses(to) {
        return Ok(true);
    }
    let routes = netlink.routes(to.family(), Selection::Table(rule.table))?;
    let covering = routes.iter().filter(|other| other.to.covers(to));
    let best = covering.max_by_key(|other| (other.to.length(), Reverse(other.metric)));
    let Some(best) = best.filter(|best| !rule.suppresses(best.to)) else {
        return Ok(false);
    };
    // Without an exit the link lacks that.
    let exit = host::find_exit(netlink, route).ok();
    Ok(exit.is_some_and(|Exit { device, via, .. }| best.way != Way::Out { device, via }))
}

/// Returns a route to just `to` that the kernel takes before the link's, which leads into the device
/// with this index: of all packets, or of those with a type of service.
pub(super) fn by_route(netlink: &mut Netlink, to: Prefix, device: u32) -> Option<Failure> {
    let tos = match to.family() {
        // Three bits of it count (RT_TOS without ECN's, linux/in_route.h).
        Family::V4 => 0..8,
        Family::V6 => 0..1,
    };
    tos.into_iter().find_map(|tos| {
        // A kernel that does not know the question (before Linux 5.6) tells nothing.
        let found = netlink.lookup(to.address(), tos << 2).ok().flatten()?;
        let is_ours = matches!(found.way, Way::Out { device: by, .. } if by == device);
        (found.table == MAIN_TABLE && found.to == to && !is_ours).then(|| {
            Failure::new(format!(
                "another route to {to} comes before the link's; remove it: ip route show {to} lists it \
                 first"
            ))
        })
    })
}
