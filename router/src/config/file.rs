//! The file as it is written, and its checks.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_queue::description::{ChangeKeys, LinkDescription, LinkKeys, MAX_TRACE_BYTES};
use evenkeel_queue::{Change, DeliveryTrace, Limit, Rate, Service, discipline, stamp_set};
use evenkeel_spec::document::{self, Fault, Located, Node, Origin, Reader};
use evenkeel_spec::quantity::Unit;

use super::{Config, LinkSpec, Place, RouteSpec, SOCKET_DIRECTORY, read_bounded};
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

/// Tables of links that name none begin here; the kernel's own end at 255.
const FIRST_TABLE: u32 = 1001;

/// Tables 253 to 255 are the kernel's default, main and local one (linux/rtnetlink.h).
const KERNEL_TABLES: RangeInclusive<u64> = 253..=255;

/// Length of an interface's name in bytes (IFNAMSIZ without the final zero, linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;

/// What is needed to make sense of a table: where it stands.
struct File<'a> {
    name: &'a str,
    directory: &'a Path,
}

/// A link, with what later checks need of its table.
struct Link<'a> {
    reader: Reader<'a>,
    spec: LinkSpec,
    routes: Vec<&'a Node>,
}

pub(super) fn parse(text: &str, file_name: &str, directory: &Path) -> Result<Config, Fault> {
    let root = document::parse(text)?;
    let file = File {
        name: file_name,
        directory,
    };
    let top = Reader::open(
        &root,
        "the configuration",
        &["name", "seed", "socket", "links"],
    )?;
    let name = top.required("name", top.name("name")?)?.value;
    let seed = top.whole("seed", Unit::None, 0..=i64::MAX as u64)?;
    let socket = match top.string("socket")? {
        Some(path) => file.path(&path)?,
        None => Path::new(SOCKET_DIRECTORY).join(format!("{name}.sock")),
    };
    let mut tables = FIRST_TABLE..;
    let links = top.tables("links", Ok)?;
    let links: Vec<_> = links
        .into_iter()
        .map(|node| file.link(tables.next().unwrap_or(FIRST_TABLE), node))
        .collect::<Result<_, _>>()?;
    if links.is_empty() {
        let message = "links is empty; add a table [[links]] with name, tun and routes";
        return Err(top.fault("links", message));
    }
    check_uniqueness(&links)?;
    Ok(Config {
        name,
        seed: seed.unwrap_or(1),
        socket,
        links: links.into_iter().map(|link| link.spec).collect(),
    })
}

