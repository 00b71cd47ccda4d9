//! Makes runs and stores their results.

pub(crate) mod runner;
pub(crate) mod store;
