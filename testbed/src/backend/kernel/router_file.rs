//! The configuration of a host's router daemon, as docs/router.md describes it.

use std::path::{Path, PathBuf};

use evenkeel_queue::description::LinkDescription;
use evenkeel_spec::document::Located;
use serde::Serialize;

use crate::scenario::{LinkIndex, Scenario};

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
            tun_mtu: scenario.mtu,
            keys: LinkDescription {
                trace: link.trace.as_ref().map(|trace| absolute_name(&trace.path)),
                ..link.description.clone()
            },
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
    tun_mtu: u16,
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

fn absolute_name(path: &Path) -> Located<String> {
    let name = absolute(path).into_os_string().into_string();
    name.expect("TOML is UTF-8").into()
}
