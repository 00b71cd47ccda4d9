//! Says in the words of ip(8) and sysctl(8) what a router installs.

use super::{LAST_METRIC, RING_PACKETS, RULE_PRIORITY, main_metric, settings};
use crate::config::{Config, LinkSpec, RouteSpec};
use crate::failure::Failure;
use crate::family::Family;
use crate::host;
use crate::netlink::{Netlink, OUR_PROTOCOL};

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
    let (ip, tun, table) = (ip(family), &link.tun, link.table);
    lines.push(format!(
        "{ip} route add unreachable default table {table} metric {LAST_METRIC} proto {OUR_PROTOCOL}"
    ));
    lines.push(format!(
        "{ip} rule add iif {tun} lookup {table} priority {RULE_PRIORITY} protocol {OUR_PROTOCOL}"
    ));
}

fn explain_route(
    link: &LinkSpec,
    route: &RouteSpec,
    netlink: &mut Netlink,
    lines: &mut Vec<String>,
) -> Result<(), Failure> {
    let RouteSpec { to, via, dev, .. } = route;
    let (ip, tun, table) = (ip(to.family()), &link.tun, link.table);
    let via = via.map_or(String::new(), |via| format!("via {via} "));
    lines.push(format!(
        "{ip} route add {to} {via}dev {dev} table {table} proto {OUR_PROTOCOL}"
    ));
    let metric = main_metric(to.family());
    let source = host::find_exit(netlink, route)?.source;
    let source = source.map_or(String::new(), |source| format!(" src {source}"));
    lines.push(format!(
        "{ip} route add {to} dev {tun} metric {metric}{source} proto {OUR_PROTOCOL}"
    ));
    Ok(())
}

fn ip(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip -4",
        Family::V6 => "ip -6",
    }
}
