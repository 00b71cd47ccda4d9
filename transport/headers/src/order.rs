//! Follows the calls of a QUIC stack on one thread, to know which connection they are for and what
//! may leave.
//!
//! Neither quinn 0.11 nor noq 1.4 names the connection to controllers or sockets. But one thread
//! starts a connection's TLS session, builds its controller, takes its part of the socket and
//! spawns its driver, in this order; and a connection sends only while its driver is polled. So the
//! first calls hand the connection on, and the driver names it in every poll.

use std::sync::{Arc, Weak};
use std::time::Instant;

/// What one thread does with the connections of a stack. `C` is what an endpoint keeps of a
/// connection, `P` what it keeps for one poll of a connection's driver.
#[derive(Debug)]
pub struct Order<C, P> {
    beginning: Beginning<C>,
    polled: Option<Polled<C, P>>,
}

/// The driver that this thread is polling.
#[derive(Debug)]
pub struct Polled<C, P> {
    /// Its connection.
    pub connection: Arc<C>,
    /// The time that the stack acts on.
    pub now: Instant,
    /// What is kept for this poll.
    pub poll: P,
}

/// How far a thread has come in beginning a connection. Weak: a connection that fails on the way
/// leaves nothing behind.
#[derive(Debug)]
enum Beginning<C> {
    Nothing,
    Session(Weak<C>),
    Controller(Weak<C>),
    Socket(Weak<C>),
}

impl<C, P> Order<C, P> {
    /// Nothing begins, and nothing is polled.
    pub const fn new() -> Self {
        Self {
            beginning: Beginning::Nothing,
            polled: None,
        }
    }

    /// The TLS session of a new connection begins.
    pub fn session_begins(&mut self, connection: &Arc<C>) {
        self.beginning = Beginning::Session(Arc::downgrade(connection));
    }

    /// Returns the connection for which a controller is built: a new one, whose state exists already
    /// if its session is ours, or the one being polled, which gets a new path.
    pub fn controller_built(&mut self, new: impl FnOnce() -> Arc<C>) -> Arc<C> {
        let begun = match self.take() {
            Beginning::Session(connection) => connection.upgrade(),
            _ => None,
        };
        if begun.is_none()
            && let Some((connection, _)) = self.polled()
        {
            return connection;
        }
        let connection = begun.unwrap_or_else(new);
        self.beginning = Beginning::Controller(Arc::downgrade(&connection));
        connection
    }

    /// A connection gets its part of the socket; returns the connection if it begins.
    pub fn socket_taken(&mut self) -> Option<Arc<C>> {
        let Beginning::Controller(connection) = self.take() else {
            return None;
        };
        let begun = connection.upgrade();
        self.beginning = Beginning::Socket(connection);
        begun
    }

    /// A future is spawned; returns the connection if it is a new connection's driver.
    pub fn driver_spawned(&mut self) -> Option<Arc<C>> {
        match self.take() {
            Beginning::Socket(connection) => connection.upgrade(),
            _ => None,
        }
    }

    /// What has begun is no connection of ours.
    pub fn forget(&mut self) {
        self.beginning = Beginning::Nothing;
    }

    /// The poll of a driver begins.
    pub fn poll_begins(&mut self, connection: Arc<C>, now: Instant, poll: P) {
        self.polled = Some(Polled {
            connection,
            now,
            poll,
        });
    }

    /// The poll has ended. Drop what this returns only when the thread's `Order` is no longer
    /// borrowed.
    pub fn poll_ends(&mut self) -> Option<Polled<C, P>> {
        self.polled.take()
    }

    /// Returns the connection being polled, and the time that the stack acts on.
    pub fn polled(&self) -> Option<(Arc<C>, Instant)> {
        let polled = self.polled.as_ref()?;
        Some((polled.connection.clone(), polled.now))
    }

    /// Returns the present poll, whichever connection it is of.
    pub fn poll(&mut self) -> Option<&mut Polled<C, P>> {
        self.polled.as_mut()
    }

    /// Returns the present poll if it is of `connection`.
    pub fn poll_of(&mut self, connection: &Arc<C>) -> Option<&mut Polled<C, P>> {
        let polled = self.polled.as_mut();
        polled.filter(|polled| Arc::ptr_eq(&polled.connection, connection))
    }

    /// The stack has read the clock: in a poll, to see what to send, and this returns the poll's
    /// state; outside, because something begins, so what another runtime's endpoint left half begun
    /// no longer counts.
    pub fn clock_read(&mut self, now: Instant) -> Option<&mut P> {
        if self.polled.is_none() {
            self.forget();
        }
        let polled = self.polled.as_mut()?;
        polled.now = now;
        Some(&mut polled.poll)
    }

    fn take(&mut self) -> Beginning<C> {
        std::mem::replace(&mut self.beginning, Beginning::Nothing)
    }
}

impl<C, P> Default for Order<C, P> {
    fn default() -> Self {
        Self::new()
    }
}

/// What may leave at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// As much as the controller's window has room for.
    Window,
    /// As much as the controller's window has room for, or this many bytes if they are more.
    AtLeast(u64),
    /// Nothing.
    Nothing,
    /// One packet, whatever the window.
    Probe,
}

/// What decides when a connection's packets leave. `S` is the state of the connection, locked.
///
/// There are two: a bucket outside a stack that paces by its own estimates (quinn 0.11), and
/// [`StackPaced`].
pub trait Departures<S>: Default {
    /// The stack has read the clock, and builds packets next.
    fn clock_read(&mut self);

    /// Returns what may leave at `now`.
    fn allowance(&mut self, now: Instant, state: &mut S) -> Allowance;

    /// The stack asks for the window. Returns whether its own pacer does, which is not to decide.
    fn is_for_pacer(&mut self) -> bool;

    /// A batch of `bytes` is built and leaves next.
    fn built(&mut self, now: Instant, state: &mut S, bytes: u64);

    /// Returns whether the batch built last is data that the window let through: not ACKs alone, not
    /// a probe.
    fn is_data(&self) -> bool;

    /// Returns when to poll again for what was held back.
    fn next(&self) -> Option<Instant>;
}

/// The stack paces at the rate that the controller gives it, as noq 1.4 does and as quinn#2481
/// proposes for quinn: nothing is held back outside of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackPaced {
    is_data: bool,
}

impl<S> Departures<S> for StackPaced {
    fn clock_read(&mut self) {}

    fn allowance(&mut self, _now: Instant, _state: &mut S) -> Allowance {
        Allowance::Window
    }

    fn is_for_pacer(&mut self) -> bool {
        false
    }

    fn built(&mut self, _now: Instant, _state: &mut S, bytes: u64) {
        self.is_data = bytes >= LEAST_DATA;
    }

    fn is_data(&self) -> bool {
        self.is_data
    }

    fn next(&self) -> Option<Instant> {
        None
    }
}

/// A batch of at least this many bytes holds more than ACKs.
pub const LEAST_DATA: u64 = 600;
