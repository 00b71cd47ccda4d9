//! A scenario on something that can run it.

mod clock;
pub mod docker;
pub mod netns;
pub mod sim;
pub mod uml;
