//! Congestion controllers for QUIC: each gets facts and answers with a window.
//!
//! Internal to evenkeel: no promise, the API may change with every version.
//!
//! A [`Controller`] gets facts (an acknowledgement, a finished round trip, a congestion event, a
//! new packet size) and answers with a window. It uses no clock, no socket and no type of the QUIC
//! implementation. The adapter, the only module that imports quinn-proto, wraps it into a quinn
//! controller and works around quinn's limits.
//!
//! [`controller`] turns a name with parameters (`vegas`, `gaimd:alpha=0.31,beta=0.875`) into a
//! factory for quinn, and [`controllers`] lists the names. [`Controllers`] is a table to which an
//! application adds its own. [`adapt`] makes a factory from your own controller, [`foreign`] from
//! one written for quinn, and [`observed`] reports what a factory's controllers do.

pub mod a_aimd;
pub mod abgd;
pub mod acp;
pub mod ada_vegas;
mod adapter;
mod base_rtt;
mod controller;
pub mod diff;
mod freshness;
pub mod gaimd;
pub mod guided;
pub mod keel;
mod loss_bound;
mod path_control;
pub mod rcp;
pub mod ro_vegas;
mod row;
mod sized_rtt;
mod slow_start;
mod switches;
mod table;
pub mod tfrc;
pub mod vegas;
mod window;
pub mod xcp;

pub use adapter::{OwnBuild, PathFactory, SharedFactory, adapt, foreign, observed};
pub use controller::{
    Ack, Cause, CloneController, Congestion, Controller, DEFAULT_OVERHEAD, Delivery, EcnMode,
    Feedback, Grant, LEAST_PACED_RTT, LEAST_RTT, PathSample, Round,
};
pub use diff::Thresholds;
pub use evenkeel_spec::{ParameterKind, SpecError, SpecParameter, SpecValues};
pub use freshness::feedback_lifetime;
pub use path_control::{
    AckFrame, AckReport, AckReporter, AckedPackets, CountedSpace, EcnCounts, EcnFault, EcnReport,
    EcnState, EcnUse, FeedHolder, FeedState, LONGEST_GAP, Observer, PathControl, PathFeed,
    Remembered,
};
pub use row::{ControllerBuild, ControllerRow};
pub use slow_start::SlowStart;
pub use table::{Controllers, DEFAULT_CONTROLLER, controller, controllers, uses_path_headers};
pub use window::InitialWindow;

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers that several test modules share.

    use std::time::{Duration, Instant};

    pub(crate) use evenkeel_tests::time::{epoch, ms, us};

    use crate::controller::{Ack, Congestion, PathSample, Round};

    /// Returns a round with samples of `rtt` milliseconds, whose window was in use.
    pub(crate) fn round(rtt: u64) -> Round {
        Round::new(epoch(), ms(rtt), 10_000)
    }

    /// Returns an ACK at `now` of `bytes`, two packets, the newest sent `rtt` milliseconds before.
    pub(crate) fn ack(now: Instant, rtt: u64, bytes: u64) -> Ack {
        Ack {
            newest_bytes: bytes / 2,
            packets: 2,
            ..Ack::new(now, now - ms(rtt), bytes)
        }
    }

    /// Returns a sample with a router in both directions that reports only an empty queue.
    pub(crate) fn path_sample() -> PathSample {
        PathSample {
            forward_queueing: Some(Duration::ZERO),
            backward_queueing: Some(Duration::ZERO),
            complete: true,
            ..PathSample::new(epoch(), ms(100))
        }
    }

    /// Returns the loss of two packets.
    pub(crate) fn loss() -> Congestion {
        Congestion::loss(epoch(), 2000)
    }
}
