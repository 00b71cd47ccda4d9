//! `evenkeel bulk`.

pub(super) mod args;
pub(super) mod client;
pub(super) mod compare;
mod files;
pub(super) mod memories;
mod output;
mod series;
pub(super) mod server;
