//! Holds the state of one connection, shared by its controller, driver and socket, and the table of
//! an endpoint's connections, in which a socket looks up the owner of a header.
//!
//! # Locks
//!
//! Threads take locks in this order; they may skip some:
//!
//! 1. quinn's lock of the endpoint or the connection. quinn holds it while it polls a driver and
//!    calls controllers, TLS sessions and sockets, so most code of this crate runs under it.
//! 2. The buffer of a [`Socket`](crate::socket::Socket), only while datagrams arrive.
//! 3. [`Connection::state`]: all that this crate knows about a connection.
//! 4. `Connections::peers`.
//!
//! Code that holds 3 or 4 calls nothing that may lock one of these: no controller (it locks 3 for
//! its feed), no observer, no socket, nothing of quinn. No thread holds 3 of two connections.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use evenkeel_congestion::{FeedHolder, FeedState, PathSample, SharedFactory};
use tracing::debug;

use crate::capacity::{self, ProbeEnd};
use crate::header::{Agreement, HeaderState, Headers};
use crate::measure::Measure;
use crate::notify::Notifier;
use crate::pacer::Pacer;
use crate::path::{Limit, PathState};

/// The connections of one configured endpoint.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    alive: AtomicUsize,
    begun: AtomicUsize,
    /// Connections that send headers, by their peer's address.
    peers: Mutex<HashMap<PeerAddress, Peer>>,
}

/// An address to which headers may go.
#[derive(Debug, Default)]
struct Peer {
    connections: Vec<Weak<Connection>>,
    /// When a datagram last arrived from this address.
    last_arrival: Option<Instant>,
    futile: Futile,
}

/// Connections tried on headers that none of them had sent. Old ones are forgotten.
#[derive(Debug, Default)]
struct Futile {
    tries: f64,
    /// When the number was right.
    at: Option<Instant>,
}

/// Futile tries of an address after which only its first connection is tried: a search of all 64
/// for each of 64 headers, as they come when a connection ends.
const MOST_FUTILE: f64 = 4096.0;

/// Futile tries that are forgotten in a second: they take about a thousandth of a core.
const FORGOTTEN_PER_S: f64 = 10_000.0;

/// An IP address and port, without the flow label and scope of an IPv6 socket address.
type PeerAddress = (IpAddr, u16);

impl Connections {
    /// Counts the connections whose state is in use.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// Returns the `nth` connection whose peer has `address`: `None` beyond the last, `Some(None)`
    /// for an ending one. Returns just one, because dropping a connection locks the peers.
    pub(crate) fn with_peer(
        &self,
        address: SocketAddr,
        nth: usize,
    ) -> Option<Option<Arc<Connection>>> {
        let peers = locked(&self.peers);
        let connections = &peers.get(&peer_address(address))?.connections;
        connections.get(nth).map(Weak::upgrade)
    }

    /// Returns whether to look further than the first for the connection whose peer has sent a
    /// header from `address`.
    pub(crate) fn may_search(&self, address: SocketAddr, now: Instant) -> bool {
        let mut peers = locked(&self.peers);
        let peer = peers.get_mut(&peer_address(address));
        peer.is_some_and(|peer| peer.futile.tries_at(now) < MOST_FUTILE)
    }

    /// Notes that `tries` connections have not sent a header from `address`, nor has any other.
    pub(crate) fn searched_in_vain(&self, address: SocketAddr, tries: usize) {
        if let Some(peer) = locked(&self.peers).get_mut(&peer_address(address)) {
            peer.futile.tries += tries as f64;
        }
    }

    /// Notes that a datagram has arrived from `address`.
    pub(crate) fn arrived(&self, address: SocketAddr, now: Instant) {
        if let Some(peer) = locked(&self.peers).get_mut(&peer_address(address)) {
            peer.last_arrival = Some(now);
        }
    }

