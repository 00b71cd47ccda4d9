//! Finds the connection for which quinn calls.
//!
//! quinn 0.11 does not tell controllers or sockets the connection they act for. But in
//! `Endpoint::connect` and when accepting, one thread calls `start_session`,
//! `ControllerFactory::build`, `AsyncUdpSocket::create_io_poller` and `Runtime::spawn` in this
//! order, and a connection sends only while its driver, the spawned future, is polled. So those
//! calls hand on the connection's state, and the driver names it in every poll. quinn's hooks call
//! the functions here, which keep what they hand on in thread-local storage.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;
use std::{io, mem};

use evenkeel_headers::{Beginning, Owner};
use quinn::AsyncUdpSocket;
use quinn::udp::Transmit;
use tracing::trace;

use crate::connection::{Connection, State};
use crate::path::Limit;
use crate::train::Train;

thread_local! {
    static BEGINNING: RefCell<Beginning<Connection>> = const { RefCell::new(Beginning::Nothing) };
    static POLLED: RefCell<Option<Polled>> = const { RefCell::new(None) };
}

/// The driver that this thread is polling.
struct Polled {
    connection: Arc<Connection>,
    /// The time that quinn acts on.
    now: Instant,
    /// The bucket has let data through that has not yet been seen to leave.
    let_through: bool,
    /// The packets built last are data that the window let through.
    is_data: bool,
    /// When the bucket will have something again, if it held anything back.
    held_back_until: Option<Instant>,
    /// What holds back data that quinn has asked for.
    held_by: Option<Limit>,
    /// quinn has asked for the controller's window, and done nothing else since.
    asked_for_window: bool,
    /// What leaves when the poll ends.
    train: Train,
}

impl Polled {
    fn is_probe_due(&self, state: &State) -> bool {
        state.probe.is_some_and(|probe| probe.at <= self.now)
    }
}

/// Notes that the TLS session of a new connection begins.
pub(crate) fn session_begins(connection: &Arc<Connection>) {
    BEGINNING.with_borrow_mut(|beginning| beginning.session(connection));
}

/// Returns the connection for which a controller is built: a new one, whose state exists already if
/// its session is ours, or the one being polled, which gets a new path.
pub(crate) fn controller_built(new: impl FnOnce() -> Arc<Connection>) -> Arc<Connection> {
    let polled = polled().map(|(connection, _)| connection);
    BEGINNING.with_borrow_mut(|beginning| beginning.controller(polled, new))
}

/// Notes that a poller is created: a new connection gets its socket, or an old one another.
pub(crate) fn poller_created() {
    if let Some((connection, _)) = polled() {
        connection.rebound();
        return;
    }
    BEGINNING.with_borrow_mut(Beginning::socket);
}

/// Notes that a future is spawned; returns the connection if it is a new connection's driver.
pub(crate) fn driver_spawned() -> Option<Arc<Connection>> {
    BEGINNING.with_borrow_mut(Beginning::driver)
}

/// Returns the connection being polled, and the time that quinn acts on.
pub(crate) fn polled() -> Option<(Arc<Connection>, Instant)> {
    POLLED.with_borrow(|polled| polled.as_ref().map(|p| (p.connection.clone(), p.now)))
}

/// A poll of a driver, until dropped or ended.
pub(crate) struct Poll(());

impl Poll {
    /// Begins a poll of `connection`'s driver; `train` holds what an earlier poll could not send.
    pub(crate) fn begin(connection: Arc<Connection>, now: Instant, train: Train) -> Self {
        POLLED.set(Some(Polled {
            connection,
            now,
            let_through: false,
            is_data: false,
            held_back_until: None,
            held_by: None,
            asked_for_window: false,
            train,
        }));
        Self(())
    }

    /// Whether quinn has ended the poll although the system takes more at once.
    pub(crate) fn has_room(&self) -> bool {
        POLLED.with_borrow(|polled| polled.as_ref().is_some_and(|p| p.train.has_room()))
    }

    /// Ends the poll. Returns what is to leave, and when to poll again, for what was held back or a
    /// probe.
    pub(crate) fn end(self) -> (Train, Option<Instant>) {
        let Some(polled) = POLLED.take() else {
            return (Train::default(), None);
        };
        let next = polled.connection.poll_ended(polled.now, polled.held_by);
        let next = polled.held_back_until.into_iter().chain(next).min();
        (polled.train, next)
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        POLLED.set(None);
    }
}

