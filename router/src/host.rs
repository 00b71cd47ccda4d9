//! What links need of their host: settings, and devices by which packets leave.

use std::io;
use std::net::IpAddr;

use crate::config::{Place, RouteSpec, Via};
use crate::failure::Failure;
use crate::family::Family;
use crate::netlink::{Netlink, Selection, Way};
use crate::sysctl::Sysctl;

/// Where a configured route leaves the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Index of the device.
    pub(crate) device: u32,
    /// The next router, if there is one.
    pub(crate) via: Option<IpAddr>,
    /// Source address of the router's own packets.
    pub(crate) source: Option<IpAddr>,
}

/// Finds where a route leaves the host now.
///
/// # Errors
/// If it cannot.
pub(crate) fn find_exit(netlink: &mut Netlink, route: &RouteSpec) -> Result<Exit, Failure> {
    let refuse = |message: String| Err(refuse(&route.place, message));
    let dev = &route.dev;
    let interface = netlink.interface(dev).map_err(kernel("interfaces"))?;
    let Some(interface) = interface else {
        return refuse(format!(
            "there is no device {dev:?}; name one that `ip link` lists"
        ));
    };
    if !interface.is_up {
        return refuse(format!(
            "device {dev:?} is down; switch it on: ip link set dev {dev} up"
        ));
    }
    let device = interface.index;
    let family = route.to.family();
    let local = netlink
        .routes(family, Selection::MainBy(device))
        .map_err(kernel("routes"))?;
    let (via, preferred) = match route.via {
        Via::Direct => (None, None),
        Via::Router(address) => (Some(address), None),
        Via::Default => {
            let defaults = local
                .iter()
                .filter(|entry| entry.to.length() == 0 && !entry.is_ours);
            let Some(default) = defaults.min_by_key(|entry| entry.metric) else {
                return refuse(format!(
                    "there is no default route by {dev} to take the gateway from; give it one, by \
                     DHCP for example, or write the gateway's address as via"
                ));
            };
            match default.way {
                Way::Out { via, .. } => (via, default.source),
                _ => (None, default.source),
            }
        }
    };
    let mut local = local
        .iter()
        .filter(|entry| entry.way == Way::Out { device, via: None });
    let source = match via {
        None => local
            .find(|entry| entry.source.is_some())
            .and_then(|entry| entry.source),
        Some(via) => match local
            .filter(|entry| entry.to.contains(via))
            .max_by_key(|entry| entry.to.length())
        {
            Some(entry) => entry.source,
            None => {
                return refuse(format!(
                    "no route to {via} by device {dev:?}; give {dev} an address in the same subnet as {via}"
                ));
            }
        },
    };
    Ok(Exit {
        device,
        via,
        source: preferred.or(source),
    })
}

/// Returns all that keeps the kernel from forwarding packets of a family.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn forwarding_problems(family: Family) -> Result<Vec<Failure>, Failure> {
    let (setting, allows): (_, fn(i64) -> bool) = match family {
        Family::V4 => (Sysctl::of("ipv4/ip_forward"), |value| value == 1),
        Family::V6 => (Sysctl::of_interface("ipv6", "all", "forwarding"), |value| {
            value >= 1
        }),
    };
    let reason = format!("the kernel forwards no {family} packets");
    let mut problems = Vec::new();
    problems.extend(demand(&setting, allows, &reason, 1)?);
    if family == Family::V4 {
        // The larger of `all` and the interface's own counts, so our device's 0 is not enough.
        let setting = Sysctl::of_interface("ipv4", "all", "rp_filter");
        let reason =
            "packets that come back from the router's TUN device would be taken for spoofed";
        problems.extend(demand(&setting, |value| value == 0, reason, 0)?);
    }
    Ok(problems)
}

/// Answers arrive by the device at which a link leaves, while the route back leads to the link's
/// TUN device. The strict filter (RFC 3704, section 2.2) takes that for spoofing.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn reverse_path_problem(dev: &str) -> Result<Option<Failure>, Failure> {
    let reason =
        format!("packets that come in by {dev} from where a link leads would be taken for spoofed");
    let setting = Sysctl::of_interface("ipv4", dev, "rp_filter");
    demand(&setting, |value| value != 1, &reason, 0)
}

fn demand(
    sysctl: &Sysctl,
    allows: impl Fn(i64) -> bool,
    reason: &str,
    remedy: i64,
) -> Result<Option<Failure>, Failure> {
    let setting = sysctl.name();
    let value = sysctl.read().map_err(kernel(&setting))?;
    let problem = || {
        Failure::new(format!(
            "{setting} is {value}: {reason}; set it: sysctl -w {setting}={remedy}"
        ))
    };
    Ok((!allows(value)).then(problem))
}

/// Returns the error of a configuration that does not fit.
pub(crate) fn refuse(place: &Place, message: String) -> Failure {
    Failure::usage(format!("{place}: {message}"))
}

/// Returns the error of a kernel that does not tell what it is asked for.
pub(crate) fn kernel(what: &str) -> impl FnOnce(io::Error) -> Failure {
    move |source| {
        Failure::new(format!(
            "cannot ask the kernel for its {what}: {source}; the router needs netlink and /proc/sys/net"
        ))
    }
}
