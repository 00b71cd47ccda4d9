//! Applications that move real data over evenkeel and measure it.
//!
//! [`bulk`] and [`stream`] are the applications, for any [`quinn::Runtime`]. [`tls`] makes and
//! checks certificates, [`path`] reports what path headers measure, and [`trace`] writes qlogs.
//! On Linux `cli` is the program `evenkeel`, which runs them on tokio.

#![cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, unused_imports, reason = "only the program uses them")
)]

mod accept;
pub mod bulk;
#[cfg(target_os = "linux")]
pub mod cli;
mod error;
mod least;
mod lock;
mod message;
pub mod path;
pub mod stream;
mod time;
pub mod tls;
pub mod trace;

pub use accept::{Accepted, Setup};
pub use error::AppError;
