//! Finds the connection for which noq calls: the [`Order`] of this thread. noq paces by itself, at
//! the rate that the controller's metrics give it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_headers::{Departures, Order, StackPaced};

use crate::connection::{Connection, State};

thread_local! {
    static ORDER: RefCell<Order<Connection, StackPaced>> = const { RefCell::new(Order::new()) };
}

/// Calls `access` with what this thread does.
pub(crate) fn order<T>(access: impl FnOnce(&mut Order<Connection, StackPaced>) -> T) -> T {
    ORDER.with_borrow_mut(access)
}

/// Returns the connection being polled, and the time that noq acts on.
pub(crate) fn polled() -> Option<(Arc<Connection>, Instant)> {
    order(|order| order.polled())
}

/// A poll of a driver, until dropped.
pub(crate) struct Poll(());

impl Poll {
    /// Begins a poll of `connection`'s driver.
    pub(crate) fn begin(connection: Arc<Connection>, now: Instant) -> Self {
        order(|order| order.poll_begins(connection, now, StackPaced::default()));
        Self(())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        drop(order(Order::poll_ends));
    }
}

/// Notes that noq has read the clock.
pub(crate) fn clock_read(now: Instant) {
    order(|order| {
        if let Some(paces) = order.clock_read(now) {
            Departures::<State>::clock_read(paces);
        }
    });
}
