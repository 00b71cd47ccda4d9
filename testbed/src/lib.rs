//! Scenarios on the shipping code, in virtual time.
//!
//! Internal to evenkeel-testbed: no promise, the API may change with every version.

pub mod backend;
pub mod jobs;
pub mod metrics;
mod ns2;
#[cfg(feature = "opponents")]
mod opponents;
mod random;
pub mod report;
pub mod scenario;
pub mod sim;
mod traffic;

/// The testbed's own table of controllers: those that ship, with switches that turn parts of them off
/// (docs/league.md), those with rules of ns-2, and with the feature `opponents` other QUIC stacks' to
/// compare with.
pub fn controllers() -> evenkeel_congestion::Controllers {
    let shipped = evenkeel_congestion::Controllers::shipped().with_switches();
    let table = (ns2::ROWS.into_iter()).fold(shipped, evenkeel_congestion::Controllers::with);
    #[cfg(feature = "opponents")]
    let table = (opponents::ROWS.into_iter()).fold(table, evenkeel_congestion::Controllers::with);
    table
}

/// What parameters are called that play a controller without a part, and with a constant scaled.
pub const SWITCHES: [&str; 2] = ["without.", "scale."];
