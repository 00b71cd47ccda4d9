//! A router for Linux hosts: `evenkeel-queue` links over TUN devices.
//!
//! The kernel routes the traffic of an output link into a TUN device. The daemon puts it through a
//! link of `evenkeel-queue` (rate, queue, discipline, delay, loss, ...) and writes it back to the
//! same device; a rule sends what comes out there on by a table of its own. docs/router.md tells
//! how to run it; [`status`] is what it says of itself.

pub mod cli;
pub mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod status;

mod clock;
mod complaint;
mod daemon;
mod family;
mod forwarder;
mod netlink;
mod packet;
mod plumbing;
mod prefix;
mod preflight;
mod sysctl;
mod timer;
mod transit;

pub use family::Family;
pub use prefix::{Prefix, PrefixError};
