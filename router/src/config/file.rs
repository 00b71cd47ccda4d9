//! Reads the file and checks it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use evenkeel_queue::DeliveryTrace;
use evenkeel_queue::description::{LinkDescription, LinkKeys, MAX_MTU, MAX_TRACE_BYTES, MIN_MTU};
use evenkeel_spec::document::{self, Fault, Faults, Joined, Located, NAME_LENGTH, Node, Origin};
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

/// The smallest MTU of IPv6 (RFC 8200, section 5).
const MIN_MTU_V6: u32 = 1280;

/// Links without a table get tables from here on; the kernel's own end at 255.
const FIRST_TABLE: u32 = 1001;

/// Tables 253 to 255 are the kernel's default, main and local ones (linux/rtnetlink.h).
const KERNEL_TABLES: RangeInclusive<u32> = 253..=255;

/// Length of an interface's name in bytes (IFNAMSIZ without the final zero, linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;

/// What messages call the outermost table.
pub(super) const WHOLE: &str = "the configuration";

#[derive(Deserialize)]
#[serde(rename = "the configuration")]
struct RouterTable {
    #[serde(default, deserialize_with = "name")]
    name: Option<String>,
    #[serde(default, deserialize_with = "seed")]
    seed: Option<u64>,
    socket: Option<Located<String>>,
    metrics: Option<Located<String>>,
    links: Option<Located<Vec<LinkEntry>>>,
}

/// A table `[[links]]`: what the router needs, and the link itself.
type LinkEntry = Located<Joined<LinkTable, LinkKeys>>;

/// Which keys it must have is checked later, to find all that lack.
#[derive(Deserialize)]
#[serde(rename = "[[links]]")]
struct LinkTable {
    #[serde(default, deserialize_with = "name")]
    name: Option<Located<String>>,
    #[serde(default, deserialize_with = "interface")]
    tun: Option<Located<String>>,
    #[serde(default, deserialize_with = "mtu")]
    mtu: Option<Located<u32>>,
    #[serde(default, deserialize_with = "mtu")]
    tun_mtu: Option<Located<u32>>,
    offload: Option<bool>,
    #[serde(default)]
    timing: Timing,
    routes: Option<Located<Vec<Located<RouteTable>>>>,
    #[serde(default, deserialize_with = "table")]
    table: Option<Located<u32>>,
}

#[derive(Deserialize)]
struct RouteTable {
    #[serde(default, deserialize_with = "prefix")]
    to: Option<Prefix>,
    via: Option<Located<String>>,
    #[serde(default, deserialize_with = "interface")]
    dev: Option<Located<String>>,
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

/// Reads a text; the tree serves to name what is wrong.
pub(super) fn parse(
    text: &str,
    file_name: &str,
    directory: &Path,
) -> Result<Config, (Node, Vec<Fault>)> {
    let root = document::parse_all(text).map_err(|faults| (Node::default(), faults))?;
    let file = File {
        name: file_name,
        directory,
    };
    let (router, mut faults) = document::read_all(&root);
    let config = router.and_then(|router| file.router(router, &root.origin, &mut faults));
    match config {
        Some(config) if faults.is_empty() => Ok(config),
        _ => Err((root, faults.in_order())),
    }
}

impl File<'_> {
    fn router(&self, table: RouterTable, at: &Origin, faults: &mut Faults) -> Option<Config> {
        faults.require(table.name.is_some(), at, WHOLE, "name");
        let default = table.name.as_ref().map(|name| format!("{name}.sock"));
        let socket = match &table.socket {
            Some(path) => faults.keep(self.path(path)),
            None => default.map(|file| Path::new(SOCKET_DIRECTORY).join(file)),
        };
        let metrics = table.metrics.as_ref();
        let metrics = metrics.and_then(|at| faults.keep(self.metrics(at, socket.as_deref())));
        let remedy = "add a table [[links]] with name, tun and routes";
        match &table.links {
            _ if faults.is_wrong(at, "links") => {}
            None => faults.push(Fault::new(at, format!("{WHOLE} has no links; {remedy}"))),
            Some(links) if links.value.is_empty() => {
                faults.push(links.fault(format!("links is empty; {remedy}")));
            }
            Some(_) => {}
        }
        let tables = table.links.map_or(Vec::new(), |links| links.value);
        let links = tables.iter().zip(FIRST_TABLE..);
        let specs: Vec<_> = links
            .filter_map(|(link, default_table)| self.link(link, default_table, faults))
            .collect();
        check_uniqueness(&tables, faults);
        Some(Config {
            name: table.name?,
            seed: table.seed.unwrap_or(1),
            socket: socket?,
            metrics,
            links: specs,
        })
    }

