//! Applications that move real data over evenkeel and measure it.
//!
//! [`bulk`] and [`stream`] are the applications themselves, on any [`quinn::Runtime`]. [`tls`] makes
//! and checks certificates, [`path`] reports the measurements of path headers, [`trace`] writes
//! qlogs. [`cli`] is the program `evenkeel` around them, on tokio.

mod accept;
pub mod bulk;
pub mod cli;
mod error;
mod lock;
mod message;
pub mod path;
pub mod stream;
#[cfg(test)]
mod tests;
mod time;
pub mod tls;
pub mod trace;

pub use error::AppError;
