//! Offers and reports path headers in the applications: `docs/path-header.md`, `docs/bulk.md`.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Instant};

use evenkeel::{Context, EndpointBuilder, Grant, HeaderCounters, HeaderState, PathSample};
use serde::{Deserialize, Serialize};

use crate::time::milliseconds;

/// How one side of a connection uses path headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderUse {
    /// Sends none, and does not tell the peer that it understands them.
    Off,
    /// Answers the peer's headers, and sends two more per round trip.
    Echo,
    /// Sends one on every nth datagram, and at least two per round trip.
    Every(NonZeroU32),
}

/// What path headers measured in one round trip, for records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// When the echo arrived, in seconds since the record began.
    pub at_s: f64,
    /// Round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// Queueing time on the way to the peer in milliseconds; `None` if no router reported any.
    pub forward_queueing_ms: Option<f64>,
    /// Queueing time on the way back in milliseconds; `None` if no router reported any.
    pub backward_queueing_ms: Option<f64>,
    /// Whether all routers both ways seem to have reported their queueing times.
    pub complete: bool,
    /// Bits per second that routers grant (ACP, RCP); `None` if no router grants a rate.
    pub grant_bps: Option<u64>,
    /// Bytes by which routers let the window change (XCP); `None` if no router grants a change.
    pub window_change_bytes: Option<f64>,
    /// Whether a router on the way to the peer is congested.
    pub congested: bool,
    /// Flows at the most crowded link on the way to the peer; `None` if no router counts them.
    pub flows: Option<u32>,
}

/// Whether a connection sends headers, and its counters since it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeaderReport {
    /// Whether headers are sent at present.
    pub state: HeaderState,
    /// The counters.
    #[serde(flatten)]
    pub counts: HeaderCounters,
}

/// The sums of many path samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    count: u64,
    forward: Sum,
    backward: Sum,
    congested: u64,
    grant_bps: Option<u64>,
    flows: Option<u32>,
}

/// A summary of path samples, for records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleSummary {
    /// The number of samples.
    pub samples: u64,
    /// Queueing time on the way to the peer; `None` if no sample has one.
    pub forward_queueing_ms: Option<LastAndMean>,
    /// Queueing time on the way back; `None` if no sample has one.
    pub backward_queueing_ms: Option<LastAndMean>,
    /// Share of the samples in which a router on the way to the peer was congested, 0 to 1.
    pub congested_share: Option<f64>,
    /// Bits per second that routers granted in the last sample.
    pub grant_bps: Option<u64>,
    /// Flows at the most crowded link, in the last sample.
    pub flows: Option<u32>,
}

/// A time measured repeatedly, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastAndMean {
    /// The newest value.
    pub last: f64,
    /// The mean.
    pub mean: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    count: u64,
    total_ms: f64,
    last_ms: f64,
}

impl HeaderUse {
    /// Sets this use on `endpoint`.
    pub fn set(self, endpoint: EndpointBuilder) -> EndpointBuilder {
        match self {
            Self::Off => endpoint.path_headers(0),
            Self::Echo => endpoint.answer_path_headers(),
            Self::Every(every) => endpoint.path_headers(every.get()),
        }
    }

    /// Returns the matching use of a peer that only receives.
    pub fn answer(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Echo | Self::Every(_) => Self::Echo,
        }
    }

    /// Returns the use for a number of datagrams per header; 0 means off.
    pub fn of_every(every: u32) -> Self {
        NonZeroU32::new(every).map_or(Self::Off, Self::Every)
    }
}

impl FromStr for HeaderUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "echo" => Ok(Self::Echo),
            number => number.parse().map(Self::of_every).map_err(|_| {
                format!("'{text}' is no number of datagrams; write N, 'echo' or 'off'")
            }),
        }
    }
}

impl fmt::Display for HeaderUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Echo => f.write_str("echo"),
            Self::Every(every) => every.fmt(f),
        }
    }
}

impl SampleRecord {
    /// Makes the record of `sample`, in a record that began at `origin`.
    pub fn new(sample: &PathSample, origin: Instant) -> Self {
        let (grant_bps, window_change_bytes) = match sample.grant {
            Some(Grant::Rate(bytes_per_second)) => (Some(bytes_per_second.saturating_mul(8)), None),
            Some(Grant::WindowChange(in_256ths)) => (None, Some(in_256ths as f64 / 256.0)),
            None => (None, None),
        };
        Self {
            at_s: sample.now.saturating_duration_since(origin).as_secs_f64(),
            rtt_ms: milliseconds(sample.rtt),
            forward_queueing_ms: sample.forward_queueing.map(milliseconds),
            backward_queueing_ms: sample.backward_queueing.map(milliseconds),
            complete: sample.complete,
            grant_bps,
            window_change_bytes,
            congested: sample.congested,
            flows: sample.flows,
        }
    }
}

impl HeaderReport {
    /// Returns the report of a connection; `None` unless both ends have offered headers.
    pub fn of(connection: &quinn::Connection) -> Option<Self> {
        let (state, counts) = Context::of(connection)?.path_headers()?;
        Some(Self { state, counts })
    }
}

impl Samples {
    /// Adds a sample that is newer than the others.
    pub fn add(&mut self, sample: &SampleRecord) {
        self.count += 1;
        self.forward.add(sample.forward_queueing_ms);
        self.backward.add(sample.backward_queueing_ms);
        self.congested += u64::from(sample.congested);
        (self.grant_bps, self.flows) = (sample.grant_bps, sample.flows);
    }

    /// Returns the summary, for records.
    pub fn summary(&self) -> SampleSummary {
        let share = self.congested as f64 / self.count as f64;
        SampleSummary {
            samples: self.count,
            forward_queueing_ms: self.forward.summary(),
            backward_queueing_ms: self.backward.summary(),
            congested_share: share.is_finite().then_some(share),
            grant_bps: self.grant_bps,
            flows: self.flows,
        }
    }
}

impl Sum {
    fn add(&mut self, time_ms: Option<f64>) {
        if let Some(time_ms) = time_ms {
            self.count += 1;
            self.last_ms = time_ms;
            self.total_ms += time_ms;
        }
    }

    fn summary(&self) -> Option<LastAndMean> {
        (self.count > 0).then(|| LastAndMean {
            last: self.last_ms,
            mean: self.total_ms / self.count as f64,
        })
    }
}

#[cfg(test)]
mod tests;
