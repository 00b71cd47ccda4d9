//! The keys of a link in files: in scenarios, and in the router's configuration.

mod config;

use std::fmt;

use evenkeel_spec::document::{Fault, Located};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::Unit;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::impairment::Recoding;

/// Highest rate: 1 Tb/s, where a packet still takes over a nanosecond.
pub const MAX_RATE_BPS: u64 = 1_000_000_000_000;

/// Longest delay: ten minutes, beyond any path there is.
pub const MAX_DELAY_MS: f64 = 600_000.0;

/// Latest time of a blackout or change, and longest run: over a day.
pub const MAX_TIME_S: f64 = 100_000.0;

/// Largest trace file: hours of packet-by-packet opportunities at 100 Mb/s.
pub const MAX_TRACE_BYTES: u64 = 256 << 20;

/// Queue of a link that says nothing of it, in packets.
const DEFAULT_QUEUE_PACKETS: u32 = 100;

const MAX_QUEUE_PACKETS: u64 = 10_000_000;
const MAX_QUEUE_BYTES: u64 = 1 << 40;

/// The most that a link layer adds to a packet: as much as sch_cake takes.
const MAX_OVERHEAD_BYTES: u64 = 256;

/// The smallest MTU of IPv4 (RFC 791, section 3.2).
pub const MIN_MTU: u64 = 68;

/// The largest IP packet.
pub const MAX_MTU: u64 = 65535;

/// From this target on every packet has the long intervals of Wi-Fi jitter.
const MAX_WIFI_JITTER_MS: f64 = 85.0;

/// Shortest period of changes.
const MIN_PERIOD_S: f64 = 0.001;

/// Shortest mean time of outages and between them: how long a cellular rate holds.
const MIN_OUTAGE_S: f64 = 0.02;

const MAX_VOLATILITY: f64 = 10.0;

/// A key in a complete description: always there, or an `Option`.
trait Key: Sized {
    /// What a file gives.
    type Given;

    fn of(given: Self::Given) -> Self;

    fn is_absent(&self) -> bool;
}

/// Describes each key of a link once: its meaning, its type in a complete description, its value
/// where no file gives it, and, unless its type says enough, what reads it.
macro_rules! link_keys {
    ($(#[doc = $about:literal] $key:ident: $kind:ty = $default:expr $(, $read:literal)?;)+) => {
        /// The keys of one direction of a link, as a file gives them.
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(default)]
        pub struct LinkKeys {$(
            $(#[serde(deserialize_with = $read)])?
            $key: Option<Located<<$kind as Key>::Given>>,
        )+}

        /// One direction of a link: all keys, given or by default, and checked. It serializes as
        /// the keys of a file.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct LinkDescription {$(
            #[doc = $about]
            #[serde(skip_serializing_if = "Key::is_absent")]
            pub $key: $kind,
        )+}

        impl Default for LinkDescription {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl LinkKeys {
            /// Each key and what it means, in a line, for manuals.
            pub const TABLE: &[(&str, &str)] = &[$((stringify!($key), $about),)+];

            /// What is given, and the rest from `base`.
            fn filled_in(self, base: LinkDescription) -> LinkDescription {
                LinkDescription { $($key: self.$key.map_or(base.$key, |key| Key::of(key.value)),)+ }
            }
        }
    };
}

