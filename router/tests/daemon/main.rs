//! The daemon at work, in network namespaces. Needs root and `ip`; says `skipped` otherwise.

mod forwarding;
mod junk;
mod lifecycle;
mod raw;
mod refusal;
mod shaping;
mod stamps;
mod status;
mod support;
