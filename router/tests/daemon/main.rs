//! The daemon at work, in network namespaces. Needs root, TUN and `ip`.

mod degraded;
mod early;
mod forwarding;
mod impairments;
mod junk;
mod lifecycle;
mod logs;
mod metrics;
mod package;
mod prometheus;
mod raw;
mod refusal;
mod reload;
mod remedies;
mod sandbox;
mod selection;
mod shaping;
mod soak;
mod stamps;
mod status;
mod support;
mod watch;