link_keys! {
    /// Bits per second that the link carries; without it, a trace or a cellular, there is no limit.
    rate_bps: Option<u64> = None, "rate_bps";
    /// Bytes that the link layer adds to each packet: they count in the rate alone.
    overhead_bytes: Option<u32> = None, "overhead_bytes";
    /// File with a packet-delivery trace in mahimahi's format, instead of a rate.
    trace: Option<Located<String>> = None;
    /// A rate that walks at random: { min_bps, max_bps, volatility, outage_every_s, outage_s }.
    cellular: Option<CellularKeys> = None;
    /// Propagation delay, behind the queue.
    delay_ms: f64 = 0.0, "delay_ms";
    /// Packets that may wait; 100 if neither this nor queue_bytes is given.
    queue_packets: Option<u32> = None, "queue_packets";
    /// Bytes that may wait.
    queue_bytes: Option<u64> = None, "queue_bytes";
    /// The discipline with its parameters, as in "fq-codel:hosts=true".
    discipline: Located<String> = "drop-tail".to_owned().into();
    /// What is written into path headers, as in ["aqt", "acp:gamma=0.1"].
    stamps: Strings = Vec::new(), "strings";
    /// Largest IP packet that comes through behind the queue, in bytes; nobody is told of others.
    mtu: Option<u32> = None, "mtu";
    /// Rate that a policer lets through, in bits per second; 0: none.
    police_bps: Option<u64> = None, "rate_or_none_bps";
    /// The policer's bucket: the bursts that pass.
    police_burst_bytes: Option<u64> = None, "queue_bytes";
    /// Probability of a packet's loss.
    loss: f64 = 0.0, "share";
    /// Loss in bursts, instead of loss: { p, r, bad, good }.
    gilbert_elliott: Option<GilbertElliottKeys> = None;
    /// "keep"; "bleach": packets leave without ECN; or "remark": those with ECT(1) leave with ECT(0).
    ecn: Option<EcnKey> = None;
    /// Probability with which a packet of an ECN-capable sender is marked behind the queue.
    mark: Option<f64> = None, "share";
    /// Probability with which a bit of a packet's UDP payload flips.
    corrupt: Option<f64> = None, "share";
    /// Probability with which a packet comes twice.
    duplicate: Option<f64> = None, "share";
    /// Extra delay is drawn uniformly from zero to this.
    jitter_ms: f64 = 0.0, "delay_ms";
    /// Target of the jitter of a busy Wi-Fi, instead.
    wifi_jitter_ms: Option<f64> = None, "wifi_jitter_ms";
    /// Probability with which a packet jumps the propagation delay.
    reorder: Option<f64> = None, "share";
    /// How long packets are held to be released together; 0: not at all.
    aggregate_ms: Option<f64> = None, "delay_ms";
    /// As soon as this number is held they are released, too.
    aggregate_packets: Option<u32> = None, "queue_packets";
    /// Interruptions, in order: [{ start_s, length_s }].
    blackouts: Vec<Located<BlackoutKeys>> = Vec::new();
    /// What changes when, in order: [{ at_s, rate_bps, delay_ms, ... }].
    changes: Vec<Located<ChangeKeys>> = Vec::new();
    /// When the changes begin again; 0: never.
    changes_period_s: Option<f64> = None, "time_s";
}

impl<T> Key for Option<T> {
    type Given = T;

    fn of(given: T) -> Self {
        Some(given)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

macro_rules! always_there {
    ($($kind:ty),+) => {$(
        impl Key for $kind {
            type Given = Self;

            fn of(given: Self) -> Self {
                given
            }

            fn is_absent(&self) -> bool {
                false
            }
        }
    )+};
}

always_there!(
    f64,
    Located<String>,
    Strings,
    Vec<Located<BlackoutKeys>>,
    Vec<Located<ChangeKeys>>
);

/// A rate that walks at random between two bounds, with outages; see
/// [`Cellular`](crate::Cellular).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CellularKeys {
    /// Lowest rate outside outages, in bits per second.
    #[serde(deserialize_with = "rate_bps")]
    pub min_bps: u64,
    /// Highest rate, in bits per second.
    #[serde(deserialize_with = "rate_bps")]
    pub max_bps: u64,
    /// Standard deviation of the change of the rate per square root of a second, as a share of
    /// `max_bps`.
    #[serde(default = "default_volatility", deserialize_with = "volatility")]
    pub volatility: f64,
    /// Mean time from the end of one outage to the next; 0: there are none.
    #[serde(default, deserialize_with = "time_s")]
    #[serde(skip_serializing_if = "is_zero")]
    pub outage_every_s: f64,
    /// Mean length of outages.
    #[serde(default = "default_outage_s", deserialize_with = "outage_s")]
    pub outage_s: f64,
}

/// Loss in bursts; see [`GilbertElliott`](crate::impairment::GilbertElliott).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GilbertElliottKeys {
    /// Probability with which a packet leaves a good path bad.
    #[serde(deserialize_with = "share")]
    pub p: f64,
    /// Probability with which a packet leaves a bad path good.
    #[serde(deserialize_with = "share")]
    pub r: f64,
    /// Probability of loss while the path is bad.
    #[serde(default = "default_bad", deserialize_with = "share")]
    pub bad: f64,
    /// Probability of loss while the path is good.
    #[serde(default, deserialize_with = "share")]
    #[serde(skip_serializing_if = "is_zero")]
    pub good: f64,
}

