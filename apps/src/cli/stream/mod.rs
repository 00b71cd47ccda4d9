//! `evenkeel stream`.

pub(super) mod args;
pub(super) mod client;
mod input;
mod output;
mod plot;
mod rate;
pub(super) mod server;
mod system;
