//! The configuration of a host's router daemon, as docs/router.md describes it.

use std::path::{Path, PathBuf};

use evenkeel_queue::description::{BlackoutKeys, ChangeKeys, LinkDescription};
use evenkeel_spec::document::{Located, Origin};
use serde::Serialize;

use crate::scenario::{LinkIndex, LinkSpec, Scenario, ServiceSpec};

/// The TOML file for the router of `node`, whose links have these routes.
pub(super) fn router_file(
    scenario: &Scenario,
    node: usize,
    links: Vec<(LinkIndex, Vec<Route>)>,
    socket: PathBuf,
) -> String {
    let links = links.into_iter().map(|(index, routes)| {
        let link = &scenario.links[index.0];
        Link {
            name: &link.name,
            tun: format!("tun{}", index.0),
            mtu: scenario.mtu,
            keys: keys(link),
            routes,
        }
    });
    let file = RouterFile {
        name: format!("router-{node}"),
        // Links of different routers draw from different generators.
        seed: (scenario.seed & (i64::MAX as u64)) ^ ((node as u64) << 32),
        socket,
        links: links.collect(),
    };
    toml::to_string(&file).expect("every part of a router's configuration is TOML")
}

#[derive(Serialize)]
struct RouterFile<'a> {
    name: String,
    seed: u64,
    socket: PathBuf,
    links: Vec<Link<'a>>,
}

#[derive(Serialize)]
struct Link<'a> {
    name: &'a str,
    tun: String,
    mtu: u16,
    #[serde(flatten)]
    keys: LinkDescription,
    routes: Vec<Route>,
}

/// A route over a link.
#[derive(Debug, Serialize)]
pub(super) struct Route {
    /// The destination, as a prefix.
    pub(super) to: String,
    /// The next hop's address.
    pub(super) via: String,
    /// The device that leads to it.
    pub(super) dev: String,
}

/// The path as seen from any directory.
pub(in crate::backend) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn keys(link: &LinkSpec) -> LinkDescription {
    let (rate_bps, trace) = match &link.service {
        ServiceSpec::Unlimited => (None, None),
        ServiceSpec::Rate(rate_bps) => (Some(*rate_bps), None),
        ServiceSpec::Trace(trace) => {
            let path = absolute(&trace.path).into_os_string().into_string();
            (None, Some(located(path.expect("TOML is UTF-8"))))
        }
    };
    let blackouts = link.blackouts.iter().map(|blackout| BlackoutKeys {
        start_s: blackout.start.as_secs_f64(),
        length_s: blackout.length.as_secs_f64(),
    });
    let changes = link.changes.iter().map(|change| ChangeKeys {
        at_s: change.at.as_secs_f64(),
        rate_bps: change.rate_bps,
        delay_ms: change.delay.map(|delay| delay.as_secs_f64() * 1e3),
        loss: change.loss,
        queue_packets: change.queue_packets,
    });
    LinkDescription {
        rate_bps,
        trace,
        delay_ms: link.delay.as_secs_f64() * 1e3,
        jitter_ms: link.jitter.as_secs_f64() * 1e3,
        reorder: link.reorder,
        loss: link.loss,
        queue_packets: link.queue.packets,
        queue_bytes: link.queue.bytes,
        discipline: located(link.discipline.clone()),
        stamps: link.stamps.iter().cloned().map(located).collect(),
        blackouts: blackouts.map(located).collect(),
        changes: changes.map(located).collect(),
    }
}

/// A value that comes from no file.
fn located<T>(value: T) -> Located<T> {
    Located {
        value,
        origin: Origin::Line(0),
    }
}