/// What becomes of ECN codepoints behind the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EcnKey {
    /// They stay.
    #[default]
    Keep,
    /// As of [`Recoding::Bleach`].
    Bleach,
    /// As of [`Recoding::Remark`].
    Remark,
}

/// An interruption: of a link, or of a program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlackoutKeys {
    /// When it begins.
    #[serde(deserialize_with = "time_s")]
    pub start_s: f64,
    /// How long it takes; above 0.
    #[serde(deserialize_with = "length_s")]
    pub length_s: f64,
}

/// What changes at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeKeys {
    /// When.
    #[serde(deserialize_with = "time_s")]
    pub at_s: f64,
    /// The new rate, in bits per second; 0 suspends the link: packets wait.
    #[serde(default, deserialize_with = "rate_or_none_bps")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// The new propagation delay.
    #[serde(default, deserialize_with = "delay_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// The new target of the Wi-Fi jitter.
    #[serde(default, deserialize_with = "wifi_jitter_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wifi_jitter_ms: Option<f64>,
    /// The new probability of loss.
    #[serde(default, deserialize_with = "share")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The new size of the largest packet that comes through, in bytes.
    #[serde(default, deserialize_with = "mtu")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The new limit in packets.
    #[serde(default, deserialize_with = "queue_packets")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
}

impl ChangeKeys {
    /// One that changes nothing.
    fn at(at_s: f64) -> Self {
        Self {
            at_s,
            ..Self::default()
        }
    }
}

type Strings = Vec<Located<String>>;

/// Reads an array of strings; the error for anything else says so.
fn strings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Located<Strings>>, D::Error> {
    struct Array;
    impl<'de> Visitor<'de> for Array {
        type Value = Strings;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(array))
        }
    }
    let strings = deserializer.deserialize_seq(Array)?;
    Ok(Some(strings.into()))
}

impl LinkKeys {
    /// Fills in what is not given from `base`, and checks that all goes together.
    ///
    /// # Errors
    /// The first contradiction, with the key's origin.
    pub fn over(self, base: &LinkDescription) -> Result<LinkDescription, Fault> {
        let (link, contradictions) = self.review(base);
        contradictions.into_iter().next().map_or(Ok(link), Err)
    }

    /// Does what [`over`](Self::over) does, and returns all contradictions.
    pub fn review(self, base: &LinkDescription) -> (LinkDescription, Vec<Fault>) {
        let mut faults = Vec::new();
        self.check_service(&mut faults);
        let mut base = base.clone();
        if self.rate_bps.is_some() || self.trace.is_some() || self.cellular.is_some() {
            (base.rate_bps, base.trace, base.cellular) = (None, None, None);
        }
        if self.loss.is_some() {
            base.gilbert_elliott = None;
        }
        if self.gilbert_elliott.is_some() {
            base.loss = 0.0;
        }
        base.changes.retain_mut(|change| self.leaves(change));
        let mut link = self.clone().filled_in(base);
        if link.queue_bytes.is_none() {
            link.queue_packets.get_or_insert(DEFAULT_QUEUE_PACKETS);
        }
        link.check_changes(&mut faults);
        if let Some(reorder) = self.reorder.filter(|key| key.value > 0.0)
            && !link.has_delay()
        {
            let message = "reorder needs a delay that packets can jump; give the link a delay_ms";
            faults.push(reorder.fault(message));
        }
        if let Some(bursts) = &self.gilbert_elliott
            && link.loss > 0.0
        {
            let message = "a link has a loss or a gilbert_elliott; remove one: good is the loss between bursts";
            faults.push(bursts.fault(message));
        }
        if let Some(mark) = self.mark.as_ref().filter(|key| key.value > 0.0)
            && link.recoding() == Some(Recoding::Bleach)
        {
            let message = "no mark comes through ecn = \"bleach\"; remove one of the two";
            faults.push(mark.fault(message));
        } else if let Some(ecn) = &self.ecn
            && link.recoding() == Some(Recoding::Bleach)
            && !off(link.mark)
        {
            let message = "no mark comes through ecn = \"bleach\"; set mark = 0, or remove ecn";
            faults.push(ecn.fault(message));
        }
        if let Some(rate) = self.police_bps.filter(|key| key.value > 0)
            && link.police_burst_bytes.is_none()
        {
            let message = "police_bps needs a bucket; give the link a police_burst_bytes";
            faults.push(rate.fault(message));
        }
        if let Some(burst) = self.police_burst_bytes
            && link.police_bps.is_none()
        {
            let message = "police_burst_bytes is of a policer; give the link a police_bps";
            faults.push(burst.fault(message));
        }
        if let Some(packets) = self.aggregate_packets
            && link.aggregate_ms.is_none()
        {
            let message =
                "aggregate_packets could hold packets for ever; give the link an aggregate_ms";
            faults.push(packets.fault(message));
        }
        if let Some(period) = self.changes_period_s.as_ref().filter(|key| key.value > 0.0)
            && link.changes.is_empty()
            && self.changes.is_none()
        {
            faults.push(period.fault("changes_period_s repeats changes; give the link some"));
        }
        if let Some(period) = &self.changes_period_s {
            let key = "changes_period_s";
            faults.extend(too_short(period, key, period.value, MIN_PERIOD_S));
        }
        // What belongs to a key that this direction switches off is not inherited.
        if off(link.police_bps) {
            link.police_burst_bytes = None;
        }
        if off(link.aggregate_ms) {
            link.aggregate_packets = None;
        }
        if link.changes.is_empty() {
            link.changes_period_s = None;
        }
        (link, faults)
    }

