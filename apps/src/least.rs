//! The least that a server demands of a client for which it waits: without it, one byte every few
//! seconds would hold a place for as long as the longest transfer may take.

use std::time::Duration;

use quinn::Runtime;

use crate::error::AppError;
use crate::time::sleep_until;

/// The least data in each [`SPAN`]: a fifth of what the slowest paced client sends, at 1000 bits
/// per second or with 1200 bytes in each of the longest ON and OFF periods.
const BYTES: u64 = 5000;

/// Long enough for a path that is away for minutes, and for the last 32 KiB on a path of 1 kb/s.
const SPAN: Duration = Duration::from_secs(300);

/// Watches a client for which nothing happens for at most `patience`; returns an error when it was
/// too slow. `moved` returns the bytes that moved since it was last called; `None` if the server
/// did not wait for the client.
pub(crate) async fn too_slow(
    runtime: &dyn Runtime,
    patience: Duration,
    mut moved: impl FnMut() -> Option<u64>,
) -> AppError {
    let span = SPAN.max(patience);
    loop {
        sleep_until(runtime, runtime.now() + span).await;
        if moved().is_some_and(|bytes| bytes < BYTES) {
            return AppError::TooSlow { least: BYTES, span };
        }
    }
}
