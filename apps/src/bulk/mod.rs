//! Bulk transfer: one side sends as fast as the controller allows, both sides
//! report what they saw.
//!
//! [`client()`] and [`serve`] take the connection or endpoint and the
//! [`quinn::Runtime`] they live on, and touch no other clock, task or socket, so
//! the same code runs on tokio and in virtual time. The protocol is described in
//! `docs/bulk.md`; [`ALPN`] names its version.
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

mod client;
mod data;
mod protocol;
mod receive;
mod report;
mod send;
mod server;
mod session;
mod throttle;
mod transport;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::error::AppError;
pub use client::client;
pub use data::{Local, Readable, Sink, Source, Writable};
pub(crate) use report::packets_sent;
pub use report::{Checksum, Outcome, Report};
pub use server::{Host, Limits, NoFiles, ServeOptions, serve, serve_connection};
pub use throttle::Pattern;
pub use transport::{AckFrequency, TransportSettings, transport_config};

/// The application protocol, and its version, in the TLS handshake (RFC 7301).
pub const ALPN: &[u8] = b"evenkeel-bulk/2";

/// The most data streams one transfer may use, 128: as many unidirectional streams
/// as [`transport_config`] lets a peer open.
pub const MAX_STREAMS: u16 = 128;

/// The most bytes one transfer may carry, 2^60: QUIC numbers the bytes of one
/// stream below 2^62 (RFC 9000, section 4.5).
pub const MAX_BYTES: u64 = 1 << 60;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Who sends.
    pub direction: Direction,
    /// How much.
    pub amount: Amount,
    /// Data streams side by side, 1 to [`MAX_STREAMS`]; a known number of bytes is
    /// split into that many ranges.
    pub streams: u16,
    /// Warm-up left out of [`Report::goodput_bps`], counted from the start of the
    /// data. An [`Amount::Duration`] includes it and must be longer.
    pub omit: Duration,
    /// Whether both sides compute SHA-256 and the receiver compares.
    pub verify: bool,
    /// How the sender holds back, whichever side it is.
    pub pattern: Pattern,
}

/// Which way the data goes, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client sends.
    Up,
    /// The server sends.
    Down,
}

/// How much is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many application bytes, at most [`MAX_BYTES`].
    Bytes(u64),
    /// As much as goes through in this time; then the sender writes no more, and
    /// what it wrote is delivered.
    Duration(Duration),
    /// All of the server's file of this name; only [`Direction::Down`].
    File(String),
}

/// Live counters of application bytes, for whoever shows progress or samples a
/// series while a transfer runs.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Job {
    /// A job over one stream, without warm-up, with SHA-256.
    pub const fn new(direction: Direction, amount: Amount) -> Self {
        Self {
            direction,
            amount,
            streams: 1,
            omit: Duration::ZERO,
            verify: true,
            pattern: Pattern::NONE,
        }
    }
}

impl Progress {
    /// Application bytes quinn accepted for sending so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Application bytes delivered to the sink so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Application bytes on the client's side of a transfer in `direction` so far.
    pub fn of(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Up => self.sent(),
            Direction::Down => self.received(),
        }
    }

    fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}
