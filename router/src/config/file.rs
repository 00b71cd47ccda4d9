//! Reads the file and checks it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use evenkeel_queue::DeliveryTrace;
use evenkeel_queue::description::{LinkDescription, LinkKeys, MAX_TRACE_BYTES};
use evenkeel_spec::document::{self, Fault, Joined, Located, NAME_LENGTH, Origin};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::Unit;
use serde::{Deserialize, Deserializer, de};

use super::{
    Config, LinkSpec, MetricsAddress, Place, RouteSpec, SOCKET_DIRECTORY, Timing, read_bounded,
};
use crate::family::Family;
use crate::prefix::Prefix;

/// Ethernet's payload (RFC 894).
const DEFAULT_MTU: u32 = 1500;

/// The smallest MTU of IPv4 (RFC 791, section 3.2).
const MIN_MTU: u64 = 68;

/// The smallest MTU of IPv6 (RFC 8200, section 5).
const MIN_MTU_V6: u32 = 1280;

/// The largest IP packet, and the largest MTU of a TUN device.
const MAX_MTU: u64 = 65535;

/// Links without a table get tables from here on; the kernel's own end at 255.
const FIRST_TABLE: u32 = 1001;

/// Tables 253 to 255 are the kernel's default, main and local ones (linux/rtnetlink.h).
const KERNEL_TABLES: RangeInclusive<u32> = 253..=255;

/// Length of an interface's name in bytes (IFNAMSIZ without the final zero, linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;

#[derive(Deserialize)]
#[serde(rename = "the configuration")]
struct RouterTable {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(default, deserialize_with = "seed")]
    seed: Option<u64>,
    socket: Option<Located<String>>,
    metrics: Option<Located<String>>,
    #[serde(default)]
    links: Located<Vec<Located<Joined<LinkTable, LinkKeys>>>>,
}

#[derive(Deserialize)]
#[serde(rename = "[[links]]")]
struct LinkTable {
    #[serde(deserialize_with = "name")]
    name: Located<String>,
    #[serde(deserialize_with = "interface")]
    tun: Located<String>,
    #[serde(default, deserialize_with = "mtu")]
    mtu: Option<Located<u32>>,
    offload: Option<bool>,
    #[serde(default)]
    timing: Timing,
    routes: Located<Vec<Located<RouteTable>>>,
    #[serde(default, deserialize_with = "table")]
    table: Option<Located<u32>>,
}

#[derive(Deserialize)]
struct RouteTable {
    #[serde(deserialize_with = "document::parsed")]
    to: Prefix,
    via: Option<Located<String>>,
    #[serde(deserialize_with = "interface")]
    dev: Located<String>,
}

keys! {
    name: String = name(NAME_LENGTH);
    interface_name: String = name(MAX_INTERFACE_NAME);
    seed: u64 = whole(Unit::None, 0..=i64::MAX as u64);
    mtu: u32 = whole(Unit::Bytes, MIN_MTU..=MAX_MTU);
    table_number: u32 = whole(Unit::None, 1..=u64::from(u32::MAX));
}

/// The file's name and directory, to which lines and paths in it refer.
struct File<'a> {
    name: &'a str,
    directory: &'a Path,
}

/// A link, with the table that later checks need.
struct Link {
    table: LinkTable,
    spec: LinkSpec,
}

pub(super) fn parse(text: &str, file_name: &str, directory: &Path) -> Result<Config, Fault> {
    let root = document::parse(text)?;
    let file = File {
        name: file_name,
        directory,
    };
    let router: RouterTable = document::read(&root)?;
    let socket = match router.socket {
        Some(path) => file.path(&path)?,
        None => Path::new(SOCKET_DIRECTORY).join(format!("{}.sock", router.name)),
    };
    let metrics = router.metrics.as_ref();
    let metrics = metrics.map(|at| file.metrics(at, &socket)).transpose()?;
    if router.links.value.is_empty() {
        let message = "links is empty; add a table [[links]] with name, tun and routes";
        return Err(router.links.fault(message));
    }
    let links = router.links.value.into_iter().zip(FIRST_TABLE..);
    let links: Vec<_> = links
        .map(|(link, default_table)| file.link(link, default_table))
        .collect::<Result<_, _>>()?;
    check_uniqueness(&links)?;
    Ok(Config {
        name: router.name,
        seed: router.seed.unwrap_or(1),
        socket,
        metrics,
        links: links.into_iter().map(|link| link.spec).collect(),
    })
}