    /// Takes from a change of the base what is given here: a value of one's own is not changed by
    /// what is inherited. Returns whether anything is left.
    fn leaves(&self, change: &mut Located<ChangeKeys>) -> bool {
        let change = &mut change.value;
        let has_service =
            self.rate_bps.is_some() || self.trace.is_some() || self.cellular.is_some();
        change.rate_bps = change.rate_bps.filter(|_| !has_service);
        change.delay_ms = change.delay_ms.filter(|_| self.delay_ms.is_none());
        change.wifi_jitter_ms = change
            .wifi_jitter_ms
            .filter(|_| self.wifi_jitter_ms.is_none());
        change.loss = change.loss.filter(|_| self.loss.is_none());
        let has_limit = self.queue_packets.is_some() || self.queue_bytes.is_some();
        change.queue_packets = change.queue_packets.filter(|_| !has_limit);
        *change != ChangeKeys::at(change.at_s)
    }

    /// Checks that the link is transmitted in one way.
    fn check_service(&self, faults: &mut Vec<Fault>) {
        let has_rate = self.rate_bps.is_some();
        if let Some(cellular) = &self.cellular {
            if has_rate || self.trace.is_some() {
                let message =
                    "a link has a cellular rate, a rate_bps or a trace; remove all but one";
                faults.push(cellular.fault(message));
            }
            if cellular.value.min_bps > cellular.value.max_bps {
                let message = "min_bps of cellular is above its max_bps; exchange them";
                faults.push(cellular.fault(message));
            }
            let every_s = cellular.value.outage_every_s;
            faults.extend(too_short(cellular, "outage_every_s", every_s, MIN_OUTAGE_S));
        }
        if let Some(trace) = self.trace.as_ref().filter(|_| has_rate) {
            faults.push(trace.fault("a link has a rate_bps or a trace, not both; remove one"));
        }
    }
}

/// Checks a time that is 0 where it does not apply.
fn too_short<T>(at: &Located<T>, key: &str, seconds: f64, least: f64) -> Option<Fault> {
    let message = || format!("{key} = {seconds} is too short; use 0, or {least} or more");
    (seconds > 0.0 && seconds < least).then(|| at.fault(message()))
}

/// Whether a key is not given, or switches itself off.
fn off<T: Default + PartialEq>(key: Option<T>) -> bool {
    key.unwrap_or_default() == T::default()
}

impl LinkDescription {
    /// When the changes begin again, if they do.
    fn period_s(&self) -> Option<f64> {
        self.changes_period_s.filter(|period_s| *period_s > 0.0)
    }

