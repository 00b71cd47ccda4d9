//! `evenkeel stream`.

mod args;
mod client;
mod input;
mod output;
mod server;
mod system;

use super::failure::Failure;
pub(crate) use args::StreamSide;

/// Runs one side; if `live`, a viewer may draw on a terminal.
pub(crate) async fn run(side: StreamSide, live: bool) -> Result<(), Failure> {
    match side {
        StreamSide::Server(args) => server::run(*args).await,
        StreamSide::Client(args) => client::run(*args, live).await,
    }
}
