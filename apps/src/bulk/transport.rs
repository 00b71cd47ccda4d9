//! QUIC settings for bulk transfers.

use std::time::Duration;

use quinn::{AckFrequencyConfig, TransportConfig, VarInt};

use super::job::MAX_STREAMS;

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

/// Transport settings that an experiment may vary; the defaults are QUIC's and quinn's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportSettings {
    /// How the peer should acknowledge this side's packets.
    pub acks: AckFrequency,
    /// Whether to search the path's MTU (RFC 8899); otherwise this side's UDP payloads stay at
    /// 1200 bytes.
    pub mtu_discovery: bool,
    /// Silence after which a connection is given up, 1 ms or more; the shorter of both sides'
    /// counts (RFC 9000, section 10.1).
    pub idle_timeout: Duration,
}

/// When a receiver acknowledges; by default every second packet, at most 25 ms later (RFC 9000,
/// sections 13.2.2 and 18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Ack-eliciting packets per acknowledgement, at least 1.
    pub every: u32,
    /// The longest delay of an acknowledgement. quinn asks for at least 1 ms, and at most the
    /// greater of 25 ms and the round-trip time.
    pub max_delay: Duration,
}

/// Returns the transport settings of both sides of a bulk transfer, with quinn's own controller
/// unless another is set.
pub fn transport_config(settings: TransportSettings) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .ack_frequency_config(settings.acks.request())
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
            mtu_discovery: true,
            idle_timeout: IDLE_TIMEOUT,
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
