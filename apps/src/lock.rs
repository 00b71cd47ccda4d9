//! Locks state that is consistent at every moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even after a panic elsewhere.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
