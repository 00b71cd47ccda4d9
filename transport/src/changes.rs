//! Lets an application wait for changes of a connection's state.

use std::sync::Arc;

use tokio::sync::watch;

use crate::connection::Connection;
use crate::path::PathState;

/// The changes of a connection's [`PathState`]; [`Context::changes`](crate::Context::changes)
/// returns it.
///
/// ```
/// # fn set_encoder(_bytes_per_second: u64) {}
/// # async fn example(context: evenkeel::Context) {
/// let mut changes = context.changes();
/// while let Some(path) = changes.next().await {
///     if let Some(rate) = path.rate_estimate() {
///         set_encoder(rate / 10 * 9);
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct PathChanges {
    connection: Arc<Connection>,
    receiver: Option<watch::Receiver<()>>,
}

impl PathChanges {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let receiver = connection.state().notifier.subscribe();
        Self {
            connection,
            receiver,
        }
    }

    /// Waits for a change since the last call, and returns the state; `None` once the
    /// connection has ended. Several changes between two calls count as one.
    /// Dropping the future loses none.
    pub async fn next(&mut self) -> Option<PathState> {
        self.receiver.as_mut()?.changed().await.ok()?;
        Some(self.connection.path_state())
    }
}
