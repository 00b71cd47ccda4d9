//! Reads the file and checks it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use evenkeel_queue::DeliveryTrace;
use evenkeel_queue::description::{LinkDescription, LinkKeys, MAX_MTU, MAX_TRACE_BYTES, MIN_MTU};
use evenkeel_spec::document::{self, Fault, Faults, Joined, Located, NAME_LENGTH, Node, Origin};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::{Quantity, Unit};
use serde::{Deserialize, Deserializer, de};

use super::{
    Config, Entry, LinkSpec, MAIN_TABLE, Mark, MetricsAddress, Place, RULE_PRIORITY, RouteSpec,
    SOCKET_DIRECTORY, Selector, Timing, Via, read_bounded,
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

/// Below the main table's rule (32766), and with room for the host's own.
const MAX_PRIORITY: u32 = 30_000;

/// Length of an interface's name in bytes (IFNAMSIZ without the final zero, linux/if.h).
const MAX_INTERFACE_NAME: usize = 15;

/// What messages call the outermost table.
pub(super) const WHOLE: &str = "the configuration";

/// Describes the keys of a table once: what each means, its type, and what reads it.
macro_rules! table {
    ($(#[$about:meta])* struct $name:ident is $title:literal {
        $(#[doc = $meaning:literal] $key:ident: $kind:ty $(, $read:literal)?;)+
    }) => {
        $(#[$about])*
        #[derive(Default, Deserialize)]
        #[serde(rename = $title, default)]
        struct $name {$(
            $(#[serde(deserialize_with = $read)])?
            $key: $kind,
        )+}

        impl $name {
            /// Each key and what it means.
            const TABLE: &[(&str, &str)] = &[$((stringify!($key), $meaning),)+];
        }
    };
}

table! {
    struct RouterTable is "the configuration" {
        /// The router, by up to 64 of A-Z a-z 0-9 - _ . (required).
        name: Option<String>, "name";
        /// Seed of everything random (1); each link draws from a generator of its own.
        seed: Option<u64>, "seed";
        /// The status socket (/run/evenkeel/NAME.sock); relative to this file's directory.
        socket: Option<Located<String>>;
        /// Where Prometheus gets figures: a loopback port, or a socket if there is a slash (none).
        metrics: Option<Located<String>>;
        /// The links, a table [[links]] for each (required).
        links: Option<Located<Vec<LinkEntry>>>;
    }
}

/// A table `[[links]]`: what the router needs, and the link itself.
type LinkEntry = Located<Joined<LinkTable, LinkKeys>>;

table! {
    /// Which keys it must have is checked later, to find all that lack.
    struct LinkTable is "[[links]]" {
        /// The link (required).
        name: Option<Located<String>>, "name";
        /// Name of its TUN device, of at most 15 bytes; it must not exist (required).
        tun: Option<Located<String>>, "interface";
        /// Largest packet in bytes (1500); the kernel tells senders of larger ones.
        mtu: Option<Located<u32>>, "mtu";
        /// The device's MTU if it differs: what is larger than mtu is lost, and nobody is told.
        tun_mtu: Option<Located<u32>>, "mtu";
        /// Whether the device carries superpackets where the kernel can (true).
        offload: Option<bool>;
        /// "efficient", or "exact": packets move at their instants however busy the link is.
        timing: Timing;
        /// What goes over the link, a table for each (required).
        routes: Option<Located<Vec<Located<RouteTable>>>>;
        /// The routing table that leads on (1001 + position); the one 1000 above may be used too.
        table: Option<Located<u32>>, "table";
    }
}

table! {
    struct RouteTable is "routes" {
        /// The destinations, as ADDRESS/LENGTH (required); /0: what no other route is for.
        to: Option<Prefix>, "prefix";
        /// The next router; "default" follows the gateway of dev's default route; none: no router.
        via: Option<Located<String>>;
        /// The device by which packets leave (required).
        dev: Option<Located<String>>, "interface";
        /// Only packets with this firewall mark, as VALUE or "VALUE/MASK".
        mark: Option<Mark>, "mark";
        /// Only packets from these addresses, as ADDRESS/LENGTH.
        from: Option<Prefix>, "prefix";
        /// Only packets that come in by this device.
        iif: Option<Located<String>>, "interface";
        /// The table into which the route goes, if rules of your own lead to one.
        table: Option<Located<u32>>, "entry_table";
    }
}

/// See [`Config::keys`].
pub(super) fn keys() -> [(&'static str, Vec<(&'static str, &'static str)>); 3] {
    [
        ("", RouterTable::TABLE.to_vec()),
        ("[[links]]", [LinkTable::TABLE, LinkKeys::TABLE].concat()),
        ("routes", RouteTable::TABLE.to_vec()),
    ]
}

impl RouteTable {
    fn selector(&self) -> Selector {
        Selector {
            mark: self.mark,
            // From everywhere: that selects nothing.
            from: self.from.filter(|from| from.length() > 0),
            iif: self.iif.as_ref().map(|iif| iif.value.clone()),
        }
    }
}

keys! {
    name: String = name(NAME_LENGTH);
    interface_name: String = name(MAX_INTERFACE_NAME);
    seed: u64 = whole(Unit::None, 0..=i64::MAX as u64);
    mtu: u32 = whole(Unit::Bytes, MIN_MTU..=MAX_MTU);
    table_number: u32 = whole(Unit::None, 1..=u64::from(u32::MAX - LinkSpec::ENTRY_TABLE_OFFSET));
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
    let root = document::parse_all(text).map_err(|mut faults| {
        for fault in &mut faults {
            // The parser does not say which key there is twice, and the like.
            let line = text.lines().nth(fault.origin.line() - 1);
            let line: String = line.unwrap_or_default().trim().chars().take(50).collect();
            fault.message += &format!(", in {line:?}");
        }
        (Node::default(), faults)
    })?;
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
        let mut specs: Vec<_> = links
            .filter_map(|(link, default_table)| self.link(link, default_table, faults))
            .collect();
        set_priorities(&mut specs, at, faults);
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
            fault(match error.kind() {
                ErrorKind::InvalidData | ErrorKind::FileTooLarge => {
                    format!("{error}; is it a trace?")
                }
                _ => format!("{error}; paths are relative to the configuration's directory"),
            })
        })?;
        DeliveryTrace::parse(&text).map_err(|error| fault(error.to_string()))
    }

    fn route(&self, route: &Located<RouteTable>, faults: &mut Faults) -> Option<RouteSpec> {
        let (at, RouteTable { to, via, dev, .. }) = (&route.origin, &route.value);
        faults.require(to.is_some(), at, "routes", "to");
        faults.require(dev.is_some(), at, "routes", "dev");
        let family = to.map(|to| to.family());
        let via = via.as_ref();
        let via = via.map(|via| faults.keep(next_router(via, family)));
        let selector = route.value.selector();
        if let (Some(from), Some(to)) = (selector.from, to)
            && from.family() != to.family()
        {
            faults.push(route.fault("from is of another IP version than to; use one of the same"));
        }
        if let Some(table) = &route.value.table
            && !selector.is_empty()
        {
            let message =
                "table is one that rules of your own lead to; leave out mark, from and iif";
            faults.push(table.fault(message));
        }
        let to = (*to)?;
        if never_forwarded(to) {
            let message = format!("no host forwards packets to {to}; leave the route out");
            faults.push(route.fault(message));
        }
        if let Some(dev) = dev
            && dev.value == "lo"
        {
            let message =
                "dev = \"lo\" leads back to this host; name the device that packets leave by";
            faults.push(dev.fault(message));
        }
        let entry = match &route.value.table {
            Some(table) => Entry::Table(table.value),
            None if to.length() == 0 || !selector.is_empty() => Entry::Rule(0),
            None => Entry::Table(MAIN_TABLE),
        };
        Some(RouteSpec {
            to,
            via: via.flatten().unwrap_or(Via::Direct),
            dev: dev.as_ref()?.value.clone(),
            selector,
            entry,
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
    // How packets to a destination go on from a link.
    let mut ways = BTreeMap::new();
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
        let (number, origin) = match (&table.table, &table.name) {
            (Some(number), _) => (number.value, &number.origin),
            (None, Some(name)) => (default_table, &name.origin),
            (None, None) => (default_table, &link.origin),
        };
        take("table", &number, origin);
        let mut routes = table.routes.iter().flat_map(|routes| &routes.value);
        let has_rule = |route: &RouteTable| {
            let is_default = route.to.is_some_and(|to| to.length() == 0);
            route.table.is_none() && (is_default || !route.selector().is_empty())
        };
        if routes.any(|route| has_rule(&route.value)) {
            take("table", &(number + LinkSpec::ENTRY_TABLE_OFFSET), origin);
        }
    }
    for link in links {
        let Joined(table, _) = &link.value;
        let own = table.name.as_ref().map_or("", |name| &name.value);
        for route in table.routes.iter().flat_map(|routes| &routes.value) {
            let table = route.value.table.as_ref().map(|table| table.value);
            if let Some(to) = route.value.to
                && let Some(by) = destinations.insert((to, route.value.selector(), table), own)
            {
                faults.push(route.fault(format!(
                    "{to} is routed over link {by:?} already; remove one of the two routes"
                )));
            }
            if let Some(to) = route.value.to {
                let via = route.value.via.as_ref().map(|via| &via.value[..]);
                let dev = route.value.dev.as_ref().map(|dev| &dev.value[..]);
                let onward = *ways.entry((own, to)).or_insert((via, dev));
                if onward != (via, dev) {
                    faults.push(route.fault(format!(
                        "packets to {to} leave link {own:?} in another way already; give the two \
                         routes the same via and dev, or two links"
                    )));
                }
            }
            if let Some(table) = &route.value.table
                && owners.contains_key(&format!("table = {:?}", table.value))
            {
                faults.push(table.fault(format!(
                    "table = {} is a link's own; name one that rules of yours lead to",
                    table.value
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

/// Gives routes that rules lead to their rules' priorities: in the order of the file, because the
/// first rule that fits a packet decides. Each has two: one looks whether a route of the main table
/// other than the default one fits. That would end the search for packets of the routes behind it,
/// so default routes come last.
fn set_priorities(links: &mut [LinkSpec], at: &Origin, faults: &mut Faults) {
    let routes = links.iter_mut().flat_map(|link| &mut link.routes);
    let mut routes: Vec<_> = routes.filter(|route| route.has_rule()).collect();
    routes.sort_by_key(|route| route.is_default());
    let mut next = RULE_PRIORITY + 2;
    for route in routes {
        route.entry = Entry::Rule(next);
        next += 2;
    }
    if next > MAX_PRIORITY {
        let message = format!(
            "{WHOLE} has too many routes with mark, from, iif or to all destinations; have at most {}",
            (MAX_PRIORITY - RULE_PRIORITY) / 2 - 1
        );
        faults.push(Fault::new(at, message));
    }
}

/// Whether all addresses of a block are of a kind that stays on the host or on a network: none,
/// loopback, link-local, multicast, broadcast.
fn never_forwarded(to: Prefix) -> bool {
    let blocks = [
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "255.255.255.255/32",
        "::/127",
        "fe80::/10",
        "ff00::/8",
    ];
    let covers = |block: &&str| block.parse::<Prefix>().is_ok_and(|block| block.covers(to));
    blocks.iter().any(covers)
}

/// Reads the next router, whose address is of `family`, if that is known.
fn next_router(via: &Located<String>, family: Option<Family>) -> Result<Via, Fault> {
    let fault = |message: &str| Err(via.fault(format!("via: {message}")));
    if via.value == Via::Default.to_string() {
        return Ok(Via::Default);
    }
    match via.value.parse::<IpAddr>() {
        Err(_) => fault(
            "not an IP address; write the next router's, \"default\" for the gateway of the \
             device's default route, or leave via out if there is none",
        ),
        Ok(address) if family.is_some_and(|family| Family::of(address) != family) => {
            fault("of another IP version than to; use one of the same")
        }
        Ok(address) if address.is_unspecified() || address.is_multicast() => {
            fault("no host has this address; write the next router's")
        }
        Ok(address) => Ok(Via::Router(address)),
    }
}

fn mark<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mark>, D::Error> {
    let quantity = Quantity::deserialize(deserializer)?;
    let text = match quantity {
        Quantity::Text(text) => text,
        Quantity::Whole(number) => number.to_string(),
        Quantity::Fraction(number) => number.to_string(),
    };
    let mark = text
        .parse::<Mark>()
        .map_err(|error| de::Error::custom(format!(": {error}")))?;
    Ok(Some(mark))
}

fn entry_table<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Located<u32>>, D::Error> {
    let table: Located<u32> = table_number(deserializer)?;
    if table.value == *KERNEL_TABLES.end() {
        return Err(de::Error::custom(format!(
            "= {} is the kernel's table of this host's own addresses; choose another",
            table.value
        )));
    }
    Ok(Some(table))
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
