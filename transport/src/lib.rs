//! Smooth, low-delay congestion control for quinn.
//!
//! One line gives a connection one of the controllers:
//!
//! ```
//! let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(evenkeel::controller("vegas")?);
//! # Ok::<(), evenkeel::SpecError>(())
//! ```
//!
//! [`controllers`] lists the names and what can be set: `vegas:alpha=2,beta=4`. It takes effect
//! for what this endpoint *sends*; a server that sends needs it in its own `ServerConfig`.
//! [`observed`] reports round trip times, windows and losses while connections run.
//! `examples/plain_quinn.rs` is a whole program.
//!
//! [`Endpoint`] makes quinn endpoints whose connections are also paced at the controller's rate
//! instead of in bursts of ten packets, and [`Context`] shows an application the path of a
//! connection and lets it change the controller.

mod connection;
mod controller;
mod driver;
mod endpoint;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod header;
mod hooks;
mod pacer;
mod pacing;
mod path;
mod socket;
#[cfg(any(test, feature = "fuzzing"))]
mod stand_ins;

pub use endpoint::{Context, Endpoint, close};
pub use evenkeel_congestion::{Ack, Cause, Congestion, Controller, Feedback, Grant, Round};
pub use evenkeel_congestion::{
    AckReport, CloneController, ControllerBuild, ControllerRow, Controllers, FeedHolder, FeedState,
    Kind, Observer, Parameter, PathFactory, PathFeed, PathSample, SharedFactory, SpecError, Values,
    adapt, controller, controllers, foreign, observed, uses_path_headers,
};
pub use header::{HeaderCounters, HeaderState};
pub use pacing::{Pacing, UnknownPacing};
pub use path::PathState;

#[cfg(test)]
pub(crate) mod testing {
    //! What several test modules share.

    use std::time::{Duration, Instant};

    use crate::header::Facts;

    /// What a connection in the middle of its work says of itself to a header.
    pub(crate) const FACTS: Facts = Facts {
        rtt: Some(Duration::from_millis(40)),
        window: 12_000,
        rate: None,
        is_data: true,
        desired_rate: None,
        mtu: 1200,
        overhead: 60,
        followed: None,
        hop_limit: Some(64),
    };

    /// The instant at which a test begins; nothing depends on which one it is.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one source of a first Instant for tests"
    )]
    pub(crate) fn epoch() -> Instant {
        Instant::now()
    }

    /// A duration in milliseconds.
    pub(crate) fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A duration in microseconds.
    pub(crate) fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }
}
