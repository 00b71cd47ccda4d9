//! The state of one connection, which its controller, its driver and its socket share; and the
//! connections of one endpoint, among which a socket finds the one that a header is for.
//!
//! # Locks
//!
//! A thread takes them in this order, and may leave some out:
//!
//! 1. quinn's: of the endpoint, or of the connection. quinn holds it when it polls a driver and
//!    calls controllers, TLS sessions and sockets, so code of this crate mostly runs under it.
//! 2. The buffer of a [`Socket`](crate::socket::Socket), only while datagrams arrive.
//! 3. [`Connection::state`]: everything that this crate knows of a connection.
//! 4. `Connections::peers`.
//!
//! Under 3 and 4 nothing is called that may lock one of these: no controller (it locks 3 for its
//! feed), no observer, no socket, nothing of quinn. No thread holds 3 of two connections.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use evenkeel_congestion::{FeedHolder, FeedState, PathSample, SharedFactory};
use tracing::debug;

use crate::header::{Agreement, HeaderState, Headers};
use crate::pacer::Pacer;
use crate::path::PathState;

/// The connections of one configured endpoint.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    alive: AtomicUsize,
    begun: AtomicUsize,
    /// Connections that send headers, by the address of their peer.
    peers: Mutex<HashMap<PeerAddress, Peer>>,
}

/// An address to which headers may go.
#[derive(Debug, Default)]
struct Peer {
    connections: Vec<Weak<Connection>>,
    /// When a datagram last came from there.
    last_arrival: Option<Instant>,
}

/// An address without what an IPv6 socket adds to it.
type PeerAddress = (IpAddr, u16);

impl Connections {
    /// Connections whose state is in use.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// The `nth` connection whose peer has `address`: `None` beyond the last, `Some(None)` for one
    /// that is just ending. The caller gets one at a time: dropping a connection locks the peers.
    pub(crate) fn with_peer(
        &self,
        address: SocketAddr,
        nth: usize,
    ) -> Option<Option<Arc<Connection>>> {
        let peers = locked(&self.peers);
        let connections = &peers.get(&peer_address(address))?.connections;
        connections.get(nth).map(Weak::upgrade)
    }

    /// A datagram has arrived from `address`.
    pub(crate) fn arrived(&self, address: SocketAddr, now: Instant) {
        if let Some(peer) = locked(&self.peers).get_mut(&peer_address(address)) {
            peer.last_arrival = Some(now);
        }
    }

    /// Moves `connection` to the front of those whose peer has `address`: it is the one in use.
    pub(crate) fn prefer(&self, address: SocketAddr, connection: &Arc<Connection>) {
        if let Some(peer) = locked(&self.peers).get_mut(&peer_address(address)) {
            let is_it = |other: &Weak<_>| other.as_ptr() == Arc::as_ptr(connection);
            if let Some(at) = peer.connections.iter().position(is_it) {
                peer.connections[..=at].rotate_right(1);
            }
        }
    }

    /// When a datagram last arrived from `address`, as far as headers may go there.
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
    /// Counts the connections of the endpoint, for log events.
    pub(crate) id: usize,
    state: Mutex<State>,
}

/// What this crate knows of a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) path: PathState,
    pub(crate) pacer: Pacer,
    /// The packet that is to end a silence; `None` while nothing is in flight, or nobody asked for
    /// one.
    pub(crate) probe: Option<Probe>,
    /// Samples on their way to the controller.
    pub(crate) feed: FeedState,
    /// `None` unless the peer takes headers.
    pub(crate) headers: Option<PathHeaders>,
    /// The most that the application can use, in bytes per second.
    pub(crate) desired_rate: Option<u64>,
    pub(crate) last_sample: Option<PathSample>,
    /// The application has closed the connection: nothing but that leaves from now on.
    pub(crate) is_closed: bool,
    /// Builds controllers, once the application has chosen another than the first.
    chosen: Option<SharedFactory>,
    /// The choice is not in force yet.
    is_choice_new: bool,
}

