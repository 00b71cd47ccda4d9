//! QUIC's own settings for bulk transfers.

use std::time::Duration;

use quinn::{AckFrequencyConfig, TransportConfig, VarInt};

use super::job::MAX_STREAMS;

/// Receive window of one stream, 16 MiB: 1 Gb/s over 100 ms are 12.5 MB in flight,
/// and a window must not be what limits a measurement.
const STREAM_WINDOW: u32 = 16 * 1024 * 1024;

/// Receive window of a connection, 32 MiB: the most memory a peer can make us hold.
const CONNECTION_WINDOW: u32 = 2 * STREAM_WINDOW;

/// A connection is given up after this silence unless asked otherwise: the value RFC 9308,
/// section 3.2, recommends as the least.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A packet is sent after this share of the idle timeout in silence, so that a waiting connection
/// outlives the loss of several of them, and NAT state: 5 s of the 30.
const KEEP_ALIVES: u32 = 6;

/// What an experiment may vary of a connection's transport; the default is what QUIC and
/// quinn do unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportSettings {
    /// How the peer is asked to acknowledge what this side sends.
    pub acks: AckFrequency,
    /// Whether the path's MTU is searched (RFC 8899); otherwise the UDP payloads that this
    /// side sends stay at 1200 bytes.
    pub mtu_discovery: bool,
    /// A connection is given up after this silence, 1 ms or more; of both sides' the shorter counts
    /// (RFC 9000, section 10.1).
    pub idle_timeout: Duration,
}

/// When a receiver acknowledges; the default is every second packet, at most 25 ms later
/// (RFC 9000, sections 13.2.2 and 18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFrequency {
    /// Ack-eliciting packets per acknowledgement, at least 1.
    pub every: u32,
    /// Longest time that an acknowledgement is held back. quinn asks for 1 ms or more, and for
    /// at most the greater of 25 ms and the round-trip time.
    pub max_delay: Duration,
}

/// The transport settings of both sides of a bulk transfer, with quinn's own controller unless
/// another is set.
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
    /// What to ask the peer for (draft-ietf-quic-ack-frequency); nothing if it does so anyway.
    fn request(self) -> Option<AckFrequencyConfig> {
        if self == Self::default() {
            return None;
        }
        let mut config = AckFrequencyConfig::default();
        // The threshold is how many packets may go *without* an immediate acknowledgement.
        config
            .ack_eliciting_threshold(VarInt::from_u32(self.every.saturating_sub(1)))
            .max_ack_delay(Some(self.max_delay));
        Some(config)
    }
}