impl File<'_> {
    fn link<'a>(&self, default_table: u32, node: &'a Node) -> Result<Link<'a>, Fault> {
        const KEYS: &[&str] = &["name", "tun", "mtu", "routes", "table"];
        let (reader, keys) = Reader::open_with::<LinkKeys>(node, "[[links]]", KEYS)?;
        let link = keys.over(&LinkDescription::default())?;
        let service = self.service(&link)?;
        let limit = Limit {
            packets: link.queue_packets.map(u64::from),
            bytes: link.queue_bytes,
        };
        let mtu = reader.whole("mtu", Unit::Bytes, MIN_MTU..=MAX_MTU)?;
        let mtu = mtu.map_or(DEFAULT_MTU, |mtu| mtu as u32);
        let nodes = reader.tables("routes", Ok)?;
        if nodes.is_empty() {
            let message = "routes is empty; say what is routed over the link: { to = PREFIX, via = ADDRESS, dev = DEVICE }";
            return Err(reader.fault("routes", message));
        }
        let routes = nodes.iter().map(|node| self.route(node));
        let routes: Vec<_> = routes.collect::<Result<_, _>>()?;
        if mtu < MIN_MTU_V6 && routes.iter().any(|route| route.to.family() == Family::V6) {
            let message = format!(
                "mtu = {mtu} is below {MIN_MTU_V6}, which IPv6 needs; raise it or remove the IPv6 routes"
            );
            return Err(reader.fault("mtu", message));
        }
        known_names(&link, limit)?;
        let spec = LinkSpec {
            name: reader.required("name", reader.name("name")?)?.value,
            tun: interface(&reader, "tun")?,
            service,
            limit,
            discipline: link.discipline.value.clone(),
            stamps: link
                .stamps
                .iter()
                .map(|stamp| stamp.value.clone())
                .collect(),
            delay: milliseconds(link.delay_ms),
            jitter: milliseconds(link.jitter_ms),
            reorder: link.reorder,
            loss: link.loss,
            blackouts: link
                .blackouts
                .iter()
                .map(|blackout| {
                    let seconds = Duration::from_secs_f64;
                    (
                        seconds(blackout.value.start_s),
                        seconds(blackout.value.length_s),
                    )
                })
                .collect(),
            changes: link
                .changes
                .iter()
                .flat_map(|change| changes(&change.value, limit))
                .collect(),
            mtu,
            routes,
            table: table(&reader)?.unwrap_or(default_table),
            place: self.place(&node.origin),
        };
        Ok(Link {
            reader,
            spec,
            routes: nodes,
        })
    }

    fn service(&self, link: &LinkDescription) -> Result<Service, Fault> {
        match (link.rate_bps, &link.trace) {
            (Some(bps), _) => Ok(Service::Rate(rate(bps))),
            (None, Some(path)) => self.trace(path).map(Service::Trace),
            (None, None) => Ok(Service::Unlimited),
        }
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

    fn route(&self, node: &Node) -> Result<RouteSpec, Fault> {
        let route = Reader::open(node, "routes", &["to", "via", "dev"])?;
        let to = route.required("to", route.string("to")?)?;
        let prefix: Prefix = to
            .value
            .parse()
            .map_err(|error| to.fault(format!("to: {error}")))?;
        let via = route.string("via")?;
        Ok(RouteSpec {
            to: prefix,
            via: via
                .map(|via| next_router(&via, prefix.family()))
                .transpose()?,
            dev: interface(&route, "dev")?,
            place: self.place(&node.origin),
        })
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

/// What changes at the time of `keys`.
fn changes(keys: &ChangeKeys, limit: Limit) -> impl Iterator<Item = (Duration, Change)> {
    let at = Duration::from_secs_f64(keys.at_s);
    let packets = keys.queue_packets.map(|packets| Limit {
        packets: Some(packets.into()),
        ..limit
    });
    let changes = [
        keys.rate_bps.map(|bps| Change::Rate(rate(bps))),
        keys.delay_ms
            .map(|delay| Change::Delay(milliseconds(delay))),
        keys.loss.map(Change::Loss),
        packets.map(Change::Limit),
    ];
    changes
        .into_iter()
        .flatten()
        .map(move |change| (at, change))
}

/// Checks that the discipline and the stamps exist, with these parameters.
fn known_names(link: &LinkDescription, limit: Limit) -> Result<(), Fault> {
    let name = &link.discipline;
    discipline(&name.value, limit).map_err(|error| name.fault(error.to_string()))?;
    let names: Vec<_> = link.stamps.iter().map(|stamp| &stamp.value).collect();
    for (at, stamp) in link.stamps.iter().enumerate() {
        // One more at a time, so that the first wrong one is the last.
        stamp_set(&names[..=at]).map_err(|error| stamp.fault(error.to_string()))?;
    }
    Ok(())
}

/// Names, devices, tables and destinations belong to one link each.
fn check_uniqueness(links: &[Link<'_>]) -> Result<(), Fault> {
    let mut names = BTreeMap::new();
    let mut tuns = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mut destinations = BTreeMap::new();
    for Link {
        reader,
        spec: link,
        routes,
    } in links
    {
        let taken = |key: &str, what: String, by: &str| {
            let message = format!("{what} is taken by link {by:?}; choose another");
            Err(reader.fault(key, message))
        };
        if let Some(by) = names.insert(&link.name, &link.name) {
            return taken("name", format!("name = {:?}", link.name), by);
        }
        if let Some(by) = tuns.insert(&link.tun, &link.name) {
            return taken("tun", format!("tun = {:?}", link.tun), by);
        }
        if let Some(by) = numbers.insert(link.table, &link.name) {
            let key = if reader.node("table").is_some() {
                "table"
            } else {
                "name"
            };
            return taken(key, format!("table = {}", link.table), by);
        }
        for (node, route) in routes.iter().zip(&link.routes) {
            if let Some(by) = destinations.insert(route.to, &link.name) {
                let message = format!(
                    "{} is routed over link {by:?} already; remove one of the two routes",
                    route.to
                );
                return Err(Fault::new(&node.origin, message));
            }
        }
    }
    for link in links {
        for (node, route) in link.routes.iter().zip(&link.spec.routes) {
            if tuns.contains_key(&route.dev) {
                let message = format!(
                    "dev = {:?} is the tun of a link; name the device that packets leave by",
                    route.dev
                );
                return Err(Fault::new(&node.origin, message));
            }
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

fn table(link: &Reader<'_>) -> Result<Option<u32>, Fault> {
    let table = link.whole("table", Unit::None, 1..=u64::from(u32::MAX))?;
    if let Some(table) = table.filter(|table| KERNEL_TABLES.contains(table)) {
        let message = format!(
            "table = {table} is one of the kernel's own; choose another, such as {FIRST_TABLE}"
        );
        return Err(link.fault("table", message));
    }
    Ok(table.map(|table| table as u32))
}

fn interface(reader: &Reader<'_>, key: &str) -> Result<String, Fault> {
    let name = reader.required(key, reader.name_up_to(key, MAX_INTERFACE_NAME)?)?;
    // /proc/sys/net/ipv4/conf holds these two beside the interfaces.
    if ["all", "default"].contains(&name.value.as_str()) {
        let name_given = &name.value;
        return Err(name.fault(format!(
            "{key} = {name_given:?} means all interfaces to the kernel; name one"
        )));
    }
    Ok(name.value)
}

fn rate(bps: u64) -> Rate {
    Rate::new(bps).expect("the range begins at 1")
}

fn milliseconds(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}
