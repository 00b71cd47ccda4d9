//! The configuration of a host's router daemon, as docs/router.md describes it.

use std::path::PathBuf;

use serde::Serialize;

use super::plan::absolute;
use crate::scenario::{LinkIndex, Scenario, ServiceSpec};

/// The TOML file for the router of `node`, whose links have these routes.
pub(super) fn router_file(
    scenario: &Scenario,
    node: usize,
    links: Vec<(LinkIndex, Vec<Route>)>,
    socket: PathBuf,
) -> String {
    let tables = links.into_iter().map(|(index, routes)| {
        let link = &scenario.links[index.0];
        let (rate_bps, trace) = match &link.service {
            ServiceSpec::Unlimited => (None, None),
            ServiceSpec::Rate(rate_bps) => (Some(*rate_bps), None),
            ServiceSpec::Trace(trace) => (None, Some(absolute(&trace.path))),
        };
        let blackouts = link.blackouts.iter().map(|blackout| Blackout {
            start_s: blackout.start.as_secs_f64(),
            length_s: blackout.length.as_secs_f64(),
        });
        let changes = link.changes.iter().map(|change| Change {
            at_s: change.at.as_secs_f64(),
            rate_bps: change.rate_bps,
            delay_ms: change.delay.map(|delay| delay.as_secs_f64() * 1e3),
            loss: change.loss,
            queue_packets: change.queue_packets,
        });
        Link {
            name: link.name.clone(),
            tun: format!("tun{}", index.0),
            mtu: scenario.mtu,
            rate_bps,
            trace,
            delay_ms: link.delay.as_secs_f64() * 1e3,
            jitter_ms: link.jitter.as_secs_f64() * 1e3,
            reorder: link.reorder,
            loss: link.loss,
            queue_packets: link.queue.packets,
            queue_bytes: link.queue.bytes,
            discipline: link.discipline.clone(),
            stamps: link.stamps.clone(),
            blackouts: blackouts.collect(),
            changes: changes.collect(),
            routes,
        }
    });
    let file = RouterFile {
        name: format!("router-{node}"),
        // Links of different routers draw from different generators.
        seed: (scenario.seed & (i64::MAX as u64)) ^ ((node as u64) << 32),
        socket,
        links: tables.collect(),
    };
    toml::to_string(&file).expect("every part of a router's configuration is TOML")
}

#[derive(Serialize)]
struct RouterFile {
    name: String,
    seed: u64,
    socket: PathBuf,
    links: Vec<Link>,
}

// TOML leaves out what is `None`.
#[derive(Serialize)]
struct Link {
    name: String,
    tun: String,
    mtu: u16,
    rate_bps: Option<u64>,
    trace: Option<PathBuf>,
    delay_ms: f64,
    jitter_ms: f64,
    reorder: f64,
    loss: f64,
    queue_packets: Option<u32>,
    queue_bytes: Option<u64>,
    discipline: String,
    stamps: Vec<String>,
    blackouts: Vec<Blackout>,
    changes: Vec<Change>,
    routes: Vec<Route>,
}

#[derive(Serialize)]
struct Blackout {
    start_s: f64,
    length_s: f64,
}

#[derive(Serialize)]
struct Change {
    at_s: f64,
    rate_bps: Option<u64>,
    delay_ms: Option<f64>,
    loss: Option<f64>,
    queue_packets: Option<u32>,
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
