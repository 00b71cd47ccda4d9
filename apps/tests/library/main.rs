//! The applications' library over loopback UDP on tokio.

mod handshakes;
mod honest;
mod hostile;
mod initials;
mod pair;
mod settings;
mod stream;
