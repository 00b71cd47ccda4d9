//! `[[flows]]` and `[[cross]]`.

use std::ops::RangeInclusive;

use evenkeel::{Controllers, EcnUse, Pacing};
use evenkeel_apps::bulk::MAX_STREAMS;
use evenkeel_queue::description::{self, BlackoutKeys};
use evenkeel_spec::document::{Fault, Joined, Located, Origin};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::Unit;
use serde::{Deserialize, Serialize};

use super::stream::StreamTable;
use super::{MAX_DURATION_S, default};
use crate::scenario::IpVersion;
use crate::scenario::spec::Begins;

/// Most flows and sources of cross traffic of one table.
const MAX_COUNT: u64 = 2000;

/// Most bytes of a transfer: a thousand terabytes.
const MAX_BYTES: u64 = 1_000_000_000_000_000;

/// Greatest `max_ack_delay` that QUIC can carry (RFC 9000 section 18.2: below 2^14 ms).
const MAX_ACK_DELAY_MS: u64 = (1 << 14) - 1;

/// Most datagrams for each that carries a path header.
const MAX_HEADER_INTERVAL: u64 = 1_000_000;

/// Idle timeouts that `evenkeel --idle-timeout` takes.
const IDLE_TIMEOUTS_S: RangeInclusive<f64> = 1.0..=3600.0;

/// Intervals that `evenkeel --probe-interval` takes.
const PROBE_INTERVALS_S: RangeInclusive<f64> = 0.01..=60.0;

/// Most characters of a kernel's name for a controller (TCP_CA_NAME_MAX without its zero).
const MAX_KERNEL_NAME: usize = 15;

/// Packet thresholds that `evenkeel --packet-threshold` takes.
const PACKET_THRESHOLDS: RangeInclusive<u64> = 3..=1_000_000;

/// Time thresholds that `evenkeel --time-threshold` takes, in round trips.
const TIME_THRESHOLDS: RangeInclusive<f64> = 1.0..=100.0;

/// Rates that a sender may remember, in bits of IP packets per second.
const REMEMBERED_BPS: RangeInclusive<u64> = 1_000..=100_000_000_000;

/// Least round trips that a sender may remember.
const REMEMBERED_RTTS_MS: RangeInclusive<f64> = 0.25..=10_000.0;

/// Bytes of an IPv4 and a UDP header: a packet cannot be smaller.
const MIN_PACKET_BYTES: u64 = 28;

/// QUIC's smallest full-size packet on the wire: 1200 bytes and an IPv4 and a UDP header.
const DEFAULT_PACKET_BYTES: u16 = 1228;

/// The longest round trip that a path header can tell, in milliseconds (docs/path-header.md).
const MOST_ACP_RTT_MS: f64 = 134_000.0;

/// Shape of Pareto periods (AdaVegas section IV).
const DEFAULT_PERIOD_SHAPE: f64 = 1.5;

/// Shape of Pareto sizes: infinite variance, as files on the web have it (Crovella and
/// Bestavros, SIGMETRICS 1996: tails of 1.0 to 1.3).
const DEFAULT_SIZE_SHAPE: f64 = 1.2;

