//! `[[flows]]` and `[[cross]]`.

use std::ops::RangeInclusive;

use evenkeel::{Controllers, Pacing};
use evenkeel_queue::description::{MAX_DELAY_MS, MAX_RATE_BPS};
use evenkeel_spec::document::{Fault, Located, Node, Origin, Reader};
use evenkeel_spec::quantity::Unit;
use serde::{Serialize, Serializer};

use super::MAX_DURATION_S;
use super::stream::StreamTable;
use crate::scenario::spec::{Begins, PeriodDistribution};

/// Most flows and sources of cross traffic of one table.
const MAX_COUNT: u64 = 2000;

/// Most streams of a connection.
const MAX_STREAMS: u64 = 1000;

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

/// Longest mean of an ON or OFF period.
const MAX_PERIOD_S: f64 = MAX_DURATION_S;

/// Bytes of an IPv4 and a UDP header: a packet cannot be smaller.
const MIN_PACKET_BYTES: u64 = 28;

/// QUIC's smallest full-size packet on the wire: 1200 bytes and an IPv4 and a UDP header.
const DEFAULT_PACKET_BYTES: u32 = 1228;

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

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct FlowTable {
    pub(in crate::scenario) name: Located<String>,
    #[serde(flatten)]
    pub(in crate::scenario) app: AppTable,
    pub(in crate::scenario) controller: String,
    pub(in crate::scenario) count: u32,
    pub(in crate::scenario) start_s: f64,
    pub(in crate::scenario) stagger_s: f64,
    pub(in crate::scenario) start_spread_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) stop_s: Option<f64>,
    #[serde(flatten)]
    pub(in crate::scenario) ends: Ends,
    pub(in crate::scenario) streams: u32,
    pub(in crate::scenario) verify: bool,
    pub(in crate::scenario) ack_every: u32,
    pub(in crate::scenario) max_ack_delay_ms: u32,
    pub(in crate::scenario) mtu_discovery: bool,
    #[serde(serialize_with = "by_name")]
    pub(in crate::scenario) pacing: Pacing,
    pub(in crate::scenario) path_headers: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) idle_timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) probe_interval_s: Option<f64>,
    #[serde(skip)]
    pub(in crate::scenario) origin: Located<()>,
}

/// Between which nodes traffic flows; both tables have these keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct Ends {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) from: Option<Located<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) to: Option<Located<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) access_delay_ms: Option<Located<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "app", rename_all = "lowercase")]
pub(in crate::scenario) enum AppTable {
    Bulk {
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<Located<String>>,
    },
    OnOff {
        onoff: OnOffTable,
    },
    Short {
        short: ShortTable,
    },
    Stream {
        stream: StreamTable,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct OnOffTable {
    pub(in crate::scenario) on_s: f64,
    pub(in crate::scenario) off_s: f64,
    #[serde(flatten)]
    pub(in crate::scenario) distribution: PeriodDistribution,
    pub(in crate::scenario) begins: Begins,
    pub(in crate::scenario) reconnect: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct ShortTable {
    pub(in crate::scenario) arrivals_per_s: f64,
    pub(in crate::scenario) mean_bytes: u64,
    pub(in crate::scenario) shape: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct CrossTable {
    pub(in crate::scenario) name: Located<String>,
    #[serde(flatten)]
    pub(in crate::scenario) kind: CrossKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) load: Option<Located<f64>>,
    pub(in crate::scenario) packet_bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) acp_rtt_ms: Option<f64>,
    pub(in crate::scenario) count: u32,
    pub(in crate::scenario) start_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::scenario) stop_s: Option<f64>,
    #[serde(flatten)]
    pub(in crate::scenario) ends: Ends,
    #[serde(skip)]
    pub(in crate::scenario) origin: Located<()>,
}

/// When a source of cross traffic sends. `off_s` may follow from rate and load.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(in crate::scenario) enum CrossKind {
    Cbr,
    Exponential {
        on_s: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        off_s: Option<f64>,
    },
    Pareto {
        on_s: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        off_s: Option<f64>,
        shape: f64,
    },
}

