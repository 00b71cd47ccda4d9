//! Congestion controllers for QUIC: facts in, answers out.
//!
//! A [`Controller`] is told what happened (an acknowledgement, a finished round trip, a
//! congestion event, a new packet size) and answers with a window. It knows no clock, no
//! socket and no type of the QUIC implementation; the adapter, the only module that imports
//! quinn-proto, makes a quinn controller of it and owns what quinn makes hard.
//!
//! [`controller`] turns a name with parameters (`vegas`, `gaimd:alpha=0.31,beta=0.875`) into a
//! factory for quinn, [`controllers`] lists the names, [`observed`] reports what any factory's
//! controllers do, [`adapt`] serves a controller of your own and
//! [`foreign`] one that is written for quinn.

pub mod a_aimd;
pub mod abgd;
pub mod ada_vegas;
mod adapter;
mod controller;
pub mod gaimd;
mod params;
mod table;
pub mod vegas;
mod window;

pub use adapter::{
    AckReport, Observer, PathFactory, PathFeed, SharedFactory, adapt, foreign, observed,
};
pub use controller::{Ack, Cause, Congestion, Controller, Feedback, Grant, PathSample, Round};
pub use params::{Kind, Parameter, SpecError};
pub use table::{ControllerRow, controller, controllers};
pub use window::InitialWindow;

#[cfg(test)]
pub(crate) mod testing {
    //! What several test modules share.

    use std::time::{Duration, Instant};

    /// The instant at which a test begins. An `Instant` can only come from the clock;
    /// nothing depends on which one it is.
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
}
