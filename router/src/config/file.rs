//! The file as it is written, and its checks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_queue::{Change, DeliveryTrace, Limit, Rate, Service, discipline, stamp_set};
use serde::de::{Deserialize, Deserializer, Visitor};
use toml::Spanned;

use super::fault::{Fault, line_of};
use super::{Config, LinkSpec, Place, RouteSpec, SOCKET_DIRECTORY, read_bounded};
use crate::family::Family;
use crate::prefix::Prefix;

/// Highest rate: 1 Tb/s, as in scenarios.
const MAX_RATE_BPS: u64 = 1_000_000_000_000;

/// Longest delay: ten minutes, as in scenarios.
const MAX_DELAY_MS: f64 = 600_000.0;

/// Latest time of a blackout or change: over a day, as in scenarios.
const MAX_TIME_S: f64 = 100_000.0;

/// Queue of a link that says nothing of it, as in scenarios.
const DEFAULT_QUEUE_PACKETS: u64 = 100;

const MAX_QUEUE_PACKETS: u64 = 10_000_000;
const MAX_QUEUE_BYTES: u64 = 1 << 40;

/// Largest trace file, as in scenarios.
const MAX_TRACE_BYTES: u64 = 256 << 20;

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

const MAX_NAME: usize = 64;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    seed: Option<Spanned<Number>>,
    socket: Option<Spanned<String>>,
    links: Spanned<Vec<Spanned<LinkTable>>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    name: Spanned<String>,
    tun: Spanned<String>,
    rate_bps: Option<Spanned<Number>>,
    trace: Option<Spanned<String>>,
    delay_ms: Option<Spanned<Number>>,
    queue_packets: Option<Spanned<Number>>,
    queue_bytes: Option<Spanned<Number>>,
    discipline: Option<Spanned<String>>,
    #[serde(default)]
    stamps: Vec<Spanned<String>>,
    loss: Option<Spanned<Number>>,
    jitter_ms: Option<Spanned<Number>>,
    reorder: Option<Spanned<Number>>,
    #[serde(default)]
    blackouts: Vec<Spanned<BlackoutTable>>,
    #[serde(default)]
    changes: Vec<Spanned<ChangeTable>>,
    mtu: Option<Spanned<Number>>,
    routes: Spanned<Vec<Spanned<RouteTable>>>,
    table: Option<Spanned<Number>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BlackoutTable {
    start_s: Spanned<Number>,
    length_s: Spanned<Number>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeTable {
    at_s: Spanned<Number>,
    rate_bps: Option<Spanned<Number>>,
    delay_ms: Option<Spanned<Number>>,
    loss: Option<Spanned<Number>>,
    queue_packets: Option<Spanned<Number>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    to: Spanned<String>,
    via: Option<Spanned<String>>,
    dev: Spanned<String>,
}

/// A number, with or without a fraction: `2e6` is a whole one.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i64),
    Fraction(f64),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyNumber;

        impl Visitor<'_> for AnyNumber {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number::Whole(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number::Fraction(number))
            }
        }

        deserializer.deserialize_any(AnyNumber)
    }
}

/// What is needed to make sense of a table: where it stands.
struct Reader<'a> {
    file: &'a str,
    directory: &'a Path,
    text: &'a str,
}

pub(super) fn parse(text: &str, file_name: &str, directory: &Path) -> Result<Config, Fault> {
    let file: File = toml::from_str(text)?;
    let reader = Reader {
        file: file_name,
        directory,
        text,
    };
    let name = name(&file.name, MAX_NAME)?;
    let seed = file
        .seed
        .as_ref()
        .map_or(Ok(1), |seed| whole("seed", seed, 0..=i64::MAX as u64))?;
    let socket = match &file.socket {
        Some(path) => reader.path(path)?,
        None => Path::new(SOCKET_DIRECTORY).join(format!("{name}.sock")),
    };
    if file.links.get_ref().is_empty() {
        let message = "links is empty; add a table [[links]] with name, tun and routes";
        return Err(Fault::new(file.links.span(), message));
    }
    let links = (FIRST_TABLE..).zip(file.links.get_ref());
    let links: Vec<_> = links
        .map(|(table, link)| reader.link(table, link))
        .collect::<Result<_, _>>()?;
    check_uniqueness(file.links.get_ref(), &links)?;
    Ok(Config {
        name,
        seed,
        socket,
        links,
    })
}

