//! `evenkeel bulk`.

mod args;
mod client;
mod files;
mod output;
mod series;
mod server;

use super::failure::Failure;
pub(crate) use args::BulkSide;

/// Runs one side; if `live`, a client may draw on a terminal.
pub(crate) async fn run(side: BulkSide, live: bool) -> Result<(), Failure> {
    match side {
        BulkSide::Server(args) => server::run(*args).await,
        BulkSide::Client(args) => client::run(*args, live).await,
    }
}
