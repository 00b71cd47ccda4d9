//! Live media: a server sends frames as an encoder makes them, viewers tell what became of them.
//!
//! [`view`] and [`serve`] take the connection or endpoint and the [`quinn::Runtime`] they live on,
//! and touch no other clock, task or socket, so the same code runs on tokio and in virtual time.
//! `docs/stream.md` describes the protocol; [`ALPN`] names its version.

mod adapt;
mod annexb;
mod encoder;
mod frame;
mod media;
mod player;
mod protocol;
mod queue;
mod report;
mod send;
mod server;
mod transport;
mod view;
mod viewing;

use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use adapt::AdaptConfig;
pub use annexb::{AccessUnit, AccessUnits, AnnexBError};
pub use encoder::EncoderConfig;
pub use frame::{Assembly, FRAGMENT_HEADER_LEN, HEADER_LEN, Header, MAX_FRAME};
pub use media::{Live, Media};
pub use player::{Freezes, Player, PlayerCounts};
pub use report::{
    BitrateReport, ClockReport, DelayReport, FrameCounts, JitterReport, Snapshot, StallReport,
    VariationReport, ViewReport,
};
pub use send::{SendOptions, Sending, SentCounts};
pub use server::{AnyViewer, Host, ServeOptions, serve};
pub use transport::transport_config;
pub use view::{ViewOptions, view};
pub use viewing::Viewing;

/// The application protocol, and its version, in the TLS handshake (RFC 7301).
pub const ALPN: &[u8] = b"evenkeel-stream/1";

/// How frames travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Each on a stream of its own: a lost packet delays its own frame only.
    #[default]
    Frames,
    /// Each group of pictures on a stream of its own: a lost packet delays what follows in its
    /// group.
    Groups,
    /// In fragments in datagrams (RFC 9221): what is lost stays lost.
    Datagrams,
}

/// A clock that both sides of a stream may know: an instant and its reading.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// An instant.
    pub at: Instant,
    /// What the clock showed then, microseconds.
    pub micros: u64,
    /// Whether the other side's readings are of the same clock, as in one process or on one
    /// machine. Otherwise its offset is estimated.
    pub shared: bool,
}

impl Clock {
    /// The reading at `now`, not before [`at`](Self::at).
    pub fn read(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.at).as_micros();
        self.micros
            .saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}