    fn link(&self, link: &LinkEntry, default_table: u32, faults: &mut Faults) -> Option<LinkSpec> {
        let (at, Joined(table, keys)) = (&link.origin, &link.value);
        let lacks = [
            ("name", table.name.is_none()),
            ("tun", table.tun.is_none()),
            ("routes", table.routes.is_none()),
        ];
        for (key, is_lacking) in lacks {
            faults.require(!is_lacking, at, "[[links]]", key);
        }
        let (mut description, contradictions) = keys.clone().review(&LinkDescription::default());
        if table.tun_mtu.is_none() {
            // The device takes nothing larger, and its kernel says so to senders.
            description.mtu = None;
        }
        // What seems to contradict a value that is wrong may not contradict the right one.
        if faults.is_whole(at) {
            for fault in contradictions {
                faults.push(fault);
            }
        }
        for fault in description.misnamed() {
            faults.push(fault);
        }
        // One that contradicts a rate may be the one to go.
        let trace = description.trace.as_ref();
        let trace = trace.filter(|_| description.rate_bps.is_none());
        let trace = trace.and_then(|path| faults.keep(self.trace(path)));
        let routes = table.routes.as_ref()?;
        if routes.value.is_empty() && !faults.is_wrong(at, "routes") {
            let message = "routes is empty; say what is routed over the link: { to = PREFIX, via = ADDRESS, dev = DEVICE }";
            faults.push(routes.fault(message));
        }
        let routes = routes.value.iter();
        let routes: Vec<_> = routes
            .filter_map(|route| self.route(route, faults))
            .collect();
        let has_v6 = routes.iter().any(|route| route.to.family() == Family::V6);
        let (key, mtu) = match &table.tun_mtu {
            Some(mtu) => ("tun_mtu", Some(mtu)),
            None => ("mtu", table.mtu.as_ref()),
        };
        if let Some(mtu) = mtu
            && mtu.value < MIN_MTU_V6
            && has_v6
        {
            faults.push(mtu.fault(format!(
                "{key} = {} is below {MIN_MTU_V6}, which IPv6 needs; raise it or remove the IPv6 routes",
                mtu.value
            )));
        }
        let number = table.table.as_ref();
        Some(LinkSpec {
            name: table.name.as_ref()?.value.clone(),
            tun: table.tun.as_ref()?.value.clone(),
            description,
            trace,
            mtu: mtu.map_or(DEFAULT_MTU, |mtu| mtu.value),
            offload: table.offload.unwrap_or(true),
            timing: table.timing,
            routes,
            table: number.map_or(default_table, |table| table.value),
            gives_table: number.is_some(),
            place: self.place(at),
        })
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

    fn route(&self, route: &Located<RouteTable>, faults: &mut Faults) -> Option<RouteSpec> {
        let (at, RouteTable { to, via, dev }) = (&route.origin, &route.value);
        faults.require(to.is_some(), at, "routes", "to");
        faults.require(dev.is_some(), at, "routes", "dev");
        let via = via.as_ref();
        let via = via.map(|via| faults.keep(next_router(via, to.map(|to| to.family()))));
        Some(RouteSpec {
            to: (*to)?,
            via: via.flatten(),
            dev: dev.as_ref()?.value.clone(),
            place: self.place(at),
        })
    }

    fn metrics(
        &self,
        at: &Located<String>,
        socket: Option<&Path>,
    ) -> Result<MetricsAddress, Fault> {
        let fault = |message: &str| Err(at.fault(format!("metrics = {:?} {message}", at.value)));
        if at.value.contains('/') {
            let path = self.path(at)?;
            if Some(path.as_path()) == socket {
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
fn check_uniqueness(links: &[LinkEntry], faults: &mut Faults) {
    // Who has what, as a message says it: the key and its value.
    let mut owners = BTreeMap::new();
    let mut destinations = BTreeMap::new();
    for (link, default_table) in links.iter().zip(FIRST_TABLE..) {
        let Joined(table, _) = &link.value;
        let own = table.name.as_ref().map_or("", |name| &name.value);
        let mut take = |key: &str, value: &dyn Debug, origin: &Origin| {
            let what = format!("{key} = {value:?}");
            if let Some(by) = owners.insert(what.clone(), own) {
                let message = format!("{what} is taken by link {by:?}; choose another");
                faults.push(Fault::new(origin, message));
            }
        };
        if let Some(name) = &table.name {
            take("name", &name.value, &name.origin);
        }
        if let Some(tun) = &table.tun {
            take("tun", &tun.value, &tun.origin);
        }
        match (&table.table, &table.name) {
            (Some(number), _) => take("table", &number.value, &number.origin),
            (None, Some(name)) => take("table", &default_table, &name.origin),
            (None, None) => take("table", &default_table, &link.origin),
        }
    }
    for link in links {
        let Joined(table, _) = &link.value;
        let own = table.name.as_ref().map_or("", |name| &name.value);
        for route in table.routes.iter().flat_map(|routes| &routes.value) {
            if let Some(to) = route.value.to
                && let Some(by) = destinations.insert(to, own)
            {
                faults.push(route.fault(format!(
                    "{to} is routed over link {by:?} already; remove one of the two routes"
                )));
            }
            if let Some(dev) = &route.value.dev
                && owners.contains_key(&format!("tun = {:?}", dev.value))
            {
                faults.push(route.fault(format!(
                    "dev = {:?} is the tun of a link; name the device that packets leave by",
                    dev.value
                )));
            }
        }
    }
}

/// Reads the next router's address, which is of `family`, if that is known.
fn next_router(via: &Located<String>, family: Option<Family>) -> Result<IpAddr, Fault> {
    let fault = |message: &str| Err(via.fault(format!("via: {message}")));
    match via.value.parse::<IpAddr>() {
        Err(_) => {
            fault("not an IP address; write the next router's, or leave via out if there is none")
        }
        Ok(address) if family.is_some_and(|family| Family::of(address) != family) => {
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

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Prefix>, D::Error> {
    document::parsed(deserializer).map(Some)
}

fn interface<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Located<String>>, D::Error> {
    let name: Located<String> = interface_name(deserializer)?;
    // /proc/sys/net/ipv4/conf lists these two beside the interfaces.
    if ["all", "default"].contains(&name.value.as_str()) {
        return Err(de::Error::custom(format!(
            "= {:?} means all interfaces to the kernel; name one",
            name.value
        )));
    }
    Ok(Some(name))
}
