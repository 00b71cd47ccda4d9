//! A scenario on something that can run it.

pub mod netns;
pub mod sim;