fn by_name<S: Serializer>(pacing: &Pacing, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(pacing.name())
}

impl FlowTable {
    pub(super) fn read(node: &Node, controllers: &Controllers) -> Result<Self, Fault> {
        const KEYS: &[&str] = &[
            "name",
            "app",
            "controller",
            "count",
            "start_s",
            "stagger_s",
            "start_spread_s",
            "stop_s",
            "from",
            "to",
            "access_delay_ms",
            "bytes",
            "streams",
            "verify",
            "file",
            "ack_every",
            "max_ack_delay_ms",
            "mtu_discovery",
            "pacing",
            "path_headers",
            "idle_timeout_s",
            "probe_interval_s",
            "onoff",
            "short",
            "stream",
        ];
        let flow = Reader::open(node, "[[flows]]", KEYS)?;
        let seconds = |key| {
            let seconds = flow.number(key, Unit::Seconds, 0.0..=MAX_DURATION_S)?;
            Ok(seconds.unwrap_or(0.0))
        };
        let controller = flow.required("controller", flow.string("controller")?)?;
        if controller.value.is_empty() {
            let message = "controller is empty; name one, e.g. \"reno\" or \"vegas:alpha=2\"";
            return Err(Fault::new(&controller.origin, message));
        }
        // A controller that does not exist is refused by who builds it.
        let uses_path = controllers
            .uses_path_headers(&controller.value)
            .unwrap_or(false);
        let path_headers = flow.whole("path_headers", Unit::None, 0..=MAX_HEADER_INTERVAL)?;
        Ok(Self {
            name: flow.required("name", flow.name("name")?)?,
            app: AppTable::read(&flow)?,
            controller: controller.value,
            count: count(&flow)?,
            start_s: seconds("start_s")?,
            stagger_s: seconds("stagger_s")?,
            start_spread_s: seconds("start_spread_s")?,
            stop_s: flow.positive("stop_s", Unit::Seconds, MAX_DURATION_S)?,
            ends: Ends::read(&flow)?,
            streams: flow
                .whole("streams", Unit::None, 1..=MAX_STREAMS)?
                .unwrap_or(1) as u32,
            verify: flow.get("verify")?.unwrap_or(false),
            ack_every: flow.whole("ack_every", Unit::None, 1..=1000)?.unwrap_or(2) as u32,
            max_ack_delay_ms: flow
                .whole("max_ack_delay_ms", Unit::Milliseconds, 0..=MAX_ACK_DELAY_MS)?
                .unwrap_or(25) as u32,
            mtu_discovery: flow.get("mtu_discovery")?.unwrap_or(false),
            pacing: flow
                .word("pacing", &Pacing::ALL.map(|pacing| (pacing.name(), pacing)))?
                .unwrap_or_default(),
            path_headers: path_headers.map_or(u32::from(uses_path), |every| every as u32),
            idle_timeout_s: flow.number("idle_timeout_s", Unit::Seconds, IDLE_TIMEOUTS_S)?,
            probe_interval_s: flow.number("probe_interval_s", Unit::Seconds, PROBE_INTERVALS_S)?,
            origin: here(flow.origin()),
        })
    }
}

impl Ends {
    fn read(reader: &Reader<'_>) -> Result<Self, Fault> {
        Ok(Self {
            from: reader.name("from")?,
            to: reader.name("to")?,
            access_delay_ms: located_number(
                reader,
                "access_delay_ms",
                Unit::Milliseconds,
                MAX_DELAY_MS,
            )?,
        })
    }
}

