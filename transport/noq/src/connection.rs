//! Holds what an endpoint of ours knows about one connection.
//!
//! Threads lock it under noq's lock of the connection or the endpoint. Code that holds the lock
//! calls nothing that may lock it again: no controller, no observer, no socket, nothing of noq.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use evenkeel_congestion::{EcnMode, EcnState, EcnUse, FeedState};
use evenkeel_headers::{Kept, Owner, Part, PathFacts, locked};
use noq_proto::PathId;
use tracing::debug;

/// The connections of one configured endpoint.
pub(crate) type Connections = evenkeel_headers::Connections<Connection>;

/// One connection.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: usize,
    state: Mutex<State>,
}

/// What an endpoint knows about a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) kept: Kept,
    pub(crate) path: PathFacts,
    /// The datagrams built last hold more than ACKs.
    pub(crate) is_data: bool,
    /// Its keys read ECN counts.
    pub(crate) reads_counts: bool,
    /// Both ends offer several paths.
    pub(crate) has_paths: bool,
    /// The path of the packet that was built last.
    building: PathId,
    /// A controller knows of the datagrams built last, and they have not left.
    is_built: bool,
    /// As what the datagrams built last leave, from the first try to the last.
    leaves: Option<Option<EcnMode>>,
    /// Feeds of paths whose controllers do not use that of `kept`.
    feeds: Vec<(PathId, Weak<Mutex<FeedState>>)>,
}

/// The feed of one path's controller, of a connection with several paths.
pub(crate) type OwnFeed = Arc<Mutex<FeedState>>;

impl Connection {
    pub(crate) fn new(connections: Arc<Connections>) -> Arc<Self> {
        let id = connections.begin();
        debug!(connection = id, "connection begins");
        Arc::new(Self {
            connections,
            id,
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Begins a path, with full-size packets of `mtu` bytes of UDP payload, and forgets the
    /// controller's measurements of the one before.
    pub(crate) fn new_path(&self, mtu: u16) {
        debug!(connection = self.id, mtu, "path begins");
        let mut state = self.state();
        state.path = PathFacts {
            mtu,
            ..PathFacts::default()
        };
        if !state.has_paths {
            state.kept.feed.ecn.new_path();
        }
    }
}

impl State {
    /// Returns what concerns the headers.
    pub(crate) fn part(&mut self) -> Part<'_> {
        self.kept.part(self.path)
    }

    /// A packet of `path` is built.
    pub(crate) fn set_building(&mut self, path: PathId) {
        self.building = path;
    }

    /// The datagrams built last are complete; with `is_data`, they hold more than ACKs.
    pub(crate) fn on_built(&mut self, is_data: bool) {
        (self.is_built, self.is_data) = (true, is_data);
    }

    /// Calls `access` with what is known of ECN on a path, if it has a controller that has sent.
    pub(crate) fn ecn<T>(
        &mut self,
        path: PathId,
        access: impl FnOnce(&mut EcnState) -> T,
    ) -> Option<T> {
        let mut own = self.feeds.iter().filter(|(of, _)| *of == path);
        match own.find_map(|(_, feed)| feed.upgrade()) {
            Some(feed) => Some(access(&mut locked(&feed).ecn)),
            None => (path == PathId::ZERO).then(|| access(&mut self.kept.feed.ecn)),
        }
    }

    /// Returns how the connection uses ECN, of an endpoint that shall use it like that. Without its
    /// counts, noq takes ECT(1) for a broken path.
    pub(crate) fn ecn_use(&self, wanted: EcnUse) -> EcnUse {
        match wanted {
            EcnUse::L4s if !self.reads_counts => EcnUse::Classic,
            _ => wanted,
        }
    }

    /// `feed` is that of the controller which has sent the datagrams built last: their path is its.
    /// If another was before it, the path has changed.
    pub(crate) fn own_feed(&mut self, feed: &OwnFeed, wanted: EcnUse) {
        let path = self.building;
        let is_known =
            |(of, known): &(PathId, Weak<_>)| *of == path && known.as_ptr() == Arc::as_ptr(feed);
        if self.feeds.iter().any(is_known) {
            return;
        }
        debug!(%path, "path has a controller");
        let usage = self.ecn_use(wanted);
        let before = self.ecn(path, |ecn| ecn.clone());
        let ecn = &mut locked(feed).ecn;
        if let Some(before) = before {
            *ecn = before;
            ecn.new_path();
        }
        ecn.set_use(usage);
        let others = |(of, known): &(PathId, Weak<_>)| *of != path && known.strong_count() > 0;
        self.feeds.retain(others);
        self.feeds.push((path, Arc::downgrade(feed)));
    }

    /// Returns as what the `datagrams` built last leave; `by_stack` says whether noq sends them as
    /// ECT(0).
    pub(crate) fn leaving(&mut self, datagrams: usize, by_stack: bool) -> Option<EcnMode> {
        if let Some(decided) = self.leaves {
            return decided;
        }
        // No controller hears of probes of other paths, which noq sends as not ECN-capable.
        let is_data = std::mem::take(&mut self.is_built) && self.is_data;
        let leaves = self.ecn(self.building, |ecn| {
            ecn.leaving(datagrams, by_stack, is_data)
        });
        let leaves = leaves.unwrap_or(by_stack.then_some(EcnMode::Classic));
        self.leaves = Some(leaves);
        leaves
    }

    /// The datagrams built last have left.
    pub(crate) fn on_left(&mut self) {
        self.leaves = None;
    }
}

impl Owner for Connection {
    fn connections(&self) -> &Connections {
        &self.connections
    }

    fn id(&self) -> usize {
        self.id
    }

    fn with<T>(&self, access: impl FnOnce(Part<'_>) -> T) -> T {
        access(self.state().part())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.id).finish()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.dropped();
    }
}
