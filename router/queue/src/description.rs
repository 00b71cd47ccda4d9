//! The keys of a link in files: in scenarios, and in the router's configuration.

use std::fmt;
use std::time::Duration;

use evenkeel_spec::document::{Fault, Located};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::Unit;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Change, DeliveryTrace, Limit, LinkConfig, Rate, Service, discipline, stamp_set};

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

/// The keys of one direction of a link, as a file gives them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LinkKeys {
    #[serde(deserialize_with = "rate_bps")]
    rate_bps: Option<u64>,
    trace: Option<Located<String>>,
    #[serde(deserialize_with = "delay_ms")]
    delay_ms: Option<f64>,
    #[serde(deserialize_with = "queue_packets")]
    queue_packets: Option<u32>,
    #[serde(deserialize_with = "queue_bytes")]
    queue_bytes: Option<u64>,
    discipline: Option<Located<String>>,
    #[serde(deserialize_with = "strings")]
    stamps: Option<Vec<Located<String>>>,
    #[serde(deserialize_with = "share")]
    loss: Option<f64>,
    #[serde(deserialize_with = "delay_ms")]
    jitter_ms: Option<f64>,
    #[serde(deserialize_with = "share")]
    reorder: Option<Located<f64>>,
    blackouts: Option<Vec<Located<BlackoutKeys>>>,
    changes: Option<Vec<Located<ChangeKeys>>>,
}

/// One direction of a link: all keys, given or by default, and checked. It serializes as the keys
/// of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkDescription {
    /// Bits per second; `None` if the link follows a trace or is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// File with a packet-delivery trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Located<String>>,
    /// Propagation delay.
    pub delay_ms: f64,
    /// Packets that may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
    /// Bytes that may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// The discipline with its parameters.
    pub discipline: Located<String>,
    /// Stamps with their parameters.
    pub stamps: Vec<Located<String>>,
    /// Probability of a packet's loss.
    pub loss: f64,
    /// Extra delay is drawn uniformly from zero to this.
    pub jitter_ms: f64,
    /// Probability with which a packet jumps the propagation delay.
    #[serde(skip_serializing_if = "is_zero")]
    pub reorder: f64,
    /// Interruptions, in order.
    pub blackouts: Vec<Located<BlackoutKeys>>,
    /// What changes when, in order.
    pub changes: Vec<Located<ChangeKeys>>,
}

/// An interruption of a link.
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeKeys {
    /// When.
    #[serde(deserialize_with = "time_s")]
    pub at_s: f64,
    /// The new rate, in bits per second.
    #[serde(default, deserialize_with = "rate_bps")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// The new propagation delay.
    #[serde(default, deserialize_with = "delay_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// The new probability of loss.
    #[serde(default, deserialize_with = "share")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The new limit in packets.
    #[serde(default, deserialize_with = "queue_packets")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
}

/// An array of strings; what is none is told so.
fn strings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Located<String>>>, D::Error> {
    struct Strings;
    impl<'de> Visitor<'de> for Strings {
        type Value = Vec<Located<String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(array))
        }
    }
    deserializer.deserialize_seq(Strings).map(Some)
}

