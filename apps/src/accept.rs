//! Accepts a bounded number of connections, and serves each in its own task.

mod admission;

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quinn::{Connection, Endpoint, Runtime, ServerConfig};
use tracing::{debug, trace};

use crate::error::AppError;
use crate::lock::lock;
use crate::time::timeout;
use admission::{Admission, Place, Verdict};

/// How long a handshake may take unless a server's owner says otherwise, 10 s: enough for four lost
/// packets in a row, which RFC 9002, section 6.2, sends again after 1, 2 and 4 s.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of one connection.
pub struct Setup {
    /// Instead of those of the endpoint.
    pub config: Arc<ServerConfig>,
    /// Called after its handshake; dropped if that fails.
    pub accepted: Accepted,
}

/// What to do with an accepted connection.
pub type Accepted = Box<dyn FnOnce(&Connection) + Send>;

/// What a server lets clients do before it serves them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    /// Connections at the same time; more are closed.
    pub(crate) connections: usize,
    /// How long a handshake may take.
    pub(crate) patience: Duration,
    /// Whether handshakes are bounded in number and rate.
    pub(crate) guarded: bool,
}

/// Accepts connections until the endpoint is closed, as many as its [`Door`] lets in. `configure`
/// may give each attempt its own settings. The future from `serve` runs as a task, and makes room
/// for another connection when it drops the slot.
///
/// Only finished handshakes count as connections. `docs/security.md` has all limits.
pub(crate) async fn accept<F>(
    endpoint: Endpoint,
    runtime: Arc<dyn Runtime>,
    door: Door,
    configure: impl Fn(IpAddr) -> Option<Setup>,
    serve: impl Fn(Connection, Slot) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let admission = Admission::new(door.connections, door.guarded);
    let admission = Arc::new(Mutex::new(admission));
    while let Some(incoming) = endpoint.accept().await {
        let peer = incoming.remote_address();
        let proved = incoming.remote_address_validated();
        let verdict = lock(&admission).attempt(peer.ip(), proved, runtime.now());
        trace!(%peer, proved, ?verdict, "connection attempt");
        match verdict {
            Verdict::Accept => {}
            Verdict::Retry => {
                let sent = incoming.retry();
                sent.expect("an address that is not proved may be asked to prove itself");
                continue;
            }
            Verdict::Ignore => {
                incoming.ignore();
                continue;
            }
            Verdict::Refuse => {
                incoming.refuse();
                continue;
            }
        }
        let attempt = Slot {
            admission: admission.clone(),
            address: peer.ip(),
            place: Place::Handshake { proved },
        };
        let (connecting, accepted) = match configure(peer.ip()) {
            Some(Setup { config, accepted }) => (incoming.accept_with(config), Some(accepted)),
            None => (incoming.accept(), None),
        };
        let (serve, clock) = (serve.clone(), runtime.clone());
        runtime.spawn(Box::pin(async move {
            // If the handshake fails, the client reports it.
            let connection =
                match timeout(&*clock, door.patience, async { connecting?.await }).await {
                    Some(Ok(connection)) => connection,
                    Some(Err(error)) => return debug!(%peer, %error, "handshake failed"),
                    None => return debug!(%peer, "handshake failed: it took too long"),
                };
            let Some(slot) = attempt.connect() else {
                debug!(%peer, ?door, "connection closed: the server is full");
                return crate::error::close::<()>(&connection, &Err(AppError::Full));
            };
            debug!(%peer, rtt = ?connection.rtt(), "connection accepted");
            if let Some(accepted) = accepted {
                accepted(&connection);
            }
            serve(connection, slot).await;
        }));
    }
}

/// A place among a bounded number of handshakes or connections; dropping it frees the place.
pub(crate) struct Slot {
    admission: Arc<Mutex<Admission>>,
    address: IpAddr,
    place: Place,
}

impl Slot {
    /// Turns a handshake into a connection, if there is room.
    fn connect(self) -> Option<Self> {
        let has_room = lock(&self.admission).connected(self.address);
        has_room.then(|| Self {
            admission: self.admission.clone(),
            address: self.address,
            place: Place::Connection,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.admission).leave(self.address, self.place);
    }
}
