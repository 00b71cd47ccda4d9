//! What a backend is given: nodes, one-way links, single flows. Plain data, checked and expanded.

use std::fmt;
use std::iter::Peekable;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::{EcnUse, Pacing};
use evenkeel_apps::bulk::{AckFrequency, LossDetection};
use evenkeel_apps::stream::{EncoderConfig, SendOptions, SyntheticTrack};
use evenkeel_queue::description::LinkDescription;
use evenkeel_queue::{DeliveryTrace, OPPORTUNITY_BYTES};
use evenkeel_spec::document::{Fault, Origin};
use serde::{Deserialize, Serialize};

use super::error::OneLine;
use super::{IpVersion, NodeIndex};

/// A host or router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Unique in the scenario. Generated hosts are called `FLOW.sender` and `FLOW.receiver`.
    pub name: String,
}

/// One direction of a link: a queue, a rate, then delay and impairments.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    /// Unique in the scenario; `NAME.reverse` is the way back of `NAME`.
    pub name: String,
    /// Where packets enter.
    pub from: NodeIndex,
    /// Where packets leave.
    pub to: NodeIndex,
    /// Rate, queue, delay and impairments.
    pub description: LinkDescription,
    /// The packet-delivery trace that it follows, if it does.
    pub trace: Option<TraceFile>,
    /// What makes this link on a kernel.
    pub emulator: Emulator,
    /// Whether results tell of this link; false for generated access links.
    pub reported: bool,
}

/// What makes a link on a backend that runs on a kernel; virtual time has evenkeel-queue alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Emulator {
    /// netem if the kernel has it and it can do the link, else evenkeel-queue.
    #[default]
    Auto,
    /// evenkeel-queue, in the router daemon.
    Evenkeel,
    /// The kernel's netem, or an error.
    Netem,
}

impl Emulator {
    pub(super) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// A packet-delivery trace in mahimahi's format; its lines are checked by who builds the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFile {
    /// The file, as found from the scenario's directory.
    pub path: PathBuf,
    /// What it holds.
    pub contents: Arc<str>,
}

/// One flow: one application between two hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    /// Unique: the group's name, with `-0`, `-1`, ... if its count is above 1.
    pub name: String,
    /// Name of the `[[flows]]` table it comes from.
    pub group: String,
    /// What it sends.
    pub app: App,
    /// The sender's controller, `name:key=value,...`; checked by who builds it. Of [`App::Tcp`], a
    /// kernel's name for one of its own.
    pub controller: String,
    /// Where the scenario names it.
    pub controller_place: Place,
    /// The sending host.
    pub from: NodeIndex,
    /// The receiving host.
    pub to: NodeIndex,
    /// Which of the hosts' addresses it uses.
    pub ip_version: IpVersion,
    /// From the beginning of the run.
    pub start: Duration,
    /// From the beginning of the run; after `start`, at most the run's duration.
    pub stop: Duration,
    /// Streams that share the data of a connection, at least 1.
    pub streams: u32,
    /// Whether the receiver compares SHA-256 of what came with what was sent.
    pub verify: bool,
    /// Acknowledgements: the receiver's habits.
    pub acks: AckFrequency,
    /// Whether the path's MTU is searched; otherwise UDP payloads stay at 1200 bytes.
    pub mtu_discovery: bool,
    /// How packets are paced.
    pub pacing: Pacing,
    /// How the sender uses ECN.
    pub ecn: EcnUse,
    /// A path header is on every N-th datagram of the sender, and the receiver echoes; with
    /// 0 neither knows of headers.
    pub path_headers: u32,
    /// Both ends give the connection up after this silence; `None`: the application's 30 s.
    pub idle_timeout: Option<Duration>,
    /// While something is in flight, the sender is not silent for longer; `None`: as RFC 9002 says.
    pub probe_interval: Option<Duration>,
    /// When the sender takes a packet for lost.
    pub losses: LossDetection,
    /// When the sender's process stands still, since the beginning of the run, and for how long; in
    /// order, each ends before the next one begins.
    pub pauses: Vec<(Duration, Duration)>,
    /// When the QUIC client moves to another local port, since the beginning of the run; in order.
    pub rebinds: Vec<Duration>,
    /// What the sender remembers of its path, as if an earlier connection had measured it.
    pub remembered: Option<Remembered>,
}

