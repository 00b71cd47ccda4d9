//! What evenkeel keeps of one connection: the cell that its controller, its driver and its
//! socket share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use evenkeel_congestion::{PathFeed, SharedFactory};

use crate::pacer::Pacer;
use crate::state::PathState;

/// What the connections of one configured endpoint share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    cells: AtomicUsize,
}

impl Shared {
    /// Cells that are alive.
    pub(crate) fn cells(&self) -> usize {
        self.cells.load(Ordering::Relaxed)
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Cell {
    shared: Arc<Shared>,
    /// Path samples on their way to the controller.
    pub(crate) feed: Arc<PathFeed>,
    /// Whether packets are paced at all.
    pub(crate) pacing: bool,
    pacer: Mutex<Pacer>,
    state: Mutex<PathState>,
    controllers: Mutex<Controllers>,
}

/// Which controllers the connection runs.
#[derive(Default)]
struct Controllers {
    /// Builds those of new paths, once the application has chosen another than the first.
    factory: Option<SharedFactory>,
    /// The choice is not in force yet.
    due: bool,
}

impl Cell {
    pub(crate) fn new(shared: Arc<Shared>, now: Instant, mtu: u16, pacing: bool) -> Arc<Self> {
        shared.cells.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self {
            shared,
            feed: Arc::default(),
            pacing,
            pacer: Mutex::new(Pacer::new(now, mtu)),
            state: Mutex::new(PathState::new(mtu)),
            controllers: Mutex::default(),
        })
    }

    pub(crate) fn pacer(&self) -> MutexGuard<'_, Pacer> {
        locked(&self.pacer)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PathState> {
        locked(&self.state)
    }

    /// The path has changed: nothing that was measured holds for the new one.
    pub(crate) fn new_path(&self, now: Instant, mtu: u16) {
        *self.pacer() = Pacer::new(now, mtu);
        *self.state() = PathState::new(mtu);
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
