//! A router for Linux hosts: runs links of `evenkeel-queue` over TUN devices.
//!
//! The kernel routes the traffic of an output link into a TUN device. The daemon passes it through
//! a link of `evenkeel-queue` (rate, queue, discipline, delay, loss, ...) and writes it back to the
//! same device; a rule then routes it onwards by the link's own table. docs/router.md tells how to
//! run the router; [`status`] reports its figures.

pub mod cli;
pub mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod status;

mod clients;
mod clock;
mod confinement;
mod daemon;
mod device;
mod failure;
mod family;
mod forwarder;
mod host;
mod metrics;
mod netlink;
mod offload;
mod pace;
mod packet;
mod plumber;
mod plumbing;
mod prefix;
mod preflight;
mod supervisor;
mod sysctl;
mod timer;
mod transit;
mod watch;

pub use failure::Failure;
pub use family::Family;
pub use prefix::{Prefix, PrefixError};
