//! Everything that relies on the order in which quinn 0.11 does things, which quinn does not promise.
//!
//! Each dependency has a test of its name in `tests/interop/quinn_order.rs`, which watches quinn alone: a
//! quinn that breaks it fails with that name. `docs/upstream/quinn-hooks.md` proposes the calls to
//! quinn that would replace them.
//!
//! | quinn 0.11 | test `quinn_...` | what relies on it |
//! |---|---|---|
//! | begins a connection on one thread: TLS session, controller, poller, driver | `begins_a_connection_in_one_order` | [`session_begins`] to [`driver_spawned`] find the connection |
//! | sends, and builds controllers of new paths, only while it polls the driver | `sends_only_while_its_driver_is_polled` | [`polled`] names the connection |
//! | reads the clock before it builds packets | `reads_the_clock_before_it_builds_packets` | [`clock_read`] starts an attempt |
//! | asks for the window twice before each packet that counts; the second time for its pacer | `asks_for_the_window_twice_for_each_packet` | [`is_for_pacer`] |
//! | builds no packet that counts while the window is smaller | `builds_only_acks_behind_a_closed_window` | `Paced::window` holds packets back |
//! | asks for the socket's batch size, builds batches, reports each before the socket gets it | `reports_a_batch_before_the_socket_gets_it` | [`batch`], [`sent`], [`is_data`] |
//! | puts at most 10 datagrams in a batch, and ends a poll after 20 | `batches_ten_and_ends_a_poll_after_twenty` | `train.rs` joins batches and asks for another poll |
//! | counts CONNECTION_CLOSE against a full window | `holds_a_close_back_behind_a_full_window` | [`close`](crate::close) |
//! | takes ECT(1) counts for a broken path | `takes_ect1_counts_for_a_broken_path` | `handshake/key.rs` rewrites them |
//! | reports packets of an ACK, then its end, then losses | `reports_acks_then_their_end_then_losses` | the adapter of evenkeel-congestion |

mod driver;
pub(crate) mod paced;
pub(crate) mod socket;
mod timer;
mod train;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;
use std::{io, mem};

use evenkeel_headers::{Allowance, Departures, Order, Owner, Polled};
use quinn::AsyncUdpSocket;
use quinn::udp::Transmit;
use tracing::trace;

use crate::connection::{Connection, State};
use crate::path::LimitedBy;
pub(crate) use driver::Runtime;
pub(crate) use train::Train;

/// What decides when packets leave. A quinn that paces at its controller's rate (quinn#2481) needs
/// [`StackPaced`](evenkeel_headers::StackPaced) here, and `Paced::metrics` gives it the rate.
type Paces = Bucket;

thread_local! {
    static ORDER: RefCell<Order<Connection, InPoll>> = const { RefCell::new(Order::new()) };
}

/// What is kept for one poll of a driver.
struct InPoll {
    paces: Paces,
    /// What leaves when the poll ends.
    train: Train,
}

fn order<T>(access: impl FnOnce(&mut Order<Connection, InPoll>) -> T) -> T {
    ORDER.with_borrow_mut(access)
}

/// Notes that the TLS session of a new connection begins.
pub(crate) fn session_begins(connection: &Arc<Connection>) {
    order(|order| order.session_begins(connection));
}

/// Returns the connection for which a controller is built: a new one, whose state exists already if
/// its session is ours, or the one being polled, which gets a new path.
pub(crate) fn controller_built(new: impl FnOnce() -> Arc<Connection>) -> Arc<Connection> {
    order(|order| order.controller_built(new))
}

/// Notes that a poller is created: a new connection gets its socket, or an old one another.
pub(crate) fn poller_created() {
    match polled() {
        Some((connection, _)) => connection.rebound(),
        None => drop(order(Order::socket_taken)),
    }
}

/// Notes that a future is spawned; returns the connection if it is a new connection's driver.
pub(crate) fn driver_spawned() -> Option<Arc<Connection>> {
    order(Order::driver_spawned)
}

/// Returns the connection being polled, and the time that quinn acts on.
pub(crate) fn polled() -> Option<(Arc<Connection>, Instant)> {
    order(|order| order.polled())
}

/// A poll of a driver, until dropped or ended.
pub(crate) struct Poll(());

impl Poll {
    /// Begins a poll of `connection`'s driver; `train` holds what an earlier poll could not send.
    pub(crate) fn begin(connection: Arc<Connection>, now: Instant, train: Train) -> Self {
        let paces = Paces::default();
        order(|order| order.poll_begins(connection, now, InPoll { paces, train }));
        Self(())
    }

    /// Whether quinn has ended the poll although the system takes more at once.
    pub(crate) fn has_room(&self) -> bool {
        order(|order| {
            order
                .poll()
                .is_some_and(|polled| polled.poll.train.has_room())
        })
    }

    /// Ends the poll. Returns what is to leave, and when to poll again, for what was held back or a
    /// probe.
    pub(crate) fn end(self) -> (Train, Option<Instant>) {
        let Some(polled) = order(Order::poll_ends) else {
            return (Train::default(), None);
        };
        let Polled {
            connection,
            now,
            poll,
        } = polled;
        let next = connection.poll_ended(now, poll.paces.held_by());
        let held_back = Departures::<State>::next(&poll.paces);
        (poll.train, held_back.into_iter().chain(next).min())
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        drop(order(Order::poll_ends));
    }
}

