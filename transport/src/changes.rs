//! Lets an application wait for changes of a connection's state.

use std::sync::Arc;

use tokio::sync::watch;

use crate::connection::Connection;
use crate::path::PathState;

/// The changes of a connection's [`PathState`]; [`Context::changes`](crate::Context::changes)
/// returns it.
#[derive(Debug)]
pub struct Changes {
    connection: Arc<Connection>,
    receiver: Option<watch::Receiver<()>>,
}

impl Changes {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        let receiver = connection.state().notifier.subscribe();
        Self {
            connection,
            receiver,
        }
    }

    /// Waits for a change that this has not told of, and returns the state; `None` once the
    /// connection has ended. Changes that come faster than they are asked for are told as one.
    /// Dropping the future loses none.
    pub async fn next(&mut self) -> Option<PathState> {
        self.receiver.as_mut()?.changed().await.ok()?;
        Some(self.connection.path_state())
    }
}
