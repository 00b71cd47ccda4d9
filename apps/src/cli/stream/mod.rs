//! `evenkeel stream`.

pub(super) mod args;
pub(super) mod client;
pub(super) mod compare;
mod input;
mod output;
mod plot;
mod rate;
pub(super) mod server;
mod system;