/// Where a scenario says something, for errors: `FILE:LINE` or `--set PATH=VALUE`. Two scenarios
/// that say the same are equal, wherever they say it.
#[derive(Debug, Clone)]
pub struct Place(String);

impl Place {
    pub(super) fn of(origin: &Origin, file_name: &str) -> Self {
        Self(OneLine(Fault::new(origin, "").place(file_name)).to_string())
    }
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a sender remembers of its path (RFC 9959).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// Bits of IP packets per second.
    pub rate_bps: u64,
    /// The least round trip.
    pub min_rtt: Duration,
}

/// What a flow sends.
#[derive(Debug, Clone, PartialEq)]
pub enum App {
    /// One transfer, as fast as the controller lets it.
    Bulk(Payload),
    /// Transfers without end during ON periods, silence in between.
    OnOff {
        /// Lengths of the periods.
        periods: Periods,
        /// With which of them a flow begins.
        begins: Begins,
        /// Whether an ON period is a new connection; otherwise connection and window stay.
        reconnect: bool,
    },
    /// Many short transfers, each over its own connection; arrivals are a Poisson process.
    Short {
        /// Mean arrivals per second, above 0.
        arrivals_per_s: f64,
        /// Mean application bytes of a transfer, at least 1.
        mean_bytes: u64,
        /// Shape of the Pareto distribution of sizes, above 1.
        shape: f64,
    },
    /// Live media to one viewer.
    Stream(StreamSpec),
    /// One transfer over a kernel's own TCP, with the kernel's controller of that name.
    Tcp {
        /// Application bytes, at least 1; `None`: data until the flow stops.
        bytes: Option<u64>,
    },
}

/// A stream of live media.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamSpec {
    /// The encoder; its noise is seeded by the scenario.
    pub encoder: EncoderConfig,
    /// How frames travel, and how the encoder follows the connection.
    pub send: SendOptions,
    /// Tracks of fixed sizes instead of the encoder, if there are some.
    pub tracks: Arc<[SyntheticTrack]>,
    /// The viewer's playout buffer.
    pub buffer: Duration,
    /// The viewer's fixed delay instead.
    pub latency: Option<Duration>,
}

/// What a bulk transfer consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Data until the flow stops.
    Endless,
    /// That many application bytes, at least 1.
    Bytes(u64),
    /// The bytes of a file.
    File(PathBuf),
}

/// The period with which a flow begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Begins {
    /// It sends from its start on.
    #[default]
    On,
    /// It is silent for an OFF period first.
    Off,
}

/// Alternating ON and OFF periods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Periods {
    /// Mean of the ON periods, above zero.
    pub on: Duration,
    /// Mean of the OFF periods, above zero.
    pub off: Duration,
    /// How both are distributed.
    pub distribution: PeriodDistribution,
}

/// Distribution of the length of a period, given its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PeriodDistribution {
    /// Exponential.
    Exponential,
    /// Pareto: scale = mean x (shape - 1) / shape.
    Pareto {
        /// Above 1, or there is no mean.
        shape: f64,
    },
}

/// One source of UDP cross traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossSpec {
    /// Unique: the group's name, with `-0`, `-1`, ... if its count is above 1.
    pub name: String,
    /// Name of the `[[cross]]` table it comes from.
    pub group: String,
    /// The sending host.
    pub from: NodeIndex,
    /// The receiving host.
    pub to: NodeIndex,
    /// Which of the hosts' addresses it uses.
    pub ip_version: IpVersion,
    /// Bits of IP packets per second while ON, at least 1.
    pub rate_bps: u64,
    /// Bytes of an IP packet, from 28 (empty; 48 of IPv6) to the MTU.
    pub packet_bytes: u32,
    /// The round trip that a path header of kind ACP on each packet tells, true or not; `None`
    /// for packets without one. With it, packets have room for one.
    pub acp_rtt: Option<Duration>,
    /// ON and OFF; `None` for a constant rate.
    pub periods: Option<Periods>,
    /// From the beginning of the run.
    pub start: Duration,
    /// From the beginning of the run; after `start`, at most the run's duration.
    pub stop: Duration,
}

