//! The applications' library over loopback UDP on tokio.

mod honest;
mod hostile;
mod pair;
mod settings;
mod stream;
