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

pub use evenkeel_congestion::{
    AckReport, ControllerRow, Kind, Observer, Parameter, SharedFactory, SpecError, controller,
    controllers, observed,
};
