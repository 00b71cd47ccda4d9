//! Waiting on whatever clock a runtime has.

use std::{future::poll_fn, time::Instant};

use quinn::Runtime;

/// Waits until `at` on the runtime's own clock.
pub(crate) async fn sleep_until(runtime: &dyn Runtime, at: Instant) {
    let mut timer = runtime.new_timer(at);
    poll_fn(|context| timer.as_mut().poll(context)).await;
}
