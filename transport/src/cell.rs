//! What evenkeel keeps of one connection: the cell that its controller, its driver and its
//! socket share; and what the connections of one endpoint share.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use evenkeel_congestion::{PathFeed, PathSample, SharedFactory};

use crate::header::{Agreement, HeaderState, Headers};
use crate::pacer::Pacer;
use crate::state::PathState;

/// What the connections of one configured endpoint share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    cells: AtomicUsize,
    /// Connections that send headers, by the address of their peer.
    peers: Mutex<HashMap<Peer, Neighbour>>,
}

/// A peer's address to which headers may go.
#[derive(Debug, Default)]
struct Neighbour {
    cells: Vec<Weak<Cell>>,
    /// When a datagram last came from there.
    arrived: Option<Instant>,
}

/// An address without what an IPv6 socket adds to it.
type Peer = (IpAddr, u16);

impl Shared {
    /// Cells that are alive.
    pub(crate) fn cells(&self) -> usize {
        self.cells.load(Ordering::Relaxed)
    }

    /// The `nth` connection whose peer has `address`: `None` beyond the last, `Some(None)` for
    /// one that is just ending. One at a time: a cell must not end while this is locked.
    pub(crate) fn connection_with(
        &self,
        address: SocketAddr,
        nth: usize,
    ) -> Option<Option<Arc<Cell>>> {
        let peers = locked(&self.peers);
        let cells = &peers.get(&peer(address))?.cells;
        cells.get(nth).map(Weak::upgrade)
    }

    /// A datagram has arrived from `address`.
    pub(crate) fn arrived(&self, address: SocketAddr, now: Instant) {
        if let Some(neighbour) = locked(&self.peers).get_mut(&peer(address)) {
            neighbour.arrived = Some(now);
        }
    }

    /// When a datagram last arrived from `address`, as far as headers may go there.
    pub(crate) fn last_arrival(&self, address: SocketAddr) -> Option<Instant> {
        locked(&self.peers).get(&peer(address))?.arrived
    }

    /// A connection with the peer at `address` is preferred: it is the one in use.
    pub(crate) fn prefer(&self, address: SocketAddr, cell: &Arc<Cell>) {
        if let Some(Neighbour { cells, .. }) = locked(&self.peers).get_mut(&peer(address)) {
            let at = cells
                .iter()
                .position(|other| other.as_ptr() == Arc::as_ptr(cell));
            if let Some(at) = at {
                cells[..=at].rotate_right(1);
            }
        }
    }

    fn move_peer(&self, cell: &Arc<Cell>, from: Option<SocketAddr>, to: SocketAddr) {
        let mut peers = locked(&self.peers);
        if let Some(from) = from {
            remove(&mut peers, from, Arc::as_ptr(cell));
        }
        peers
            .entry(peer(to))
            .or_default()
            .cells
            .insert(0, Arc::downgrade(cell));
    }
}

fn peer(address: SocketAddr) -> Peer {
    (address.ip(), address.port())
}