    /// Moves `connection`, the one in use, to the front of those whose peer has `address`.
    pub(crate) fn prefer(&self, address: SocketAddr, connection: &Arc<Connection>) {
        if let Some(peer) = locked(&self.peers).get_mut(&peer_address(address)) {
            let is_it = |other: &Weak<_>| other.as_ptr() == Arc::as_ptr(connection);
            if let Some(at) = peer.connections.iter().position(is_it) {
                peer.connections[..=at].rotate_right(1);
            }
        }
    }

    /// Returns when a datagram last arrived from `address`, if a connection sends headers there.
    fn last_arrival(&self, address: SocketAddr) -> Option<Instant> {
        locked(&self.peers)
            .get(&peer_address(address))?
            .last_arrival
    }

    fn move_peer(&self, connection: &Arc<Connection>, from: Option<SocketAddr>, to: SocketAddr) {
        let mut peers = locked(&self.peers);
        if let Some(from) = from {
            remove(&mut peers, from, Arc::as_ptr(connection));
        }
        let peer = peers.entry(peer_address(to)).or_default();
        peer.connections.insert(0, Arc::downgrade(connection));
    }
}

impl Futile {
    /// Returns how many are not forgotten at `now`.
    fn tries_at(&mut self, now: Instant) -> f64 {
        let since = self.at.replace(now).unwrap_or(now);
        let time = now.saturating_duration_since(since);
        let forgotten = time.as_secs_f64() * FORGOTTEN_PER_S;
        self.tries = (self.tries - forgotten).max(0.0);
        self.tries
    }
}

fn peer_address(address: SocketAddr) -> PeerAddress {
    (address.ip(), address.port())
}

fn remove(
    peers: &mut HashMap<PeerAddress, Peer>,
    address: SocketAddr,
    connection: *const Connection,
) {
    if let Some(peer) = peers.get_mut(&peer_address(address)) {
        let others = |other: &Weak<Connection>| other.as_ptr() != connection;
        peer.connections.retain(others);
        if peer.connections.is_empty() {
            peers.remove(&peer_address(address));
        }
    }
}

/// One connection.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    /// Numbers the connections of the endpoint, for log events.
    pub(crate) id: usize,
    /// Data waits for the peer's credit.
    blocked: AtomicBool,
    state: Mutex<State>,
}

/// What this crate knows about a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) path: PathState,
    pub(crate) measure: Measure,
    /// Tells the application of changes.
    pub(crate) notifier: Notifier,
    /// The application wants to know whether the path carries more.
    pub(crate) capacity: Option<capacity::Probe>,
    pub(crate) pacer: Pacer,
    /// The packet that ends a silence; `None` while nothing is in flight, or without a probe
    /// interval.
    pub(crate) probe: Option<Probe>,
    /// Samples on their way to the controller.
    pub(crate) feed: FeedState,
    /// `None` unless the peer takes headers.
    pub(crate) headers: Option<PathHeaders>,
    /// The most that the application can use, in bytes per second.
    pub(crate) desired_rate: Option<u64>,
    pub(crate) last_sample: Option<PathSample>,
    /// The application has closed the connection: only CONNECTION_CLOSE still leaves.
    pub(crate) is_closed: bool,
    /// Builds controllers, if the application has replaced the first.
    chosen: Option<SharedFactory>,
    /// The replacement is not yet in force.
    is_choice_new: bool,
}

/// A packet that leaves even if the window has no room for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// The earliest time at which it may leave.
    pub(crate) at: Instant,
    /// How long nothing will have left by then.
    pub(crate) silence: Duration,
}

/// What routers report holds for so many round trips, and at least so long, as it does for
/// controllers (`docs/path-header.md`, section 4.3, Expiry).
const REPORTED_ROUND_TRIPS: u32 = 4;
const LEAST_REPORTED: Duration = Duration::from_millis(100);

/// Path validation sends single packets elsewhere; this many in a row mean a new path.
const STRAYS_OF_A_NEW_PATH: u8 = 3;

