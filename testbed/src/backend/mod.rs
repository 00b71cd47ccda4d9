//! A scenario on something that can run it.

pub mod sim;