    /// With which other ECN codepoints packets leave.
    pub fn recoding(&self) -> Option<Recoding> {
        match self.ecn? {
            EcnKey::Keep => None,
            EcnKey::Bleach => Some(Recoding::Bleach),
            EcnKey::Remark => Some(Recoding::Remark),
        }
    }

    /// Whether packets can be too large for the link.
    pub fn has_mtu(&self) -> bool {
        let mut changes = self.changes.iter();
        self.mtu.is_some() || changes.any(|change| change.value.mtu.is_some())
    }

    fn has_delay(&self) -> bool {
        let changed = self
            .changes
            .iter()
            .filter_map(|change| change.value.delay_ms);
        changed.chain([self.delay_ms]).any(|delay| delay > 0.0)
    }

    fn check_changes(&self, faults: &mut Vec<Fault>) {
        faults.extend(disorder("blackouts", &self.blackouts));
        for pair in self.changes.windows(2) {
            if pair[0].value.at_s > pair[1].value.at_s {
                faults.push(pair[1].fault("changes are out of order; order them by at_s"));
            }
        }
        for change in &self.changes {
            let at_s = change.value.at_s;
            if change.value.rate_bps.is_some() && self.rate_bps.is_none() {
                let message = "a change sets a rate on a link that begins without one; give the link a rate_bps";
                faults.push(change.fault(message));
            }
            if change.value.loss.is_some() && self.gilbert_elliott.is_some() {
                let message = "a change sets a loss on a link with a gilbert_elliott; remove one";
                faults.push(change.fault(message));
            }
            if change.value == ChangeKeys::at(at_s) {
                let message = "the change changes nothing; add one of rate_bps, delay_ms, wifi_jitter_ms, loss, mtu, queue_packets";
                faults.push(change.fault(message));
            }
            if self.period_s().is_some_and(|period_s| at_s >= period_s) {
                let message = "the change comes after the others have begun again; let at_s be below changes_period_s";
                faults.push(change.fault(message));
            }
        }
    }
}

/// What is wrong with the order of times under `key`: each must end before the next one begins.
pub fn disorder<'a>(
    key: &'a str,
    times: &'a [Located<BlackoutKeys>],
) -> impl Iterator<Item = Fault> + 'a {
    times.windows(2).filter_map(move |pair| {
        let overlap = pair[0].value.start_s + pair[0].value.length_s > pair[1].value.start_s;
        let message = || {
            format!(
                "{key} overlap or are out of order; order them by start_s and let each end before the next"
            )
        };
        overlap.then(|| pair[1].fault(message()))
    })
}

/// Left out of results then: a link's description is what it was before there was the key.
fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn default_bad() -> f64 {
    1.0
}

fn default_volatility() -> f64 {
    0.2
}

fn default_outage_s() -> f64 {
    1.0
}

keys! {
    /// A rate of a link, in bits per second.
    pub rate_bps: u64 = whole(Unit::BitsPerSecond, 1..=MAX_RATE_BPS);
    /// A delay of a link, in milliseconds.
    pub delay_ms: f64 = number(Unit::Milliseconds, 0.0..=MAX_DELAY_MS);
    /// A queue's limit in packets.
    pub queue_packets: u32 = whole(Unit::None, 1..=MAX_QUEUE_PACKETS);
    overhead_bytes: u32 = whole(Unit::Bytes, 0..=MAX_OVERHEAD_BYTES);
    queue_bytes: u64 = whole(Unit::Bytes, 1..=MAX_QUEUE_BYTES);
    mtu: u32 = whole(Unit::Bytes, MIN_MTU..=MAX_MTU);
    rate_or_none_bps: u64 = whole(Unit::BitsPerSecond, 0..=MAX_RATE_BPS);
    share: f64 = number(Unit::None, 0.0..=1.0);
    wifi_jitter_ms: f64 = number(Unit::Milliseconds, 0.0..=MAX_WIFI_JITTER_MS);
    volatility: f64 = number(Unit::None, 0.0..=MAX_VOLATILITY);
    outage_s: f64 = number(Unit::Seconds, MIN_OUTAGE_S..=MAX_TIME_S);
    time_s: f64 = number(Unit::Seconds, 0.0..=MAX_TIME_S);
    length_s: f64 = positive(Unit::Seconds, MAX_TIME_S);
}
