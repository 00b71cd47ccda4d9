//! Servers: a bounded number of connections, each served by a task of its own.

use std::future::Future;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use quinn::{Connection, Endpoint, Incoming, Runtime, ServerConfig};

/// Accepts connections until the endpoint is closed, at most `limit` at the same time; more are
/// refused. `configure` may give a connection settings of its own; what `serve` makes of it runs
/// as a task, and frees the connection's place when it drops the slot.
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
        let Some(slot) = Slot::take(&active, limit) else {
            incoming.refuse();
            continue;
        };
        let connecting = match configure(&incoming) {
            Some(config) => incoming.accept_with(config),
            None => incoming.accept(),
        };
        let serve = serve.clone();
        runtime.spawn(Box::pin(async move {
            // A handshake that fails is the client's to report.
            let Ok(connecting) = connecting else { return };
            let Ok(connection) = connecting.await else {
                return;
            };
            serve(connection, slot).await;
        }));
    }
}

/// One of a bounded number of connections; dropped, it is free again.
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