impl Connection {
    pub(crate) fn new(connections: Arc<Connections>) -> Arc<Self> {
        connections.alive.fetch_add(1, Ordering::Relaxed);
        let id = connections.begun.fetch_add(1, Ordering::Relaxed);
        debug!(connection = id, "connection begins");
        Arc::new(Self {
            connections,
            id,
            blocked: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Returns the present path.
    pub(crate) fn path_state(&self) -> PathState {
        let state = self.state();
        PathState {
            pacing_waits: state.pacer.waits,
            reported_queueing: state.reported_queueing(),
            ..state.path.clone()
        }
    }

    /// Returns whether data waits for the peer's credit, as far as frames show.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    pub(crate) fn set_blocked(&self, is_blocked: bool) {
        self.blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// A poll of the driver ends at `now`; what this crate does for the connection held something
    /// back as `held` says. Returns when to poll again.
    pub(crate) fn poll_ended(&self, now: Instant, held: Option<Limit>) -> Option<Instant> {
        let mut state = self.state();
        state.path.limited_by = match held {
            Some(limit) => limit,
            None if self.is_blocked() => Limit::FlowControl,
            None if state.path.updated.is_none() => Limit::Peer,
            None => Limit::Application,
        };
        let overdue = state.capacity.as_ref().and_then(|probe| probe.overdue(now));
        let report = overdue.and_then(|end| state.end_capacity(end));
        let listeners = state.notifier.take_due(now);
        let probe = state.probe.as_mut().map(|probe| {
            // quinn had nothing to send: the next probe waits as long again.
            if probe.at <= now {
                probe.at = now + probe.silence;
            }
            probe.at
        });
        let deadline = state.capacity.as_ref().and_then(capacity::Probe::deadline);
        let next = [probe, deadline, state.notifier.due()];
        drop(state);
        if let Some(report) = report {
            report.send();
        }
        if let Some(listeners) = listeners {
            listeners.send_replace(());
        }
        next.into_iter().flatten().min()
    }

    /// The driver has ended, and with it the connection.
    pub(crate) fn ended(&self) {
        let mut state = self.state();
        let last = (state.notifier.end(), state.capacity.take());
        drop(state);
        drop(last);
    }

    /// Begins a path and forgets all measurements of the one before. Returns the factory of its
    /// controller, if the application has chosen one.
    pub(crate) fn new_path(&self, mtu: u16) -> Option<SharedFactory> {
        debug!(connection = self.id, mtu, "path begins");
        let mut state = self.state();
        state.pacer = Pacer::new(mtu);
        state.probe = None;
        state.path = PathState::new(mtu);
        state.measure = Measure::default();
        state.feed.resume(None);
        state.is_choice_new = false;
        let chosen = state.chosen.clone();
        let probe_of_the_old = state.capacity.take();
        drop(state);
        drop(probe_of_the_old);
        chosen
    }

    /// Starts headers: the handshake is complete, and both ends understand them.
    pub(crate) fn agreed(&self, agreement: Agreement, now: Instant) {
        debug!(connection = self.id, "both ends take path headers");
        self.state().headers = Some(PathHeaders::new(Headers::new(agreement, now)));
    }

    /// Notes that the next ACK frame, with largest packet number `largest`, reports an ACK Delay of
    /// `delay`, longer than the peer's `max_ack_delay`. With ACK_FREQUENCY, a sender may have asked
    /// for up to a round trip (quinn-proto 0.11.19, `candidate_max_ack_delay`); beyond that, the
    /// frame repeats a lost one.
    pub(crate) fn ack_was_held(&self, largest: u64, delay: Duration) {
        let mut state = self.state();
        if state.path.smoothed_rtt.is_some_and(|rtt| delay > rtt) {
            debug!(
                connection = self.id,
                largest,
                ?delay,
                "a lost ACK was repeated"
            );
            state.feed.set_repeated(largest);
        }
    }

    /// Starts over with headers because the local address has changed.
    pub(crate) fn rebound(&self) {
        debug!(connection = self.id, "local address changed");
        self.with_headers(Headers::new_path);
    }

    /// Changes the headers, if the peer understands them.
    pub(crate) fn with_headers(&self, change: impl FnOnce(&mut Headers)) {
        if let Some(to) = &mut self.state().headers {
            change(&mut to.headers);
        }
    }
}

impl FeedHolder for Connection {
    fn with_feed(&self, access: &mut dyn FnMut(&mut FeedState)) {
        access(&mut self.state().feed);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.id).finish()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        debug!(connection = self.id, "connection ends");
        self.connections.alive.fetch_sub(1, Ordering::Relaxed);
        let remote = self.state().headers.as_ref().and_then(|to| to.remote);
        if let Some(remote) = remote {
            remove(&mut locked(&self.connections.peers), remote, self);
        }
    }
}

impl State {
    /// Returns the queueing time that routers have reported in the last round trips.
    fn reported_queueing(&self) -> Option<Duration> {
        let sample = self.last_sample.as_ref()?;
        let age = self.path.updated?.saturating_duration_since(sample.now);
        let round_trips = self.path.smoothed_rtt?.saturating_mul(REPORTED_ROUND_TRIPS);
        let hold = round_trips.max(LEAST_REPORTED);
        let ways = [sample.forward_queueing, sample.backward_queueing];
        let sum = ways.into_iter().flatten().reduce(Duration::saturating_add);
        sum.filter(|_| age <= hold)
    }

    /// Ends the probe of capacity. What the path has carried is the controller's to use.
    pub(crate) fn end_capacity(&mut self, end: ProbeEnd) -> Option<capacity::Answer> {
        let answer = self.capacity.take()?.finish(end);
        debug!(report = ?answer.report, "capacity was probed");
        let rtt = self.path.smoothed_rtt.unwrap_or_default();
        let window = answer.report.delivered_rate as f64 * rtt.as_secs_f64();
        if end == ProbeEnd::Carried && window as u64 > self.path.window {
            self.feed.resume(Some(window as u64));
        }
        Some(answer)
    }

    /// Notes that the peer's address is validated: quinn lets a controller count ACKs only then.
    pub(crate) fn validated(&mut self) {
        if let Some(to) = &mut self.headers {
            to.is_unvalidated = false;
        }
    }

    /// Switches the connection to what `factory` builds, from the next ACK on.
    pub(crate) fn choose(&mut self, factory: SharedFactory) {
        (self.chosen, self.is_choice_new) = (Some(factory), true);
    }

    /// Returns the factory that the application has chosen since the last call.
    pub(crate) fn newly_chosen(&mut self) -> Option<SharedFactory> {
        if !std::mem::take(&mut self.is_choice_new) {
            return None;
        }
        self.chosen.clone()
    }
}

/// The headers of a connection whose peer understands them.
pub(crate) struct PathHeaders {
    pub(crate) headers: Headers,
    /// The destination of the connection's packets.
    remote: Option<SocketAddr>,
    /// Packets sent elsewhere since the last one sent to `remote`.
    strays: u8,
    /// The peer may not have shown yet that `remote` is its own.
    is_unvalidated: bool,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// The largest packet in bytes that is known to leave room for a header.
    room: u16,
}

impl PathHeaders {
    fn new(headers: Headers) -> Self {
        Self {
            headers,
            remote: None,
            strays: 0,
            is_unvalidated: false,
            mtu: 0,
            room: 0,
        }
    }

    /// Returns true if packets of `connection` to `destination` follow the path of the headers and
    /// may carry some. Headers wait until the destination is validated, because until then quinn
    /// does not count them towards what an address may be sent (RFC 9000, section 8.1).
    pub(crate) fn is_path_to(
        &mut self,
        connection: &Arc<Connection>,
        destination: SocketAddr,
    ) -> bool {
        if self.remote == Some(destination) {
            self.strays = 0;
            return !self.is_unvalidated;
        }
        self.strays += 1;
        if self.remote.is_some() {
            if self.strays < STRAYS_OF_A_NEW_PATH {
                return false;
            }
            debug!(connection = connection.id, %destination, "peer's address changed");
            self.headers.new_path();
            self.is_unvalidated = true;
        }
        let connections = &connection.connections;
        connections.move_peer(connection, self.remote, destination);
        (self.remote, self.strays) = (Some(destination), 0);
        !self.is_unvalidated
    }

    /// Returns true if the next datagram of `connection` should carry a header, when one in `every`
    /// does. `rtt` is the round trip time measured by ACKs.
    pub(crate) fn is_due(
        &mut self,
        connection: &Connection,
        now: Instant,
        rtt: Option<Duration>,
        every: u32,
    ) -> bool {
        let last_arrival = || connection.connections.last_arrival(self.remote?);
        self.headers.due(now, rtt, every, last_arrival)
    }

    /// Returns the size in bytes of the largest packet that may carry a header, where full-size
    /// packets have `mtu`. MTU probes include a header, except those sent while headers were off.
    pub(crate) fn room(&mut self, mtu: u16) -> u16 {
        if mtu != self.mtu {
            if mtu < self.room || self.headers.state() != HeaderState::Plain {
                self.room = mtu;
            }
            self.mtu = mtu;
        }
        self.room
    }
}

/// Locks, even if a thread has panicked while it held the lock: no state is left half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;
    use crate::header::{Grease, tests::FACTS};

    #[test]
    fn what_held_the_last_packet_back_limits_the_connection() {
        let connection = Connection::new(Arc::default());
        connection.new_path(1200);
        let now = epoch();
        let limit = |held| {
            connection.poll_ended(now, held);
            connection.path_state().limited_by
        };
        assert_eq!(limit(Some(Limit::Window)), Limit::Window);
        assert_eq!(limit(None), Limit::Peer, "nothing was acknowledged");
        connection.state().path.updated = Some(now);
        assert_eq!(limit(None), Limit::Application);
        connection.set_blocked(true);
        assert_eq!(limit(None), Limit::FlowControl);
        assert_eq!(limit(Some(Limit::Pacing)), Limit::Pacing);
    }

    #[test]
    fn queueing_that_routers_report_is_forgotten_after_four_round_trips() {
        let connection = Connection::new(Arc::default());
        let reported = |forward, backward, age| {
            let mut state = connection.state();
            state.path.smoothed_rtt = Some(ms(50));
            state.path.updated = Some(epoch() + ms(age));
            let mut sample = PathSample::new(epoch(), ms(50));
            (sample.forward_queueing, sample.backward_queueing) = (forward, backward);
            state.last_sample = Some(sample);
            state.reported_queueing()
        };
        assert_eq!(reported(Some(ms(7)), Some(ms(2)), 200), Some(ms(9)));
        assert_eq!(reported(None, Some(ms(2)), 0), Some(ms(2)));
        assert_eq!(reported(None, None, 0), None);
        assert_eq!(reported(Some(ms(7)), Some(ms(2)), 201), None);
    }

    #[test]
    fn packets_that_a_search_without_headers_has_found_are_too_large_for_one() {
        let mut now = epoch();
        let agreement = Agreement {
            sending: [1; 16],
            receiving: [2; 16],
            max_ack_delay: ms(25),
            grease: Grease::new(&[]),
        };
        let mut to = PathHeaders::new(Headers::new(agreement, now));
        assert_eq!((to.room(1200), to.room(1320)), (1200, 1320));
        // No header is echoed.
        while to.headers.state() != HeaderState::Plain {
            now += ms(10);
            if to.headers.due(now, FACTS.rtt, 1, || Some(now)) {
                let mut prepared = to.headers.prepare(now, FACTS, true);
                to.headers.write(&mut prepared, true, &mut Vec::new());
                to.headers.sent(&prepared);
            }
        }
        assert_eq!(to.room(1452), 1320);
        // A new path keeps what was found if only the port has changed.
        to.headers.new_path();
        assert_eq!(to.room(1452), 1320);
        assert_eq!((to.room(1200), to.room(1400)), (1200, 1400));
    }
}
