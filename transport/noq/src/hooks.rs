//! Finds the connection for which noq calls, in thread-local storage.
//!
//! While a connection begins, [`Beginning`] hands it on from call to call. Later its driver names it
//! in every poll: a connection sends, changes its path and finishes its handshake only there.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_headers::Beginning;

use crate::connection::Connection;

thread_local! {
    static BEGINNING: RefCell<Beginning<Connection>> = const { RefCell::new(Beginning::Nothing) };
    /// The connection whose driver is polled, and the time that noq acts on.
    static POLLED: RefCell<Option<(Arc<Connection>, Instant)>> = const { RefCell::new(None) };
}

/// Calls `access` with the connection that this thread begins.
pub(crate) fn beginning<T>(access: impl FnOnce(&mut Beginning<Connection>) -> T) -> T {
    BEGINNING.with_borrow_mut(access)
}

/// Returns the connection being polled, and the time that noq acts on.
pub(crate) fn polled() -> Option<(Arc<Connection>, Instant)> {
    POLLED.with_borrow(Clone::clone)
}

/// A poll of a driver, until dropped.
pub(crate) struct Poll(());

impl Poll {
    /// Begins a poll of `connection`'s driver.
    pub(crate) fn begin(connection: Arc<Connection>, now: Instant) -> Self {
        POLLED.set(Some((connection, now)));
        Self(())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        POLLED.set(None);
    }
}

/// Notes that noq has read the clock: in a poll, to act; outside, because something begins, so
/// whatever another runtime's endpoint left half begun no longer counts.
pub(crate) fn clock_read(now: Instant) {
    let in_poll = POLLED.with_borrow_mut(|polled| {
        let polled = polled.as_mut();
        polled.map(|(_, time)| *time = now).is_some()
    });
    if !in_poll {
        beginning(|beginning| *beginning = Beginning::Nothing);
    }
}
