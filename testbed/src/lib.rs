//! Scenarios on the shipping code, in virtual time.

pub mod backend;
pub mod metrics;
pub mod report;
pub mod scenario;
pub mod sim;