impl Default for LinkDescription {
    fn default() -> Self {
        Self {
            rate_bps: None,
            trace: None,
            delay_ms: 0.0,
            queue_packets: None,
            queue_bytes: None,
            discipline: "drop-tail".to_owned().into(),
            stamps: Vec::new(),
            loss: 0.0,
            jitter_ms: 0.0,
            reorder: 0.0,
            blackouts: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl LinkKeys {
    /// Fills in what is not given from `base`, and checks that all goes together.
    ///
    /// # Errors
    /// The first contradiction, with the key's origin.
    pub fn over(self, base: &LinkDescription) -> Result<LinkDescription, Fault> {
        if let (Some(_), Some(trace)) = (self.rate_bps, &self.trace) {
            return Err(trace.fault("a link has a rate_bps or a trace, not both; remove one"));
        }
        let base = base.clone();
        let (rate_bps, trace) = match (self.rate_bps, self.trace) {
            (None, None) => (base.rate_bps, base.trace),
            given => given,
        };
        let queue_bytes = self.queue_bytes.or(base.queue_bytes);
        let default_packets = queue_bytes.is_none().then_some(DEFAULT_QUEUE_PACKETS);
        let link = LinkDescription {
            rate_bps,
            trace,
            delay_ms: self.delay_ms.unwrap_or(base.delay_ms),
            queue_packets: self
                .queue_packets
                .or(base.queue_packets)
                .or(default_packets),
            queue_bytes,
            discipline: self.discipline.unwrap_or(base.discipline),
            stamps: self.stamps.unwrap_or(base.stamps),
            loss: self.loss.unwrap_or(base.loss),
            jitter_ms: self.jitter_ms.unwrap_or(base.jitter_ms),
            reorder: self.reorder.as_ref().map_or(base.reorder, |r| r.value),
            blackouts: self.blackouts.unwrap_or(base.blackouts),
            changes: self.changes.unwrap_or(base.changes),
        };
        link.check_changes()?;
        match &self.reorder {
            Some(reorder) if reorder.value > 0.0 && !link.has_delay() => {
                let message =
                    "reorder needs a delay that packets can jump; give the link a delay_ms";
                Err(reorder.fault(message))
            }
            _ => Ok(link),
        }
    }
}

impl LinkDescription {
    /// What the link is made of; `trace` is what its trace file holds.
    ///
    /// # Errors
    /// A discipline or stamp that does not exist, or not with these parameters, with its origin.
    pub fn config(&self, trace: Option<DeliveryTrace>) -> Result<LinkConfig, Fault> {
        let limit = Limit {
            packets: self.queue_packets.map(u64::from),
            bytes: self.queue_bytes,
        };
        let discipline = discipline(&self.discipline.value, limit)
            .map_err(|error| self.discipline.fault(error.to_string()))?;
        let names: Vec<_> = self.stamps.iter().map(|stamp| &stamp.value).collect();
        let mut stamps = Vec::new();
        for (at, stamp) in self.stamps.iter().enumerate() {
            // One more at a time, so that the first wrong one is the last.
            stamps = stamp_set(&names[..=at]).map_err(|error| stamp.fault(error.to_string()))?;
        }
        let seconds = Duration::from_secs_f64;
        let blackouts = self.blackouts.iter().map(|keys| &keys.value);
        let changes = self.changes.iter().map(|keys| keys.value);
        Ok(LinkConfig {
            service: match (trace, self.rate_bps) {
                (Some(trace), _) => Service::Trace(trace),
                (None, Some(rate_bps)) => Service::Rate(rate(rate_bps)),
                (None, None) => Service::Unlimited,
            },
            limit,
            discipline,
            stamps,
            delay: self.delay(),
            jitter: milliseconds(self.jitter_ms),
            reorder: self.reorder,
            loss: self.loss,
            blackouts: blackouts
                .map(|blackout| (seconds(blackout.start_s), seconds(blackout.length_s)))
                .collect(),
            changes: changes.flat_map(|keys| keys.changes(limit)).collect(),
            ..LinkConfig::default()
        })
    }

    /// The propagation delay, before any change.
    pub fn delay(&self) -> Duration {
        milliseconds(self.delay_ms)
    }

    /// The rate after `elapsed`, in bits per second; `None` if the link has none, or follows a
    /// trace.
    pub fn rate_bps_after(&self, elapsed: Duration) -> Option<u64> {
        let past = |keys: &&Located<ChangeKeys>| keys.value.at_s <= elapsed.as_secs_f64();
        let mut past = self.changes.iter().filter(past).rev();
        let changed = past.find_map(|keys| keys.value.rate_bps);
        changed.or(self.rate_bps)
    }

    fn has_delay(&self) -> bool {
        let changed = self
            .changes
            .iter()
            .filter_map(|change| change.value.delay_ms);
        changed.chain([self.delay_ms]).any(|delay| delay > 0.0)
    }

    fn check_changes(&self) -> Result<(), Fault> {
        for pair in self.blackouts.windows(2) {
            if pair[0].value.start_s + pair[0].value.length_s > pair[1].value.start_s {
                let message = "blackouts overlap or are out of order; order them by start_s and let each end before the next";
                return Err(pair[1].fault(message));
            }
        }
        for pair in self.changes.windows(2) {
            if pair[0].value.at_s > pair[1].value.at_s {
                return Err(pair[1].fault("changes are out of order; order them by at_s"));
            }
        }
        for change in &self.changes {
            let ChangeKeys {
                at_s: _,
                rate_bps,
                delay_ms,
                loss,
                queue_packets,
            } = change.value;
            if rate_bps.is_some() && self.rate_bps.is_none() {
                let message = "a change sets a rate on a link that begins without one; give the link a rate_bps";
                return Err(change.fault(message));
            }
            if (rate_bps, delay_ms, loss, queue_packets) == (None, None, None, None) {
                let message = "the change changes nothing; add one of rate_bps, delay_ms, loss, queue_packets";
                return Err(change.fault(message));
            }
        }
        Ok(())
    }
}

impl ChangeKeys {
    /// What changes on a link whose queue has `limit`.
    fn changes(self, limit: Limit) -> impl Iterator<Item = (Duration, Change)> {
        let at = Duration::from_secs_f64(self.at_s);
        let packets = self.queue_packets.map(|packets| Limit {
            packets: Some(packets.into()),
            ..limit
        });
        let changes = [
            self.rate_bps.map(|rate_bps| Change::Rate(rate(rate_bps))),
            self.delay_ms
                .map(|delay_ms| Change::Delay(milliseconds(delay_ms))),
            self.loss.map(Change::Loss),
            packets.map(Change::Limit),
        ];
        changes
            .into_iter()
            .flatten()
            .map(move |change| (at, change))
    }
}

fn rate(rate_bps: u64) -> Rate {
    Rate::new(rate_bps).expect("the range begins at 1")
}

fn milliseconds(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}

/// Left out of results then: a link's description is what it was before links could reorder.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

keys! {
    /// A rate of a link, in bits per second.
    pub rate_bps: u64 = whole(Unit::BitsPerSecond, 1..=MAX_RATE_BPS);
    /// A delay of a link, in milliseconds.
    pub delay_ms: f64 = number(Unit::Milliseconds, 0.0..=MAX_DELAY_MS);
    /// A queue's limit in packets.
    pub queue_packets: u32 = whole(Unit::None, 1..=MAX_QUEUE_PACKETS);
    queue_bytes: u64 = whole(Unit::Bytes, 1..=MAX_QUEUE_BYTES);
    share: f64 = number(Unit::None, 0.0..=1.0);
    time_s: f64 = number(Unit::Seconds, 0.0..=MAX_TIME_S);
    length_s: f64 = positive(Unit::Seconds, MAX_TIME_S);
}
