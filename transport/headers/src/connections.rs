//! The connections of an endpoint, among which a socket looks up the owner of a header.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// The connections of one configured endpoint. `C` is what the endpoint keeps of each.
pub struct Connections<C> {
    alive: AtomicUsize,
    begun: AtomicUsize,
    /// Connections that send headers, by their peer's address.
    peers: Mutex<HashMap<PeerAddress, Peer<C>>>,
}

/// An address to which headers may go.
struct Peer<C> {
    connections: Vec<Weak<C>>,
    /// When a datagram last arrived from this address.
    last_arrival: Option<Instant>,
    futile: Futile,
}

impl<C> Default for Connections<C> {
    fn default() -> Self {
        Self {
            alive: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            peers: Mutex::default(),
        }
    }
}

impl<C> fmt::Debug for Connections<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("alive", &self.alive)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}

impl<C> Default for Peer<C> {
    fn default() -> Self {
        Self {
            connections: Vec::new(),
            last_arrival: None,
            futile: Futile::default(),
        }
    }
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

impl<C> Connections<C> {
    /// Notes that a connection begins; returns its number, for log events.
    pub fn begin(&self) -> usize {
        self.alive.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that `connection`, whose headers went to `remote` if there were any, is dropped.
    pub fn end(&self, connection: &C, remote: Option<SocketAddr>) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
        if let Some(remote) = remote {
            remove(&mut locked(&self.peers), remote, connection);
        }
    }

    /// Counts the connections whose state is in use.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// Returns the `nth` connection whose peer has `address`: `None` beyond the last, `Some(None)`
    /// for an ending one. Returns just one, because dropping a connection locks the peers.
    pub(crate) fn with_peer(&self, address: SocketAddr, nth: usize) -> Option<Option<Arc<C>>> {
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
    pub(crate) fn prefer(&self, address: SocketAddr, connection: &Arc<C>) {
        if let Some(peer) = locked(&self.peers).get_mut(&peer_address(address)) {
            let is_it = |other: &Weak<_>| other.as_ptr() == Arc::as_ptr(connection);
            if let Some(at) = peer.connections.iter().position(is_it) {
                peer.connections[..=at].rotate_right(1);
            }
        }
    }

    /// Returns when a datagram last arrived from `address`, if a connection sends headers there.
    pub(crate) fn last_arrival(&self, address: SocketAddr) -> Option<Instant> {
        locked(&self.peers)
            .get(&peer_address(address))?
            .last_arrival
    }

    /// Notes that headers of `connection`, which went to `from`, go to `to` from now on.
    pub(crate) fn move_peer(&self, connection: &Arc<C>, from: Option<SocketAddr>, to: SocketAddr) {
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

fn remove<C>(peers: &mut HashMap<PeerAddress, Peer<C>>, address: SocketAddr, connection: *const C) {
    if let Some(peer) = peers.get_mut(&peer_address(address)) {
        let others = |other: &Weak<C>| other.as_ptr() != connection;
        peer.connections.retain(others);
        if peer.connections.is_empty() {
            peers.remove(&peer_address(address));
        }
    }
}

/// Locks, even if a thread has panicked while it held the lock: no state is left half changed.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
