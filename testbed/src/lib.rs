//! Scenarios on the shipping code, in virtual time.

pub mod backend;
pub mod metrics;
pub mod ns2;
mod random;
pub mod report;
pub mod scenario;
pub mod sim;
mod traffic;
