//! Shares a server's memory among its connections.
//!
//! What a peer can make a server hold is its window: data that comes out of order, and data that it
//! does not acknowledge. With one window for all, a server would need the longest window times its
//! connections; so each new connection takes a part of what is left, and gives it back at its end.

use std::sync::{Arc, Mutex};

use super::transport::{CONNECTION_WINDOW, LEAST_WINDOW};
use crate::lock::lock;

/// What is left serves as many connections as large as the next one.
const PARTS: u64 = 8;

/// Memory for the windows of all connections.
pub(super) struct Memory {
    /// Bytes that no connection has taken.
    free: Mutex<u64>,
}

/// The windows of one connection; dropping it gives their memory back.
pub(super) struct Share {
    memory: Arc<Memory>,
    taken: u64,
    /// The most to receive, and the most to buffer for sending, in bytes.
    pub(super) window: u32,
}

impl Memory {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            free: Mutex::new(bytes),
        }
    }

    /// Takes a share, at least [`LEAST_WINDOW`] in each direction even if nothing is left.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        let mut free = lock(&self.free);
        let window = u32::try_from(*free / PARTS / 2).unwrap_or(u32::MAX);
        let window = window.clamp(LEAST_WINDOW, CONNECTION_WINDOW);
        let taken = (2 * u64::from(window)).min(*free);
        *free -= taken;
        drop(free);
        Share {
            memory: self.clone(),
            taken,
            window,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *lock(&self.memory.free) += self.taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn many_connections_take_little_more_than_the_memory_and_few_have_the_longest_window() {
        let memory = Arc::new(Memory::new(1024 * MIB));
        let shares: Vec<_> = (0..256).map(|_| memory.share()).collect();
        assert!(
            shares[..8]
                .iter()
                .all(|share| share.window == CONNECTION_WINDOW)
        );
        assert!(shares.is_sorted_by(|one, next| one.window >= next.window));
        let windows: u64 = shares.iter().map(|share| 2 * u64::from(share.window)).sum();
        assert!(windows <= (1024 + 256 * 2) * MIB, "{} MiB", windows / MIB);
        drop(shares);
        assert_eq!(*lock(&memory.free), 1024 * MIB);
        assert_eq!(memory.share().window, CONNECTION_WINDOW);
    }

    #[test]
    fn a_server_without_memory_still_serves() {
        let memory = Arc::new(Memory::new(0));
        assert_eq!(memory.share().window, LEAST_WINDOW);
    }
}
