//! What authors of congestion controllers need, the same as `evenkeel::controller` for quinn: the
//! trait, its facts, a row of the table, the way to noq.
//!
//! ```
//! use evenkeel_noq::controller::{Vegas, VegasConfig, adapt};
//!
//! let factory = adapt(|_now, mtu| Box::new(Vegas::new(VegasConfig::default(), mtu)));
//! noq::TransportConfig::default().congestion_controller_factory(factory);
//! ```

pub use evenkeel_congestion::gaimd::{Config as GaimdConfig, Gaimd};
pub use evenkeel_congestion::keel::Keel;
pub use evenkeel_congestion::vegas::{Config as VegasConfig, Vegas};
pub use evenkeel_congestion::{
    Ack, Cause, CloneController, Congestion, Controller, ControllerBuild, ControllerRow, Delivery,
    EcnMode, Feedback, Grant, InitialWindow, ParameterKind, PathSample, Round, SlowStart,
    SpecParameter, SpecValues, Thresholds,
};

pub use crate::factory::{adapt, foreign};
pub use crate::path_factory::PathFactory;