/// Sends through `socket` for the connection being polled, when its poll ends. `None` outside a poll.
pub(crate) fn send(
    socket: &Arc<dyn AsyncUdpSocket>,
    transmit: &Transmit<'_>,
) -> Option<io::Result<()>> {
    // Sockets may call back.
    let mut train =
        POLLED.with_borrow_mut(|polled| Some(mem::take(&mut polled.as_mut()?.train)))?;
    let sent = train.add(socket, transmit);
    POLLED.with_borrow_mut(|polled| {
        if let Some(polled) = polled {
            polled.train = train;
        }
    });
    Some(sent)
}

/// Notes that quinn has read the clock: in a poll, to see what to send; outside, because something
/// begins, so whatever another runtime's endpoint left half begun no longer counts.
pub(crate) fn clock_read(now: Instant) {
    let in_poll = POLLED.with_borrow_mut(|polled| match polled {
        Some(polled) => {
            polled.now = now;
            polled.let_through = false;
            polled.asked_for_window = false;
            true
        }
        None => false,
    });
    if !in_poll {
        BEGINNING.set(Beginning::Nothing);
    }
}

/// What this crate lets leave at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// As much as the controller's window has room for.
    Window,
    /// As much as the controller's window has room for, or this many bytes if they are more.
    AtLeast(u64),
    /// Nothing: the bucket is empty.
    Nothing,
    /// One packet, whatever the window.
    Probe,
    /// Anything: only CONNECTION_CLOSE is left to send.
    Close,
}

/// Returns what `connection` may send at present. Outside a poll of its driver, only the
/// application asks, and gets the window.
pub(crate) fn allowance(connection: &Arc<Connection>) -> Allowance {
    let mut state = connection.state();
    if state.is_closed {
        return Allowance::Close;
    }
    with_poll_of(connection, |polled| {
        if polled.is_probe_due(&state) {
            polled.let_through = true;
            trace!(connection = connection.id, "probe may leave");
            return Allowance::Probe;
        }
        polled.held_back_until = state.pacer.check(polled.now).err();
        polled.let_through = polled.held_back_until.is_none();
        polled.held_by = Some(if polled.let_through {
            Limit::Window
        } else {
            Limit::Pacing
        });
        if let Some(until) = polled.held_back_until {
            let wait = until - polled.now;
            trace!(connection = connection.id, ?wait, "packets held back");
            return Allowance::Nothing;
        }
        let probe = state.capacity.as_ref();
        match probe.and_then(|probe| probe.allows(polled.now)) {
            Some((_, window)) => Allowance::AtLeast(window),
            None => Allowance::Window,
        }
    })
    .unwrap_or(Allowance::Window)
}

/// Returns whether quinn's own pacer asks for the window of `connection`. Before each packet that
/// counts against the window, quinn 0.11 asks twice: for what may be in flight and, if that leaves
/// room, for its pacer's rate. So the second question in a row is the pacer's.
pub(crate) fn is_for_pacer(connection: &Arc<Connection>) -> bool {
    with_poll_of(connection, |polled| {
        polled.asked_for_window = !polled.asked_for_window;
        !polled.asked_for_window
    })
    .unwrap_or(false)
}

/// Notes that a batch of `bytes` is built and leaves next. Takes from the bucket only what the
/// bucket let through: not ACKs, and not the probes of RFC 9002, section 6.2.4.
pub(crate) fn sent(connection: &Arc<Connection>, state: &mut State, bytes: u64) {
    with_poll_of(connection, |polled| {
        polled.asked_for_window = false;
        polled.held_by = None;
        polled.is_data = mem::take(&mut polled.let_through);
        if polled.is_data {
            state.pacer.sent(polled.now, bytes);
        }
    });
}

/// Returns true if this poll of `connection`'s driver last built data that the window let through:
/// not ACKs alone, not a probe, and not what an earlier poll could not send.
pub(crate) fn is_data(connection: &Arc<Connection>) -> bool {
    with_poll_of(connection, |polled| polled.is_data).unwrap_or(false)
}

/// Returns how many packets a batch may have at `now`, if the socket takes `most` at once.
pub(crate) fn batch(state: &mut State, now: Instant, most: usize) -> usize {
    if state.probe.is_some_and(|probe| probe.at <= now) {
        return 1;
    }
    state.pacer.batch(now, most)
}

fn with_poll_of<T>(connection: &Arc<Connection>, f: impl FnOnce(&mut Polled) -> T) -> Option<T> {
    POLLED.with_borrow_mut(|polled| {
        polled
            .as_mut()
            .filter(|polled| Arc::ptr_eq(&polled.connection, connection))
            .map(f)
    })
}

#[cfg(test)]
mod tests;
