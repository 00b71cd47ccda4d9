//! A scenario on something that can run it.

mod docker;
mod hosts;
pub mod kernel;
pub mod netns;
pub mod sim;
pub mod uml;

pub use hosts::Hosts;
