//! QUIC's own settings for bulk transfers.

use std::{sync::Arc, time::Duration};

use quinn::{TransportConfig, VarInt, congestion::ControllerFactory};

use super::MAX_STREAMS;

/// Receive window of one stream, 16 MiB: 1 Gb/s over 100 ms are 12.5 MB in flight,
/// and a window must not be what limits a measurement.
const STREAM_WINDOW: u32 = 16 * 1024 * 1024;

/// Receive window of a connection, 32 MiB: the most memory a peer can make us hold.
const CONNECTION_WINDOW: u32 = 2 * STREAM_WINDOW;

/// A connection is given up after this silence: the value RFC 9308, section 3.2,
/// recommends as the least.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A packet is sent after this silence, so that a waiting connection outlives
/// NAT state and the loss of several of them: a sixth of [`IDLE_TIMEOUT`].
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The transport settings of both sides of a bulk transfer, with `controller`
/// deciding how fast to send.
pub fn transport_config(controller: Arc<dyn ControllerFactory + Send + Sync>) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(controller)
        .max_idle_timeout(Some(
            IDLE_TIMEOUT
                .try_into()
                .expect("30 s are below the longest idle timeout, 2^62 ms"),
        ))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(u32::from(MAX_STREAMS)))
        .datagram_receive_buffer_size(None);
    config
}
