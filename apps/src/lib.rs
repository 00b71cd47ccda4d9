//! Applications that move real data over evenkeel and measure it.
//!
//! [`bulk`] and [`stream`] are the applications, for any [`quinn::Runtime`]. [`tls`] makes and
//! checks certificates, [`path`] reports what path headers measure, and [`trace`] writes qlogs.
//! [`cli`] is the program `evenkeel`, which runs them on tokio.

mod accept;
pub mod bulk;
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