impl AppTable {
    fn read(flow: &Reader<'_>) -> Result<Self, Fault> {
        let apps = ["bulk", "onoff", "short", "stream"].map(|app| (app, app));
        let app = flow.required("app", flow.word("app", &apps)?)?;
        for (key, owner) in [
            ("bytes", "bulk"),
            ("file", "bulk"),
            ("onoff", "onoff"),
            ("short", "short"),
            ("stream", "stream"),
        ] {
            if app != owner {
                flow.refuse(key, &format!("is for app = \"{owner}\" alone; remove it"))?;
            }
        }
        let table = || flow.required(app, flow.node(app));
        Ok(match app {
            "onoff" => Self::OnOff {
                onoff: OnOffTable::read(table()?)?,
            },
            "short" => Self::Short {
                short: ShortTable::read(table()?)?,
            },
            "stream" => {
                let streams = flow.whole("streams", Unit::None, 1..=MAX_STREAMS)?;
                if streams.unwrap_or(1) > 1 || flow.get("verify")?.unwrap_or(false) {
                    let message =
                        "streams and verify mean nothing to app = \"stream\"; remove them";
                    return Err(Fault::new(flow.origin(), message));
                }
                Self::Stream {
                    stream: StreamTable::read(table()?)?,
                }
            }
            _ => {
                let bytes = flow.whole("bytes", Unit::Bytes, 1..=MAX_BYTES)?;
                let file = flow.string("file")?;
                if bytes.is_some() && file.is_some() {
                    let message = "a flow sends its bytes or a file, not both; remove one";
                    return Err(flow.fault("file", message));
                }
                Self::Bulk { bytes, file }
            }
        })
    }
}

impl OnOffTable {
    fn read(node: &Node) -> Result<Self, Fault> {
        const KEYS: &[&str] = &[
            "on_s",
            "off_s",
            "distribution",
            "shape",
            "begins",
            "reconnect",
        ];
        let onoff = Reader::open(node, "[flows.onoff]", KEYS)?;
        let is_pareto = onoff
            .word("distribution", &[("pareto", true), ("exponential", false)])?
            .unwrap_or(true);
        let distribution = if is_pareto {
            PeriodDistribution::Pareto {
                shape: shape(&onoff)?.unwrap_or(DEFAULT_PERIOD_SHAPE),
            }
        } else {
            onoff.refuse("shape", "is for distribution = \"pareto\" alone; remove it")?;
            PeriodDistribution::Exponential
        };
        Ok(Self {
            on_s: onoff.required("on_s", onoff.positive("on_s", Unit::Seconds, MAX_PERIOD_S)?)?,
            off_s: onoff.required(
                "off_s",
                onoff.positive("off_s", Unit::Seconds, MAX_PERIOD_S)?,
            )?,
            distribution,
            begins: onoff.get("begins")?.unwrap_or(Begins::On),
            reconnect: onoff.get("reconnect")?.unwrap_or(true),
        })
    }
}

impl ShortTable {
    fn read(node: &Node) -> Result<Self, Fault> {
        const KEYS: &[&str] = &["arrivals_per_s", "mean_bytes", "shape"];
        let short = Reader::open(node, "[flows.short]", KEYS)?;
        Ok(Self {
            arrivals_per_s: short.required(
                "arrivals_per_s",
                short.positive("arrivals_per_s", Unit::None, 10_000.0)?,
            )?,
            mean_bytes: short.required(
                "mean_bytes",
                short.whole("mean_bytes", Unit::Bytes, 1..=MAX_BYTES)?,
            )?,
            shape: shape(&short)?.unwrap_or(DEFAULT_SIZE_SHAPE),
        })
    }
}

