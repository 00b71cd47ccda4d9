//! Why an endpoint cannot be made.

use std::io;

use evenkeel_congestion::SpecError;

/// Why a shell's `server` or `client` made no endpoint. Displays as one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// There is no such controller, or not with these parameters.
    #[error(transparent)]
    Controller(#[from] SpecError),
    /// The TLS configuration does not suit QUIC; see `Endpoint::server_config`.
    #[error("the TLS configuration does not suit QUIC: {0}")]
    Tls(#[from] rustls::Error),
    /// The address cannot be bound, or there is no tokio runtime.
    #[error("cannot open the socket: {0}")]
    Socket(#[from] io::Error),
}