/// Shapes of Pareto distributions: near 1 the mean is never reached in a run.
const MIN_SHAPE: f64 = 1.05;
const MAX_SHAPE: f64 = 100.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "[[flows]]")]
pub(in crate::scenario) struct FlowTable {
    #[serde(deserialize_with = "super::name")]
    pub(in crate::scenario) name: Located<String>,
    pub(in crate::scenario) app: AppName,
    #[serde(default, deserialize_with = "bytes")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) bytes: Option<Located<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) file: Option<Located<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) onoff: Option<Located<OnOffTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) short: Option<Located<ShortTable>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) stream: Option<Located<StreamTable>>,
    pub(in crate::scenario) controller: Located<String>,
    #[serde(default = "default::<1, _>", deserialize_with = "count")]
    pub(in crate::scenario) count: u32,
    #[serde(default, deserialize_with = "seconds")]
    pub(in crate::scenario) start_s: f64,
    #[serde(default, deserialize_with = "seconds")]
    pub(in crate::scenario) stagger_s: f64,
    #[serde(default, deserialize_with = "seconds")]
    pub(in crate::scenario) start_spread_s: f64,
    #[serde(default, deserialize_with = "super::length_s")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) stop_s: Option<f64>,
    #[serde(flatten, skip_deserializing)]
    pub(in crate::scenario) ends: Ends,
    #[serde(default = "default::<1, _>", deserialize_with = "streams")]
    pub(in crate::scenario) streams: u32,
    #[serde(default)]
    pub(in crate::scenario) verify: bool,
    #[serde(default = "default::<2, _>", deserialize_with = "ack_every")]
    pub(in crate::scenario) ack_every: u32,
    #[serde(default = "default::<25, _>")]
    #[serde(deserialize_with = "max_ack_delay_ms")]
    pub(in crate::scenario) max_ack_delay_ms: u32,
    #[serde(default)]
    pub(in crate::scenario) mtu_discovery: bool,
    #[serde(default, with = "PacingName")]
    pub(in crate::scenario) pacing: Pacing,
    #[serde(default, with = "EcnName", skip_serializing_if = "is_default")]
    pub(in crate::scenario) ecn: EcnUse,
    /// Always there when the file has been read.
    #[serde(default, deserialize_with = "header_interval")]
    pub(in crate::scenario) path_headers: Option<u32>,
    #[serde(default, deserialize_with = "idle_timeout_s")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) idle_timeout_s: Option<f64>,
    #[serde(default, deserialize_with = "probe_interval_s")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) probe_interval_s: Option<f64>,
    #[serde(default, deserialize_with = "packet_threshold")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) packet_threshold: Option<u32>,
    #[serde(default, deserialize_with = "time_threshold")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) time_threshold: Option<f64>,
    /// In order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::scenario) pauses: Vec<Located<BlackoutKeys>>,
    /// In order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::scenario) rebinds_s: Vec<Located<Rebind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) remembered: Option<Located<RememberedTable>>,
}

/// What the sender remembers of its path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct RememberedTable {
    #[serde(deserialize_with = "remembered_rate_bps")]
    pub(in crate::scenario) rate_bps: u64,
    #[serde(deserialize_with = "remembered_rtt_ms")]
    pub(in crate::scenario) rtt_ms: f64,
}

/// When an endpoint moves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::scenario) struct Rebind(
    #[serde(deserialize_with = "seconds")] pub(in crate::scenario) f64,
);

/// Between which nodes and addresses traffic flows; both tables have these keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::scenario) struct Ends {
    #[serde(default, deserialize_with = "super::name")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) from: Option<Located<String>>,
    #[serde(default, deserialize_with = "super::name")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) to: Option<Located<String>>,
    #[serde(default, deserialize_with = "description::delay_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) access_delay_ms: Option<Located<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) ip_version: Option<IpVersion>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scenario) enum AppName {
    Bulk,
    OnOff,
    Short,
    Stream,
    Tcp,
}

/// The names of [`Pacing`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Pacing", rename_all = "lowercase")]
enum PacingName {
    Controller,
    Quinn,
    #[serde(rename = "none")]
    Unpaced,
}

/// The names of [`EcnUse`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "EcnUse", rename_all = "lowercase")]
enum EcnName {
    Classic,
    L4s,
    Off,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "[flows.onoff]")]
pub(in crate::scenario) struct OnOffTable {
    #[serde(deserialize_with = "super::length_s")]
    pub(in crate::scenario) on_s: f64,
    #[serde(deserialize_with = "super::length_s")]
    pub(in crate::scenario) off_s: f64,
    #[serde(default)]
    distribution: Distribution,
    /// There if the distribution has one.
    #[serde(default, deserialize_with = "shape")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) shape: Option<Located<f64>>,
    #[serde(default)]
    pub(in crate::scenario) begins: Begins,
    #[serde(default = "yes")]
    pub(in crate::scenario) reconnect: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Distribution {
    #[default]
    Pareto,
    Exponential,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "[flows.short]")]
pub(in crate::scenario) struct ShortTable {
    #[serde(deserialize_with = "arrivals_per_s")]
    pub(in crate::scenario) arrivals_per_s: f64,
    #[serde(deserialize_with = "bytes")]
    pub(in crate::scenario) mean_bytes: u64,
    #[serde(default = "default_size_shape", deserialize_with = "shape")]
    pub(in crate::scenario) shape: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename = "[[cross]]")]