/// Sends through `socket` for the connection being polled, when its poll ends. `None` outside a poll.
pub(crate) fn send(
    socket: &Arc<dyn AsyncUdpSocket>,
    transmit: &Transmit<'_>,
) -> Option<io::Result<()>> {
    // Sockets may call back.
    let mut train = order(|order| Some(mem::take(&mut order.poll()?.poll.train)))?;
    let sent = train.add(socket, transmit);
    order(|order| {
        if let Some(polled) = order.poll() {
            polled.poll.train = train;
        }
    });
    Some(sent)
}

/// Notes that quinn has read the clock: in a poll, to see what to send.
pub(crate) fn clock_read(now: Instant) {
    order(|order| {
        if let Some(poll) = order.clock_read(now) {
            Departures::<State>::clock_read(&mut poll.paces);
        }
    });
}

/// Returns what `connection` may send at present. Outside a poll of its driver, only the
/// application asks, and gets the window.
pub(crate) fn allowance(connection: &Arc<Connection>, state: &mut State) -> Allowance {
    let allowed = with_poll_of(connection, |polled| {
        polled.poll.paces.allowance(polled.now, state)
    });
    match allowed {
        Some(Allowance::Probe) => trace!(connection = connection.id, "probe may leave"),
        Some(Allowance::Nothing) => trace!(connection = connection.id, "packets held back"),
        _ => {}
    }
    allowed.unwrap_or(Allowance::Window)
}

/// Returns whether quinn's own pacer asks for the window of `connection`.
pub(crate) fn is_for_pacer(connection: &Arc<Connection>) -> bool {
    let asks =
        |polled: &mut Polled<_, InPoll>| Departures::<State>::is_for_pacer(&mut polled.poll.paces);
    with_poll_of(connection, asks).unwrap_or(false)
}

/// Notes that a batch of `bytes` is built and leaves next.
pub(crate) fn sent(connection: &Arc<Connection>, state: &mut State, bytes: u64) {
    with_poll_of(connection, |polled| {
        polled.poll.paces.built(polled.now, state, bytes);
    });
}

/// Returns true if this poll of `connection`'s driver last built data that the window let through:
/// not ACKs alone, not a probe, and not what an earlier poll could not send.
pub(crate) fn is_data(connection: &Arc<Connection>) -> bool {
    let is_data = |polled: &mut Polled<_, InPoll>| Departures::<State>::is_data(&polled.poll.paces);
    with_poll_of(connection, is_data).unwrap_or(false)
}

/// Returns how many packets a batch may have at `now`, if the socket takes `most` at once.
pub(crate) fn batch(state: &mut State, now: Instant, most: usize) -> usize {
    if state.is_probe_due(now) {
        return 1;
    }
    state.pacer.batch(now, most)
}

fn with_poll_of<T>(
    connection: &Arc<Connection>,
    access: impl FnOnce(&mut Polled<Connection, InPoll>) -> T,
) -> Option<T> {
    order(|order| order.poll_of(connection).map(access))
}

/// Holds packets back around a quinn that paces by its own estimates: while the bucket of the
/// connection being polled is empty, its controller reports a full window.
#[derive(Debug, Default)]
struct Bucket {
    /// It has let data through that has not yet been seen to leave.
    let_through: bool,
    /// The packets built last are data that the window let through.
    is_data: bool,
    /// When it will have something again, if it held anything back.
    held_back_until: Option<Instant>,
    /// What holds back data that quinn has asked for.
    held_by: Option<LimitedBy>,
    /// quinn has asked for the controller's window, and done nothing else since.
    asked_for_window: bool,
}

impl Bucket {
    /// Returns what held back data in this poll.
    fn held_by(&self) -> Option<LimitedBy> {
        self.held_by
    }
}

impl Departures<State> for Bucket {
    fn clock_read(&mut self) {
        self.let_through = false;
        self.asked_for_window = false;
    }

    fn allowance(&mut self, now: Instant, state: &mut State) -> Allowance {
        if state.is_probe_due(now) {
            self.let_through = true;
            return Allowance::Probe;
        }
        self.held_back_until = state.pacer.check(now).err();
        self.let_through = self.held_back_until.is_none();
        self.held_by = Some(if self.let_through {
            LimitedBy::Window
        } else {
            LimitedBy::Pacing
        });
        if !self.let_through {
            return Allowance::Nothing;
        }
        let probe = state.capacity.as_ref();
        match probe.and_then(|probe| probe.allows(now)) {
            Some((_, window)) => Allowance::AtLeast(window),
            None => Allowance::Window,
        }
    }

    /// Before each packet that counts against the window, quinn 0.11 asks twice: for what may be in
    /// flight and, if that leaves room, for its pacer's rate. So the second question in a row is the
    /// pacer's.
    fn is_for_pacer(&mut self) -> bool {
        self.asked_for_window = !self.asked_for_window;
        !self.asked_for_window
    }

    /// Takes from the bucket only what it let through: not ACKs, and not the probes of RFC 9002,
    /// section 6.2.4.
    fn built(&mut self, now: Instant, state: &mut State, bytes: u64) {
        self.asked_for_window = false;
        self.held_by = None;
        self.is_data = mem::take(&mut self.let_through);
        if self.is_data {
            state.pacer.sent(now, bytes);
        }
    }

    fn is_data(&self) -> bool {
        self.is_data
    }

    fn next(&self) -> Option<Instant> {
        self.held_back_until
    }
}

#[cfg(test)]
mod tests;
