//! A scenario on something that can run it.

pub mod docker;
pub mod kernel;
pub mod netns;
pub mod sim;
pub mod uml;
