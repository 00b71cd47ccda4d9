//! Bulk transfer: one side sends as fast as the controller allows, and both sides report what they
//! measured.
//!
//! [`client()`] and [`serve`] take a connection or endpoint and its [`quinn::Runtime`], and use no
//! other clock, task or socket: the same code runs on tokio and in virtual time. `docs/bulk.md`
//! describes the protocol; [`ALPN`] names its version.
//!
//! ```no_run
//! # async fn example(connection: quinn::Connection) -> Result<(), evenkeel_apps::AppError> {
//! use evenkeel_apps::bulk::{self, Amount, Direction, Job, Local};
//! use std::{sync::Arc, time::Duration};
//!
//! let job = Job::new(Direction::Up, Amount::Duration(Duration::from_secs(10)));
//! let runtime = Arc::new(quinn::TokioRuntime);
//! let outcome = bulk::client(connection, runtime, job, Local::default(), Arc::default()).await?;
//! println!("{:?} bit/s", outcome.receiver.goodput_bps);
//! # Ok(())
//! # }
//! ```

mod checksum;
mod client;
mod data;
mod job;
mod memory;
mod pings;
mod protocol;
mod receive;
mod report;
mod send;
mod server;
mod session;
mod throttle;
mod transport;

pub use checksum::{Checksum, Hashing};
pub use client::client;
pub use data::{Attributes, Local, Pieces, Readable, Sink, Source, Writable, Writer};
pub use job::{Amount, Direction, Job, MAX_BYTES, MAX_STREAMS};
pub use pings::{PingReport, Pings, Quantiles, with_pings};
pub(crate) use report::packets_sent;
pub use report::{CpuClock, CpuReport, CpuTime, Outcome, Report};
pub use server::{
    Host, Limits, NO_FILES, NoFiles, SendersController, ServeOptions, serve, serve_connection,
};
pub use session::Progress;
pub use throttle::OnOff;
pub use transport::{
    AckFrequency, LossDetection, TransportSettings, server_transport_config, transport_config,
};

/// The application protocol, and its version, in the TLS handshake (RFC 7301).
pub const ALPN: &[u8] = b"evenkeel-bulk/4";
