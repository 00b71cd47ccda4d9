//! A scenario on something that can run it.

pub mod clock;
#[cfg(target_os = "linux")]
mod docker;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
pub mod kernel;
#[cfg(target_os = "linux")]
pub mod netns;
pub mod sim;
#[cfg(target_os = "linux")]
pub mod uml;

#[cfg(target_os = "linux")]
pub use hosts::Hosts;
