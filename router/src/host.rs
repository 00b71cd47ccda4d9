//! What links need of their host: settings, and devices by which packets leave.

use std::io;
use std::net::IpAddr;

use crate::config::{Place, RouteSpec};
use crate::family::Family;
use crate::netlink::{Netlink, Selection, Way};
use crate::sysctl::Sysctl;

/// Why this host cannot run the configuration. Displays as one line for each problem.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// The kernel has no TUN devices.
    #[error(
        "there is no /dev/net/tun; load it with `modprobe tun`, or give it to the container (--device /dev/net/tun)"
    )]
    NoTun,
    /// A setting of the host would swallow packets.
    #[error("{setting} is {value}, but {reason}; set it: sysctl -w {setting}={remedy}")]
    Setting {
        /// Its name, as sysctl(8) writes it.
        setting: String,
        /// Its present value.
        value: i64,
        /// What would happen.
        reason: String,
        /// The value it needs.
        remedy: i64,
    },
    /// The configuration does not fit the host.
    #[error("{place}: {message}")]
    Config {
        /// The line of the configuration.
        place: Place,
        /// The cause and the remedy.
        message: String,
    },
    /// A running router cannot change it.
    #[error("{0} cannot change while the router runs; restart it, or take the change back")]
    Fixed(String),
    /// Several things are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Self>),
    /// The kernel does not answer.
    #[error(
        "cannot ask the kernel for its {what}: {source}; the router needs netlink and /proc/sys/net"
    )]
    Kernel {
        /// What the router asked for.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl HostError {
    /// Returns an error if there are problems, of all of them.
    pub(crate) fn of(mut problems: Vec<Self>) -> Result<(), Self> {
        problems.dedup_by_key(|problem| problem.to_string());
        match problems.len() {
            0 => Ok(()),
            1 => Err(problems.remove(0)),
            _ => Err(Self::Several(problems)),
        }
    }

    /// Returns true if another configuration solves the problem.
    pub(crate) fn is_config(&self) -> bool {
        match self {
            Self::Config { .. } | Self::Fixed(_) => true,
            Self::Several(problems) => problems.iter().any(Self::is_config),
            _ => false,
        }
    }
}

/// Where a configured route leaves the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Index of the device.
    pub(crate) device: u32,
    /// Source address of the router's own packets.
    pub(crate) source: Option<IpAddr>,
}

/// Finds where a route leaves the host now.
///
/// # Errors
/// [`HostError`] if it cannot.
pub(crate) fn find_exit(netlink: &mut Netlink, route: &RouteSpec) -> Result<Exit, HostError> {
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
            "device {dev:?} is down; switch it on: ip link set {dev} up"
        ));
    }
    let device = interface.index;
    let family = route.to.family();
    let local = netlink
        .routes(family, Selection::MainBy(device))
        .map_err(kernel("routes"))?;
    let mut local = local
        .iter()
        .filter(|entry| entry.way == Way::Out { device, via: None });
    let source = match route.via {
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
    Ok(Exit { device, source })
}

/// Checks that the kernel forwards packets of a family.
pub(crate) fn check_forwarding(family: Family) -> Result<(), HostError> {
    match family {
        Family::V4 => {
            let reason = "the kernel forwards no IPv4 packets";
            demand(Sysctl::of("ipv4/ip_forward"), |value| value == 1, reason, 1)?;
            // The larger of `all` and the interface's own counts, so our device's 0 is not enough.
            let reason =
                "packets that come back from the router's TUN device would be taken for spoofed";
            demand(
                Sysctl::of_interface("ipv4", "all", "rp_filter"),
                |value| value == 0,
                reason,
                0,
            )
        }
        Family::V6 => {
            let reason = "the kernel forwards no IPv6 packets";
            demand(
                Sysctl::of_interface("ipv6", "all", "forwarding"),
                |value| value >= 1,
                reason,
                1,
            )
        }
    }
}

/// Answers arrive by the device at which a link leaves, while the route back leads to the link's
/// TUN device. The strict filter (RFC 3704, section 2.2) takes that for spoofing.
pub(crate) fn check_reverse_path(dev: &str) -> Result<(), HostError> {
    let reason =
        format!("packets that come in by {dev} from where a link leads would be taken for spoofed");
    demand(
        Sysctl::of_interface("ipv4", dev, "rp_filter"),
        |value| value != 1,
        &reason,
        0,
    )
}

fn demand(
    sysctl: Sysctl,
    allows: impl Fn(i64) -> bool,
    reason: &str,
    remedy: i64,
) -> Result<(), HostError> {
    let setting = sysctl.name();
    let value = sysctl.read().map_err(kernel(&setting))?;
    if allows(value) {
        return Ok(());
    }
    Err(HostError::Setting {
        setting,
        value,
        reason: reason.to_owned(),
        remedy,
    })
}

/// Returns the error of a configuration that does not fit.
pub(crate) fn refuse(place: &Place, message: String) -> HostError {
    HostError::Config {
        place: place.clone(),
        message,
    }
}

/// Returns the error of a kernel that does not tell what it is asked for.
pub(crate) fn kernel(what: &str) -> impl FnOnce(io::Error) -> HostError {
    let what = what.to_owned();
    move |source| HostError::Kernel { what, source }
}