impl Reader<'_> {
    fn link(&self, default_table: u32, spanned: &Spanned<LinkTable>) -> Result<LinkSpec, Fault> {
        let link = spanned.get_ref();
        let service = self.service(link)?;
        let limit = limit(link)?;
        let blackouts = blackouts(&link.blackouts)?;
        let changes = changes(&link.changes, &service, limit)?;
        let mtu =
            optional("mtu", &link.mtu, MIN_MTU..=MAX_MTU)?.map_or(DEFAULT_MTU, |mtu| mtu as u32);
        if link.routes.get_ref().is_empty() {
            let message = "routes is empty; say what is routed over the link: { to = PREFIX, via = ADDRESS, dev = DEVICE }";
            return Err(Fault::new(link.routes.span(), message));
        }
        let routes = link.routes.get_ref().iter();
        let routes: Vec<_> = routes
            .map(|route| self.route(route))
            .collect::<Result<_, _>>()?;
        if mtu < MIN_MTU_V6 && routes.iter().any(|route| route.to.family() == Family::V6) {
            let span = link.mtu.as_ref().map_or(spanned.span(), Spanned::span);
            let message = format!(
                "mtu = {mtu} is below {MIN_MTU_V6}, which IPv6 needs; raise it or remove the IPv6 routes"
            );
            return Err(Fault::new(span, message));
        }
        Ok(LinkSpec {
            name: name(&link.name, MAX_NAME)?,
            tun: interface("tun", &link.tun)?,
            service,
            limit,
            discipline: known_discipline(link.discipline.as_ref(), limit)?,
            stamps: known_stamps(&link.stamps)?,
            delay: milliseconds("delay_ms", link.delay_ms.as_ref())?,
            jitter: milliseconds("jitter_ms", link.jitter_ms.as_ref())?,
            reorder: reorder(link)?,
            loss: probability("loss", link.loss.as_ref())?,
            blackouts,
            changes,
            mtu,
            routes,
            table: table(link.table.as_ref())?.unwrap_or(default_table),
            place: self.place(spanned.span()),
        })
    }

    fn service(&self, link: &LinkTable) -> Result<Service, Fault> {
        match (&link.rate_bps, &link.trace) {
            (Some(_), Some(trace)) => {
                let message = "a link has a rate_bps or a trace, not both; remove one";
                Err(Fault::new(trace.span(), message))
            }
            (Some(bps), None) => Ok(Service::Rate(rate(bps)?)),
            (None, Some(path)) => self.trace(path).map(Service::Trace),
            (None, None) => Ok(Service::Unlimited),
        }
    }

    fn trace(&self, path: &Spanned<String>) -> Result<DeliveryTrace, Fault> {
        let file = self.path(path)?;
        let fault = |message: String| {
            Fault::new(path.span(), format!("trace {}: {message}", file.display()))
        };
        let text = read_bounded(&file, MAX_TRACE_BYTES).map_err(|error| {
            fault(format!(
                "{error}; paths are relative to the configuration's directory"
            ))
        })?;
        DeliveryTrace::parse(&text).map_err(|error| fault(error.to_string()))
    }

    fn route(&self, spanned: &Spanned<RouteTable>) -> Result<RouteSpec, Fault> {
        let route = spanned.get_ref();
        let to: Prefix = route
            .to
            .get_ref()
            .parse()
            .map_err(|error| Fault::new(route.to.span(), format!("to: {error}")))?;
        let via = match &route.via {
            None => None,
            Some(via) => Some(next_router(via, to.family())?),
        };
        Ok(RouteSpec {
            to,
            via,
            dev: interface("dev", &route.dev)?,
            place: self.place(spanned.span()),
        })
    }

    fn path(&self, path: &Spanned<String>) -> Result<PathBuf, Fault> {
        if path.get_ref().is_empty() || path.get_ref().contains('\0') {
            return Err(Fault::new(
                path.span(),
                "the path is empty or holds a zero byte; name a file",
            ));
        }
        Ok(self.directory.join(path.get_ref()))
    }

    fn place(&self, span: Range<usize>) -> Place {
        Place {
            file: self.file.to_owned(),
            line: line_of(self.text, span.start),
        }
    }
}

fn limit(link: &LinkTable) -> Result<Limit, Fault> {
    let packets = optional("queue_packets", &link.queue_packets, 1..=MAX_QUEUE_PACKETS)?;
    let bytes = optional("queue_bytes", &link.queue_bytes, 1..=MAX_QUEUE_BYTES)?;
    Ok(match (packets, bytes) {
        (None, None) => Limit::packets(DEFAULT_QUEUE_PACKETS),
        (packets, bytes) => Limit { packets, bytes },
    })
}

/// A probability, 0 unless given.
fn probability(key: &str, value: Option<&Spanned<Number>>) -> Result<f64, Fault> {
    value.map_or(Ok(0.0), |value| number(key, value, 0.0..=1.0))
}

