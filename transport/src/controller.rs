//! What authors of congestion controllers need: the trait, its facts, a row of the table, the way
//! to quinn.
//!
//! A [`Controller`] gets facts ([`Ack`], [`Round`], [`Congestion`], [`PathSample`]) and answers with
//! a window. It uses no clock, no socket and no type of quinn. [`adapt`] makes a factory of it for
//! [`EndpointBuilder::transport`](crate::EndpointBuilder::transport) or for quinn itself; a
//! [`ControllerRow`] in [`Controllers`](crate::Controllers) gives it a name and parameters.
//!
//! ```
//! use evenkeel::controller::{Congestion, Controller, adapt};
//!
//! /// Keeps a fixed number of bytes in flight.
//! #[derive(Debug, Clone)]
//! struct Fixed(u64);
//!
//! impl Controller for Fixed {
//!     fn on_congestion(&mut self, _event: &Congestion) {}
//!     fn on_persistent_congestion(&mut self) {}
//!     fn on_mtu(&mut self, _mtu: u16) {}
//!     fn window(&self) -> u64 {
//!         self.0
//!     }
//!     fn slow_start_threshold(&self) -> Option<u64> {
//!         None
//!     }
//! }
//!
//! let factory = adapt(|_now, _mtu| Box::new(Fixed(20_000)));
//! quinn::TransportConfig::default().congestion_controller_factory(factory);
//! ```
//!
//! Controllers of this crate are here by type, for an application that builds on them or sets them
//! without a text:
//!
//! ```
//! use evenkeel::controller::{Vegas, VegasConfig, adapt};
//!
//! let factory = adapt(|_now, mtu| Box::new(Vegas::new(VegasConfig::default(), mtu)));
//! # drop(factory);
//! ```

pub use evenkeel_congestion::gaimd::{Config as GaimdConfig, Gaimd};
pub use evenkeel_congestion::keel::Keel;
pub use evenkeel_congestion::vegas::{Config as VegasConfig, Vegas};
pub use evenkeel_congestion::{
    Ack, Cause, CloneController, Congestion, Controller, ControllerBuild, ControllerRow, Delivery,
    EcnMode, Feedback, Grant, InitialWindow, ParameterKind, PathSample, Round, SlowStart,
    SpecParameter, SpecValues, Thresholds, adapt, foreign,
};
