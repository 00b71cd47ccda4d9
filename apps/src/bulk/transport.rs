//! QUIC settings for bulk transfers.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{ArgAction, Args};
use quinn::{AckFrequencyConfig, TransportConfig, VarInt};

use super::job::MAX_STREAMS;
use crate::time::within;

/// Receive window of a connection, 32 MiB: the most memory a peer can make us hold.
pub(super) const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;

/// Receive window of one stream, 31 MiB: 1 Gb/s over 200 ms are 25 MB in flight, and the window
/// must not limit a measurement. The rest is for the control stream, so that it is heard while
/// nobody reads the data.
const STREAM_WINDOW: u32 = CONNECTION_WINDOW - 1024 * 1024;

/// Receive window of a server's connection before it has its share of memory, and the least share,
/// 1 MiB.
pub(super) const LEAST_WINDOW: u32 = 1024 * 1024;

/// Default silence after which a connection is given up: the least that RFC 9308, section 3.2,
/// recommends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Keep-alive packets per idle timeout, so that a waiting connection survives the loss of several
/// of them, and keeps NAT state: one every 5 s of the 30.
const KEEP_ALIVES: u32 = 6;

/// The longest delay of acknowledgements in QUIC, in milliseconds: below 2^14
/// (RFC 9000, section 18.2).
const MAX_ACK_DELAY: u64 = (1 << 14) - 1;

/// Time thresholds that an option takes, in round trips.
const TIME_THRESHOLDS: RangeInclusive<f32> = 1.0..=100.0;

/// Transport settings that an experiment may vary, also options of the command line; the defaults
/// are QUIC's and quinn's own, but for loss detection.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct TransportSettings {
    /// How the peer should acknowledge this side's packets.
    #[command(flatten)]
    pub acks: AckFrequency,
    /// When this side takes its packets for lost.
    #[command(flatten)]
    pub losses: LossDetection,
    /// Whether to search the path's MTU (RFC 8899).
    #[arg(long = "no-mtu-discovery", action = ArgAction::SetFalse,
          help = "Send UDP payloads of at most 1200 bytes, plus the path header")]
    pub mtu_discovery: bool,
    /// Give up a connection after this silence, 1 to 3600; the shorter value of both sides counts
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = within(1.0, 3600.0))]
    pub idle_timeout: Duration,
}

/// When a receiver acknowledges; by default every second packet, at most 25 ms later (RFC 9000,
/// sections 13.2.2 and 18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct AckFrequency {
    /// Ask the other side to acknowledge every N-th packet, 1 to 1000
    #[arg(long = "ack-every", value_name = "N", default_value_t = Self::default().every,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub every: u32,
    /// Ask the other side to delay acknowledgements by at most this long
    // quinn asks for at least 1 ms, and at most the greater of 25 ms and the round-trip time.
    #[arg(long = "max-ack-delay", value_name = "MILLISECONDS", default_value = "25",
          value_parser = clap::value_parser!(u64).range(..=MAX_ACK_DELAY).map(Duration::from_millis))]
    pub max_delay: Duration,
}

/// When a sender takes a packet for lost, once a later one is acknowledged (RFC 9002, section 6.1);
/// by default as [`evenkeel::PACKET_THRESHOLD`] and [`evenkeel::TIME_THRESHOLD`] say.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct LossDetection {
    /// Take a packet for lost when one sent N later is acknowledged, 3 to 1000000
    #[arg(long, value_name = "N", default_value_t = Self::default().packet_threshold,
          value_parser = clap::value_parser!(u32).range(3..=1_000_000))]
    pub packet_threshold: u32,
    /// Or when a later one is acknowledged and this many round trips have passed, 1 to 100
    #[arg(long, value_name = "ROUND TRIPS", default_value_t = Self::default().time_threshold,
          value_parser = time_threshold)]
    pub time_threshold: f32,
}

/// Returns the transport settings of both sides of a bulk transfer, with quinn's own controller
/// unless another is set.
pub fn transport_config(settings: TransportSettings) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .ack_frequency_config(settings.acks.request())
        .packet_threshold(settings.losses.packet_threshold)
        .time_threshold(settings.losses.time_threshold)
        .max_idle_timeout(Some(
            settings
                .idle_timeout
                .try_into()
                .expect("nobody waits for the longest idle timeout, 2^62 ms"),
        ))
        .keep_alive_interval(Some(settings.idle_timeout / KEEP_ALIVES))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(u32::from(MAX_STREAMS)))
        .datagram_receive_buffer_size(None);
    if !settings.mtu_discovery {
        config.mtu_discovery_config(None);
    }
    config
}

/// Returns the same for a server with [`Limits::memory`](super::Limits::memory): its connections
/// begin with a small window.
pub fn server_transport_config(settings: TransportSettings) -> TransportConfig {
    let mut config = transport_config(settings);
    config.receive_window(VarInt::from_u32(LEAST_WINDOW));
    config
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            acks: AckFrequency::default(),
            losses: LossDetection::default(),
            mtu_discovery: true,
            idle_timeout: IDLE_TIMEOUT,
        }
    }
}

impl Default for LossDetection {
    fn default() -> Self {
        Self {
            packet_threshold: evenkeel::PACKET_THRESHOLD,
            time_threshold: evenkeel::TIME_THRESHOLD,
        }
    }
}

impl Default for AckFrequency {
    fn default() -> Self {
        Self {
            every: 2,
            max_delay: Duration::from_millis(25),
        }
    }
}

impl AckFrequency {
    /// Returns what to ask of the peer (draft-ietf-quic-ack-frequency); nothing for the default.
    fn request(self) -> Option<AckFrequencyConfig> {
        if self == Self::default() {
            return None;
        }
        let mut config = AckFrequencyConfig::default();
        // The threshold counts packets that may go *without* an immediate acknowledgement.
        config
            .ack_eliciting_threshold(VarInt::from_u32(self.every.saturating_sub(1)))
            .max_ack_delay(Some(self.max_delay));
        Some(config)
    }
}

fn time_threshold(text: &str) -> Result<f32, String> {
    let threshold = text.parse().ok().filter(|t| TIME_THRESHOLDS.contains(t));
    threshold.ok_or_else(|| "write a number of round trips from 1 to 100".to_owned())
}
