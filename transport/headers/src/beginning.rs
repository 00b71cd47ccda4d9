//! Follows a connection while a QUIC stack begins it.
//!
//! Neither quinn 0.11 nor noq 1.4 tells controllers or sockets the connection they act for. But one
//! thread starts a connection's TLS session, builds its controller, takes its part of the socket
//! and spawns its driver, in this order. So these calls hand on the connection.

use std::sync::{Arc, Weak};

/// How far a thread has come in beginning a connection. Weak: a connection that fails on the way
/// leaves nothing behind.
#[derive(Debug)]
pub enum Beginning<C> {
    /// Nothing has begun.
    Nothing,
    /// The TLS session has.
    Session(Weak<C>),
    /// The controller is built.
    Controller(Weak<C>),
    /// The connection has its part of the socket.
    Socket(Weak<C>),
}

impl<C> Beginning<C> {
    /// Notes that the TLS session of a new connection begins.
    pub fn session(&mut self, connection: &Arc<C>) {
        *self = Self::Session(Arc::downgrade(connection));
    }

    /// Returns the connection for which a controller is built: a new one, whose state exists already
    /// if its session is ours, or the one being `polled`, which gets a new path.
    pub fn controller(&mut self, polled: Option<Arc<C>>, new: impl FnOnce() -> Arc<C>) -> Arc<C> {
        let begun = match self.take() {
            Self::Session(connection) => connection.upgrade(),
            _ => None,
        };
        if begun.is_none()
            && let Some(connection) = polled
        {
            return connection;
        }
        let connection = begun.unwrap_or_else(new);
        *self = Self::Controller(Arc::downgrade(&connection));
        connection
    }

    /// Notes that a connection gets its part of the socket; returns the connection if it begins.
    pub fn socket(&mut self) -> Option<Arc<C>> {
        let Self::Controller(connection) = self.take() else {
            return None;
        };
        let begun = connection.upgrade();
        *self = Self::Socket(connection);
        begun
    }

    /// Notes that a future is spawned; returns the connection if it is a new connection's driver.
    pub fn driver(&mut self) -> Option<Arc<C>> {
        match self.take() {
            Self::Socket(connection) => connection.upgrade(),
            _ => None,
        }
    }

    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Nothing)
    }
}
