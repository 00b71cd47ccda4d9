//! Locks of state that is whole at every moment.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. A panic elsewhere is no reason not to use what is behind it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
