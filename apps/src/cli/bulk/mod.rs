//! `evenkeel bulk`.

mod args;
mod client;
mod files;
mod output;
mod series;
mod server;

use evenkeel::Controllers;

use super::failure::Failure;
pub(crate) use args::BulkSide;

/// Runs one side with one of `controllers`; if `live`, a client may draw on a terminal.
pub(crate) async fn run(
    side: BulkSide,
    live: bool,
    controllers: &Controllers,
) -> Result<(), Failure> {
    match side {
        BulkSide::Server(args) => server::run(*args, controllers).await,
        BulkSide::Client(args) => client::run(*args, live, controllers).await,
    }
}