fn reorder(link: &LinkTable) -> Result<f64, Fault> {
    let share = probability("reorder", link.reorder.as_ref())?;
    let delays = [link.delay_ms.as_ref()].into_iter();
    let changed = link
        .changes
        .iter()
        .map(|change| change.get_ref().delay_ms.as_ref());
    let has_delay = delays
        .chain(changed)
        .any(|delay| milliseconds("delay_ms", delay).is_ok_and(|delay| !delay.is_zero()));
    match &link.reorder {
        Some(value) if share > 0.0 && !has_delay => Err(Fault::new(
            value.span(),
            "reorder needs a delay that packets can jump; give the link a delay_ms",
        )),
        _ => Ok(share),
    }
}

fn blackouts(tables: &[Spanned<BlackoutTable>]) -> Result<Vec<(Duration, Duration)>, Fault> {
    let mut blackouts: Vec<(Duration, Duration)> = Vec::new();
    for table in tables {
        let start = seconds("start_s", &table.get_ref().start_s)?;
        let length = seconds("length_s", &table.get_ref().length_s)?;
        if length.is_zero() {
            return Err(Fault::new(table.span(), "length_s must be above 0"));
        }
        if blackouts
            .last()
            .is_some_and(|(before, length)| *before + *length > start)
        {
            let message = "blackouts overlap or are out of order; order them by start_s and let each end before the next";
            return Err(Fault::new(table.span(), message));
        }
        blackouts.push((start, length));
    }
    Ok(blackouts)
}

fn changes(
    tables: &[Spanned<ChangeTable>],
    service: &Service,
    limit: Limit,
) -> Result<Vec<(Duration, Change)>, Fault> {
    let mut changes: Vec<(Duration, Change)> = Vec::new();
    for spanned in tables {
        let fault = |message: &str| Err(Fault::new(spanned.span(), message));
        let table = spanned.get_ref();
        let at = seconds("at_s", &table.at_s)?;
        if changes.last().is_some_and(|(before, _)| *before > at) {
            return fault("changes are out of order; order them by at_s");
        }
        if table.rate_bps.is_some() && !matches!(service, Service::Rate(_)) {
            return fault(
                "a change sets a rate on a link that begins without one; give the link a rate_bps",
            );
        }
        let packets = optional("queue_packets", &table.queue_packets, 1..=MAX_QUEUE_PACKETS)?;
        let delay = table.delay_ms.as_ref();
        let loss = table.loss.as_ref();
        let of_table = [
            table
                .rate_bps
                .as_ref()
                .map(rate)
                .transpose()?
                .map(Change::Rate),
            delay
                .map(|delay| milliseconds("delay_ms", Some(delay)))
                .transpose()?
                .map(Change::Delay),
            loss.map(|loss| number("loss", loss, 0.0..=1.0))
                .transpose()?
                .map(Change::Loss),
            packets.map(|packets| {
                Change::Limit(Limit {
                    packets: Some(packets),
                    ..limit
                })
            }),
        ];
        if of_table.iter().all(Option::is_none) {
            return fault(
                "the change changes nothing; add one of rate_bps, delay_ms, loss, queue_packets",
            );
        }
        changes.extend(of_table.into_iter().flatten().map(|change| (at, change)));
    }
    Ok(changes)
}

/// Names, devices, tables and destinations belong to one link each.
fn check_uniqueness(tables: &[Spanned<LinkTable>], links: &[LinkSpec]) -> Result<(), Fault> {
    let mut names = BTreeMap::new();
    let mut tuns = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    let mut destinations = BTreeMap::new();
    for (table, link) in tables.iter().zip(links) {
        let table = table.get_ref();
        let taken = |span: Range<usize>, what: String, by: &str| {
            Err(Fault::new(
                span,
                format!("{what} is taken by link {by:?}; choose another"),
            ))
        };
        if let Some(by) = names.insert(&link.name, &link.name) {
            return taken(table.name.span(), format!("name = {:?}", link.name), by);
        }
        if let Some(by) = tuns.insert(&link.tun, &link.name) {
            return taken(table.tun.span(), format!("tun = {:?}", link.tun), by);
        }
        if let Some(by) = numbers.insert(link.table, &link.name) {
            let span = table
                .table
                .as_ref()
                .map_or(table.name.span(), Spanned::span);
            return taken(span, format!("table = {}", link.table), by);
        }
        for (spanned, route) in table.routes.get_ref().iter().zip(&link.routes) {
            if let Some(by) = destinations.insert(route.to, &link.name) {
                let message = format!(
                    "{} is routed over link {by:?} already; remove one of the two routes",
                    route.to
                );
                return Err(Fault::new(spanned.span(), message));
            }
        }
    }
    let devices = links
        .iter()
        .zip(tables)
        .flat_map(|(link, table)| link.routes.iter().zip(table.get_ref().routes.get_ref()));
    for (route, spanned) in devices {
        if tuns.contains_key(&route.dev) {
            let message = format!(
                "dev = {:?} is the tun of a link; name the device that packets leave by",
                route.dev
            );
            return Err(Fault::new(spanned.get_ref().dev.span(), message));
        }
    }
    Ok(())
}

