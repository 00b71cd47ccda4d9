//! Finds what leads packets past a link.

use std::io;

use crate::config::{Entry, MAIN_TABLE, RouteSpec};
use crate::failure::Failure;
use crate::netlink::{LOCAL_TABLE, Netlink, RouteEntry, RuleEntry, Selection, Way};
use crate::prefix::Prefix;

/// Returns a rule by which the kernel may look up packets of `route` in another table, and find a
/// route there, before it comes to the link's route; or says that no rule comes to it. `device` is
/// the index of the link's device, if there is one yet.
///
/// # Errors
/// The kernel's.
pub(crate) fn by_rule(
    netlink: &mut Netlink,
    rules: &[RuleEntry],
    route: &RouteSpec,
    device: Option<u32>,
) -> io::Result<Option<Failure>> {
    let to = route.to;
    let family = to.family();
    let rules = || rules.iter().filter(|rule| rule.family == family);
    let least = match route.entry {
        Entry::Rule(priority) => Some(priority),
        Entry::Table(MAIN_TABLE) => {
            let main = rules().filter(|rule| rule.table == MAIN_TABLE && !rule.selects());
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
    for rule in rules() {
        let is_before = least.is_none_or(|least| rule.priority < least);
        // 0: the rule looks nothing up.
        let is_elsewhere =
            ![0, LOCAL_TABLE].contains(&rule.table) && route.entry != Entry::Table(rule.table);
        let concerns = rule
            .to
            .is_none_or(|other| other.covers(to) || to.covers(other));
        let may_meet = concerns && rule.may_meet(&route.selector);
        if rule.is_ours || !is_before || !is_elsewhere || !may_meet {
            continue;
        }
        let routes = netlink.routes(family, Selection::Table(rule.table))?;
        let leads_past = |route: &RouteEntry| {
            let counts = rule
                .suppressed
                .is_none_or(|length| u32::from(route.to.length()) > length);
            counts
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
            return Ok(Some(Failure::new(format!(
                "a rule (priority {priority}) leads packets to {to} past the link, by table {table}; \
                 remove it, or give it a priority above {above} (see `ip rule`)"
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
