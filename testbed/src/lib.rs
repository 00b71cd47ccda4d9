//! Scenarios on the shipping code, in virtual time.

pub mod backend;
pub mod metrics;
mod ns2;
mod opponents;
mod random;
pub mod report;
pub mod scenario;
pub mod sim;
mod traffic;

/// The testbed's own table of controllers: those that ship, those with rules of ns-2, and other
/// QUIC stacks' to compare with.
pub fn controllers() -> evenkeel_congestion::Controllers {
    let own = ns2::ROWS.into_iter().chain(opponents::ROWS);
    own.fold(
        evenkeel_congestion::Controllers::shipped(),
        evenkeel_congestion::Controllers::with,
    )
}