impl File<'_> {
    fn link(
        &self,
        link: Located<Joined<LinkTable, LinkKeys>>,
        default_table: u32,
    ) -> Result<Link, Fault> {
        let Joined(table, keys) = link.value;
        let description = keys.over(&LinkDescription::default())?;
        let trace = description.trace.as_ref().map(|path| self.trace(path));
        let trace = trace.transpose()?;
        if table.routes.value.is_empty() {
            let message = "routes is empty; say what is routed over the link: { to = PREFIX, via = ADDRESS, dev = DEVICE }";
            return Err(table.routes.fault(message));
        }
        let routes = table.routes.value.iter().map(|route| self.route(route));
        let routes: Vec<_> = routes.collect::<Result<_, _>>()?;
        let has_v6 = routes.iter().any(|route| route.to.family() == Family::V6);
        if let Some(mtu) = table.mtu.as_ref()
            && mtu.value < MIN_MTU_V6
            && has_v6
        {
            return Err(mtu.fault(format!(
                "mtu = {} is below {MIN_MTU_V6}, which IPv6 needs; raise it or remove the IPv6 routes",
                mtu.value
            )));
        }
        // Refuse what the daemon could not build.
        description.config(trace.clone())?;
        let spec = LinkSpec {
            name: table.name.value.clone(),
            tun: table.tun.value.clone(),
            description,
            trace,
            mtu: table.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value),
            offload: table.offload.unwrap_or(true),
            timing: table.timing,
            routes,
            table: table
                .table
                .as_ref()
                .map_or(default_table, |table| table.value),
            gives_table: table.table.is_some(),
            place: self.place(&link.origin),
        };
        Ok(Link { table, spec })
    }

    fn trace(&self, path: &Located<String>) -> Result<DeliveryTrace, Fault> {
        let file = self.path(path)?;
        let fault = |message: String| path.fault(format!("trace {}: {message}", file.display()));
        let text = read_bounded(&file, MAX_TRACE_BYTES).map_err(|error| {
            fault(format!(
                "{error}; paths are relative to the configuration's directory"
            ))
        })?;
        DeliveryTrace::parse(&text).map_err(|error| fault(error.to_string()))
    }

    fn route(&self, route: &Located<RouteTable>) -> Result<RouteSpec, Fault> {
        let RouteTable { to, via, dev } = &route.value;
        let via = via.as_ref().map(|via| next_router(via, to.family()));
        Ok(RouteSpec {
            to: *to,
            via: via.transpose()?,
            dev: dev.value.clone(),
            place: self.place(&route.origin),
        })
    }

    fn metrics(&self, at: &Located<String>, socket: &Path) -> Result<MetricsAddress, Fault> {
        let fault = |message: &str| Err(at.fault(format!("metrics = {:?} {message}", at.value)));
        if at.value.contains('/') {
            let path = self.path(at)?;
            if path == socket {
                return fault("is the status socket; choose another path");
            }
            return Ok(MetricsAddress::Unix(path));
        }
        match at.value.parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() || address.port() == 0 => fault(
                "is no port of a loopback address; use 127.0.0.1, and a proxy for other hosts",
            ),
            Ok(address) => Ok(MetricsAddress::Tcp(address)),
            Err(_) => fault("is neither ADDRESS:PORT nor a path; write for example 127.0.0.1:9310"),
        }
    }

    fn path(&self, path: &Located<String>) -> Result<PathBuf, Fault> {
        if path.value.is_empty() || path.value.contains('\0') {
            return Err(path.fault("the path is empty or holds a zero byte; name a file"));
        }
        Ok(self.directory.join(&path.value))
    }

    fn place(&self, origin: &Origin) -> Place {
        Place {
            file: self.name.to_owned(),
            line: origin.line(),
        }
    }
}

/// Checks that names, devices, tables and destinations belong to one link each.
fn check_uniqueness(links: &[Link]) -> Result<(), Fault> {
    let mut names = BTreeMap::new();
    let mut tuns = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mut destinations = BTreeMap::new();
    let taken = |origin: &Origin, what: String, by: &str| {
        let message = format!("{what} is taken by link {by:?}; choose another");
        Err(Fault::new(origin, message))
    };
    for Link { table, spec: link } in links {
        if let Some(by) = names.insert(&link.name, &link.name) {
            return taken(&table.name.origin, format!("name = {:?}", link.name), by);
        }
        if let Some(by) = tuns.insert(&link.tun, &link.name) {
            return taken(&table.tun.origin, format!("tun = {:?}", link.tun), by);
        }
        if let Some(by) = numbers.insert(link.table, &link.name) {
            let number = table.table.as_ref().map(|table| &table.origin);
            let origin = number.unwrap_or(&table.name.origin);
            return taken(origin, format!("table = {}", link.table), by);
        }
        for route in &table.routes.value {
            if let Some(by) = destinations.insert(route.value.to, &link.name) {
                return Err(route.fault(format!(
                    "{} is routed over link {by:?} already; remove one of the two routes",
                    route.value.to
                )));
            }
        }
    }
    for route in links.iter().flat_map(|link| &link.table.routes.value) {
        let dev = &route.value.dev.value;
        if tuns.contains_key(dev) {
            return Err(route.fault(format!(
                "dev = {dev:?} is the tun of a link; name the device that packets leave by"
            )));
        }
    }
    Ok(())
}

fn next_router(via: &Located<String>, family: Family) -> Result<IpAddr, Fault> {
    let fault = |message: &str| Err(via.fault(format!("via: {message}")));
    match via.value.parse::<IpAddr>() {
        Err(_) => {
            fault("not an IP address; write the next router's, or leave via out if there is none")
        }
        Ok(address) if Family::of(address) != family => {
            fault("of another IP version than to; use one of the same")
        }
        Ok(address) if address.is_unspecified() || address.is_multicast() => {
            fault("no host has this address; write the next router's")
        }
        Ok(address) => Ok(address),
    }
}

fn table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Located<u32>>, D::Error> {
    let table: Located<u32> = table_number(deserializer)?;
    if KERNEL_TABLES.contains(&table.value) {
        return Err(de::Error::custom(format!(
            "= {} is one of the kernel's own; choose another, such as {FIRST_TABLE}",
            table.value
        )));
    }
    Ok(Some(table))
}

fn interface<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Located<String>, D::Error> {
    let name: Located<String> = interface_name(deserializer)?;
    // /proc/sys/net/ipv4/conf lists these two beside the interfaces.
    if ["all", "default"].contains(&name.value.as_str()) {
        return Err(de::Error::custom(format!(
            "= {:?} means all interfaces to the kernel; name one",
            name.value
        )));
    }
    Ok(name)
}