pub(in crate::scenario) struct CrossTable {
    #[serde(deserialize_with = "super::name")]
    pub(in crate::scenario) name: Located<String>,
    kind: CrossKind,
    /// There unless the rate is constant.
    #[serde(default, deserialize_with = "super::length_s")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) on_s: Option<Located<f64>>,
    /// May follow from rate and load.
    #[serde(default, deserialize_with = "super::length_s")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) off_s: Option<Located<f64>>,
    /// There if the kind has one.
    #[serde(default, deserialize_with = "shape")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) shape: Option<Located<f64>>,
    #[serde(default, deserialize_with = "description::rate_bps")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    #[serde(default, deserialize_with = "load")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) load: Option<Located<f64>>,
    #[serde(
        default = "default::<DEFAULT_PACKET_BYTES, _>",
        deserialize_with = "packet_bytes"
    )]
    pub(in crate::scenario) packet_bytes: u32,
    #[serde(default, deserialize_with = "acp_rtt_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) acp_rtt_ms: Option<f64>,
    #[serde(default = "default::<1, _>", deserialize_with = "count")]
    pub(in crate::scenario) count: u32,
    #[serde(default, deserialize_with = "seconds")]
    pub(in crate::scenario) start_s: f64,
    #[serde(default, deserialize_with = "super::length_s")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) stop_s: Option<f64>,
    #[serde(flatten, skip_deserializing)]
    pub(in crate::scenario) ends: Ends,
}

/// When a source of cross traffic sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CrossKind {
    Cbr,
    Exponential,
    Pareto,
}

keys! {
    count: u32 = whole(Unit::None, 1..=MAX_COUNT);
    seconds: f64 = number(Unit::Seconds, 0.0..=MAX_DURATION_S);
    bytes: u64 = whole(Unit::Bytes, 1..=MAX_BYTES);
    streams: u32 = whole(Unit::None, 1..=u64::from(MAX_STREAMS));
    ack_every: u32 = whole(Unit::None, 1..=1000);
    max_ack_delay_ms: u32 = whole(Unit::Milliseconds, 0..=MAX_ACK_DELAY_MS);
    header_interval: u32 = whole(Unit::None, 0..=MAX_HEADER_INTERVAL);
    idle_timeout_s: f64 = number(Unit::Seconds, IDLE_TIMEOUTS_S);
    probe_interval_s: f64 = number(Unit::Seconds, PROBE_INTERVALS_S);
    packet_threshold: u32 = whole(Unit::None, PACKET_THRESHOLDS);
    time_threshold: f64 = number(Unit::None, TIME_THRESHOLDS);
    remembered_rate_bps: u64 = whole(Unit::BitsPerSecond, REMEMBERED_BPS);
    remembered_rtt_ms: f64 = number(Unit::Milliseconds, REMEMBERED_RTTS_MS);
    shape: f64 = number(Unit::None, MIN_SHAPE..=MAX_SHAPE);
    arrivals_per_s: f64 = positive(Unit::None, 10_000.0);
    load: f64 = number(Unit::None, 0.0..=100.0);
    packet_bytes: u32 = whole(Unit::Bytes, MIN_PACKET_BYTES..=u64::from(u16::MAX));
    acp_rtt_ms: f64 = number(Unit::Milliseconds, 0.0..=MOST_ACP_RTT_MS);
}

impl FlowTable {
    /// Fills in the defaults that follow from other keys, and checks that all goes together.
    pub(super) fn complete(
        flow: Located<Joined<Self, Ends>>,
        controllers: &Controllers,
    ) -> Result<Located<Self>, Fault> {
        let Joined(mut table, ends) = flow.value;
        table.ends = ends;
        if table.controller.value.is_empty() {
            let message = "controller is empty; name one, e.g. \"reno\" or \"vegas:alpha=2\"";
            return Err(table.controller.fault(message));
        }
        let app = table.app;
        // A controller that does not exist is refused by who builds it.
        let uses_path = controllers.uses_path_headers(&table.controller.value);
        let every = u32::from(app != AppName::Tcp && uses_path.unwrap_or(false));
        table.path_headers.get_or_insert(every);
        let of = |owner, words| (app == owner, words);
        let sized = matches!(app, AppName::Bulk | AppName::Tcp);
        refuse(
            "bytes",
            &table.bytes,
            (sized, "app = \"bulk\" and app = \"tcp\""),
        )?;
        refuse("file", &table.file, of(AppName::Bulk, "app = \"bulk\""))?;
        refuse("onoff", &table.onoff, of(AppName::OnOff, "app = \"onoff\""))?;
        refuse("short", &table.short, of(AppName::Short, "app = \"short\""))?;
        refuse(
            "stream",
            &table.stream,
            of(AppName::Stream, "app = \"stream\""),
        )?;
        if let Some(fault) = description::disorder("pauses", &table.pauses).next() {
            return Err(fault);
        }
        for pair in table.rebinds_s.windows(2) {
            if pair[0].value.0 >= pair[1].value.0 {
                let message = "rebinds_s are out of order; let each come after the one before";
                return Err(pair[1].fault(message));
            }
        }
        if let Some(Located { value: onoff, .. }) = &mut table.onoff {
            let is_pareto = onoff.distribution == Distribution::Pareto;
            complete_shape(&mut onoff.shape, (is_pareto, "distribution = \"pareto\""))?;
        }
        if let Some(stream) = &mut table.stream {
            if table.streams > 1 || table.verify {
                let message = "streams and verify mean nothing to app = \"stream\"; remove them";
                return Err(Fault::new(&flow.origin, message));
            }
            StreamTable::complete(stream)?;
        }
        if app == AppName::Tcp {
            table.complete_tcp(&flow.origin)?;
        }
        Ok(Located {
            value: table,
            origin: flow.origin,
        })
    }

