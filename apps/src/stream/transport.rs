//! QUIC settings for media streams.

use std::time::Duration;

use quinn::{TransportConfig, VarInt};

use crate::bulk::{self, TransportSettings};

/// Streams of frames that may be open at once: more than 4 s of them at 200 frames a second, of all
/// tracks.
const MAX_OPEN_STREAMS: u32 = 1024;

/// Receive window of a connection, 16 MiB: two of the longest frames, and the most memory that a
/// sender can make a viewer hold.
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Receive window of a server's connection, 64 KiB: viewers send one message.
const SERVER_WINDOW: u32 = 64 * 1024;

/// Bytes of datagrams that wait to be read, 4 MiB: a key frame at several hundred Mb/s.
const DATAGRAMS_TO_READ: usize = 4 * 1024 * 1024;

/// Bytes of datagrams that wait to leave, 16 KiB: frames should wait in the queue, which drops
/// those that are too late.
const DATAGRAMS_TO_SEND: usize = 16 * 1024;

/// How often a viewer asks a silent server for a sign of life, 400 ms: a second without one means
/// that no packet gets through, or that the server is gone.
const SIGN_OF_LIFE: Duration = Duration::from_millis(400);

/// Returns the transport settings of both sides, with quinn's own controller unless another is set.
/// They match bulk transfers' except for windows and datagrams.
pub fn transport_config(settings: TransportSettings) -> TransportConfig {
    let mut config = bulk::transport_config(settings);
    config
        .max_concurrent_uni_streams(VarInt::from_u32(MAX_OPEN_STREAMS))
        .stream_receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .datagram_receive_buffer_size(Some(DATAGRAMS_TO_READ))
        .datagram_send_buffer_size(DATAGRAMS_TO_SEND);
    config
}

/// Returns the same for a viewer that connects anew when its server falls silent.
pub fn viewer_transport_config(settings: TransportSettings) -> TransportConfig {
    let mut config = transport_config(settings);
    config.keep_alive_interval(Some(SIGN_OF_LIFE));
    config
}

/// Returns the same for a server that strangers reach: it takes little from viewers.
pub fn server_transport_config(settings: TransportSettings) -> TransportConfig {
    let mut config = transport_config(settings);
    config
        .receive_window(VarInt::from_u32(SERVER_WINDOW))
        .datagram_receive_buffer_size(Some(SERVER_WINDOW as usize));
    config
}