impl CrossTable {
    pub(super) fn read(node: &Node) -> Result<Self, Fault> {
        const KEYS: &[&str] = &[
            "name",
            "kind",
            "rate_bps",
            "load",
            "packet_bytes",
            "acp_rtt_ms",
            "on_s",
            "off_s",
            "shape",
            "count",
            "start_s",
            "stop_s",
            "from",
            "to",
            "access_delay_ms",
        ];
        let cross = Reader::open(node, "[[cross]]", KEYS)?;
        let rate_bps = cross.whole("rate_bps", Unit::BitsPerSecond, 1..=MAX_RATE_BPS)?;
        let load = located_number(&cross, "load", Unit::None, 100.0)?;
        let kind = CrossKind::read(&cross)?;
        kind.check_rate(&cross, rate_bps, load.as_ref())?;
        let packet_bytes = cross.whole(
            "packet_bytes",
            Unit::Bytes,
            MIN_PACKET_BYTES..=u64::from(u16::MAX),
        )?;
        Ok(Self {
            name: cross.required("name", cross.name("name")?)?,
            kind,
            rate_bps,
            load,
            packet_bytes: packet_bytes.map_or(DEFAULT_PACKET_BYTES, |bytes| bytes as u32),
            acp_rtt_ms: cross.number("acp_rtt_ms", Unit::Milliseconds, 0.0..=MOST_ACP_RTT_MS)?,
            count: count(&cross)?,
            start_s: cross
                .number("start_s", Unit::Seconds, 0.0..=MAX_DURATION_S)?
                .unwrap_or(0.0),
            stop_s: cross.positive("stop_s", Unit::Seconds, MAX_DURATION_S)?,
            ends: Ends::read(&cross)?,
            origin: here(cross.origin()),
        })
    }
}

impl CrossKind {
    fn read(cross: &Reader<'_>) -> Result<Self, Fault> {
        let kinds = ["cbr", "exponential", "pareto"].map(|kind| (kind, kind));
        let kind = cross.required("kind", cross.word("kind", &kinds)?)?;
        if kind != "pareto" {
            cross.refuse("shape", "is for kind = \"pareto\" alone; remove it")?;
        }
        if kind == "cbr" {
            for key in ["on_s", "off_s"] {
                let reason = "is for kind = \"exponential\" or \"pareto\"; remove it";
                cross.refuse(key, reason)?;
            }
            return Ok(Self::Cbr);
        }
        let on_s = cross.required("on_s", cross.positive("on_s", Unit::Seconds, MAX_PERIOD_S)?)?;
        let off_s = cross.positive("off_s", Unit::Seconds, MAX_PERIOD_S)?;
        Ok(match kind {
            "pareto" => Self::Pareto {
                on_s,
                off_s,
                shape: shape(cross)?.unwrap_or(DEFAULT_PERIOD_SHAPE),
            },
            _ => Self::Exponential { on_s, off_s },
        })
    }

    /// A constant rate needs rate or load; ON and OFF need two of rate, load and `off_s`.
    fn check_rate(
        &self,
        cross: &Reader<'_>,
        rate_bps: Option<u64>,
        load: Option<&Located<f64>>,
    ) -> Result<(), Fault> {
        match self {
            Self::Cbr if rate_bps.is_some() == load.is_some() => Err(Fault::new(
                cross.origin(),
                "a constant rate needs either rate_bps or load; give one of them",
            )),
            Self::Cbr => Ok(()),
            Self::Exponential { off_s, .. } | Self::Pareto { off_s, .. } => {
                let given = [rate_bps.is_some(), load.is_some(), off_s.is_some()];
                if given.iter().filter(|given| **given).count() == 2 {
                    return Ok(());
                }
                let message = "an ON/OFF source needs two of rate_bps (while ON), load (mean) and off_s; the third follows";
                Err(Fault::new(cross.origin(), message))
            }
        }
    }
}

fn count(reader: &Reader<'_>) -> Result<u32, Fault> {
    Ok(reader
        .whole("count", Unit::None, 1..=MAX_COUNT)?
        .unwrap_or(1) as u32)
}

fn shape(reader: &Reader<'_>) -> Result<Option<f64>, Fault> {
    reader.number("shape", Unit::None, MIN_SHAPE..=MAX_SHAPE)
}

fn located_number(
    reader: &Reader<'_>,
    key: &str,
    unit: Unit,
    max: f64,
) -> Result<Option<Located<f64>>, Fault> {
    let value = reader.number(key, unit, 0.0..=max)?;
    Ok(value.zip(reader.node(key)).map(|(value, node)| Located {
        value,
        origin: node.origin.clone(),
    }))
}

fn here(origin: &Origin) -> Located<()> {
    Located {
        value: (),
        origin: origin.clone(),
    }
}