    /// Checks that a kernel's own TCP can do what is asked for.
    fn complete_tcp(&self, origin: &Origin) -> Result<(), Fault> {
        let name = &self.controller;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.value.chars().all(is_name) || name.value.len() > MAX_KERNEL_NAME {
            let message = format!(
                "{:?} is no name of a kernel's controller, which takes no parameters; use one such as \"cubic\", \"reno\" or \"bbr\"",
                name.value
            );
            return Err(name.fault(message));
        }
        let of_quic = [
            ("streams", self.streams != default::<1, u32>()),
            ("verify", self.verify),
            ("ack_every", self.ack_every != default::<2, u32>()),
            (
                "max_ack_delay_ms",
                self.max_ack_delay_ms != default::<25, u32>(),
            ),
            ("mtu_discovery", self.mtu_discovery),
            ("pacing", self.pacing != Pacing::default()),
            ("ecn", self.ecn != EcnUse::default()),
            ("path_headers", self.path_headers.unwrap_or(0) > 0),
            ("idle_timeout_s", self.idle_timeout_s.is_some()),
            ("probe_interval_s", self.probe_interval_s.is_some()),
            ("packet_threshold", self.packet_threshold.is_some()),
            ("time_threshold", self.time_threshold.is_some()),
            ("rebinds_s", !self.rebinds_s.is_empty()),
            ("remembered", self.remembered.is_some()),
        ];
        match of_quic.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(Fault::new(
                origin,
                format!("{key} means nothing to app = \"tcp\", a kernel's own TCP; remove it"),
            )),
            None => Ok(()),
        }
    }
}

impl CrossTable {
    /// Fills in the defaults that follow from other keys, and checks that all goes together.
    pub(super) fn complete(cross: Located<Joined<Self, Ends>>) -> Result<Located<Self>, Fault> {
        let Joined(mut table, ends) = cross.value;
        table.ends = ends;
        let fault = |message: &str| Err(Fault::new(&cross.origin, message));
        let is_pareto = table.kind == CrossKind::Pareto;
        complete_shape(&mut table.shape, (is_pareto, "kind = \"pareto\""))?;
        let given = [
            table.rate_bps.is_some(),
            table.load.is_some(),
            table.off_s.is_some(),
        ];
        if table.kind == CrossKind::Cbr {
            let owners = (false, "kind = \"exponential\" or \"pareto\"");
            refuse("on_s", &table.on_s, owners)?;
            refuse("off_s", &table.off_s, owners)?;
            if table.rate_bps.is_some() == table.load.is_some() {
                return fault("a constant rate needs either rate_bps or load; give one of them");
            }
        } else if table.on_s.is_none() {
            return fault("[[cross]] has no on_s; add one");
        } else if given.into_iter().filter(|given| *given).count() != 2 {
            let message = "an ON/OFF source needs two of rate_bps (while ON), load (mean) and off_s; the third follows";
            return fault(message);
        }
        Ok(Located {
            value: table,
            origin: cross.origin,
        })
    }
}

/// Refuses a key unless it means something here; `owner` says where it does.
fn refuse<T>(
    key: &str,
    value: &Option<Located<T>>,
    (means_something, owner): (bool, &str),
) -> Result<(), Fault> {
    match value {
        Some(value) if !means_something => {
            Err(value.fault(format!("{key} is for {owner} alone; remove it")))
        }
        _ => Ok(()),
    }
}

/// The shape of periods, which Pareto's alone have.
fn complete_shape(shape: &mut Option<Located<f64>>, pareto: (bool, &str)) -> Result<(), Fault> {
    refuse("shape", shape, pareto)?;
    if pareto.0 {
        shape.get_or_insert(DEFAULT_PERIOD_SHAPE.into());
    }
    Ok(())
}

fn default_size_shape() -> f64 {
    DEFAULT_SIZE_SHAPE
}

fn yes() -> bool {
    true
}
