//! Scenarios on the shipping code, in virtual time.

pub mod metrics;
pub mod report;
pub mod scenario;