/// A packet that leaves even if the window has no room for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// When it may.
    pub(crate) at: Instant,
    /// How long nothing has left by then.
    pub(crate) silence: Duration,
}

/// A path validation sends single packets elsewhere; more in a row are a new path.
const STRAYS_OF_A_NEW_PATH: u8 = 3;

impl Connection {
    pub(crate) fn new(connections: Arc<Connections>) -> Arc<Self> {
        connections.alive.fetch_add(1, Ordering::Relaxed);
        let id = connections.begun.fetch_add(1, Ordering::Relaxed);
        debug!(connection = id, "connection begins");
        Arc::new(Self {
            connections,
            id,
            state: Mutex::default(),
        })
    }

    /// Locks the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// A path begins: nothing that was measured before holds for it. Returns the factory of its
    /// controller, if the application has chosen one.
    pub(crate) fn new_path(&self, mtu: u16) -> Option<SharedFactory> {
        debug!(connection = self.id, mtu, "path begins");
        let mut state = self.state();
        state.pacer = Pacer::new(mtu);
        state.probe = None;
        state.path = PathState::new(mtu);
        state.is_choice_new = false;
        state.chosen.clone()
    }

    /// The handshake is complete, and both ends take headers.
    pub(crate) fn agreed(&self, agreement: Agreement, now: Instant) {
        debug!(connection = self.id, "both ends take path headers");
        self.state().headers = Some(PathHeaders::new(Headers::new(agreement, now)));
    }

    /// The ACK frame that comes next, whose largest packet number is `largest`, says that the peer
    /// has had this packet for `delay`, longer than its `max_ack_delay`. With ACK_FREQUENCY, a
    /// sender may have asked for up to a round trip (quinn-proto 0.11.19,
    /// `candidate_max_ack_delay`); beyond that the frame repeats one that was lost.
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

    /// The local address is another one.
    pub(crate) fn rebound(&self) {
        debug!(connection = self.id, "local address changed");
        self.with_headers(Headers::new_path);
    }

    /// Changes the headers, if the peer takes any.
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
    /// quinn lets the controller count an ACK, as it does once the path's address is validated.
    pub(crate) fn validated(&mut self) {
        if let Some(to) = &mut self.headers {
            to.is_unvalidated = false;
        }
    }

    /// From the next ACK on the connection runs what `factory` builds.
    pub(crate) fn choose(&mut self, factory: SharedFactory) {
        (self.chosen, self.is_choice_new) = (Some(factory), true);
    }

    /// The factory that the application has chosen since this was last asked.
    pub(crate) fn newly_chosen(&mut self) -> Option<SharedFactory> {
        if !std::mem::take(&mut self.is_choice_new) {
            return None;
        }
        self.chosen.clone()
    }
}

/// The headers of a connection whose peer takes them.
pub(crate) struct PathHeaders {
    pub(crate) headers: Headers,
    /// Where its packets go.
    remote: Option<SocketAddr>,
    /// How many have gone elsewhere since the last that went there.
    strays: u8,
    /// The peer may not have shown yet that `remote` is its own.
    is_unvalidated: bool,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// The largest packet in bytes behind which a header is known to fit.
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

    /// Whether packets of `connection` to `destination` are of the path that headers are for, and
    /// may have some: not before the destination is validated, because quinn does not count headers
    /// towards what an address may be sent until then (RFC 9000, section 8.1).
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

    /// Whether the next datagram of `connection` is to carry a header, when one in `every` does.
    /// ACKs say that a round trip takes `rtt`.
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

    /// The largest packet in bytes that may have a header, where full-size packets have `mtu`:
    /// searches for the MTU count a header in, but for those that were made while none were sent.
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

/// Locks, even if a thread has panicked with the lock: no state is left half changed.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;
    use crate::header::{Grease, tests::FACTS};

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