impl LinkSpec {
    /// The mean rate between two instants, in bits of IP packets per second, with all changes
    /// of rate; of a trace what it offers between them, or over its whole period if they are no
    /// time apart; for a cellular rate the mean of all walks. `None` without limit.
    pub fn mean_rate_bps(&self, from: Duration, to: Duration) -> Option<u64> {
        if let Some(trace) = &self.trace {
            return trace.mean_rate_bps(from, to);
        }
        if let Some(keys) = &self.description.cellular {
            return Some(keys.cellular().mean_rate().bits_per_second());
        }
        let mut rate_bps = self.description.rate_bps?;
        if to <= from {
            return Some(rate_bps);
        }
        let mut changes = self.description.rate_changes(to).peekable();
        Some(mean_bps(&mut rate_bps, &mut changes, from, to))
    }

    /// [`LinkSpec::mean_rate_bps`] in each interval of a run of `duration`; `None` without limit, and
    /// for a cellular rate, which only its link knows.
    pub fn rate_series(&self, interval: Duration, duration: Duration) -> Vec<Option<u64>> {
        let count = duration.as_nanos().div_ceil(interval.as_nanos()) as u32;
        let intervals =
            (0..count).map(|index| (interval * index, (interval * (index + 1)).min(duration)));
        let trace = self.trace.as_ref();
        if let Some(trace) = trace.and_then(|trace| DeliveryTrace::parse(&trace.contents).ok()) {
            let offered = |(from, to)| Some(offered_bps(&trace, from, to).round() as u64);
            return intervals.map(offered).collect();
        }
        let Some(mut rate_bps) = self.description.rate_bps else {
            return vec![None; count as usize];
        };
        let mut changes = self.description.rate_changes(duration).peekable();
        let means = intervals.map(|(from, to)| mean_bps(&mut rate_bps, &mut changes, from, to));
        means.map(Some).collect()
    }
}

/// The mean between two instants of a rate that is `rate_bps` until the next of `changes`, in bits per
/// second; takes the changes up to `to`.
fn mean_bps(
    rate_bps: &mut u64,
    changes: &mut Peekable<impl Iterator<Item = (f64, u64)>>,
    from: Duration,
    to: Duration,
) -> u64 {
    let (from_s, to_s) = (from.as_secs_f64(), to.as_secs_f64());
    let (mut bits, mut since_s) = (0.0, from_s);
    while let Some((at_s, next_bps)) = changes.next_if(|(at_s, _)| *at_s < to_s) {
        let at_s = at_s.max(from_s);
        bits += *rate_bps as f64 * (at_s - since_s);
        (since_s, *rate_bps) = (at_s, next_bps);
    }
    bits += *rate_bps as f64 * (to_s - since_s);
    (bits / (to_s - from_s)).round() as u64
}

/// What a trace offers after `from` until `to`, in bits of IP packets per second.
fn offered_bps(trace: &DeliveryTrace, from: Duration, to: Duration) -> f64 {
    let offered = trace.opportunities_until(to) - trace.opportunities_until(from);
    let bits = offered as f64 * f64::from(OPPORTUNITY_BYTES) * 8.0;
    bits / (to - from).as_secs_f64()
}

impl TraceFile {
    /// What it offers between two instants after its beginning, in bits of IP packets per second.
    ///
    /// # Errors
    /// In one line, if it is no trace.
    pub fn offered_bps(&self, from: Duration, to: Duration) -> Result<f64, String> {
        let trace = DeliveryTrace::parse(&self.contents).map_err(|error| error.to_string())?;
        Ok(offered_bps(&trace, from, to))
    }

    /// The same, or that of the trace's period if the instants are no time apart; `None` if it is no
    /// trace.
    fn mean_rate_bps(&self, from: Duration, to: Duration) -> Option<u64> {
        let trace = DeliveryTrace::parse(&self.contents).ok()?;
        let (from, to) = match to > from {
            true => (from, to),
            false => (Duration::ZERO, trace.period()),
        };
        Some(offered_bps(&trace, from, to).round() as u64)
    }
}

#[cfg(test)]
mod tests;
