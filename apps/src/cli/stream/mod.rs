//! `evenkeel stream`.

mod args;
mod client;
mod input;
mod output;
mod server;
mod system;

use evenkeel::Controllers;

use super::failure::Failure;
pub(crate) use args::StreamSide;

/// Runs one side, [settled](StreamSide::settle), with one of `controllers`; if `live`, a viewer may
/// draw on a terminal.
pub(crate) async fn run(
    side: StreamSide,
    live: bool,
    controllers: &Controllers,
) -> Result<(), Failure> {
    match side {
        StreamSide::Server(args) => server::run(*args, controllers).await,
        StreamSide::Client(args) => client::run(*args, live, controllers).await,
        StreamSide::Publish(_) | StreamSide::Play(_) => unreachable!("`settle` was called"),
    }
}
