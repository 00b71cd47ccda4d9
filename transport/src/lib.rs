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
//! `examples/plain_quinn.rs` is a complete program.
//!
//! [`server`] and [`client`] make quinn endpoints that also pace each connection at its controller's
//! rate instead of in bursts of ten packets, and read what routers report; `examples/echo.rs` is a
//! complete program. [`Endpoint`] makes them with settings of your own. [`Context`] shows an
//! application the path of a connection and lets it change the controller.

mod capacity;
mod changes;
mod connection;
mod controller;
mod driver;
mod endpoint;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod hooks;
mod measure;
mod memory;
mod notify;
mod pacer;
mod pacing;
mod path;
mod socket;
mod train;
mod windows;

pub use capacity::{ProbeEnd, ProbeReport};
pub use changes::Changes;
pub use endpoint::{Context, Endpoint, PACKET_THRESHOLD, TIME_THRESHOLD, client, close, server};
pub use evenkeel_congestion::{
    Ack, Cause, Congestion, Controller, Delivery, EcnMode, Feedback, Grant, Round,
};
pub use evenkeel_congestion::{
    AckReport, CloneController, ControllerBuild, ControllerRow, Controllers, DEFAULT_CONTROLLER,
    EcnCounts, EcnFault, EcnState, EcnUse, FeedHolder, FeedState, Observer, ParameterKind,
    PathFactory, PathFeed, PathSample, SharedFactory, SpecError, SpecParameter, SpecValues,
    UnknownEcnUse, adapt, controller, controllers, foreign, observed, uses_path_headers,
};
pub use evenkeel_headers::{HeaderCounters, HeaderState, SetupError};
pub use memory::{NoMemory, PathMemory};
pub use pacing::{Pacing, UnknownPacing};
pub use path::{EcnReport, Limit, Losses, PathState};
pub use windows::FlowWindows;
