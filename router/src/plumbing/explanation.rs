//! Says in the words of ip(8), sysctl(8) and nft(8) what a router installs.

use super::RING_PACKETS;
use super::counted::watched;
use super::settings::settings;
use super::tables::{LAST_METRIC, entry_table, has_rules, main_metric, rule_onward, rules_to};
use crate::config::{Config, LinkSpec, MAIN_TABLE, Mark, RouteSpec, Selector};
use crate::failure::Failure;
use crate::family::Family;
use crate::host;
use crate::netlink::{Netlink, OUR_PROTOCOL, ROUND, RuleEntry, Watched, round};
use crate::prefix::Prefix;

/// Returns the commands that would do what [`Plumbing::install`](super::Plumbing::install) does, one
/// a line.
///
/// # Errors
/// If a route does not lead out of the host.
pub(crate) fn explain(config: &Config, netlink: &mut Netlink) -> Result<String, Failure> {
    let mut lines = Vec::new();
    for link in &config.links {
        explain_device(link, &mut lines);
        for family in link.families() {
            explain_table(link, family, &mut lines);
        }
        for route in &link.routes {
            explain_route(link, route, netlink, &mut lines)?;
        }
    }
    explain_counters(config, &mut lines);
    Ok(lines.join("\n") + "\n")
}

fn explain_device(link: &LinkSpec, lines: &mut Vec<String>) {
    let tun = &link.tun;
    lines.push(format!("ip tuntap add {tun} mode tun"));
    for (sysctl, value) in settings(link) {
        lines.push(format!("sysctl -w {}={value}", sysctl.name()));
    }
    let mtu = link.mtu;
    lines.push(format!(
        "ip link set {tun} mtu {mtu} txqueuelen {RING_PACKETS} multicast off up"
    ));
}

fn explain_table(link: &LinkSpec, family: Family, lines: &mut Vec<String>) {
    let entry = has_rules(link, family).then(|| link.entry_table());
    for table in [link.table].into_iter().chain(entry) {
        let ip = ip(family);
        lines.push(format!(
            "{ip} route add unreachable default table {table} metric {LAST_METRIC} proto {OUR_PROTOCOL}"
        ));
    }
    lines.push(explain_rule(&rule_onward(link, family)));
}

fn explain_rule(rule: &RuleEntry) -> String {
    let RuleEntry {
        family,
        to,
        selector,
        suppressed,
        table,
        priority,
        ..
    } = rule;
    let ip = ip(*family);
    let to = to.map_or(String::new(), |to| format!(" to {to}"));
    let table = match *table {
        MAIN_TABLE => "main".to_owned(),
        table => table.to_string(),
    };
    let suppressed = suppressed.map_or(String::new(), |length| {
        format!(" suppress_prefixlength {length}")
    });
    format!(
        "{ip} rule add{selector}{to} lookup {table}{suppressed} priority {priority} protocol {OUR_PROTOCOL}"
    )
}

fn explain_route(
    link: &LinkSpec,
    route: &RouteSpec,
    netlink: &mut Netlink,
    lines: &mut Vec<String>,
) -> Result<(), Failure> {
    let RouteSpec { to, dev, .. } = route;
    let (ip, tun, table) = (ip(to.family()), &link.tun, link.table);
    let exit = host::find_exit(netlink, route)?;
    let via = exit.via.map_or(String::new(), |via| format!("via {via} "));
    lines.push(format!(
        "{ip} route add {to} {via}dev {dev} table {table} proto {OUR_PROTOCOL}"
    ));
    let metric = main_metric(to.family());
    let source = exit
        .source
        .map_or(String::new(), |source| format!(" src {source}"));
    let into = match entry_table(link, route) {
        MAIN_TABLE => String::new(),
        table => format!(" table {table}"),
    };
    lines.push(format!(
        "{ip} route add {to} dev {tun}{into} metric {metric}{source} proto {OUR_PROTOCOL}"
    ));
    lines.extend(rules_to(link, route).iter().map(explain_rule));
    Ok(())
}

/// The table that counts; the router's own goes with its process.
fn explain_counters(config: &Config, lines: &mut Vec<String>) {
    let links: Vec<_> = config.links.iter().map(watched).collect();
    let tuns = || links.iter().map(|link| &link.device);
    lines.push("nft -f - <<'END'".to_owned());
    lines.push(format!("table inet evenkeel-{} {{", config.name));
    lines.extend(tuns().flat_map(|tun| {
        [tun.clone(), round(tun)].map(|counter| format!("    counter {counter} {{ }}"))
    }));
    lines.push(format!("    chain {ROUND} {{"));
    lines.extend(tuns().map(|tun| {
        let counter = round(tun);
        format!("        oifname {tun:?} counter name {counter:?} drop")
    }));
    lines.push("    }".to_owned());
    for chain in ["forward", "output"] {
        lines.push(format!("    chain {chain} {{"));
        lines.push(format!("        type filter hook {chain} priority 0"));
        lines.extend(tuns().map(|tun| format!("        iifname {tun:?} goto {ROUND}")));
        lines.extend(tuns().map(|tun| format!("        oifname {tun:?} return")));
        lines.push("        oifname \"lo\" return".to_owned());
        for Watched { device, packets } in &links {
            let packets = packets.iter().map(|(to, selector)| matches(*to, selector));
            lines.extend(packets.map(|it| format!("        {it} counter name {device:?}")));
        }
        lines.push("    }".to_owned());
    }
    lines.extend(["}".to_owned(), "END".to_owned()]);
}

/// What holds of packets to these destinations that are selected.
fn matches(to: Prefix, selector: &Selector) -> String {
    let ip = match to.family() {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let Selector { mark, from, iif } = selector;
    let iif = iif.as_ref().map(|iif| format!("iifname {iif:?} "));
    let mark = mark.map(|Mark { value, mask }| format!("meta mark & {mask:#x} == {value:#x} "));
    let from = from.map(|from| format!("{ip} saddr {from} "));
    let selected = [iif, mark, from].map(Option::unwrap_or_default).concat();
    format!("{selected}{ip} daddr {to}")
}

fn ip(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip -4",
        Family::V6 => "ip -6",
    }
}
