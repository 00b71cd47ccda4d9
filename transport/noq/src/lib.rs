//! evenkeel's congestion controllers and path headers for [noq], the QUIC stack of iroh and MoQ.
//!
//! One line gives every connection of a configuration a controller:
//!
//! ```
//! let mut transport = noq::TransportConfig::default();
//! transport.congestion_controller_factory(evenkeel_noq::controller("keel")?);
//! # Ok::<(), evenkeel_noq::SpecError>(())
//! ```
//!
//! noq paces the connection: at the controller's rate if it has one, else at 1.25 windows in a
//! round trip. A controller governs what this endpoint *sends*: a server that sends needs it in
//! its own `ServerConfig`. [`from_table`] takes a table with your own controllers,
//! [`controller::adapt`] a controller without a table, [`controller::foreign`] noq's own, and
//! [`observed`] reports what controllers see and decide.
//!
//! [`server`] and [`client`] make endpoints that also use path headers, in which routers report
//! queues and rates, with each other and with quinn endpoints of `evenkeel`. [`EndpointBuilder`]
//! makes them with settings of your own, and [`Context`] shows a connection's headers and ECN.
//!
//! [noq]: https://crates.io/crates/noq

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod adapter;
mod connection;
pub mod controller;
mod driver;
mod endpoint;
mod factory;
mod handshake;
mod hooks;
mod linked;
mod observed;
mod path_factory;
mod socket;
mod watched;

pub use endpoint::{Context, EndpointBuilder, client, server};
pub use evenkeel_congestion::{
    AckReport, Controllers, DEFAULT_CONTROLLER, EcnCounts, EcnFault, EcnMode, EcnReport, EcnUse,
    Grant, Observer, PathSample, SpecError, controllers,
};
pub use evenkeel_headers::{HeaderCounters, HeaderState, SetupError};
pub use factory::{controller, from_table};
pub use observed::observed;
pub use path_factory::SharedFactory;