fn remove(peers: &mut HashMap<Peer, Neighbour>, address: SocketAddr, cell: *const Cell) {
    if let Some(Neighbour { cells, .. }) = peers.get_mut(&peer(address)) {
        cells.retain(|other| other.as_ptr() != cell);
        if cells.is_empty() {
            peers.remove(&peer(address));
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Cell {
    shared: Arc<Shared>,
    /// Path samples on their way to the controller.
    pub(crate) feed: Arc<PathFeed>,
    pacer: Mutex<Pacer>,
    probe: Mutex<Option<Probe>>,
    state: Mutex<PathState>,
    controllers: Mutex<Controllers>,
    headers: Mutex<Option<Headed>>,
    wishes: Mutex<Wishes>,
    /// Packets go to an address that the peer has not shown to be its own.
    unvalidated: AtomicBool,
    /// The application has closed the connection.
    closed: AtomicBool,
}

/// A connection whose peer takes path headers.
#[derive(Debug)]
pub(crate) struct Headed {
    pub(crate) headers: Headers,
    /// Where its packets go.
    pub(crate) remote: Option<SocketAddr>,
    /// How many have gone elsewhere since the last that went there.
    strays: u8,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// The largest packet in bytes behind which a header is known to fit.
    room: u16,
}

impl Headed {
    fn new(headers: Headers) -> Self {
        Self {
            headers,
            remote: None,
            strays: 0,
            mtu: 0,
            room: 0,
        }
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

/// A packet that leaves even if the window has no room for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// When it may.
    pub(crate) at: Instant,
    /// How long nothing has left by then.
    pub(crate) silence: Duration,
}

/// What the application has said and heard.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// The most that it can use, in bytes per second.
    pub(crate) desired_rate: Option<u64>,
    pub(crate) last_sample: Option<PathSample>,
}

/// Which controllers the connection runs.
#[derive(Default)]
struct Controllers {
    /// Builds those of new paths, once the application has chosen another than the first.
    factory: Option<SharedFactory>,
    /// The choice is not in force yet.
    due: bool,
}

/// A path validation sends single packets elsewhere; more in a row are a new path.
const STRAYS_OF_A_NEW_PATH: u8 = 3;

impl Cell {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        shared.cells.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            shared,
            feed: Arc::default(),
            pacer: Mutex::new(Pacer::new(0)),
            probe: Mutex::default(),
            state: Mutex::new(PathState::new(0)),
            controllers: Mutex::default(),
            headers: Mutex::default(),
            wishes: Mutex::default(),
            unvalidated: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    pub(crate) fn pacer(&self) -> MutexGuard<'_, Pacer> {
        locked(&self.pacer)
    }

    /// The packet that is to end a silence; `None` while nothing is in flight, or nobody asked for
    /// one.
    pub(crate) fn probe(&self) -> MutexGuard<'_, Option<Probe>> {
        locked(&self.probe)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PathState> {
        locked(&self.state)
    }

    pub(crate) fn wishes(&self) -> MutexGuard<'_, Wishes> {
        locked(&self.wishes)
    }

    /// `None` unless the peer takes headers.
    pub(crate) fn headed(&self) -> MutexGuard<'_, Option<Headed>> {
        locked(&self.headers)
    }

    /// The application has closed the connection: nothing but that leaves from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// A path begins: nothing that was measured before holds for it.
    pub(crate) fn new_path(&self, mtu: u16) {
        *self.pacer() = Pacer::new(mtu);
        *self.probe() = None;
        *self.state() = PathState::new(mtu);
    }

    /// The handshake is complete, and both ends take headers.
    pub(crate) fn agreed(&self, agreement: Agreement, now: Instant) {
        *self.headed() = Some(Headed::new(Headers::new(agreement, now)));
    }

    /// The local address is another one.
    pub(crate) fn rebound(&self) {
        if let Some(headed) = &mut *self.headed() {
            headed.headers.new_path();
        }
    }

    /// quinn lets the controller count an ACK, as it does once the path's address is validated.
    pub(crate) fn validated(&self) {
        // Without a write where nothing changes: this comes with every ACK.
        if self.unvalidated.load(Ordering::Relaxed) {
            self.unvalidated.store(false, Ordering::Relaxed);
        }
    }

    /// When a datagram last came from where headers go.
    pub(crate) fn last_arrival(&self, headed_to: Option<SocketAddr>) -> Option<Instant> {
        self.shared.last_arrival(headed_to?)
    }

    /// Whether packets to `destination` are of the path that headers are for, and may have some:
    /// not before the destination is validated, because quinn does not count them towards what an
    /// address may be sent until then (RFC 9000, section 8.1).
    pub(crate) fn is_path_to(
        self: &Arc<Self>,
        headed: &mut Headed,
        destination: SocketAddr,
    ) -> bool {
        if headed.remote == Some(destination) {
            headed.strays = 0;
            return !self.unvalidated.load(Ordering::Relaxed);
        }
        headed.strays += 1;
        if headed.remote.is_some() {
            if headed.strays < STRAYS_OF_A_NEW_PATH {
                return false;
            }
            headed.headers.new_path();
            self.unvalidated.store(true, Ordering::Relaxed);
        }
        self.shared.move_peer(self, headed.remote, destination);
        (headed.remote, headed.strays) = (Some(destination), 0);
        !self.unvalidated.load(Ordering::Relaxed)
    }

    /// From the next ACK on the connection runs what `factory` builds.
    pub(crate) fn choose(&self, factory: SharedFactory) {
        *locked(&self.controllers) = Controllers {
            factory: Some(factory),
            due: true,
        };
    }

    /// The factory that the application has chosen since this was last asked.
    pub(crate) fn newly_chosen(&self) -> Option<SharedFactory> {
        let mut controllers = locked(&self.controllers);
        if !std::mem::take(&mut controllers.due) {
            return None;
        }
        controllers.factory.clone()
    }

    /// The factory for a new path, if the application has chosen one.
    pub(crate) fn chosen(&self) -> Option<SharedFactory> {
        let mut controllers = locked(&self.controllers);
        controllers.due = false;
        controllers.factory.clone()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.shared.cells.fetch_sub(1, Ordering::Relaxed);
        if let Some(remote) = self.headed().as_ref().and_then(|headed| headed.remote) {
            remove(&mut locked(&self.shared.peers), remote, self);
        }
    }
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers")
            .field("chosen", &self.factory.is_some())
            .field("due", &self.due)
            .finish()
    }
}

/// Locks, whatever became of a thread that held the lock: every state a cell can be left in is
/// a right one.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Grease;
    use crate::testing::{FACTS, epoch, ms};

    #[test]
    fn packets_that_a_search_without_headers_has_found_are_too_large_for_one() {
        let mut now = epoch();
        let agreement = Agreement {
            sending: [1; 16],
            receiving: [2; 16],
            max_ack_delay: ms(25),
            grease: Grease::new(&[]),
        };
        let mut headed = Headed::new(Headers::new(agreement, now));
        assert_eq!((headed.room(1200), headed.room(1320)), (1200, 1320));
        // No header is echoed.
        while headed.headers.state() != HeaderState::Plain {
            now += ms(10);
            if headed.headers.due(now, FACTS.rtt, 1, || Some(now)) {
                let mut prepared = headed.headers.prepare(now, FACTS, true);
                headed.headers.write(&mut prepared, true, &mut Vec::new());
                headed.headers.sent(&prepared);
            }
        }
        assert_eq!(headed.room(1452), 1320);
        // A new path keeps what was found if only the port has changed.
        headed.headers.new_path();
        assert_eq!(headed.room(1452), 1320);
        assert_eq!((headed.room(1200), headed.room(1400)), (1200, 1400));
    }
}
