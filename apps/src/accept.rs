//! Accepts a bounded number of connections, and serves each in its own task.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quinn::{Connection, Endpoint, Incoming, Runtime, ServerConfig};
use tracing::{debug, trace};

/// Accepts connections until the endpoint is closed, at most `limit` at the same time; refuses
/// more. `configure` may give a connection its own settings. The future from `serve` runs as a
/// task, and makes room for another connection when it drops the slot.
pub(crate) async fn accept<F>(
    endpoint: Endpoint,
    runtime: Arc<dyn Runtime>,
    limit: usize,
    configure: impl Fn(&Incoming) -> Option<Arc<ServerConfig>>,
    serve: impl Fn(Connection, Slot) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let active = Arc::new(AtomicUsize::new(0));
    while let Some(incoming) = endpoint.accept().await {
        let peer = incoming.remote_address();
        let Some(slot) = Slot::take(&active, limit) else {
            debug!(%peer, limit, "connection refused: the server is full");
            incoming.refuse();
            continue;
        };
        trace!(%peer, "connection attempt");
        let connecting = match configure(&incoming) {
            Some(config) => incoming.accept_with(config),
            None => incoming.accept(),
        };
        let serve = serve.clone();
        runtime.spawn(Box::pin(async move {
            // If the handshake fails, the client reports it.
            let handshake = async { connecting?.await };
            match handshake.await {
                Ok(connection) => {
                    debug!(%peer, rtt = ?connection.rtt(), "connection accepted");
                    serve(connection, slot).await;
                }
                Err(error) => debug!(%peer, %error, "handshake failed"),
            }
        }));
    }
}

/// One of a bounded number of connections; dropping it frees the place.
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(active: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let taken = Self(active.clone());
        (active.fetch_add(1, Ordering::Relaxed) < limit).then_some(taken)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
