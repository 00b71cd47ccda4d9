//! Holds what an endpoint with path headers knows about one connection.
//!
//! Threads lock it under noq's lock of the connection or the endpoint. Code that holds the lock
//! calls nothing that may lock it again: no controller, no observer, no socket, nothing of noq.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use evenkeel_headers::{Kept, Owner, Part, PathFacts, locked};
use tracing::debug;

/// The connections of one configured endpoint.
pub(crate) type Connections = evenkeel_headers::Connections<Connection>;

/// One connection.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: usize,
    state: Mutex<State>,
}

/// What an endpoint knows about a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) kept: Kept,
    pub(crate) path: PathFacts,
    /// The datagrams built last hold more than ACKs.
    pub(crate) is_data: bool,
}

impl Connection {
    pub(crate) fn new(connections: Arc<Connections>) -> Arc<Self> {
        let id = connections.begin();
        debug!(connection = id, "connection begins");
        Arc::new(Self {
            connections,
            id,
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Begins a path, with full-size packets of `mtu` bytes of UDP payload, and forgets the
    /// controller's measurements of the one before.
    pub(crate) fn new_path(&self, mtu: u16) {
        debug!(connection = self.id, mtu, "path begins");
        self.state().path = PathFacts {
            mtu,
            ..PathFacts::default()
        };
    }
}

impl State {
    /// Returns what concerns the headers.
    pub(crate) fn part(&mut self) -> Part<'_> {
        self.kept.part(self.path)
    }
}

impl Owner for Connection {
    fn connections(&self) -> &Connections {
        &self.connections
    }

    fn id(&self) -> usize {
        self.id
    }

    fn with<T>(&self, access: impl FnOnce(Part<'_>) -> T) -> T {
        access(self.state().part())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.id).finish()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.dropped();
    }
}