fn next_router(via: &Spanned<String>, family: Family) -> Result<IpAddr, Fault> {
    let fault = |message: &str| Err(Fault::new(via.span(), format!("via: {message}")));
    match via.get_ref().parse::<IpAddr>() {
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

fn known_discipline(name: Option<&Spanned<String>>, limit: Limit) -> Result<String, Fault> {
    let Some(name) = name else {
        return Ok("drop-tail".to_owned());
    };
    match discipline(name.get_ref(), limit) {
        Ok(_) => Ok(name.get_ref().clone()),
        Err(error) => Err(Fault::new(name.span(), error.to_string())),
    }
}

fn known_stamps(specs: &[Spanned<String>]) -> Result<Vec<String>, Fault> {
    let names: Vec<_> = specs.iter().map(|spec| spec.get_ref().clone()).collect();
    for (at, spec) in specs.iter().enumerate() {
        // One more at a time, so that the first wrong one is the last.
        if let Err(error) = stamp_set(&names[..=at]) {
            return Err(Fault::new(spec.span(), error.to_string()));
        }
    }
    Ok(names)
}

fn table(table: Option<&Spanned<Number>>) -> Result<Option<u32>, Fault> {
    let Some(spanned) = table else {
        return Ok(None);
    };
    let table = whole("table", spanned, 1..=u64::from(u32::MAX))?;
    if KERNEL_TABLES.contains(&table) {
        let message = format!(
            "table = {table} is one of the kernel's own; choose another, such as {FIRST_TABLE}"
        );
        return Err(Fault::new(spanned.span(), message));
    }
    Ok(Some(table as u32))
}

/// A name: letters, digits, `-`, `_` and `.` inside, so that it is good in file names too.
fn name(name: &Spanned<String>, longest: usize) -> Result<String, Fault> {
    let text = name.get_ref();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && text.chars().all(allowed) && text.len() <= longest {
        return Ok(text.clone());
    }
    let shortened: String = text.chars().take(MAX_NAME).collect();
    let message = format!(
        "{shortened:?} is no name; use up to {longest} of A-Z a-z 0-9 - _ . and begin with a letter or digit"
    );
    Err(Fault::new(name.span(), message))
}

fn interface(key: &str, spanned: &Spanned<String>) -> Result<String, Fault> {
    let interface = name(spanned, MAX_INTERFACE_NAME)?;
    // /proc/sys/net/ipv4/conf holds these two beside the interfaces.
    if ["all", "default"].contains(&interface.as_str()) {
        let message = format!("{key} = {interface:?} means all interfaces to the kernel; name one");
        return Err(Fault::new(spanned.span(), message));
    }
    Ok(interface)
}

fn rate(bps: &Spanned<Number>) -> Result<Rate, Fault> {
    let bps = whole("rate_bps", bps, 1..=MAX_RATE_BPS)?;
    Ok(Rate::new(bps).expect("the range begins at 1"))
}

fn milliseconds(key: &str, value: Option<&Spanned<Number>>) -> Result<Duration, Fault> {
    let value = value.map_or(Ok(0.0), |value| number(key, value, 0.0..=MAX_DELAY_MS))?;
    Ok(Duration::from_secs_f64(value / 1e3))
}

fn seconds(key: &str, value: &Spanned<Number>) -> Result<Duration, Fault> {
    Ok(Duration::from_secs_f64(number(
        key,
        value,
        0.0..=MAX_TIME_S,
    )?))
}

fn number(key: &str, value: &Spanned<Number>, range: RangeInclusive<f64>) -> Result<f64, Fault> {
    let number = match *value.get_ref() {
        Number::Whole(number) => number as f64,
        Number::Fraction(number) => number,
    };
    if range.contains(&number) {
        return Ok(number);
    }
    let message = format!(
        "{key} = {number} is outside its range, {} to {}",
        range.start(),
        range.end()
    );
    Err(Fault::new(value.span(), message))
}

fn optional(
    key: &str,
    value: &Option<Spanned<Number>>,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, Fault> {
    value
        .as_ref()
        .map(|value| whole(key, value, range))
        .transpose()
}

fn whole(key: &str, value: &Spanned<Number>, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    // Above 2^53 not every whole number is a float; the ranges of floats that make sense end below.
    let whole = match *value.get_ref() {
        Number::Whole(number) => u64::try_from(number).ok(),
        Number::Fraction(number) if number.fract() == 0.0 && (0.0..=9e15).contains(&number) => {
            Some(number as u64)
        }
        Number::Fraction(_) => None,
    };
    if let Some(number) = whole.filter(|number| range.contains(number)) {
        return Ok(number);
    }
    let message = format!(
        "{key} must be a whole number from {} to {}",
        range.start(),
        range.end()
    );
    Err(Fault::new(value.span(), message))
}
