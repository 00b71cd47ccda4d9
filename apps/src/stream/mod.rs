//! Live media: a server sends frames as an encoder makes them, and viewers report how they arrive.
//!
//! [`view`] and [`serve`] take a connection or endpoint and its [`quinn::Runtime`], and use no
//! other clock, task or socket: the same code runs on tokio and in virtual time.
//! `docs/stream.md` describes the protocol; [`ALPN`] names its version.

mod account;
mod adapt;
mod annexb;
mod cause;
mod clock;
mod encoder;
mod frame;
mod lateness;
mod media;
mod missing;
mod player;
mod protocol;
mod queue;
mod report;
mod send;
mod server;
mod source;
mod synthetic;
mod timeline;
mod track;
mod transport;
mod ts;
mod view;
mod viewing;
mod watched;
mod writer;

pub use adapt::AdaptConfig;
pub use annexb::{AccessUnit, AccessUnits, AnnexBError};
pub use cause::{Cause, Causes};
pub use clock::{Clock, ClockReport};
pub use encoder::{Encoded, Encoder, EncoderConfig};
pub use frame::{Assembly, FRAGMENT_HEADER_LEN, HEADER_LEN, Header, MAX_FRAME};
pub use lateness::{Delays, Stacked};
pub use media::{Live, Media};
pub use protocol::Delivery;
pub use report::{
    BitrateReport, DelayReport, FrameCounts, JitterReport, QueueingReport, Snapshot, StallReport,
    TrackReport, VariationReport, ViewReport,
};
pub use send::{SendOptions, Sending, SentCounts};
pub use server::{AnyViewer, Host, ServeOptions, serve};
pub use source::{Recording, Source, SourceError};
pub use synthetic::SyntheticTrack;
pub use track::{Kind, Track};
pub use transport::{server_transport_config, transport_config, viewer_transport_config};
pub use ts::TsError;
pub use view::{Connecting, Opening, Output, Reconnect, ViewOptions, view};
pub use viewing::Viewing;

/// The application protocol, and its version, in the TLS handshake (RFC 7301).
pub const ALPN: &[u8] = b"evenkeel-stream/5";
