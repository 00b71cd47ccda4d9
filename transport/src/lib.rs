//! Smooth, low-delay congestion control for quinn.
//!
//! Give a connection one of the controllers in one line:
//!
//! ```
//! let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(evenkeel::controller("keel")?);
//! # Ok::<(), evenkeel::SpecError>(())
//! ```
//!
//! [`controllers`] lists the controllers and their parameters, as in `vegas:alpha=2,beta=4`. A
//! controller governs what this endpoint *sends*: a server that sends needs it in its own
//! `ServerConfig`. [`observed`] reports round trip times, windows and losses while connections run.
//! `examples/plain_quinn.rs` is a complete program. [`mod@controller`] is for authors of controllers.
//!
//! [`server`] and [`client`] make quinn endpoints that also pace each connection at its controller's
//! rate instead of in bursts of ten packets, and read what routers report; `examples/echo.rs` is a
//! complete program. [`EndpointBuilder`] makes them with settings of your own. [`Context`] shows an
//! application the path of a connection and lets it change the controller.

mod capacity;
mod changes;
mod connection;
mod context;
pub mod controller;
mod endpoint;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod measure;
mod notify;
mod pacer;
mod pacing;
mod path;
mod quinn_order;
mod resume_token;
mod windows;

pub use capacity::{CapacityProbeEnd, CapacityReport};
pub use changes::PathChanges;
pub use context::{Context, close};
pub use endpoint::{EndpointBuilder, PACKET_THRESHOLD, TIME_THRESHOLD, client, server};
pub use evenkeel_congestion::{
    AckReport, Controllers, DEFAULT_CONTROLLER, EcnCounts, EcnFault, EcnMode, EcnReport, EcnUse,
    Grant, Observer, PathSample, SharedFactory, SpecError, controller, controllers, observed,
    uses_path_headers,
};
pub use evenkeel_headers::{HeaderCounters, HeaderState, SetupError};
pub use pacing::Pacing;
pub use path::{LimitedBy, Losses, PathState};
pub use resume_token::{InvalidResumeToken, ResumeToken};
pub use windows::FlowWindows;
